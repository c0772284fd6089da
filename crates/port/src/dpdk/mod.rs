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
//! names as lost, `imissed`, `ierrors` and, of drivers that lose by it, `rx_nombuf`, which are of
//! the whole device and stand in the row of its first queue. Virtual devices count a packet when it
//! is taken from them, so for those the count is the driver's, and what waits at their other end is
//! nobody's yet; what the kernel had no room for there, which drivers do not tell, is
//! `rx_ring_full`.
//!
//! A packet's time is that of the poll that found it, or with `timestamps=device` the device's, of
//! those whose unit is known. With `rss=on` a device hashes by Microsoft's key, with
//! `rss=symmetric` by that of `--hash rss:symmetric`; where it tells the hash of a packet of TCP or
//! UDP and the job wants that very hash, it is the packet's. What a device does for us is noted.
//!
//! Invariants:
//! - D1: an mbuf is held from the burst that brought it to the call after it was delivered; all
//!   are back in their pools when the last port has gone.
//! - D2: after `finish` a source delivers what was received, of a card; of a virtual device, which
//!   does not know, up to a ring of packets, until there are none for once.
//! - D3: after `finish` nothing of a sink is in flight: what the other end has not taken out of a
//!   ring that we can look into is `tx_ring_full`, what it never confirmed `unconfirmed`.

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
