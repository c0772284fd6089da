//! `burstline switch`, its ports, and DPDK programs as peers.

#[path = "../support/mod.rs"]
mod support;

mod dpdk;
#[cfg(feature = "dpdk")]
mod dpdk_peers;
#[cfg(feature = "dpdk")]
mod dpdk_rights;
mod ours;
mod switch;
mod testpmd;
mod verdicts;
mod virtual_ports;

/// The role of [`support::verdicts::Worker`]s.
#[test]
#[ignore = "another process of the tests"]
fn worker() {
    support::verdicts::run();
}
