//! `xdp:` over real interfaces, in the driver and behind it: every packet told apart from every
//! loss.
//!
//! Needs root in the first user namespace; without, each test says that it was skipped.

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
