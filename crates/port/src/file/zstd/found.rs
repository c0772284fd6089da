//! Rebuilds a missing table: its recorder was killed, or the table is damaged.
//!
//! ```text
//!  | header | block | block, ends with trailer 0 | block | block, ends with trailer 1 | ...
//!           \______^\__________________________^  each head says where the next one is
//! ```
//!
//! Block headers lead from one to the next, without any decompression. An uncompressed block that
//! ends with a trailer is the end of a segment, if the blocks since the last end can be whole
//! segments. A sender may put trailers into packets: these are inside of blocks, or the blocks
//! before them are too few. If a block header is invalid, we search for the next trailer byte by
//! byte, and examine what follows it ([`search`]). A segment whose own trailer is damaged gets the
//! end of the following segment: the two are decompressed as one piece.
//!
//! A file may have more than one frame. The ends of one describe that frame only, so such a file is
//! read sequentially. Other bytes after the last block are reported as damage.

mod search;

use std::fs::File;
use std::os::unix::fs::FileExt;

use burstline_wire::files::{MAX_NEED, SegmentAhead, SegmentIndex, Trailer};

use super::super::pieces::{BLOCK_BYTES, HEADER_BYTES};
use super::block::BlockHead;
use super::packed::{MOST_TOGETHER, unpack};
use super::{FRAME, SKIPPABLE};

/// Maximum blocks up to the next trailer: those of [`MOST_TOGETHER`] of the longest segments. An
/// empty block may follow each.
const MOST_BLOCKS: usize = MOST_TOGETHER as usize * (2 * MAX_NEED / BLOCK_BYTES + 16);

const TAIL_BYTES: usize = SegmentAhead::TAIL_BYTES;

/// A place in the file between two segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Boundary {
    /// The file offset.
    at: u64,
    /// The number of the segment that starts there.
    next: u64,
    /// 0 if unknown.
    segment_bytes: u64,
}

impl Boundary {
    /// Before the first segment.
    const START: Self = Self { at: HEADER_BYTES as u64, next: 0, segment_bytes: 0 };
}

/// Where block headers lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The end of a segment.
    End(Boundary),
    /// The end of the frame, or of the file after a whole block.
    Over,
    /// The end of the file in a block.
    Cut,
    /// An invalid block header at this offset.
    Broken(u64),
    /// More blocks than segments have.
    Endless,
}

/// The decompressed length of some blocks, as far as their headers say it.
#[derive(Default)]
struct Sum {
    /// Bytes of blocks whose length is known.
    known: u64,
    /// Compressed blocks.
    compressed: u64,
}

impl Sum {
    fn add(&mut self, head: BlockHead) {
        match head.kind {
            BlockHead::COMPRESSED => self.compressed += 1,
            _ => self.known += head.size as u64,
        }
    }

    /// Whether this can be `bytes` bytes of so many segments. Of the compressed blocks of a segment
    /// only the last is not full.
    fn can_be(&self, segments: u64, bytes: u64) -> bool {
        let full = self.compressed.saturating_sub(segments) * BLOCK_BYTES as u64;
        let most = self.compressed * BLOCK_BYTES as u64;
        (self.known + full..=self.known + most).contains(&bytes)
    }
}

