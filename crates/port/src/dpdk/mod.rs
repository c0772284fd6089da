//! `dpdk:DEVARGS`: a device that DPDK drives, by the name and arguments that DPDK gives it.
//!
//! ```text
//!   device ─► rx ring ─► mbufs held ─► lent where they lie, or copied into a log
//!     │ ipackets, imissed, ierrors, rx_nombuf        │
//!     └ offered                                      └ given back at the next call
//!
//!   a log's packets ─► fresh mbufs ─► tx ring ─► device: opackets, less what lies in the ring,
//!                                                        = delivered
//!   dpdk:A to dpdk:B:  rx ring of A ─► look, rewrite ─► tx ring of B, the mbuf as it is
//! ```
//!
//! A queue is a port. Offered is the device's own count, never ours: what it received, and what it
//! names as lost. Losses are `imissed`, `ierrors` and, for drivers that lose packets by it,
//! `rx_nombuf`. They are of the whole device and stand in the row of its first queue. Virtual
//! devices count a packet when it is taken from them. So for those the count is the driver's, and
//! what waits at their other end is not counted yet. What the kernel had no room for there is
//! `rx_ring_full`; drivers do not report it.
//!
//! A packet's time is that of the poll that found it. With `timestamps=device` it is the device's
//! time, of devices whose unit is known. With `rss=on` a device hashes with Microsoft's key, with
//! `rss=symmetric` with the key of `--hash rss:symmetric`. If it reports the hash of a TCP or UDP
//! packet, and the job wants that hash, it becomes the packet's. What a device does for us is
//! noted.
//!
//! Invariants:
//! - D1: an mbuf is held from the burst that brought it to the call after its delivery. All are
//!   back in their pools when the last port has gone.
//! - D2: after `finish` a source delivers what a card has received. A virtual device does not know
//!   that: from it the source takes up to a ring of packets, until a poll finds none.
//! - D3: after `finish` nothing of a sink is in flight. What the other end left in a ring that we
//!   can look into is `tx_ring_full`; what it never confirmed is `unconfirmed`.

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

/// Reads an address, for the test of tables.
#[cfg(all(test, feature = "dpdk"))]
pub(crate) fn read(address: &crate::Address) {
    let _ = settings::parse(address);
}
