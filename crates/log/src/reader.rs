//! A reader follows the writer through the log and counts exactly what it missed.
//!
//! ```text
//!        released          read so far    published     owned by the writer
//! segments ... | n-1 |  n: ^cursor........^watermark....................|
//! ```
//!
//! Invariants:
//! - R1: while `current` is some, pin `current.slot` names its segment and was verified (protocol
//!   I2). So bytes and descs below any count read from its watermark do not change.
//! - R2: a borrowed [`Burst`] ends before the reader moves on, because `next_burst` borrows the
//!   reader mutably; a [`HeldBurst`] holds the pin separately.
//! - R3: `next_packet` is the number of the first packet neither delivered nor missed, so delivered
//!   + missed = `next_packet` - the reader's start.
//!
//! The reader of a part of a log (`part`) shows, counts and numbers only its own packets.

mod held;
mod lend;
mod part;
mod portion;
mod quiet;
mod rest;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::buckets::Buckets;
use crate::burst::Burst;
use crate::control::Ending;
use crate::log::{Memory, Start};
use crate::protocol::{self, Control, Entry, ReaderPage, Word64};
use crate::seat::{SEAT_DEMOTED, SeatHandle};
use crate::watermark::Watermark;

pub use held::HeldBurst;
pub(crate) use lend::end_of;
use lend::lend;
use part::Part;
pub use rest::GATHER_NS;

/// Tries to enter a head that the writer keeps moving, before the reader returns nothing.
const HEAD_TRIES: u32 = 8;

const _: () = assert!(size_of::<Reader>() == 128);

/// Segments without a packet that one call skips. A correct writer seals no such segment.
const EMPTY_TRIES: u32 = 64;

/// A reader's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStatistics {
    /// Packets lent.
    pub delivered: u64,
    /// Packets that the writer overwrote before they were read: an exact count.
    pub missed: u64,
    /// Number of times it was lapped and continued at the head.
    pub laps: u64,
    /// Part of `missed`: packets that an [`UntrustedReader`](crate::UntrustedReader) found
    /// overwritten or out of bounds. 0 for other readers. For the reader of a part, this counts
    /// packets of all parts.
    pub torn: u64,
}

impl ReaderStatistics {
    /// Packets lent or missed.
    fn seen(&self) -> u64 {
        self.delivered.saturating_add(self.missed)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(crate) segment: u32,
    /// In `[0, MAX_WINDOW)`. Small, so that a reader takes two cache lines.
    slot: u8,
    pub(crate) sequence: u64,
    /// Packets of the segment lent so far.
    taken: u32,
    pub(crate) first_packet: u64,
    /// Whether its packets went past the caches.
    is_far: bool,
}

/// Packets `[from, to)` of a pinned segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) current: Current,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// One reader of a log. Aligned to its own cache lines, even in one struct with a writer.
#[repr(align(128))]
pub struct Reader {
    pub(crate) memory: Arc<Memory>,
    seat: Arc<SeatHandle>,
    current: Option<Current>,
    /// The sequence number to enter next if `current` is none.
    sequence: u64,
    /// Before the reader has a place: the log's count when the seat was taken, as its page says.
    next_packet: u64,
    /// `None` once it has a place in the log; before that it cannot miss anything.
    start: Option<Start>,
    /// The number of the first packet of this reader.
    first_own: u64,
    /// Number of packets in the last portion of the current segment.
    pub(crate) last: u32,
    is_finished: bool,
    /// End of its pause, in monotonic ns; 0 if there is no pause.
    quiet_until_ns: u64,
    statistics: ReaderStatistics,
    /// The low bits of the delivered and missed packets at the last wait, to detect new ones.
    seen_at_rest: AtomicU16,
    /// State of the reader of a part.
    pub(crate) part: Option<Box<Part>>,
}

impl Reader {
    /// `buckets` are the buckets to take, in a log that has them; `None` for all.
    pub(crate) fn new(
        memory: Arc<Memory>,
        seat: Arc<SeatHandle>,
        start: Start,
        buckets: Option<Buckets>,
    ) -> Self {
        // Both were set when the seat was taken.
        let sequence = seat.page.cursor().load(Relaxed).max(1);
        let [_, _, next_packet] = seat.page.said();
        let mut reader = Self {
            memory,
            seat,
            current: None,
            sequence,
            next_packet,
            start: Some(start),
            first_own: 0,
            last: 0,
            is_finished: false,
            quiet_until_ns: 0,
            statistics: ReaderStatistics::default(),
            seen_at_rest: AtomicU16::new(0),
            part: buckets.map(|buckets| Box::new(Part::new(buckets))),
        };
        reader.settle();
        reader
    }

