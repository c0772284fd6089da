//! Rebuilds a missing table: its recorder was killed, or the table is damaged.
//!
//! ```text
//!  | header | block | block, ends with trailer 0 | block | block, ends with trailer 1 | ...
//!           \______^\__________________________^  each head says where the next one is
//! ```
//!
//! Block headers lead from one to the next, without any decompression. An uncompressed block that
//! ends with a trailer is the end of a segment. If a block header is invalid, we search for the
//! next trailer byte by byte. A segment whose own trailer is damaged gets the end of the following
//! segment: the two are decompressed as one piece.
//!
//! A file may have more than one frame. The ends of one describe that frame only, so such a file is
//! read sequentially. Other bytes after the last block are reported as damage.

use std::fs::File;
use std::os::unix::fs::FileExt;

use burstline_wire::files::{MAX_NEED, SegmentAhead, Trailer};

use super::super::pieces::{BLOCK_BYTES, HEADER_BYTES};
use super::block::BlockHead;
use super::packed::MOST_SEGMENTS;
use super::{FRAME, SKIPPABLE};

/// Maximum blocks before the first trailer: those of the longest segment, and some more.
const FIRST_BLOCKS: usize = MAX_NEED / BLOCK_BYTES + 16;

/// Bytes searched at a time.
const CHUNK_BYTES: usize = 1 << 20;

const TAIL_BYTES: usize = SegmentAhead::TAIL_BYTES;

/// A scan of a file for the ends of its segments.
pub(super) struct Walk<'a> {
    file: &'a File,
    length: u64,
    /// Offset of the next block header.
    at: u64,
    pub(super) segment_bytes: u64,
    /// By segment number. Segments with the same end are one piece.
    pub(super) ends: Vec<u64>,
    /// Where the bytes begin that belong to no block, if the file ends with such bytes.
    pub(super) surplus: Option<u64>,
}

impl<'a> Walk<'a> {
    /// Finds the ends of all segments. `None` if this is not a segmented recording, or not the only
    /// frame of the file.
    pub(super) fn through(file: &'a File) -> Option<Self> {
        let length = file.metadata().ok()?.len();
        let at = HEADER_BYTES as u64;
        let ends = Vec::new();
        let mut walk = Self { file, length, at, segment_bytes: 0, ends, surplus: None };
        let mut blocks = 0;
        while walk.at < length {
            blocks += 1;
            let is_steady = walk.step().is_some();
            if walk.ends.is_empty() && (!is_steady || blocks > FIRST_BLOCKS) {
                return None;
            }
            if is_steady {
                continue;
            }
            let surplus = walk.find_surplus();
            if surplus.is_some_and(|at| walk.is_next_frame(at)) {
                return None;
            }
            if walk.search().is_none() {
                walk.surplus = surplus;
                break;
            }
        }
        (1..=MOST_SEGMENTS).contains(&walk.ends.len()).then_some(walk)
    }

    /// Returns the end of the last segment that has a trailer.
    pub(super) fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(HEADER_BYTES as u64)
    }

    /// Advances over the next block. `None` if there is none.
    fn step(&mut self) -> Option<()> {
        let (head, behind) = self.block()?;
        if !is_usual(head) || behind > self.length || head.is_last && behind < self.length {
            return None;
        }
        if head.kind == BlockHead::RAW && head.size >= TAIL_BYTES {
            self.take(behind);
        }
        self.at = behind;
        Some(())
    }

    /// Returns the header of the next block, and the end of the block. `None` if there is none.
    fn block(&self) -> Option<(BlockHead, u64)> {
        let mut head = [0; BlockHead::BYTES];
        self.file.read_exact_at(&mut head, self.at).ok()?;
        let head = BlockHead::of(head);
        Some((head, self.at + (BlockHead::BYTES + head.content_bytes()) as u64))
    }

    /// Returns where bytes begin that belong to no block, after a failed step. `None` if the file
    /// only ends inside the block.
    fn find_surplus(&self) -> Option<u64> {
        let (head, behind) = self.block()?;
        let at = if is_usual(head) { behind } else { self.at };
        (at < self.length).then_some(at)
    }

    /// Whether another frame starts there, after the end of this one.
    fn is_next_frame(&self, at: u64) -> bool {
        let mut magic = [0; 4];
        let is_read = at > self.at && self.file.read_exact_at(&mut magic, at).is_ok();
        let magic = u32::from_le_bytes(magic);
        is_read && (magic == FRAME || magic & !0xf == SKIPPABLE)
    }

    /// Records a segment that ends at `end`, if one does.
    fn take(&mut self, end: u64) -> Option<()> {
        let mut tail = [0; TAIL_BYTES];
        self.file.read_exact_at(&mut tail, end.checked_sub(TAIL_BYTES as u64)?).ok()?;
        let trailer = Trailer::parse(&tail).filter(|found| found.version == Trailer::VERSION)?;
        let (bytes, number) = (u64::from(trailer.segment_bytes), trailer.sequence);
        let is_possible = bytes.is_power_of_two() && bytes <= MAX_NEED as u64;
        if !is_possible || self.segment_bytes != 0 && self.segment_bytes != bytes {
            return None;
        }
        // Each skipped segment has bytes in the file, too.
        let most = (end - self.end()) / least_bytes(bytes);
        let passed = number.checked_sub(self.ends.len() as u64)?;
        if passed >= most || number >= MOST_SEGMENTS as u64 {
            return None;
        }
        self.segment_bytes = bytes;
        self.ends.resize(number as usize + 1, end);
        Some(())
    }

    /// Continues after the next trailer. `None` if there is none.
    fn search(&mut self) -> Option<()> {
        let (mut from, mut chunk) = (self.end(), vec![0; CHUNK_BYTES]);
        while from < self.length {
            chunk.truncate((self.length - from).min(CHUNK_BYTES as u64) as usize);
            self.file.read_exact_at(&mut chunk, from).ok()?;
            let starts = chunk.windows(Trailer::MAGIC.len());
            for (start, _) in starts.enumerate().filter(|(_, bytes)| *bytes == Trailer::MAGIC) {
                let end = from + (start + TAIL_BYTES) as u64;
                if self.take(end).is_some() {
                    self.at = end;
                    return Some(());
                }
            }
            // A magic number may cross the end of the chunk.
            let is_last = from + chunk.len() as u64 == self.length;
            from += (chunk.len() - if is_last { 0 } else { Trailer::MAGIC.len() }) as u64;
        }
        None
    }
}

/// Returns the fewest bytes that a segment has in the file: its tail as it is, and 4 bytes for each
/// block that repeats one byte.
pub(super) fn least_bytes(segment_bytes: u64) -> u64 {
    TAIL_BYTES as u64 + segment_bytes / BLOCK_BYTES as u64 * 4
}

/// Whether a recorder may have written such a block.
fn is_usual(head: BlockHead) -> bool {
    head.kind <= BlockHead::COMPRESSED && head.size <= BLOCK_BYTES
}
