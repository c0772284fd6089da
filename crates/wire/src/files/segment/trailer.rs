//! The trailer of a segment.

use super::super::{half, word};
use super::order::Order;
use crate::crc32c;
use crate::hash::HashKind;

/// How many causes of loss a trailer has room for.
pub const LOSS_CAUSES: usize = 8;

/// Why packets are not in the file: index into [`Trailer::losses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The source had no room.
    Miss = 0,
    /// We chose to discard.
    Drop = 1,
    /// The recorder was lapped by the writer of the log.
    Overrun = 2,
    /// The file had no room, or a write failed.
    Full = 3,
    /// The writer of the log was down.
    WriterDown = 4,
}

impl LossCause {
    /// Every named cause, in the order of [`Trailer::losses`].
    pub const ALL: [Self; 5] =
        [Self::Miss, Self::Drop, Self::Overrun, Self::Full, Self::WriterDown];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Drop => "drop",
            Self::Overrun => "overrun",
            Self::Full => "full",
            Self::WriterDown => "writer_down",
        }
    }
}

/// A segment's description of itself, stored at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Version of the segment, 1 or 2; an encoder writes [`Self::VERSION`] and ignores this.
    pub version: u16,
    /// Kind of hash in the worklist; an unknown kind is read as none.
    pub hash_kind: HashKind,
    /// Bytes of a segment: S.
    pub segment_bytes: u32,
    /// Packets in this segment.
    pub packets: u32,
    /// Where the blocks end and the closing block starts.
    pub blocks_end: u32,
    /// Number of the segment in its file.
    pub sequence: u64,
    /// Number of the first packet of this segment in the recording.
    pub first_packet: u64,
    /// Base time in ns of the deltas of the worklist: the time of the segment's first packet.
    pub base_time_ns: u64,
    /// Earliest time of a packet here.
    pub earliest_ns: u64,
    /// Latest time of a packet here.
    pub latest_ns: u64,
    /// Packets lost since the previous segment, by [`LossCause`].
    pub losses: [u64; LOSS_CAUSES],
    /// Bytes of the sketch of flow hashes before the worklist; 0 if there is none.
    pub sketch_bytes: u32,
    /// Whether the sketch covers all packets of the file up to here, not only this segment.
    pub sketch_is_of_file: bool,
    /// Interfaces described up to the end of this segment.
    pub interfaces: u32,
    /// CRC32C of the segment up to this field.
    pub checksum: u32,
}

impl Trailer {
    /// First bytes of a trailer.
    pub const MAGIC: [u8; 8] = *b"BurstSeg";
    /// The version that is written. Version 1, which is read as well, has a longer worklist and no
    /// sketch.
    pub const VERSION: u16 = 2;
    /// Bytes of a trailer in the file.
    pub const BYTES: usize = 140;
    /// Bytes of a trailer that its checksum covers, together with everything before it.
    pub(super) const CHECKED_BYTES: usize = Self::BYTES - 4;
    /// Bytes that the trailer's own checksum covers, which follows them.
    const OWN_BYTES: usize = Self::BYTES - 8;
    /// Offset of the sketch's bytes; in version 1 an eighth count of losses, which has no name.
    const SKETCH_AT: usize = 120;
    /// Offset of the sketch's kind: 1 if it covers the file, or else 0.
    const SKETCH_KIND_AT: usize = 124;
    /// Offset of the order of times, unless the sketch covers the file: [`Order::code`].
    const ORDER_AT: usize = 125;

