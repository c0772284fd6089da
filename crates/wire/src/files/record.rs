//! What the decoder says: packets in place, damage, and when it needs more bytes.

use thiserror::Error;

use super::FormatError;
use crate::headers::LinkType;

/// One answer of [`Decoder::next`](super::Decoder::next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A packet lies in the chunk.
    Packet(Record),
    /// At least `bytes` contiguous bytes are needed from `position` on: in `(chunk.len() -
    /// position, MAX_NEED]`. Never said when `at_end`.
    NeedMore {
        /// Contiguous bytes wanted, counted from `position`.
        bytes: usize,
    },
    /// Bytes that could not be understood were passed over; decoding goes on behind them.
    Damage(Damage),
    /// This is not a capture file that can be decoded; every later answer is [`Step::End`].
    Refused(FormatError),
    /// Nothing follows. Every later answer is the same.
    End,
}

/// Where a packet lies in the chunk, and what its record says about it. 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// First byte of the packet, as an index into the chunk.
    pub offset: usize,
    /// Time in ns since 1970-01-01 UTC; exact, rounded down, saturating; 0 when not `timed`.
    pub time_ns: u64,
    /// Bytes of the packet that are here: in `[0, MAX_CAPTURED]`.
    pub captured_length: u32,
    /// Bytes that the packet had on the wire, as the file has it (usually not below the captured).
    pub original_length: u32,
    /// Index into [`Decoder::interfaces`](super::Decoder::interfaces).
    pub interface: u32,
    /// What the packet's first header is.
    pub link: LinkType,
    /// Whether the record has options; they are in [`Decoder::options`](super::Decoder::options).
    pub has_options: bool,
    /// Whether the record has a time: a Simple Packet Block has none.
    pub timed: bool,
}

const _: () = assert!(size_of::<Record>() == 32);

/// Which way a packet went, from the two low bits of `epb_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the interface.
    Inbound,
    /// Sent by the interface.
    Outbound,
}

/// Options of the packet that the decoder has just delivered.
///
/// Source: draft-ietf-opsawg-pcapng, section 4.3, options 2 to 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// `epb_flags`: direction, reception type, FCS length, link errors.
    pub flags: Option<u32>,
    /// `epb_dropcount`: packets lost on this interface since its previous packet.
    pub drops_before: Option<u64>,
    /// `epb_packetid`: the same number marks the same packet on several interfaces.
    pub packet_id: Option<u64>,
    /// `epb_queue`: receive queue of the interface.
    pub queue: Option<u32>,
    /// The first `epb_hash` as algorithm and up to its first four bytes, little-endian.
    pub hash: Option<(u8, u32)>,
}

impl PacketOptions {
    /// Which way the packet went, if the flags say.
    pub fn direction(&self) -> Option<Direction> {
        match self.flags? & 3 {
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => None,
        }
    }
}

/// A run of bytes that could not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{skipped} bytes skipped at file offset {offset}: {kind}")]
pub struct Damage {
    /// Absolute offset of the first byte that was passed over.
    pub offset: u64,
    /// What was wrong there.
    pub kind: DamageKind,
    /// Bytes passed over: decoding goes on at `offset + skipped`.
    pub skipped: u64,
}

/// What was wrong with a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends inside a record.
    #[error("the file ends inside a record: {needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes that the record should have.
        needed: u64,
        /// Bytes that the file has from its start.
        left: u64,
    },
    /// A record or block header is all zeros.
    #[error("zeros where a record should start")]
    Zeroed,
    /// A captured length beyond belief, or beyond its block.
    #[error("captured length {captured} is above {limit}")]
    CapturedLength {
        /// What the record says.
        captured: u32,
        /// What is possible there.
        limit: u32,
    },
    /// A block length that is not a multiple of 4, below 12, or beyond belief.
    #[error("block of type {block_type:#x} has length {length}")]
    BlockLength {
        /// Type of the block.
        block_type: u32,
        /// Its leading total length.
        length: u32,
    },
    /// The two total lengths of a block differ.
    #[error("block lengths differ: {leading} in front, {trailing} behind")]
    LengthMismatch {
        /// Total length in front.
        leading: u32,
        /// Total length behind.
        trailing: u32,
    },
    /// No plausible record header follows the record before.
    #[error("no plausible record follows")]
    BrokenChain,
    /// A section header without a byte-order magic.
    #[error("byte-order magic is {magic:#010x}")]
    ByteOrder {
        /// What stands in its place.
        magic: u32,
    },
    /// A block reaches over a segment boundary of a segmented file.
    #[error("block of {length} bytes crosses a segment boundary")]
    CrossesSegment {
        /// Total length of the block.
        length: u32,
    },
    /// A packet of an interface that no block describes.
    #[error("interface {interface} is not described")]
    UnknownInterface {
        /// Number of the interface in its section.
        interface: u32,
    },
    /// The file describes more interfaces than are kept.
    #[error("more than {limit} interfaces")]
    TooManyInterfaces {
        /// How many are kept.
        limit: u32,
    },
    /// A block body too short for its type, or options that do not add up.
    #[error("the body of a block of type {block_type:#x} is malformed")]
    MalformedBlock {
        /// Type of the block.
        block_type: u32,
    },
}
