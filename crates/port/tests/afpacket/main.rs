//! `afpacket:` over real interfaces: every packet is distinguished from every loss.
//!
//! Needs root, or `unshare -Urn`; otherwise each test reports that it was skipped.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod filters;
mod help;
mod marks;
mod numbers;
mod rings;
