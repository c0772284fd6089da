//! `burstline switch`, its ports, and DPDK's programs at the other end.

#[path = "../support/mod.rs"]
mod support;

mod dpdk;
#[cfg(feature = "dpdk")]
mod dpdk_peers;
mod ours;
mod switch;
mod testpmd;
mod virtual_ports;