/// A scan of a file for the ends of its segments.
pub(super) struct Walk<'a> {
    file: &'a File,
    length: u64,
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
        let mut walk = Self { file, length, segment_bytes: 0, ends: Vec::new(), surplus: None };
        loop {
            let (surplus, is_cut) = match walk.reach(walk.last()) {
                Reached::End(end) => {
                    walk.accept(end);
                    continue;
                }
                Reached::Over => break,
                Reached::Endless if walk.ends.is_empty() => return None,
                Reached::Endless => (None, false),
                Reached::Cut => (None, true),
                Reached::Broken(at) => {
                    let surplus = walk.find_surplus(at);
                    if surplus.is_some_and(|behind| behind > at && walk.is_frame(behind)) {
                        return None;
                    }
                    (surplus, false)
                }
            };
            if walk.go_on(is_cut).is_none() {
                walk.surplus = surplus;
                break;
            }
        }
        (!walk.ends.is_empty()).then_some(walk)
    }

    /// Returns the end of the last segment that has a trailer.
    pub(super) fn end(&self) -> u64 {
        self.last().at
    }

    /// Returns the boundary after the segments found so far.
    fn last(&self) -> Boundary {
        self.boundary(self.ends.len())
    }

    /// Returns the boundary after the first `segments` segments.
    fn boundary(&self, segments: usize) -> Boundary {
        match segments.checked_sub(1).and_then(|last| self.ends.get(last)) {
            Some(&at) => Boundary { at, next: segments as u64, segment_bytes: self.segment_bytes },
            None => Boundary::START,
        }
    }

    /// Whether one of the first pieces is sound. A recording that is not compressed has trailers,
    /// too, but no blocks.
    pub(super) fn has_sound_piece(&self) -> bool {
        let mut before = Boundary::START;
        for _ in 0..MOST_TOGETHER {
            let Some(&at) = self.ends.get(before.next as usize) else { return false };
            let end = self.boundary(self.ends.partition_point(|end| *end <= at));
            if self.is_sound(before, end) {
                return true;
            }
            before = end;
        }
        false
    }

    /// Records the segments up to `end`.
    fn accept(&mut self, end: Boundary) {
        self.segment_bytes = end.segment_bytes;
        self.ends.resize(end.next as usize, end.at);
    }

    /// Follows block headers from `before` to the next end of a segment.
    fn reach(&self, before: Boundary) -> Reached {
        let (mut at, mut sum, mut was_empty) = (before.at, Sum::default(), false);
        for _ in 0..MOST_BLOCKS {
            if at >= self.length {
                return Reached::Over;
            }
            let Some((head, behind)) = self.block(at) else { return Reached::Cut };
            let is_empty = head.content_bytes() == 0;
            // Zeros are empty blocks, but a recorder never writes two in a row.
            let is_odd = !is_usual(head) || is_empty && was_empty && !head.is_last;
            if is_odd || head.is_last && behind < self.length {
                return Reached::Broken(at);
            }
            if behind > self.length {
                return Reached::Cut;
            }
            sum.add(head);
            if head.kind == BlockHead::RAW
                && head.size >= TAIL_BYTES
                && let Some(end) = self.boundary_at(behind)
                && self.is_next(before, end, &sum)
            {
                return Reached::End(end);
            }
            (at, was_empty) = (behind, is_empty);
        }
        Reached::Endless
    }

    /// Whether the blocks between two boundaries are the segments between them.
    fn is_next(&self, before: Boundary, end: Boundary, sum: &Sum) -> bool {
        let segments = end.next.saturating_sub(before.next);
        let is_same = before.segment_bytes == 0 || before.segment_bytes == end.segment_bytes;
        let is_possible = is_same
            && (1..=MOST_TOGETHER).contains(&segments)
            && sum.can_be(segments, segments * end.segment_bytes);
        // One segment of the known size is not decompressed: that would take as long as reading
        // the file.
        let is_sure = segments == 1 && before.segment_bytes > 0;
        is_possible && (is_sure || self.is_sound(before, end))
    }

    /// Decompresses what is between two boundaries. Returns whether the last segment's checksum
    /// holds.
    fn is_sound(&self, before: Boundary, end: Boundary) -> bool {
        let (segments, bytes) = (end.next - before.next, end.segment_bytes as usize);
        if segments > MOST_TOGETHER {
            return false;
        }
        let most = segments * end.segment_bytes;
        // Incompressible data is stored uncompressed.
        if end.at - before.at > 2 * most {
            return false;
        }
        let Ok(unpacked) = unpack(self.file, before.at..end.at, most) else { return false };
        unpacked.len() as u64 == most
            && SegmentIndex::parse(&unpacked[unpacked.len() - bytes..]).is_ok()
    }

    /// Returns the header of the block at this offset, and the end of the block. `None` if the file
    /// ends before.
    fn block(&self, at: u64) -> Option<(BlockHead, u64)> {
        let mut head = [0; BlockHead::BYTES];
        self.file.read_exact_at(&mut head, at).ok()?;
        let head = BlockHead::of(head);
        Some((head, at + (BlockHead::BYTES + head.content_bytes()) as u64))
    }

    /// Returns where bytes begin that belong to no block, from the invalid block at `at` on. `None`
    /// if the file only ends inside the block.
    fn find_surplus(&self, at: u64) -> Option<u64> {
        let (head, behind) = self.block(at)?;
        let at = if is_usual(head) { behind } else { at };
        (at < self.length).then_some(at)
    }

    /// Whether a frame starts there.
    fn is_frame(&self, at: u64) -> bool {
        let mut magic = [0; 4];
        let is_read = self.file.read_exact_at(&mut magic, at).is_ok();
        let magic = u32::from_le_bytes(magic);
        is_read && (magic == FRAME || magic & !0xf == SKIPPABLE)
    }

    /// Returns the boundary at `at`, if a trailer ends there.
    fn boundary_at(&self, at: u64) -> Option<Boundary> {
        let mut tail = [0; TAIL_BYTES];
        self.file.read_exact_at(&mut tail, at.checked_sub(TAIL_BYTES as u64)?).ok()?;
        let trailer = Trailer::parse(&tail).filter(|found| found.version == Trailer::VERSION)?;
        let segment_bytes = u64::from(trailer.segment_bytes);
        let is_possible = segment_bytes.is_power_of_two() && segment_bytes <= MAX_NEED as u64;
        let next = trailer.sequence.checked_add(1).filter(|_| is_possible)?;
        Some(Boundary { at, next, segment_bytes })
    }

    /// Continues after damage. `None` if no segment follows. `is_cut`: only the end of the file is
    /// the reason.
    fn go_on(&mut self, is_cut: bool) -> Option<()> {
        let last = self.last();
        let pieces = self.ends.partition_point(|end| *end < last.at);
        let before = self.boundary(pieces);
        // The last trailer may be one from a packet, behind a damaged header.
        let is_sure = self.ends.is_empty() || self.is_sound(before, last);
        let from = if is_sure { last } else { before };
        let found = self.search(from, is_cut)?;
        if !can_follow(last, found) {
            self.ends.truncate(from.next as usize);
        }
        self.accept(found);
        Some(())
    }
}

/// Whether the segments between two boundaries have room there: each has bytes in the file.
fn can_follow(before: Boundary, end: Boundary) -> bool {
    let is_same = before.segment_bytes == 0 || before.segment_bytes == end.segment_bytes;
    let (segments, bytes) =
        (end.next.saturating_sub(before.next), end.at.saturating_sub(before.at));
    is_same && (1..=bytes / least_bytes(end.segment_bytes)).contains(&segments)
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
