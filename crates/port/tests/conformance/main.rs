//! The conformance suite: checks the crate's invariants for every backend.

#[path = "../common/mod.rs"]
mod common;

mod backends;
#[cfg(feature = "dpdk")]
mod devices;
#[cfg(feature = "dpdk")]
mod fed;
mod live_sinks;
mod logs;
#[cfg(feature = "dpdk")]
mod remote;
mod restarts;
mod sinks;
mod sources;
