//! `dpdk:DEVARGS`: a device that DPDK drives, named by DPDK's device name and arguments.
//!
//! ```text
//!   device ─► rx ring ─► mbufs held ─► lent in place, or copied into a log
//!     │ ipackets, imissed, ierrors, rx_nombuf        │
//!     └ offered                                      └ given back at the next call
//!
//!   a log's packets ─► fresh mbufs ─► tx ring ─► device: opackets, less those in the ring,
//!                                                        = delivered
//!   dpdk:A to dpdk:B:  rx ring of A ─► read, rewrite ─► tx ring of B, the same mbuf
//! ```
//!
//! A queue is a port. Offered is the device's own count, never ours: packets that it received, and
//! packets that it reports as lost. Losses are `imissed`, `ierrors` and, for drivers that lose
//! packets by it, `rx_nombuf`. They apply to the whole device and are in the row of its first
//! queue. Virtual devices count a packet when it is taken from them. So for those the count is the
//! driver's, and packets waiting at their peer are not counted yet. Packets that the kernel had no
//! room for there are `rx_ring_full`; drivers do not report it.
//!
//! A packet's timestamp is that of the poll that found it. With `timestamps=device` it is the
//! device's time, if the device's unit is known. With `rss=on` a device hashes with Microsoft's
//! key, with `rss=symmetric` with the key of `--hash rss:symmetric`. If it reports the hash of a
//! TCP or UDP packet, and the job wants that hash, the packet gets it. Work done by the device is
//! noted.
//!
//! Invariants:
//! - D1: an mbuf is held from the burst that returned it to the call after its delivery. All are
//!   back in their pools when the last port is closed.
//! - D2: after `finish` a source delivers packets that a card has received. A virtual device does
//!   not know that number: from it the source takes up to a ring of packets, until a poll finds
//!   none.
//! - D3: after `finish` nothing of a sink is in flight. Packets that the peer left in a ring that
//!   we can read are `tx_ring_full`; packets that it never confirmed are `unconfirmed`.

#[cfg(feature = "dpdk")]
mod crossing;
#[cfg(feature = "dpdk")]
mod intake;
mod keys;
#[cfg(feature = "dpdk")]
mod open;
#[cfg(feature = "dpdk")]
mod outlet;
#[cfg(feature = "dpdk")]
mod settings;
#[cfg(feature = "dpdk")]
mod sink;
#[cfg(feature = "dpdk")]
mod source;
#[cfg(feature = "dpdk")]
mod watch;

pub(crate) use keys::KEYS;
#[cfg(feature = "dpdk")]
pub(crate) use {
    crossing::open_crossings,
    open::{open_sink, open_sources},
};

/// Parses an address, for the test of tables.
#[cfg(all(test, feature = "dpdk"))]
pub(crate) fn read(address: &crate::Address) {
    let _ = settings::parse(address);
}
