//! What the decoder reports: packets in place, damage, and requests for more bytes.

use thiserror::Error;

use super::FormatError;
use crate::headers::LinkType;

/// A result of [`Decoder::next`](super::Decoder::next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A packet is in the chunk.
    Packet(Record),
    /// At least `bytes` contiguous bytes are needed from `position` on: in `(chunk.len() -
    /// position, MAX_NEED]`. Never returned if `at_end`.
    NeedMore {
        /// Contiguous bytes wanted, counted from `position`.
        bytes: usize,
    },
    /// Malformed bytes were skipped; decoding continues after them.
    Damage(Damage),
    /// This is not a capture file that can be decoded; every later step is [`Step::End`].
    Refused(FormatError),
    /// Nothing follows. Every later step is the same.
    End,
}

/// Location of a packet in the chunk, and what its record says about it. 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Index of the packet's first byte in the chunk.
    pub offset: usize,
    /// Time in ns since 1970-01-01 UTC; exact, rounded down, saturating; 0 if not `timed`.
    pub time_ns: u64,
    /// Captured bytes, which are in the chunk: in `[0, MAX_CAPTURED]`.
    pub captured_length: u32,
    /// Length on the wire according to the file (usually not below the captured length).
    pub original_length: u32,
    /// Index into [`Decoder::interfaces`](super::Decoder::interfaces).
    pub interface: u32,
    /// Type of the packet's first header.
    pub link: LinkType,
    /// Whether the record has options; they are in [`Decoder::options`](super::Decoder::options).
    pub has_options: bool,
    /// Whether the record has a time: a Simple Packet Block has none.
    pub timed: bool,
}

const _: () = assert!(size_of::<Record>() == 32);

/// Direction of a packet, from the two low bits of `epb_flags`.
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
    /// Returns the packet's direction, if the flags have it.
    pub fn direction(&self) -> Option<Direction> {
        match self.flags? & 3 {
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => None,
        }
    }
}

/// A run of malformed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}at file offset {offset}: {kind}", skipped_text(*skipped))]
pub struct Damage {
    /// Absolute offset of the first skipped byte.
    pub offset: u64,
    /// What was wrong there.
    pub kind: DamageKind,
    /// Bytes skipped: decoding continues at `offset + skipped`. 0 for reports about whole segments:
    /// their bytes were skipped before, or are missing.
    pub skipped: u64,
}

fn skipped_text(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!("{bytes} bytes skipped ") }
}

/// How far the bytes of a packet are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The checksum of its segment holds.
    Checked,
    /// Not verified: the file has no checksums, or ends before the one of this segment.
    Unchecked,
    /// The checksum of its segment does not hold: this packet or another one has changed.
    Doubtful,
}

/// What is wrong with a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends inside a record.
    #[error("the file ends inside a record: {needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes that the record should have.
        needed: u64,
        /// Bytes left in the file from its start.
        left: u64,
    },
    /// A record or block header is all zeros.
    #[error("zeros where a record should start")]
    Zeroed,
    /// A captured length above the limit, or past the end of its block.
    #[error("captured length {captured} is above {limit}")]
    CapturedLength {
        /// The length in the record.
        captured: u32,
        /// The most that is possible there.
        limit: u32,
    },
    /// A block length that is not a multiple of 4, below 12, or above the limit. Or a possible one
    /// above 512 KiB, if the file has had more bytes of such blocks than a sound one can have. Or
    /// one that is there by chance: real blocks start within the block, and none behind it.
    #[error("block of type {block_type:#x} has length {length}")]
    BlockLength {
        /// Type of the block.
        block_type: u32,
        /// Its leading total length.
        length: u32,
    },
    /// The two total lengths of a block differ.
    #[error("block lengths differ: {leading} at the start, {trailing} at the end")]
    LengthMismatch {
        /// Total length at the start.
        leading: u32,
        /// Total length at the end.
        trailing: u32,
    },
    /// No plausible record header follows the previous record.
    #[error("no plausible record follows")]
    BrokenChain,
    /// A section header without a byte-order magic.
    #[error("byte-order magic is {magic:#010x}")]
    ByteOrder {
        /// The value in its place.
        magic: u32,
    },
    /// A block crosses a segment boundary of a segmented file.
    #[error("block of {length} bytes crosses a segment boundary")]
    CrossesSegment {
        /// Total length of the block.
        length: u32,
    },
    /// A section header inside a segment: a packet's bytes look like one.
    #[error("a section header inside a segment")]
    StraySection,
    /// Segments whose checksum does not hold, or that are not segments. Reported once the number of
    /// missing packets is known: at the next sound segment, or at the end.
    #[error(
        "{segments} segments from file offset {from} on fail their checksum: {packets} packets"
    )]
    Corrupt {
        /// File offset of the first of them.
        from: u64,
        /// Number of consecutive segments.
        segments: u64,
        /// Packets in them: by the next sound segment's number, else as their trailers say.
        packets: u64,
    },
    /// Segments are missing from the file, by their numbers.
    #[error("{segments} segments are missing: {packets} packets")]
    MissingSegments {
        /// Number of segments.
        segments: u64,
        /// Packets in them, by their numbers.
        packets: u64,
    },
    /// A segment that was missing comes later in the file.
    #[error("segment {sequence} is not in its place: its {packets} packets come late")]
    OutOfOrder {
        /// Sequence number of the segment.
        sequence: u64,
        /// Packets in it, no longer missing.
        packets: u64,
        /// Packets of it that were counted as corrupt at its proper place, not as missing.
        corrupt: u64,
    },
    /// A segment that came earlier already; it is skipped.
    #[error("segment {sequence} occurs a second time")]
    Repeated {
        /// Sequence number of the segment.
        sequence: u64,
    },
    /// A rewritten segment was torn: its earlier contents are whole.
    #[error(
        "segment {sequence} was torn when it was rewritten: its first {packets} packets are intact"
    )]
    Torn {
        /// Sequence number of the segment.
        sequence: u64,
        /// Packets that its checksum covers.
        packets: u64,
    },
    /// The recording does not end with its closing counts: it was truncated, or is still written.
    #[error(
        "the recording is not closed: cut off, or still being written; {unchecked} packets after \
             the last checksum"
    )]
    NotClosed {
        /// Packets that were delivered after the last checksum.
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
        /// How many are kept at most.
        limit: u32,
    },
    /// A block body too short for its type, or options that do not add up.
    #[error("the body of a block of type {block_type:#x} is malformed")]
    MalformedBlock {
        /// Type of the block.
        block_type: u32,
    },
}

/// The packets that a file lost by damage, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostPackets {
    /// Packets in segments whose checksum does not hold.
    pub corrupt: u64,
    /// Packets in segments that are missing.
    pub missing: u64,
}

impl LostPackets {
    /// Limit of each count, even if a hostile file claims more, so that sums stay in 64 bits.
    pub const MOST: u64 = 1 << 60;

    /// Counts the packets lost by damage; a late segment gives some back. Returns how many are
    /// lost.
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

    /// Returns the packets of both causes.
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
