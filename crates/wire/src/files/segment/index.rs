//! Reads a finished segment through its worklist.

use thiserror::Error;

use super::super::block_type::ENHANCED_PACKET;
use super::super::{CLOSING_BLOCK, word};
use super::encoder::sum_zeros;
use super::list::{BEFORE_PACKET, Starts, list_bytes};
use super::{HASHED, OLD_ENTRY_BYTES, Sketch, TAIL_BYTES, Trailer, sketch};
use crate::crc32c;

/// A segment whose trailer, checksum and bounds were verified.
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
    /// Whether it had more bytes on the wire.
    pub truncated: bool,
}

/// The most packets of a recording: higher numbers are rejected, and sums of them stay in 64 bits.
pub(in super::super) const MOST_PACKETS: u64 = 1 << 56;

/// Why a segment cannot be read by its worklist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// No segment trailer of this format at the end.
    #[error("no segment trailer at the end of {length} bytes")]
    NoTrailer {
        /// Bytes that were examined.
        length: usize,
    },
    /// The segment's trailer states another size.
    #[error("segment says it has {says} bytes, but has {has}")]
    Size {
        /// The size in the trailer.
        says: u32,
        /// Bytes that were examined.
        has: usize,
    },
    /// The checksum does not hold.
    #[error("segment {sequence}: checksum is {computed:#010x}, should be {stored:#010x}")]
    Checksum {
        /// Number of the segment in its file.
        sequence: u64,
        /// CRC32C of the bytes.
        computed: u32,
        /// CRC32C in the trailer.
        stored: u32,
    },
    /// The checksum of the sketch does not hold.
    #[error("segment {sequence}: the sketch of its flows is damaged")]
    Sketch {
        /// Number of the segment in its file.
        sequence: u64,
    },
    /// Blocks, worklist and closing block do not fit together.
    #[error("segment {sequence}: {packets} packets and blocks up to {blocks_end} do not fit")]
    Bounds {
        /// Number of the segment in its file.
        sequence: u64,
        /// Packets according to the trailer.
        packets: u32,
        /// End of the blocks according to the trailer.
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
        let index = SegmentIndex { segment, trailer };
        let computed = index.checksum();
        if computed != stored {
            return Err(SegmentError::Checksum { sequence, computed, stored });
        }
        if let Some(sketch) = index.sketch()
            && !sketch::is_sound(sketch)
        {
            return Err(SegmentError::Sketch { sequence });
        }
        let start = trailer.blocks_end as usize;
        let closed = word(segment, start, false) == CLOSING_BLOCK
            && word(segment, start + 4, false) as usize == length - start.min(length);
        if !index.fits() || !closed {
            let Trailer { packets, blocks_end, .. } = trailer;
            return Err(SegmentError::Bounds { sequence, packets, blocks_end });
        }
        Ok(index)
    }

    /// Reads a segment of S bytes whose checksum does not hold, if its trailer is plausible. It
    /// shows where packets should start, and how many.
    pub(in super::super) fn doubtful(segment: &'a [u8]) -> Option<Self> {
        let trailer = Trailer::parse(segment.get(segment.len().checked_sub(TAIL_BYTES)?..)?)?;
        let index = SegmentIndex { segment, trailer };
        (trailer.segment_bytes as usize == segment.len() && index.fits()).then_some(index)
    }

    /// Returns whether the segment is an earlier write, torn by a later one: trailer, worklist and
    /// blocks are old, with new blocks in between.
    pub(in super::super) fn is_torn(&self) -> bool {
        let (length, start) = (self.segment.len(), self.trailer.blocks_end as usize);
        let tail = length - TAIL_BYTES;
        let worklist = tail - self.list_bytes();
        let mut checksum = crc32c::crc32c(&self.segment[..start]);
        let head = [CLOSING_BLOCK.to_le_bytes(), ((length - start) as u32).to_le_bytes()];
        checksum = crc32c::crc32c_append(checksum, head.as_flattened());
        checksum = sum_zeros(checksum, worklist - start - 8);
        let rest = &self.segment[worklist..tail + Trailer::CHECKED_BYTES];
        crc32c::crc32c_append(checksum, rest) == self.trailer.checksum
    }

    /// Computes the segment's checksum. The sketch, which has its own, counts as zeros.
    fn checksum(&self) -> u32 {
        let end = self.segment.len() - TAIL_BYTES + Trailer::CHECKED_BYTES;
        let Some(sketch) = self.sketch() else { return crc32c::crc32c(&self.segment[..end]) };
        let worklist = self.segment.len() - TAIL_BYTES - self.list_bytes();
        let checksum = crc32c::crc32c(&self.segment[..worklist - sketch.len()]);
        let checksum = sum_zeros(checksum, sketch.len());
        crc32c::crc32c_append(checksum, &self.segment[worklist..end])
    }

    /// Returns the sketch of the flow hashes of all packets of the file up to here, if present.
    pub fn file_sketch(&self) -> Option<&'a [u8]> {
        self.sketch().filter(|_| self.trailer.sketch_is_of_file)
    }

    /// Returns the sketch of flow hashes, if present and at a possible position.
    fn sketch(&self) -> Option<&'a [u8]> {
        let bytes = Some(self.trailer.sketch_bytes as usize).filter(|&bytes| bytes > 0)?;
        let end = (self.segment.len() - TAIL_BYTES).checked_sub(self.list_bytes())?;
        self.segment.get(end.checked_sub(bytes)?..end)
    }

    fn list_bytes(&self) -> usize {
        list_bytes(self.trailer.version, self.trailer.packets)
    }

    /// Returns whether blocks and worklist fit between start and trailer, and the packet numbers
    /// are possible.
    fn fits(&self) -> bool {
        let length = self.segment.len();
        let Trailer { blocks_end, first_packet, .. } = self.trailer;
        if first_packet > MOST_PACKETS {
            return false;
        }
        used_bytes(&self.trailer) <= (length - TAIL_BYTES) as u64
            && word(self.segment, length - 4, false) as usize == length - blocks_end as usize
    }

    /// Returns the first packet that is not where the worklist says, or whose time the trailer
    /// excludes. `None` in a file that we wrote.
    pub fn contradiction(&self) -> Option<u32> {
        let (mut at, mut entries) = (0, self.entries());
        for number in 0..self.packets() {
            while word(self.segment, at, false) != ENHANCED_PACKET {
                at += word(self.segment, at + 4, false).max(12) as usize;
                if at >= self.trailer.blocks_end as usize {
                    return Some(number);
                }
            }
            let times_ns = self.trailer.earliest_ns..=self.trailer.latest_ns;
            let agrees = entries.next().is_some_and(|entry| {
                entry.offset == at + BEFORE_PACKET && times_ns.contains(&entry.time_ns)
            });
            if !agrees {
                return Some(number);
            }
            at += word(self.segment, at + 4, false).max(12) as usize;
        }
        None
    }

    /// Returns the trailer.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> u32 {
        self.trailer.packets
    }

    /// Returns the bytes of a packet; empty if the entry is not from this segment.
    pub fn packet(&self, entry: &WorkEntry) -> &'a [u8] {
        let end = entry.offset.saturating_add(entry.captured_length as usize);
        self.segment.get(entry.offset..end).unwrap_or_default()
    }

    /// Returns the entries of the worklist in the order of the packets, without those whose packets
    /// are outside of the blocks.
    pub fn entries(&self) -> impl Iterator<Item = WorkEntry> + use<'a> {
        let (index, starts) = (*self, Starts::new(self.segment, &self.trailer));
        starts.filter_map(move |block| index.entry(block))
    }

    /// Returns where packets' blocks start according to the worklist, in its order.
    pub(in super::super) fn starts(&self) -> impl Iterator<Item = usize> + use<'a> {
        Starts::new(self.segment, &self.trailer)
    }

    /// Returns the packet whose block starts at `block`.
    fn entry(&self, block: usize) -> Option<WorkEntry> {
        let read = |field: usize| word(self.segment, block + field, false);
        let (offset, captured_length) = (block + BEFORE_PACKET, read(20));
        let end = offset as u64 + u64::from(captured_length);
        if end + 4 > u64::from(self.trailer.blocks_end) {
            return None;
        }
        Some(WorkEntry {
            offset,
            captured_length,
            interface: read(8),
            time_ns: u64::from(read(12)) << 32 | u64::from(read(16)),
            truncated: captured_length < read(24),
        })
    }
}

/// Returns the used bytes of a segment before its trailer. Each part is below 2^36: no overflow.
pub(in super::super) fn used_bytes(trailer: &Trailer) -> u64 {
    let list = list_bytes(trailer.version, trailer.packets) as u64;
    u64::from(trailer.blocks_end) + 8 + list + u64::from(trailer.sketch_bytes)
}

/// Returns whether a packet of a segment may have a flow hash, by its summary: the sketch, or in
/// version 1 the worklist.
pub(in super::super) fn may_hold(trailer: &Trailer, summary: &[u8], hash: u32) -> bool {
    if trailer.version > 1 {
        return Sketch::may_hold(summary, hash);
    }
    let mut entries = summary.as_chunks::<OLD_ENTRY_BYTES>().0.iter();
    entries.any(|entry| entry[3] & HASHED == 0 || word(entry, 8, false) == hash)
}
