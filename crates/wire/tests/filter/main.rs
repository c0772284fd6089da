//! Filters: programs by hand and at random, and libpcap on the same packets.

#[path = "../support/headers.rs"]
mod headers_build;

mod build;
#[cfg(not(miri))] // it calls into libpcap
mod libpcap;
mod programs;