    /// Lends the packets published since the last burst, all from one segment. `None` if there are
    /// none now: see [`is_finished`](Self::is_finished) and [`wait`](Self::wait). If a dense stream
    /// comes from a [far](crate::Handoff) writer, packets gather for a microsecond.
    ///
    /// Cost: one load if there is nothing new; per segment, an additional store and fence.
    #[inline]
    pub fn next_burst(&mut self) -> Option<Burst<'_>> {
        if self.part.is_some() {
            return self.next_part();
        }
        if self.quiet_until_ns != 0 && self.is_quiet() {
            return None;
        }
        let found = self.advance()?;
        if found.current.is_far {
            self.keep_quiet(found.to - found.from);
        }
        // SAFETY: `advance` read `to` from the watermark under the pin (R1). The borrow of `self`
        // keeps the pin while the burst lives (R2).
        Some(unsafe { lend(&self.memory, &found) })
    }

    /// Returns whether the writer has ended the log and everything published was lent or missed.
    /// Call it after `next_burst` returned `None`. A killed writer does not end its log. Code that
    /// passes the files to another process must tell it when the writer's process is gone.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Returns how the writer ended the log; `None` if it is still open, or its writer was killed.
    pub fn ending(&self) -> Option<Ending> {
        self.memory.control.ending()
    }

    /// Returns the number of packets published since the reader's start, by the writer's count.
    /// Once the writer is gone and the log drained, it equals delivered + missed; any difference is
    /// unaccounted for.
    pub fn offered(&self) -> u64 {
        match self.start {
            Some(_) => 0,
            None if self.part.is_some() => self.offered_part(),
            None => self.memory.control.published().saturating_sub(self.first_own),
        }
    }

    /// Returns the number of packets published before the reader's start; 0 before it.
    pub fn passed_before(&self) -> u64 {
        match &self.part {
            Some(part) => part.first(),
            None => self.first_own,
        }
    }

    /// Returns a port's link type and name, if the writer has named it. Cost: an allocation.
    pub fn port_name(&self, port: u8) -> Option<(u32, String)> {
        self.memory.control.port_name(port).read()
    }

    /// Keeps `socket` open while this reader or a burst that it holds lives: its closing tells the
    /// publisher that the seat is free. Only the first socket is kept.
    pub fn tie_to(&self, socket: Arc<OwnedFd>) {
        self.seat.tie_to(socket);
    }

    /// Returns whether every segment of the window is held, which blocks the reader.
    pub fn is_window_full(&self) -> bool {
        self.current.is_none() && self.seat.free_slot().is_none()
    }

    /// Returns the number of segments it can hold at the same time.
    pub fn window(&self) -> usize {
        self.seat.window
    }

    /// Returns its counters.
    pub fn statistics(&self) -> ReaderStatistics {
        self.part.as_ref().map_or(self.statistics, |part| part.statistics(&self.statistics))
    }

    /// Returns the number of packets published and not yet lent or missed.
    pub fn lag(&self) -> u64 {
        if self.part.is_some() {
            return self.offered_part().saturating_sub(self.statistics().seen());
        }
        self.memory.control.published().saturating_sub(self.next_packet)
    }

    /// Returns the number of the first packet that was neither lent nor missed.
    pub fn position(&self) -> u64 {
        self.next_packet
    }

    /// Returns the share of the log's segments that were opened since the one it reads, in percent,
    /// in `[0, 100]`. Near 100, the writer is about to reuse that segment. Cost: two loads.
    pub fn filled_percent(&self) -> u64 {
        let sequence = self.current.map_or(self.sequence, |current| current.sequence);
        let segments = u64::from(self.memory.control.segment_count());
        let begun = self.head().saturating_sub(sequence).min(segments);
        100 * begun / segments
    }

