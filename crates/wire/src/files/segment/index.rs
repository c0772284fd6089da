//! Reads a finished segment by its worklist.

use std::cmp::Ordering;

use thiserror::Error;

use super::super::block_type::ENHANCED_PACKET;
use super::super::{CLOSING_BLOCK, word};
use super::{
    ENTRY_BYTES, HASHED, INBOUND, INTERFACE_IN_BLOCK, OUTBOUND, TAIL_BYTES, TIME_IN_BLOCK,
    TRUNCATED, Trailer,
};
use crate::files::Direction;

/// A segment whose trailer, checksum and bounds have been found right.
#[derive(Clone, Copy, Debug)]
pub struct SegmentIndex<'a> {
    segment: &'a [u8],
    trailer: Trailer,
}

/// One packet of a segment, from its worklist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEntry {
    /// First byte of the packet in the segment.
    pub offset: usize,
    /// Captured bytes.
    pub captured_length: u32,
    /// Number of its interface in the section.
    pub interface: u32,
    /// Time in ns since 1970.
    pub time_ns: u64,
    /// Flow hash, when the segment has hashes.
    pub hash: Option<u32>,
    /// Which way it went, when that is known.
    pub direction: Option<Direction>,
    /// Whether it had more bytes on the wire.
    pub truncated: bool,
}

/// No recording has more packets: numbers beyond it are not believed, and sums of them stay in 64
/// bits.
const MOST_PACKETS: u64 = 1 << 56;

/// Why a segment cannot be read by its worklist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// No trailer of ours at the end.
    #[error("no segment trailer at the end of {length} bytes")]
    NoTrailer {
        /// Bytes that were looked at.
        length: usize,
    },
    /// The segment says another size than it has.
    #[error("segment says it has {says} bytes, but has {has}")]
    Size {
        /// What the trailer says.
        says: u32,
        /// Bytes that were looked at.
        has: usize,
    },
    /// The checksum does not hold.
    #[error("segment {sequence}: checksum is {computed:#010x}, should be {stored:#010x}")]
    Checksum {
        /// Number of the segment in its file.
        sequence: u64,
        /// CRC32C of what is there.
        computed: u32,
        /// CRC32C in the trailer.
        stored: u32,
    },
    /// Blocks, worklist and closing block do not fit together.
    #[error("segment {sequence}: {packets} packets and blocks up to {blocks_end} do not fit")]
    Bounds {
        /// Number of the segment in its file.
        sequence: u64,
        /// Packets it says it holds.
        packets: u32,
        /// Where it says its blocks end.
        blocks_end: u32,
    },
}

impl<'a> SegmentIndex<'a> {
    /// Checks a segment of S bytes.
    ///
    /// # Errors
    /// [`SegmentError`], in the order of its variants.
    ///
    /// Cost: reads the segment once for its checksum.
    pub fn parse(segment: &'a [u8]) -> Result<Self, SegmentError> {
        let length = segment.len();
        let none = SegmentError::NoTrailer { length };
        let tail = length.checked_sub(TAIL_BYTES).ok_or(none)?;
        let trailer = Trailer::parse(&segment[tail..]).ok_or(none)?;
        if !trailer.segment_bytes_are_possible() || trailer.segment_bytes as usize != length {
            return Err(SegmentError::Size { says: trailer.segment_bytes, has: length });
        }
        let (sequence, stored) = (trailer.sequence, trailer.checksum);
        let computed = crc32c::crc32c(&segment[..tail + Trailer::CHECKED_BYTES]);
        if computed != stored {
            return Err(SegmentError::Checksum { sequence, computed, stored });
        }
        let index = SegmentIndex { segment, trailer };
        let start = trailer.blocks_end as usize;
        let closed = word(segment, start, false) == CLOSING_BLOCK
            && word(segment, start + 4, false) as usize == length - start.min(length);
        if !index.fits() || !closed {
            let Trailer { packets, blocks_end, .. } = trailer;
            return Err(SegmentError::Bounds { sequence, packets, blocks_end });
        }
        Ok(index)
    }

    /// Reads a segment of S bytes whose checksum does not hold, if its trailer can be right: for
    /// where it says that packets start, and how many.
    pub(in super::super) fn doubtful(segment: &'a [u8]) -> Option<Self> {
        let trailer = Trailer::parse(segment.get(segment.len().checked_sub(TAIL_BYTES)?..)?)?;
        let index = SegmentIndex { segment, trailer };
        (trailer.segment_bytes as usize == segment.len() && index.fits()).then_some(index)
    }

    /// Whether the segment is what was written before, torn by what was written over it: trailer,
    /// worklist and blocks are the old ones, and between them there are new blocks.
    pub(in super::super) fn is_torn(&self) -> bool {
        let (length, start) = (self.segment.len(), self.trailer.blocks_end as usize);
        let tail = length - TAIL_BYTES;
        let worklist = tail - ENTRY_BYTES * self.trailer.packets as usize;
        let mut checksum = crc32c::crc32c(&self.segment[..start]);
        let head = [CLOSING_BLOCK.to_le_bytes(), ((length - start) as u32).to_le_bytes()];
        checksum = crc32c::crc32c_append(checksum, head.as_flattened());
        let zeros = [0; 4096];
        for part in (start + 8..worklist).step_by(zeros.len()) {
            checksum =
                crc32c::crc32c_append(checksum, &zeros[..(worklist - part).min(zeros.len())]);
        }
        let rest = &self.segment[worklist..tail + Trailer::CHECKED_BYTES];
        crc32c::crc32c_append(checksum, rest) == self.trailer.checksum
    }

