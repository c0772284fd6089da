//! The hand-over between one writer and many readers, generic over its atomics.
//!
//! Production code runs these functions over mapped memory. The loom models (`tests/loom.rs`) run
//! the same functions over loom's atomics. Packet bytes do not appear here: the protocol only
//! decides which thread may access which segment, and when.
//!
//! ```text
//! writer                                    reader
//! open(s, i)     watermark[i] = s           enter(s)   i = directory[s]
//!                directory[s] = i                      pin = i, fence, watermark[i] is s?
//! publish        watermark[i] = s, count    watch      count of watermark[i]
//! retire         watermark[i] |= RETIRED    release    pin = none
//! take           fence, read every pin once
//! ```
//!
//! Invariants:
//! - I1: bytes and descs below a published count are never written while any pin names the segment,
//!   and never before the segment was retired.
//! - I2: a reader reads bytes only below a count that it loaded itself, under a verified pin. A pin
//!   is verified if the segment's sequence is found unretired *after* the pin was stored.
//! - I3: the writer reads each pin exactly once between a retirement and a reuse. If it read the
//!   pins again for each candidate, a reader that moves its pin could hold every spare segment.
//!
//! Edges (each has a loom model of the same name):
//! - E1 publish: watermark store (Release) -> watermark load (Acquire). Everything below the count
//!   is visible. Streamed packets are settled first, because a Release store does not order them.
//! - E2 pin against reuse: pin store, fence, watermark load | watermark store, fence, pin load.
//!   With the two `SeqCst` fences, at least one side sees the other's store.
//! - E3 release: pin store (Release) -> pin load (Acquire). The reader's last reads of a segment
//!   happen before the writer's first write of its next use.
//! - E4 sleep: waiting store, fence of both, watermark load | watermark store, waiting load. Either
//!   the writer sees the sleeper or the sleeper sees the new packets. The writer executes no fence
//!   here: the sleeper provides the fence for both, as [`Payer`] says (Decision 0030).

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use crate::watermark::{DirectoryEntry, Watermark};

/// An atomic 64-bit word.
pub trait Word64 {
    /// Loads the value.
    fn load(&self, order: Ordering) -> u64;
    /// Stores `value`.
    fn store(&self, value: u64, order: Ordering);
}

/// An atomic 32-bit word.
pub trait Word32 {
    /// Loads the value.
    fn load(&self, order: Ordering) -> u32;
    /// Stores `value`.
    fn store(&self, value: u32, order: Ordering);
}

/// The memory that the writer owns and readers only read.
pub trait Control {
    /// Its 64-bit atomics.
    type Word: Word64;
    /// A full fence, `SeqCst`.
    fn fence(&self);
    /// A compiler fence: only the compiler may not move accesses across it.
    fn light_fence(&self);
    /// Writer: orders streamed stores before all stores that follow. A Release store does not.
    fn settle(&self);
    /// Waits longer than another core's store can take to become visible.
    fn let_time_pass(&self);
    /// Executes a full fence in every thread of this process. Returns false if that is unavailable.
    fn fence_everywhere(&self) -> bool;
    /// Returns the number of segments; segment numbers are in `[0, segment_count)`.
    fn segment_count(&self) -> u32;
    /// Returns the newest sequence number; 0 before the first segment.
    fn head(&self) -> &Self::Word;
    /// Returns the directory's word for a sequence number.
    fn directory(&self, sequence: u64) -> &Self::Word;
    /// Returns the watermark of a segment in `[0, segment_count)`.
    fn watermark(&self, segment: u32) -> &Self::Word;
}

/// The memory that one reader writes. To the writer it is hostile input: any value may be there.
pub trait ReaderPage {
    /// Its 32-bit atomics.
    type Word: Word32;
    /// Its 64-bit atomics.
    type Wide: Word64;
    /// Pin `slot`: the segment's number + 1, or 0.
    fn pin(&self, slot: usize) -> &Self::Word;
    /// Returns the first sequence number that the reader still wants.
    fn cursor(&self) -> &Self::Wide;
    /// Not 0 while the reader sleeps or is about to.
    fn waiting(&self) -> &Self::Word;
}

/// How a sleeper makes sure that the writer's stores are visible, in edge E4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payer {
    /// The sleeper executes a fence in all threads of the process, including the writer's.
    Sleeper,
    /// The sleeper waits until they are. A store leaves a core's buffer in less than a microsecond,
    /// or at the latest when the thread is switched out. For a reader in another process.
    Time,
}

/// The result of an attempt to enter a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The segment is pinned and may be read.
    Entered {
        /// Its number.
        segment: u32,
        /// Its watermark when the pin was verified.
        mark: Watermark,
    },
    /// The writer has not reached this sequence number yet.
    NotYet,
    /// The writer is past it: the segment holds another sequence number, or soon will.
    Lapped,
}