    /// Returns the size of the log's segments: its capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        *self.memory.control.geometry().packet_bytes().start() as u64
    }

    /// Returns whether this lossless reader was demoted because it exceeded its deadline.
    pub fn is_demoted(&self) -> bool {
        let state = self.memory.control.seat_state(self.seat.index);
        state.load(Relaxed) == SEAT_DEMOTED // a flag, orders no other memory
    }

    /// Returns the flow hash kind that the log was made with.
    pub fn hash_kind(&self) -> u32 {
        self.memory.control.geometry().hash_kind
    }

    /// Returns the clock of the packets' times that the log was made with.
    pub fn clock_kind(&self) -> u32 {
        self.memory.control.geometry().clock_kind
    }

    pub(crate) fn current_segment(&self) -> Option<u32> {
        self.current.map(|current| current.segment)
    }

    /// Counts packets that were found but are torn as missed.
    #[cold]
    pub(crate) fn tear(&mut self, found: &Found) {
        let packets = u64::from(found.to - found.from);
        self.statistics.delivered -= packets;
        self.statistics.missed = self.statistics.missed.saturating_add(packets);
        self.statistics.torn += packets;
        self.last = 0;
        if let Some(part) = &mut self.part {
            part.doubt();
        }
    }

    /// Finds the next packets. Reads control memory only, and trusts none of it: each number is
    /// read once and checked.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<Found> {
        self.last = 0; // makes an earlier portion impossible to put back
        if self.current.is_some() {
            let (mark, found) = self.take_published()?;
            if found.is_some() || !mark.is_sealed() {
                return found;
            }
        }
        self.advance_segment()
    }

    /// Takes the packets published in the current segment, if there is a segment and it has any.
    #[inline]
    fn take_published(&mut self) -> Option<(Watermark, Option<Found>)> {
        let current = self.current.as_mut()?;
        let mark = protocol::watch(&self.memory.control, current.segment);
        let (from, to) = (current.taken, mark.count());
        if from >= to {
            return Some((mark, None));
        }
        current.taken = to;
        let packets = u64::from(to - from);
        self.statistics.delivered += packets;
        self.next_packet = self.next_packet.wrapping_add(packets); // a liar's number may wrap
        let current = *current;
        if self.part.is_none() {
            self.say(); // a part does so once it knows its own packets
        }
        Some((mark, Some(Found { current, from, to })))
    }

    /// Tells the publisher its position, as a statistic.
    #[inline]
    fn say(&self) {
        let ReaderStatistics { delivered, missed, .. } = self.statistics();
        self.seat.page.say([delivered, missed, self.next_packet]);
    }

    #[cold]
    fn advance_segment(&mut self) -> Option<Found> {
        // Read before looking: if the log is closed by now, everything published before is visible.
        let closed = self.memory.control.is_closed();
        for _ in 0..EMPTY_TRIES {
            if self.current.is_none() && !self.enter() {
                self.is_finished = closed && self.has_no_successor();
                if self.is_finished {
                    self.settle_part();
                }
                return None;
            }
            let (mark, found) = self.take_published()?;
            if found.is_some() || !mark.is_sealed() {
                return found;
            }
            self.leave();
        }
        None
    }

    /// Returns the newest sequence number; 0 before the first segment.
    fn head(&self) -> u64 {
        Word64::load(self.memory.control.head(), Acquire) // pairs with `open`
    }

    fn has_no_successor(&self) -> bool {
        self.current.is_none() && self.head() < self.sequence
    }

    /// Releases the current segment, which is drained.
    fn leave(&mut self) {
        if let Some(current) = self.current.take() {
            self.sequence = current.sequence + 1;
            protocol::pass(&self.seat.page, self.sequence);
            self.seat.drop_hold(current.slot.into());
        }
    }

    /// Pins the segment of `self.sequence`, or of the head if that one is gone. False if the writer
    /// has not opened it yet, or no pin is free.
    fn enter(&mut self) -> bool {
        let Some(slot) = self.seat.free_slot() else { return false };
        for _ in 0..HEAD_TRIES {
            let (control, page) = (&self.memory.control, &self.seat.page);
            let entry = match self.start {
                Some(Start::Oldest) => {
                    let (sequence, entry) =
                        protocol::enter_oldest(control, page, slot, self.sequence);
                    self.sequence = sequence;
                    entry
                }
                _ => protocol::enter(control, page, slot, self.sequence),
            };
            match entry {
                Entry::Entered { segment, mark } => {
                    self.seat.add_hold(slot);
                    self.arrive(segment, slot, mark);
                    return true;
                }
                Entry::NotYet => return false,
                Entry::Lapped => {
                    self.statistics.laps += u64::from(self.start.is_none());
                    self.sequence = self.head().max(self.sequence);
                    protocol::pass(page, self.sequence);
                }
            }
        }
        false
    }

    /// Updates the counters for the entered segment.
    fn arrive(&mut self, segment: u32, slot: usize, mark: Watermark) {
        // Written before the segment was opened; the watermark's Acquire made it visible.
        let line = self.memory.control.line(segment);
        let first_packet = line.first_packet.load(Relaxed);
        let (mut taken, mut has_missed) = (0, false);
        let is_first = self.start.is_some();
        match self.start.take() {
            Some(Start::Now) => {
                // It includes packets published since the seat was taken. The page may hold
                // anything.
                let passed = self.next_packet.saturating_sub(first_packet);
                taken = passed.min(mark.count().into()) as u32;
                self.next_packet = first_packet.wrapping_add(u64::from(taken));
            }
            Some(Start::Segment | Start::Oldest) => self.next_packet = first_packet,
            None => {
                let missed = first_packet.saturating_sub(self.next_packet);
                self.statistics.missed = self.statistics.missed.saturating_add(missed);
                self.next_packet += missed;
                has_missed = missed > 0;
            }
        }
        if is_first {
            self.first_own = self.next_packet;
        }
        let sequence = self.sequence;
        let is_far = line.is_far.load(Relaxed) != 0;
        let slot = slot as u8;
        self.current = Some(Current { segment, slot, sequence, taken, first_packet, is_far });
        if self.part.is_some() {
            self.arrive_part(is_first, has_missed);
        }
    }

    /// Enters the log immediately, before the writer can lap it.
    fn settle(&mut self) {
        // Loaded before entering: packets written in between belong to this reader.
        let is_empty = self.head() == 0;
        if !self.enter() && is_empty {
            // Nothing was written when it attached, so it starts with packet 0 for every `Start`.
            (self.start, self.next_packet) = (None, 0);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
        // The reader wants no further segment, even if it still holds bursts.
        protocol::pass(&self.seat.page, u64::MAX);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Reader");
        debug.field("next_packet", &self.next_packet).field("statistics", &self.statistics);
        debug.finish_non_exhaustive()
    }
}
