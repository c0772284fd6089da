//! `xdp:` over real interfaces, in native and generic mode: every packet is distinguished from
//! every loss.
//!
//! Needs root in the first user namespace; otherwise each test reports that it was skipped.

#[path = "../common/mod.rs"]
mod common;
mod death;
mod faults;
mod guard;
mod help;
mod load;
mod losses;
mod marks;
mod numbers;
mod queues;
