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
#[error("{}at file offset {offset}: {kind}", skipped_text(*skipped))]
pub struct Damage {
    /// Absolute offset of the first byte that was passed over.
    pub offset: u64,
    /// What was wrong there.
    pub kind: DamageKind,
    /// Bytes skipped: decoding goes on at `offset + skipped`. 0 for reports about whole segments:
    /// their bytes were skipped before, or are missing.
    pub skipped: u64,
}

fn skipped_text(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!("{bytes} bytes skipped ") }
}

/// What vouches for the bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The checksum of its segment holds.
    Checked,
    /// Nothing: the file has no checksums, or ends before the one of this segment.
    Unchecked,
    /// The checksum of its segment does not hold: this packet or another one is not as it was.
    Doubtful,
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
    /// A section header inside a segment: a packet's bytes look like one.
    #[error("a section header inside a segment")]
    StraySection,
    /// Segments whose checksum does not hold, or that are none. Said when it is known how many
    /// packets are missing there: at the next sound segment, or at the end.
    #[error(
        "{segments} segments from file offset {from} on fail their checksum: {packets} packets"
    )]
    Corrupt {
        /// File offset of the first of them.
        from: u64,
        /// How many follow each other.
        segments: u64,
        /// Packets in them: by their numbers where a sound segment follows, else as they say.
        packets: u64,
    },
    /// Segments are not in the file, by their numbers.
    #[error("{segments} segments are missing: {packets} packets")]
    MissingSegments {
        /// How many.
        segments: u64,
        /// Packets in them, by their numbers.
        packets: u64,
    },
    /// A segment that was missing stands behind its place.
    #[error("segment {sequence} is not in its place: its {packets} packets come late")]
    OutOfOrder {
        /// Its number.
        sequence: u64,
        /// Packets in it, no longer missing.
        packets: u64,
        /// How many of them were corrupt where they should be, and not missing.
        corrupt: u64,
    },
    /// A segment was there before; it is passed.
    #[error("segment {sequence} is there before")]
    Repeated {
        /// Its number.
        sequence: u64,
    },
    /// A segment was written again and only in part: what it held before is whole.
    #[error(
        "segment {sequence} was torn when it was written again: its first {packets} packets are \
             whole"
    )]
    Torn {
        /// Its number.
        sequence: u64,
        /// Packets that its checksum vouches for.
        packets: u64,
    },
    /// The recording does not end with its closing counts: it was cut, or is still written.
    #[error(
        "the recording is not closed: cut, or still written; {unchecked} packets behind the \
             last checksum"
    )]
    NotClosed {
        /// Packets that were delivered from behind the last checksum.
        unchecked: u64,
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

/// The packets that damage has cost a file, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostPackets {
    /// Packets in segments whose checksum does not hold.
    pub corrupt: u64,
    /// Packets in segments that are not there.
    pub missing: u64,
}

impl LostPackets {
    /// Neither count exceeds this, even if a hostile file claims more: sums stay in 64 bits.
    pub const MOST: u64 = 1 << 60;

    /// Counts the packets that damage costs, or gives back where a segment comes late. Returns how
    /// many it costs.
    pub fn count(&mut self, kind: &DamageKind) -> u64 {
        let (lost, packets) = match *kind {
            DamageKind::Corrupt { packets, .. } => (&mut self.corrupt, packets),
            DamageKind::MissingSegments { packets, .. } => (&mut self.missing, packets),
            DamageKind::OutOfOrder { packets, corrupt, .. } => {
                self.corrupt = self.corrupt.saturating_sub(corrupt);
                self.missing = self.missing.saturating_sub(packets - corrupt);
                return 0;
            }
            _ => return 0,
        };
        *lost = lost.saturating_add(packets).min(Self::MOST);
        packets
    }

    /// Packets of both causes.
    pub fn total(&self) -> u64 {
        self.corrupt + self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_count_by_cause_and_stay_in_64_bits() {
        let mut lost = LostPackets::default();
        let missing = |packets| DamageKind::MissingSegments { segments: 1, packets };
        assert_eq!(lost.count(&DamageKind::Corrupt { from: 0, segments: 1, packets: 7 }), 7);
        assert_eq!(lost.count(&missing(5)), 5);
        let late = |corrupt| DamageKind::OutOfOrder { sequence: 2, packets: 3, corrupt };
        assert_eq!((lost.count(&late(3)), lost.count(&late(0))), (0, 0));
        assert_eq!((lost.corrupt, lost.missing, lost.total()), (4, 2, 6));
        assert_eq!(lost.count(&DamageKind::Zeroed), 0);
        // Each section of a hostile file may claim as many as this.
        (0..300).for_each(|_| _ = lost.count(&missing(1 << 56)));
        assert_eq!(lost.total(), 4 + LostPackets::MOST);
    }
}
