//! A reader that does not trust its writer.
//!
//! ```text
//! writer's memory, read-only here          private memory
//! | ... packets ... | ... | descs |  ──►   | packets | descs |  ──► checked ──► burst
//!                     each word read once          then: is the watermark still the same?
//! ```
//!
//! A [`Reader`] borrows bytes that stay constant only if the writer keeps to the protocol. This
//! reader borrows nothing. It copies the published packets and their descs, with loads that are
//! sound even if another process writes at the same time (`load`). Then it checks the watermark
//! again, and checks the copy. A burst with any error is discarded completely and counted as torn.
//!
//! The writer can still lie about bytes, times, ports, numbers and losses. It can also publish
//! nothing, or never end. It cannot make this process fault, read out of bounds, or wait here.
//!
//! Invariants:
//! - U1: shared packet memory is read only by `load`, and only inside the mapping. Its seals keep
//!   it mapped, and its pages are known to be present (see `Mapping`).
//! - U2: each desc of a lent burst points into the bytes copied for that burst, and so do its
//!   facts. Packets are complete, in bounds, and no longer than on the wire.
//! - U3: a call of [`next_burst`](UntrustedReader::next_burst) reads a bounded number of words.

mod held;
pub(crate) mod load;
mod portion;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use crate::attach::ReceivedFiles;
use crate::buckets::{Buckets, bucket_of};
use crate::burst::{Burst, FactsAt, Place};
use crate::control::Geometry;
use crate::desc::{Desc, FACTS_BYTES, Facts, Flags, align_up};
use crate::error::AttachError;
use crate::log::{MIN_SEGMENT_BYTES, Memory};
use crate::protocol;
use crate::reader::{Found, Reader, ReaderStatistics, end_of};

const DESC_BYTES: usize = size_of::<Desc>();
const WORD_BYTES: usize = size_of::<u64>();
const PAGE_WORDS: usize = 4096 / WORD_BYTES;
const _: () = assert!(MIN_SEGMENT_BYTES.is_multiple_of(size_of::<Page>()));

pub use held::HeldCopy;
use held::Pool;

/// The most packets in one burst, so that the copy is still in the core's second-level cache when
/// the program reads it. The cache holds 2,048 of 60 bytes, but not all of a segment.
const COPIED: u64 = 2048;

/// Torn bursts after which one call returns nothing.
const TORN_TRIES: u32 = 8;

/// The largest packet number that is accepted: adding to it does not overflow.
const MAX_NUMBER: u64 = u64::MAX >> 1;

/// A reader of a log whose writer may violate any rule.
pub struct UntrustedReader {
    pub(crate) reader: Reader,
    copy: Copied,
    pool: Arc<Pool>,
}

impl UntrustedReader {
    /// Attaches to a log of another process, without trusting anything in it.
    ///
    /// # Errors
    /// As for [`Reader::attach`]. Memory that its owner could remove, or never allocated, is
    /// refused.
    pub fn attach(files: ReceivedFiles) -> Result<Self, AttachError> {
        // SAFETY: no burst is taken from this reader; `Copied` reads packet memory according to U1.
        let reader = unsafe { Reader::attach(files)? };
        Ok(Self::from(reader))
    }

    /// Lends a private copy of the packets published since the last burst, all from one segment.
    /// These are at most 2,048, or the packets of its part. `None` if there are none now, or none
    /// that pass the checks.
    ///
    /// Cost: that of [`Reader::next_burst`], and a copy of the bytes and descs. On x86-64 the copy
    /// takes some 30 instructions for a packet of 60 bytes, and 19 more for each 128 bytes.
    pub fn next_burst(&mut self) -> Option<Burst<'_>> {
        // In a part, packets that are copied but not taken would be copied again.
        let most = if self.reader.part.is_some() { u64::MAX } else { COPIED };
        if self.take_up_to(most) == 0 {
            return None;
        }
        self.reader.last = 0; // cannot be put back
        Some(self.copy.burst())
    }

    /// Like [`Reader::is_finished`], according to the writer.
    pub fn is_finished(&self) -> bool {
        self.reader.is_finished()
    }

    /// Returns its counters. If the writer lies about packets' numbers, `missed` is wrong by that.
    pub fn statistics(&self) -> ReaderStatistics {
        self.reader.statistics()
    }

    /// Like [`Reader::lag`].
    pub fn lag(&self) -> u64 {
        self.reader.lag()
    }

    /// Like [`Reader::has_more`], according to the writer.
    pub fn has_more(&self) -> bool {
        self.reader.has_more()
    }

    /// Like [`Reader::filled_percent`]; wrong if the writer lies.
    pub fn filled_percent(&self) -> u64 {
        self.reader.filled_percent()
    }

    /// Like [`Reader::capacity_bytes`].
    pub fn capacity_bytes(&self) -> u64 {
        self.reader.capacity_bytes()
    }

    /// Like [`Reader::passed_before`].
    pub fn passed_before(&self) -> u64 {
        self.reader.passed_before()
    }

    /// Like [`Reader::is_demoted`].
    pub fn is_demoted(&self) -> bool {
        self.reader.is_demoted()
    }

    /// Like [`Reader::hash_kind`].
    pub fn hash_kind(&self) -> u32 {
        self.reader.hash_kind()
    }

    /// Like [`Reader::kept_ns`].
    pub fn kept_ns(&self) -> u64 {
        self.reader.kept_ns()
    }

    /// Like [`Reader::wait`]: sleeps for at most `timeout_ns`, whatever the writer does.
    pub fn wait(&self, timeout_ns: u64) {
        self.reader.wait(timeout_ns);
    }
}

