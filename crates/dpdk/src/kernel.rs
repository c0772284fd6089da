//! Packets that the kernel loses in front of a driver that receives from it.
//!
//! ```text
//!   net_af_packet   its packet sockets: no room in a ring    PACKET_STATISTICS, which is reset
//!                                                            by reading: nothing counts twice
//!   net_af_xdp      its XDP sockets: no room in a ring       XDP_STATISTICS, rx_ring_full; the
//!                                                            driver reports rx_dropped as imissed
//!   net_tap         its interface: no room in the queue      "drop" of packets sent to it
//! ```
//!
//! DPDK 22.11 reports none of these. Source: rte_eth_af_packet.c, rte_eth_af_xdp.c,
//! `eth_stats_get`; rte_eth_tap.c, `tap_stats_get`; drivers/net/tun.c of Linux, `tun_net_xmit`.

use burstline_sys::counters::LinkCounters;
use burstline_sys::foreign::{Foreign, OpenSockets};
use burstline_sys::rising::Rising;

/// The sources of a device's kernel losses.
#[derive(Debug, Default)]
pub(crate) struct KernelLosses {
    sockets: Vec<Foreign>,
    tap: Option<Tap>,
}

impl KernelLosses {
    /// Starts watching a started device; call it in the device's network namespace.
    pub(crate) fn watch(driver: &str, interface: u32, before: &OpenSockets) -> Self {
        match driver {
            "net_af_packet" | "net_af_xdp" => {
                Self { sockets: before.opened_since(interface), tap: None }
            }
            "net_tap" => Self { sockets: Vec::new(), tap: Tap::open(interface) },
            _ => Self::default(),
        }
    }

    /// Packets lost since the device was opened. `None` if there is no known source.
    pub(crate) fn packets(&mut self) -> Option<u64> {
        let at_sockets = self.sockets.iter_mut().map(Foreign::lost);
        at_sockets.chain(self.tap.as_mut().map(Tap::lost)).reduce(|sum, lost| sum + lost)
    }
}

/// The interface on the other side of a driver's descriptor.
#[derive(Debug)]
struct Tap {
    counters: LinkCounters,
    dropped: Rising,
}

impl Tap {
    fn open(interface: u32) -> Option<Self> {
        let counters = LinkCounters::of(interface).ok()?;
        let dropped = Rising::from(counters.read()?.sent_dropped);
        Some(Self { counters, dropped })
    }

    fn lost(&mut self) -> u64 {
        lost_by(&mut self.dropped, self.counters.read().map(|now| now.sent_dropped))
    }
}

/// Returns the packets lost, with a reading. After the interface is gone the number stays.
fn lost_by(dropped: &mut Rising, reading: Option<u64>) -> u64 {
    match reading {
        Some(reading) => dropped.see(reading),
        None => dropped.sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_an_interface_that_wrap_or_begin_anew_hide_and_invent_no_loss() {
        const WRAP: u64 = 1 << 32;
        let mut dropped = Rising::from(WRAP - 10);
        // It wraps, is out of sight, and another interface has its index.
        for (reading, lost) in [
            (Some(WRAP - 1), 9),
            (Some(4), 14),
            (None, 14),
            (Some(1_000_000_000), 1_000_000_010),
            (Some(3), 1_000_000_013),
        ] {
            assert_eq!(lost_by(&mut dropped, reading), lost, "{reading:?}");
        }
    }
}
