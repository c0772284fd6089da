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

use std::fs::File;
use std::os::unix::fs::FileExt;

use burstline_sys::foreign::{Foreign, OpenSockets};
use burstline_sys::namespace::interface_name;
use burstline_sys::rising::Rising;

/// Position, after the interface's name, of the count of packets dropped on sending. Source:
/// `dev_seq_printf_stats`, net/core/net-procfs.c.
const SENT_AND_DROPPED: usize = 11;

/// Room for the interface table; a longer one is not read to its end.
const TABLE_BYTES: usize = 64 << 10;

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
    /// `/proc/net/dev` of its network namespace, readable from any other.
    table: File,
    name: String,
    counter: Rising,
}

impl Tap {
    fn open(interface: u32) -> Option<Self> {
        let table = File::open("/proc/thread-self/net/dev").ok()?;
        let counter = Rising::default();
        let mut tap = Self { table, name: interface_name(interface), counter };
        tap.counter = Rising::from(tap.dropped()?);
        Some(tap)
    }

    /// After the interface is gone the number stays. A recreated interface continues the count.
    fn lost(&mut self) -> u64 {
        match self.dropped() {
            Some(now) => self.counter.see(now),
            None => self.counter.sum(),
        }
    }

    fn dropped(&self) -> Option<u64> {
        let mut bytes = vec![0; TABLE_BYTES];
        let mut length = 0;
        while let Ok(more @ 1..) = self.table.read_at(&mut bytes[length..], length as u64) {
            length += more;
        }
        dropped(&String::from_utf8_lossy(&bytes[..length]), &self.name)
    }
}

fn dropped(table: &str, name: &str) -> Option<u64> {
    let mut rows = table.lines().filter_map(|row| row.split_once(':'));
    let (_, row) = rows.find(|(of, _)| of.trim() == name)?;
    row.split_whitespace().nth(SENT_AND_DROPPED)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_on_its_way_to_an_interface_is_in_its_row() {
        let table = "Inter-|   Receive                             |  Transmit\n \
            face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
            \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
            \x20 tap7:101 2 3 4 5 6 7 8 9 10 11 120 13 14 15 16\n";
        assert_eq!(dropped(table, "tap7"), Some(120));
        assert_eq!((dropped(table, "lo"), dropped(table, "tap")), (Some(12), None));
    }
}