impl From<Reader> for UntrustedReader {
    /// Makes a reader copy what it reads. Also works within one process, to measure the cost.
    fn from(reader: Reader) -> Self {
        let copy = Copied::new(reader.memory.control.geometry());
        Self { reader, copy, pool: Arc::default() }
    }
}

impl std::fmt::Debug for UntrustedReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UntrustedReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// A page of private memory.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u64; PAGE_WORDS]);

/// This process's private copy of one burst. Packets are at the same offsets as in the segment, so
/// the descs remain valid.
///
/// The pages are aligned like the segment, because some processors compare only the low 12 bits of
/// addresses. Otherwise they would take the loads for loads of what was just stored, at four times
/// the cost. Source: Intel 64 and IA-32 Optimization Reference Manual, "4-KByte aliasing".
struct Copied {
    segment_bytes: usize,
    pages: Vec<Page>,
    /// The offset at which descs begin in the segment, downwards.
    top: usize,
    /// In memory order: the newest packet's first.
    worklist: Vec<Desc>,
    /// For a part: for each desc, the number of packets of the burst from that one on, in the same
    /// order.
    newer: Vec<u32>,
    /// The offset of the newest packet's end.
    end: usize,
    base_time_ns: u64,
    first_packet: u64,
}

impl Copied {
    fn new(geometry: &Geometry) -> Self {
        let (segment_bytes, top) = (geometry.segment_bytes, geometry.top());
        Self {
            pages: vec![Page([0; PAGE_WORDS]); segment_bytes / size_of::<Page>()],
            worklist: Vec::with_capacity(segment_bytes / DESC_BYTES),
            ..Self::none(segment_bytes, top)
        }
    }

    /// Creates a copy without memory.
    fn none(segment_bytes: usize, top: usize) -> Self {
        Self {
            segment_bytes,
            pages: Vec::new(),
            top,
            worklist: Vec::new(),
            newer: Vec::new(),
            end: 0,
            base_time_ns: 0,
            first_packet: 0,
        }
    }