    /// Whether blocks and worklist fit between start and trailer, and packets can have such
    /// numbers.
    fn fits(&self) -> bool {
        let length = self.segment.len();
        let Trailer { packets, blocks_end, first_packet, .. } = self.trailer;
        if first_packet > MOST_PACKETS {
            return false;
        }
        // Both are below 2^32 and each entry has 16 bytes: u64 holds the sum.
        let used = u64::from(blocks_end) + 8 + u64::from(packets) * ENTRY_BYTES as u64;
        used <= (length - TAIL_BYTES) as u64
            && word(self.segment, length - 4, false) as usize == length - blocks_end as usize
    }

    /// The first packet of which the worklist says something else than its block: where it lies,
    /// how long it is, of which interface, when. `None`: they agree, as they do in a file of ours.
    pub fn contradiction(&self) -> Option<u32> {
        let mut at = 0;
        for number in 0..self.packets() {
            while word(self.segment, at, false) != ENHANCED_PACKET {
                at += word(self.segment, at + 4, false).max(12) as usize;
                if at >= self.trailer.blocks_end as usize {
                    return Some(number);
                }
            }
            let read = |field: usize| word(self.segment, at + field, false);
            let time_ns = u64::from(read(12)) << 32 | u64::from(read(16));
            let agrees = self.entry(number).is_some_and(|entry| {
                (entry.offset, entry.captured_length) == (at + 28, read(20))
                    && (entry.interface, entry.time_ns) == (read(8), time_ns)
                    && (self.trailer.earliest_ns..=self.trailer.latest_ns).contains(&time_ns)
            });
            if !agrees {
                return Some(number);
            }
            at += read(4).max(12) as usize;
        }
        None
    }

    /// What the segment says about itself.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// How many packets it holds.
    pub fn packets(&self) -> u32 {
        self.trailer.packets
    }

    /// The packet of this number, in `[0, packets())`; `None` beyond, and for an entry that points
    /// outside the blocks.
    pub fn entry(&self, number: u32) -> Option<WorkEntry> {
        if number >= self.trailer.packets {
            return None;
        }
        let at = self.segment.len() - TAIL_BYTES - ENTRY_BYTES * (number as usize + 1);
        let read = |field: usize| word(self.segment, at + 4 * field, false);
        let offset = (read(0) & 0xFF_FFFF) as usize;
        let flags = (read(0) >> 24) as u8;
        let captured_length = read(1) & 0xF_FFFF;
        let end = offset + captured_length as usize;
        if offset < 28 || end + 4 > self.trailer.blocks_end as usize {
            return None;
        }
        let block = offset - 28;
        let interface = match read(1) >> 20 {
            INTERFACE_IN_BLOCK => word(self.segment, block + 8, false),
            interface => interface,
        };
        let time_ns = match read(3) {
            TIME_IN_BLOCK => {
                let high = word(self.segment, block + 12, false);
                u64::from(high) << 32 | u64::from(word(self.segment, block + 16, false))
            }
            delta => self.trailer.base_time_ns.saturating_add(delta.into()),
        };
        Some(WorkEntry {
            offset,
            captured_length,
            interface,
            time_ns,
            hash: (flags & HASHED != 0).then(|| read(2)),
            direction: match flags & (INBOUND | OUTBOUND) {
                INBOUND => Some(Direction::Inbound),
                OUTBOUND => Some(Direction::Outbound),
                _ => None,
            },
            truncated: flags & TRUNCATED != 0,
        })
    }

    /// The bytes of a packet; empty when the entry is not of this segment.
    pub fn packet(&self, entry: &WorkEntry) -> &'a [u8] {
        let end = entry.offset.saturating_add(entry.captured_length as usize);
        self.segment.get(entry.offset..end).unwrap_or_default()
    }

    /// The entries in the order of the packets.
    pub fn entries(&self) -> impl Iterator<Item = WorkEntry> + use<'a> {
        let index = *self;
        (0..self.trailer.packets).filter_map(move |number| index.entry(number))
    }
}

/// Bytes of a worklist.
pub(in super::super) fn worklist_bytes(packets: u32) -> usize {
    packets as usize * ENTRY_BYTES
}

/// Whether a packet of this worklist has a flow hash, or has none that is known.
pub(in super::super) fn may_hold(worklist: &[u8], hash: u32) -> bool {
    let mut entries = worklist.as_chunks::<ENTRY_BYTES>().0.iter();
    entries.any(|entry| entry[3] & HASHED == 0 || word(entry, 8, false) == hash)
}

/// Whether a worklist of `packets` entries names a packet whose block starts at `block` of its
/// segment; `rest` ends with the segment. Packets lie in the order of the worklist.
pub(in super::super) fn is_listed(rest: &[u8], packets: u32, block: usize) -> bool {
    let (mut from, mut to) = (0, packets);
    while from < to {
        let middle = from + (to - from) / 2;
        let back = TAIL_BYTES + ENTRY_BYTES * (middle as usize + 1);
        let Some(at) = rest.len().checked_sub(back) else { return false };
        match ((word(rest, at, false) & 0xFF_FFFF) as usize).cmp(&(block + 28)) {
            Ordering::Equal => return true,
            Ordering::Less => from = middle + 1,
            Ordering::Greater => to = middle,
        }
    }
    false
}