    /// Reads a trailer. `None` if magic or version are wrong, or its own checksum, which version 1
    /// lacks, does not hold. Does not check the segment's checksum.
    pub fn parse(bytes: &[u8]) -> Option<Trailer> {
        let bytes: &[u8; Self::BYTES] = bytes.first_chunk()?;
        let version = half(bytes, 8, false);
        let is_known = match version {
            1 => true,
            Self::VERSION => {
                crc32c::crc32c(&bytes[..Self::OWN_BYTES]) == word(bytes, Self::OWN_BYTES, false)
            }
            _ => false,
        };
        if !bytes.starts_with(&Self::MAGIC) || !is_known {
            return None;
        }
        let has_sketch = version > 1;
        let read = |at| word(bytes, at, false);
        let long = |at| u64::from(read(at)) | u64::from(read(at + 4)) << 32;
        let losses = std::array::from_fn(|cause| match 64 + 8 * cause {
            Self::SKETCH_AT if has_sketch => 0,
            at => long(at),
        });
        Some(Trailer {
            version,
            hash_kind: HashKind::from_code(half(bytes, 10, false)).unwrap_or_default(),
            segment_bytes: read(12),
            packets: read(16),
            blocks_end: read(20),
            sequence: long(24),
            first_packet: long(32),
            base_time_ns: long(40),
            earliest_ns: long(48),
            latest_ns: long(56),
            losses,
            sketch_bytes: if has_sketch { read(Self::SKETCH_AT) } else { 0 },
            sketch_is_of_file: has_sketch && read(Self::SKETCH_KIND_AT) == 1,
            interfaces: read(128),
            checksum: read(136),
        })
    }

    /// Returns how far times are out of order in the file up to the end of this trailer's segment.
    /// A packet is at most that many ns earlier than one of an earlier segment. `None` if that is
    /// unknown.
    pub fn disorder_ns(bytes: &[u8]) -> Option<u64> {
        let trailer = Self::parse(bytes).filter(|trailer| trailer.version > 1)?;
        if trailer.sketch_is_of_file { None } else { Order::bound_ns(bytes[Self::ORDER_AT]) }
    }

    /// Returns the bytes of the trailer, checksum included.
    pub(super) fn to_bytes(self, order: Order) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &Self::MAGIC);
        put(8, &Self::VERSION.to_le_bytes());
        put(10, &self.hash_kind.code().to_le_bytes());
        put(12, &self.segment_bytes.to_le_bytes());
        put(16, &self.packets.to_le_bytes());
        put(20, &self.blocks_end.to_le_bytes());
        put(24, &self.sequence.to_le_bytes());
        put(32, &self.first_packet.to_le_bytes());
        put(40, &self.base_time_ns.to_le_bytes());
        put(48, &self.earliest_ns.to_le_bytes());
        put(56, &self.latest_ns.to_le_bytes());
        for (cause, lost) in self.losses.iter().enumerate() {
            put(64 + 8 * cause, &lost.to_le_bytes());
        }
        put(Self::SKETCH_AT, &self.sketch_bytes.to_le_bytes());
        put(Self::SKETCH_KIND_AT, &u32::from(self.sketch_is_of_file).to_le_bytes());
        if !self.sketch_is_of_file {
            put(Self::ORDER_AT, &[order.code()]);
        }
        put(128, &self.interfaces.to_le_bytes());
        let own = crc32c::crc32c(&bytes[..Self::OWN_BYTES]);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(Self::OWN_BYTES, &own.to_le_bytes());
        put(136, &self.checksum.to_le_bytes());
        bytes
    }

    /// Returns whether S is a power of two in the range that is written.
    pub(in super::super) fn segment_bytes_are_possible(&self) -> bool {
        self.segment_bytes.is_power_of_two() && (4096..=16 << 20).contains(&self.segment_bytes)
    }
}

/// The sums of the trailers of a file's sound segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Sound segments that were passed, the header segment included.
    pub segments: u64,
    /// Packets in them, according to the trailers.
    pub packets: u64,
    /// Packets lost before they reached the file, by [`LossCause`]; saturating.
    pub losses: [u64; LOSS_CAUSES],
    /// The last trailer that was passed.
    pub last: Option<Trailer>,
}

impl Recorded {
    /// Returns the packets lost before they reached the file, by named cause.
    pub fn named_losses(&self) -> impl Iterator<Item = (LossCause, u64)> + use<> {
        LossCause::ALL.into_iter().zip(self.losses)
    }

    /// Returns the packets lost before they reached the file; saturating.
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |sum: u64, lost| sum.saturating_add(*lost))
    }

    /// Returns the packets offered to the recorder: in the file, and lost before; saturating.
    pub fn offered(&self) -> u64 {
        self.packets.saturating_add(self.lost())
    }

    pub(in super::super) fn add(&mut self, trailer: &Trailer) {
        self.segments += 1;
        self.packets += u64::from(trailer.packets);
        for (sum, lost) in self.losses.iter_mut().zip(trailer.losses) {
            *sum = sum.saturating_add(lost);
        }
        self.last = Some(*trailer);
    }
}