    /// Lends the copy. Call it only after `take` succeeded.
    fn burst(&self) -> Burst<'_> {
        // SAFETY: `end` is at most a segment, which is the size of the pages, and they are
        // initialized; every value is a valid byte.
        let bytes = unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.end) };
        let (time_ns, first_packet) = (self.base_time_ns, self.first_packet);
        let facts = FactsAt::Behind { plain: 0 };
        // SAFETY: nobody writes the copy while it is borrowed; `facts` claims no plain packet.
        unsafe { Burst::new(Place::whole(bytes), &self.worklist, time_ns, first_packet, facts) }
    }

    /// Keeps up to `most` packets of a part, whose next number is `next`. Returns how many, and how
    /// many of all copied packets follow the last of them.
    fn pick(&mut self, buckets: Buckets, next: u64, most: usize) -> (u32, u32) {
        let (all, mut kept, mut behind) = (self.worklist.len(), 0, 0);
        self.newer.clear();
        // Goes from the oldest to the newest; the kept descs gather at the end.
        for at in (0..all).rev() {
            let desc = self.worklist[at];
            if !buckets.holds(bucket_of(desc.hash())) {
                continue;
            }
            if kept == most {
                behind = at + 1;
                break;
            }
            kept += 1;
            self.worklist[all - kept] = desc;
            self.newer.push(at as u32 + 1);
        }
        self.worklist.drain(..all - kept);
        self.newer.iter_mut().for_each(|newer| *newer -= behind as u32);
        self.newer.reverse();
        self.first_packet = next.min(MAX_NUMBER);
        (kept as u32, behind as u32)
    }

    /// Copies and checks the packets found; `None` if a check fails.
    fn take(&mut self, memory: &Memory, found: &Found) -> Option<()> {
        let current = &found.current;
        // SAFETY: the segment's number was checked on entry, and the mapping has room for all
        // segments, checked on attach.
        let start = unsafe { memory.packets.add(current.segment as usize * self.segment_bytes) };
        let worklist_starts_at = self.copy_worklist(start, found)?;
        self.copy_packets(start, worklist_starts_at)?;
        let line = memory.control.line(current.segment);
        self.base_time_ns = line.base_time_ns.load(Relaxed); // one load; any value is acceptable
        self.first_packet = current.first_packet.wrapping_add(found.from.into()).min(MAX_NUMBER);
        // The loads above precede this check of the watermark: if the segment was reused, it shows.
        // (A writer that keeps to the protocol reuses no pinned segment.)
        fence(Acquire);
        let mark = protocol::watch(&memory.control, current.segment);
        (mark.sequence() == current.sequence && mark.count() >= found.to).then_some(())
    }

    /// Copies descs `[from, to)`. Returns the offset of the worklist in the segment.
    fn copy_worklist(&mut self, start: NonNull<u8>, found: &Found) -> Option<usize> {
        let at = self.top.checked_sub(found.to as usize * DESC_BYTES)?;
        let count = (found.to - found.from) as usize;
        self.worklist.clear();
        self.worklist.reserve(count); // does nothing: it has room for a segment's descs
        let words = self.worklist.as_mut_ptr().cast();
        // SAFETY: descs `[from, to)` are in `[at, top)` of the segment, multiples of 16; U1. The
        // worklist has room for them and then contains `count` descs: any two words are a desc.
        unsafe {
            load::copy(start.add(at), words, count * (DESC_BYTES / WORD_BYTES));
            self.worklist.set_len(count);
        }
        Some(at)
    }

    /// Copies the packets of the worklist just copied. They must be between the start of the oldest
    /// and the end of the newest, below `limit`.
    fn copy_packets(&mut self, start: NonNull<u8>, limit: usize) -> Option<()> {
        let oldest = self.worklist.last()?.offset() as usize;
        let end = end_of(self.worklist.first()?);
        let is_aligned = oldest.is_multiple_of(WORD_BYTES);
        if !is_aligned || oldest > end || end > limit {
            return None;
        }
        let (mut first, mut last, mut any) = (oldest as u64, 0, 0);
        for desc in &self.worklist {
            let [place, _] = desc.words();
            let offset = u64::from(desc.offset());
            first = first.min(offset);
            last = last.max(offset + u64::from(desc.length()));
            any |= place;
        }
        // `end` is a possible packet start, so an end below it is below it when rounded up, too.
        if first < oldest as u64 || last > end as u64 {
            return None;
        }
        let has_facts = |desc: &&Desc| desc.flags().contains(Flags::FACTS);
        let have_facts = Desc::from_words([any, 0]).flags().contains(Flags::FACTS);
        if have_facts && self.worklist.iter().filter(has_facts).any(|desc| end_of(desc) > end) {
            return None;
        }
        let words = words_of(&mut self.pages);
        let target = &mut words[oldest / WORD_BYTES..end / WORD_BYTES];
        // SAFETY: `oldest <= end <= limit <= segment_bytes`, all multiples of 8: all is inside the
        // segment; U1. The target has this number of words.
        unsafe { load::copy(start.add(oldest), target.as_mut_ptr(), target.len()) };
        self.end = end;
        if have_facts {
            self.worklist.iter().filter(has_facts).for_each(|desc| moderate(words, desc));
        }
        Some(())
    }
}

fn words_of(pages: &mut [Page]) -> &mut [u64] {
    let words = pages.len() * PAGE_WORDS;
    // SAFETY: a page consists only of its words, in sequence, and the borrow continues.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), words) }
}

/// Limits the facts behind a packet, whose end was checked, to plausible values.
#[cold]
fn moderate(words: &mut [u64], desc: &Desc) {
    let at = align_up(desc.offset() as usize + desc.length() as usize) / WORD_BYTES;
    let target = &mut words[at..at + FACTS_BYTES / WORD_BYTES];
    let mut bytes = [0; FACTS_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(WORD_BYTES).zip(&*target) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    if let Some(facts) = Facts::read(&bytes) {
        target.copy_from_slice(&facts.moderated(desc.length()).words());
    }
}

#[cfg(test)]
mod tests;
