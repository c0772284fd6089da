//! AF_PACKET: a TPACKET_V3 ring of blocks that the kernel fills with copies of packets, and a
//! TPACKET_V2 ring of slots that it sends from (`tx_ring`). This page is about the first.
//!
//! ```text
//!   block 0      block 1      block 2      block 3
//! | retired    | held by us | retired?   | open: filled |     the kernel walks the ring, we follow
//!                ^ next                    ^ the kernel
//!
//! one block   | header | packet header, address, gap, bytes | packet header, ... |
//!                                              '- 4 bytes of room for a VLAN tag
//! ```
//!
//! The kernel copies each packet into its open block. It retires the block, that is, hands it over
//! to us, when it is full or a timeout has passed. [`Ring::next_block`] gives a block back when all
//! its packets have been taken and the caller requests the next block. If the kernel comes around
//! to a block that is not free, it drops packets and counts them.
//!
//! Packets look as on the wire. If the kernel stripped a VLAN tag, we write it back in place, into
//! the room in front of the packet. So lending and copying show the same bytes.
//!
//! Ownership: `block_status` decides. `KERNEL`: we read only two words of the header, atomically.
//! `USER`: the kernel writes nothing.
//!
//! The counters of the ring's socket do not include packets that a filter rejects. A second socket
//! can count them (`counter`).
//!
//! # Invariants
//! - A1. `packets` = taken + in the ring + `drops`, by the kernel's counters; [`Ring::in_ring`].
//! - A2. We refer to bytes only while we hold their block. Every offset and length read from a
//!   block is checked against its bounds before use.
//! - A3. Nothing outlives the socket: promiscuous mode is a membership of the socket, and the
//!   filter and the fanout group belong to it.
//!
//! Source: packet(7); Documentation/networking/packet_mmap.rst; net/packet/af_packet.c
//! of Linux 6.18.

mod counter;
mod error;
mod filter;
mod memory;
mod options;
mod packet;
mod plain;
mod ring;
mod sender;
mod socket;
mod tx_memory;
mod tx_ring;

pub use error::AfPacketError;
pub use options::{Direction, Fanout, FanoutMode, RingOptions, Timestamps};
pub use packet::{PacketMarks, RingPacket};
pub use plain::{MESSAGES, PlainReceiver};
pub use ring::{Block, Ring, RingStatistics};
pub use sender::{SEND_MAX, Sender};
pub use socket::socket_to_inherit;
pub use tx_ring::{TxRing, TxRingCounts, TxRingOptions};

#[cfg(all(test, not(miri)))]
mod tests;