/// Reader: pins the segment of `sequence` with pin `slot`. Unless it returns `Entered`, the pin is
/// clear.
///
/// Cost: two loads, a store and a full fence; once a segment.
pub fn enter<C: Control, P: ReaderPage>(
    control: &C,
    page: &P,
    slot: usize,
    sequence: u64,
) -> Entry {
    // Pairs with the Release in `open`: if the entry is visible, so is the segment's watermark.
    let entry = DirectoryEntry::from_bits(control.directory(sequence).load(Acquire));
    if entry.sequence() < sequence {
        return Entry::NotYet;
    }
    let segment = entry.segment();
    // The number comes from memory that another process may own, so check it before indexing.
    if entry.sequence() > sequence || segment >= control.segment_count() {
        return Entry::Lapped;
    }
    page.pin(slot).store(segment + 1, Release);
    control.fence(); // E2: pairs with the fence in `pinned`.
    let mark = Watermark::from_bits(control.watermark(segment).load(Acquire)); // E1
    if mark.sequence() != sequence || mark.is_retired() {
        page.pin(slot).store(0, Release);
        return Entry::Lapped;
    }
    Entry::Entered { segment, mark }
}

/// Reader: like [`enter`], for the oldest segment from `sequence` on that can still be entered.
/// Returns its sequence number, or the one to try next time. Skips segments that the writer retires
/// in the meantime. Tries at most as many numbers as there are segments, whatever the memory holds.
///
/// Cost: a load for each number that is gone, then that of [`enter`].
pub fn enter_oldest<C: Control, P: ReaderPage>(
    control: &C,
    page: &P,
    slot: usize,
    mut sequence: u64,
) -> (u64, Entry) {
    for _ in 0..control.segment_count() {
        match enter(control, page, slot, sequence) {
            Entry::Lapped => sequence += 1,
            entry => return (sequence, entry),
        }
    }
    (sequence, Entry::Lapped)
}

/// Reader: clears pin `slot`.
pub fn release<P: ReaderPage>(page: &P, slot: usize) {
    page.pin(slot).store(0, Release); // E3: pairs with the Acquire in `pinned`.
}

/// Reader: tells the writer that it may reuse every segment before `sequence`.
pub fn pass<P: ReaderPage>(page: &P, sequence: u64) {
    page.cursor().store(sequence, Release);
}

/// Reader: loads the watermark of a segment that it has pinned.
#[inline]
pub fn watch<C: Control>(control: &C, segment: u32) -> Watermark {
    Watermark::from_bits(control.watermark(segment).load(Acquire)) // E1
}

/// Reader: announces that it is about to sleep. It must then check once more for packets; any
/// published after that check wake it up. If this returns false, a wake-up may be lost, so the
/// reader must not sleep for long.
#[must_use]
pub fn announce_sleep<C: Control, P: ReaderPage>(control: &C, page: &P, payer: Payer) -> bool {
    page.waiting().store(1, Relaxed);
    // E4: pairs with the light fence in `has_sleeper`.
    match payer {
        Payer::Sleeper => control.fence_everywhere(),
        Payer::Time => {
            control.fence();
            control.let_time_pass();
            true
        }
    }
}

/// Reader: withdraws the announcement.
pub fn awake<P: ReaderPage>(page: &P) {
    page.waiting().store(0, Relaxed);
}

/// Writer: makes `segment`, returned by [`take`](crate::reuse), the segment of `sequence`.
pub fn open<C: Control>(control: &C, sequence: u64, segment: u32) {
    publish(control, segment, Watermark::open(sequence));
    let entry = DirectoryEntry::new(sequence, segment);
    control.directory(sequence).store(entry.bits(), Release); // pairs with the load in `enter`
    control.head().store(sequence, Release); // after the directory: a reader that sees it can enter
}

/// Writer: publishes packets. Everything that `mark` counts must be written before.
#[inline]
pub fn publish<C: Control>(control: &C, segment: u32, mark: Watermark) {
    control.watermark(segment).store(mark.bits(), Release); // E1
}

/// Writer: like [`publish`], if some of the packets were streamed past the cache.
pub fn publish_streamed<C: Control>(control: &C, segment: u32, mark: Watermark) {
    control.settle(); // E1: write-combining buffers become visible before the count
    publish(control, segment, mark);
}

/// Writer: forbids new pins on a sealed segment. Readers that hold a pin read on.
pub fn retire<C: Control>(control: &C, segment: u32) {
    let mark = Watermark::from_bits(control.watermark(segment).load(Relaxed)); // its own store
    control.watermark(segment).store(mark.retired().bits(), Relaxed); // ordered by `pinned`
}

/// Writer: appends every segment that any of the pages pins to `pins`, and reads each pin once. A
/// segment that was retired before this call and is not in the result belongs to the writer alone.
pub fn pinned<'p, C: Control, P: ReaderPage + 'p>(
    control: &C,
    pages: impl Iterator<Item = (&'p P, usize)>,
    pins: &mut Vec<u32>,
) {
    control.fence(); // E2: pairs with the fence in `enter`.
    for (page, window) in pages {
        for slot in 0..window {
            let pin = page.pin(slot).load(Acquire); // E3
            if pin != 0 {
                pins.push(pin - 1);
            }
        }
    }
}

/// Writer: whether any page announces a sleeper that may have missed the last publish.
#[inline]
pub fn has_sleeper<'p, C: Control, P: ReaderPage + 'p>(
    control: &C,
    mut pages: impl Iterator<Item = &'p P>,
) -> bool {
    control.light_fence(); // E4: pairs with the fence of `announce_sleep` in all threads.
    pages.any(|page| page.waiting().load(Relaxed) != 0)
}
