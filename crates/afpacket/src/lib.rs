//! AF_PACKET: with TPACKET_V3 a ring of blocks that the kernel fills with copies of packets; with
//! TPACKET_V2 a ring of slots that it sends from (`tx_ring`). This page is about the first.
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
//! The kernel copies each packet into its open block and hands the block over, retires it, when it
//! is full or a timeout has passed. A block is ours from then until [`Ring::next_block`] gives it
//! back: when all its packets have been taken and the caller asks for the next block. When the
//! kernel comes round to a block that is not free, it drops packets and counts them.
//!
//! Packets come out as they were on the wire. If the kernel took out a VLAN tag, we write it back
//! in place, into the room in front of the packet. So lending and copying show the same bytes.
//!
//! Who owns what: `block_status` says it. `KERNEL`: we read only two words of the header,
//! atomically. `USER`: the kernel writes nothing.
//!
//! What a filter rejects is in no counter of the ring's socket. If it is to be known, a second
//! socket counts it (`counter`).
//!
//! # Invariants
//! - A1. `packets` = taken + in the ring + `drops`, by the kernel's counters; [`Ring::in_ring`].
//! - A2. We refer to bytes only while we hold their block. Every offset and length read from a
//!   block is checked against its bounds before use.
//! - A3. Nothing outlives the socket: promiscuous mode is a membership of it, the filter and the
//!   fanout group are its own.
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
