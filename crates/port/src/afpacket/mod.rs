//! `afpacket:` ports: copies of what an interface receives and sends, from the kernel's ring.
//!
//! ```text
//!  device --kernel's copy--> block of the ring --+-- lend: descs over the block, nothing copied
//!                                                '-- receive: one copy, into the log
//! ```
//!
//! Of the loopback `both` is `in`: each of its packets both leaves and comes in.
//!
//! To send by, see `sink`.
//!
//! `fd=N` is for a process without rights: its starter leaves it an open descriptor of
//! `socket(AF_PACKET, SOCK_RAW, 0)`, and nothing else needs any.
//!
//! The ring is the port's queue: while the log is full, packets stay in it, and what it has no
//! room for is `rx_ring_full`. A packet is seen when its block is full, or `retire_ms` after.
//!
//! A filter runs in the kernel, before the copy; what the kernel rejects is counted by a second
//! socket. Packets whose VLAN tag was taken off are judged here, when it is back (`judge`).
//!
//! VLAN tags are back in their places. Two kinds of packets are marked and counted: those whose
//! transport checksum is not computed yet, and those joined from several packets of the wire. The
//! kernel says so for TCP (since 6.4); others are longer than the interface's MTU allows.
//!
//! Invariants:
//! - P1: offered = `tp_packets`, with a filter of both sockets; rx_ring_full = `tp_drops`; all are
//!   the kernel's own. In flight is counted in the ring's blocks. Nothing is computed from what
//!   should add up to it.
//! - P2: an interface that is deleted ends the port with an error after its last packet was
//!   delivered. One that goes down, is renamed or gets another MTU is noted, and the port goes on.
//! - P3: a lent block goes back to the kernel when all its packets have been taken and the port is
//!   called again. So a port that returns `Idle` holds nothing.

mod judge;
mod probe;
mod settings;
mod sink;
mod source;

pub(crate) use source::link_type;

use crate::{Address, OpenOptions, PortError, Source};

pub(crate) use probe::probe;
pub(crate) use settings::{KEYS, LOOPBACK};
pub(crate) use sink::{KEYS as SINK_KEYS, open_sink};

/// Opens an interface to receive from.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    Ok(Box::new(source::AfPacketSource::open(address, options)?))
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = settings::parse(address);
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink(address: &Address) {
    let _ = address
        .values(SINK_KEYS)
        .map(|values| (sink::parse(&values), crate::live::wait_ns(&values)));
}
