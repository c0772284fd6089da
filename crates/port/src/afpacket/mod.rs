//! `afpacket:` ports: copies of an interface's packets, in both directions, from a kernel ring.
//!
//! ```text
//!  device --kernel's copy--> block of the ring --+-- lend: descs over the block, nothing copied
//!                                                '-- receive: one copy, into the log
//! ```
//!
//! On the loopback `both` means `in`: each of its packets both leaves and comes in.
//!
//! For sending, see `sink`.
//!
//! `fd=N` is for a process without privileges: its parent passes it an open descriptor of
//! `socket(AF_PACKET, SOCK_RAW, 0)`, and nothing else needs any.
//!
//! The ring is the port's queue: while the log is full, packets stay in the ring, and those that do
//! not fit are `rx_ring_full`. A packet is visible when its block is full, or after `retire_ms`.
//!
//! A filter runs in the kernel, before the copy; a second socket counts the packets that it
//! rejects. Packets whose VLAN tag was stripped are filtered here, after it is restored (`judge`).
//!
//! VLAN tags are put back in place. Two kinds of packets are marked and counted: packets without a
//! computed transport checksum, and packets merged from several on the wire. The kernel marks
//! merged TCP (since 6.4); others are recognised by exceeding the interface's MTU.
//!
//! Invariants:
//! - P1: offered = `tp_packets`, with a filter of both sockets; rx_ring_full = `tp_drops`; all are
//!   the kernel's own. In flight is counted in the ring's blocks. No value is computed from the sum
//!   that it should balance.
//! - P2: an interface that is deleted ends the port with an error after its last packet was
//!   delivered. If one goes down, is renamed or gets another MTU, it is noted, and the port
//!   continues.
//! - P3: a lent block returns to the kernel when all its packets have been taken and the port is
//!   called again. So a port that returns `Idle` holds nothing.

mod judge;
mod probe;
mod settings;
mod sink;
mod source;

pub(crate) use source::link_type;

use crate::{Address, OpenOptions, OpenedSources};

pub(crate) use probe::probe;
pub(crate) use settings::{KEYS, LOOPBACK};
pub(crate) use sink::{KEYS as SINK_KEYS, open_sink};

/// Opens an interface for receiving.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    Ok(vec![Box::new(source::AfPacketSource::open(address, options)?)])
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = settings::parse(address);
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink(address: &Address) {
    let _ = address
        .values(SINK_KEYS)
        .map(|values| (sink::parse(&values), crate::live::wait_ns(&values)));
}
