//! `afpacket:` over real interfaces: every packet told apart from every loss.
//!
//! Needs root, or `unshare -Urn`; without, each test says that it was skipped.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod filters;
mod help;
mod marks;
mod numbers;
mod rings;
