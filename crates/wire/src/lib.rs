//! TBD (headers half and files half each document themselves).
#![forbid(unsafe_code)]
