//! A reader: follows the writer through the log, and says exactly what it missed.
//!
//! ```text
//!        released          read so far    published     the writer's alone
//! segments ... | n-1 |  n: ^cursor........^watermark....................|
//! ```
//!
//! Invariants:
//! - R1: while `current` is some, pin `current.slot` names its segment and was verified (protocol
//!   I2). So bytes and descs below any count read from its watermark do not change.
//! - R2: a borrowed [`Burst`] ends before the reader moves on, because `next_burst` borrows the
//!   reader mutably; a [`HeldBurst`] keeps its own hold on the pin.
//! - R3: `next_packet` is the number of the first packet neither delivered nor missed, so
//!   delivered + missed = `next_packet` - where it started.
//!
//! A reader of a part of a log (`part`) shows only its own packets: burst, counts, numbers.

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

/// Tries at a head that the writer keeps moving before the reader says "nothing now".
const HEAD_TRIES: u32 = 8;

const _: () = assert!(size_of::<Reader>() == 128);

/// Segments without a packet that one look passes over. A sound writer seals none such.
const EMPTY_TRIES: u32 = 64;

/// What a reader has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStatistics {
    /// Packets lent.
    pub delivered: u64,
    /// Packets that the writer took away before they were read: an exact count.
    pub missed: u64,
    /// How often it was lapped: each time it went on at the head.
    pub laps: u64,
    /// Of the missed, those that a reader which does not trust its writer found overwritten or
    /// out of bounds: see [`UntrustedReader`](crate::UntrustedReader). 0 for any other. Of a reader
    /// of a part, these are packets of all parts.
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
    /// In `[0, MAX_WINDOW)`. A small number, so that a reader is two cache lines.
    slot: u8,
    pub(crate) sequence: u64,
    /// Packets of the segment lent so far.
    taken: u32,
    pub(crate) first_packet: u64,
    /// Whether its packets come from far, past the caches.
    is_far: bool,
}

/// Packets `[from, to)` of a pinned segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) current: Current,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// One reader of a log. It has its cache lines to itself, also beside a writer in one struct.
#[repr(align(128))]
pub struct Reader {
    pub(crate) memory: Arc<Memory>,
    seat: Arc<SeatHandle>,
    current: Option<Current>,
    /// The sequence number to enter next, while `current` is none.
    sequence: u64,
    /// While it has no place: the log's count when the seat was taken, as its page says.
    next_packet: u64,
    /// Until it has a place in the log, it cannot miss anything.
    start: Option<Start>,
    /// The number of the first packet that was its own.
    first_own: u64,
    /// Packets taken last, of the current segment.
    pub(crate) last: u32,
    is_finished: bool,
    /// Until when it does not look again, in monotonic ns; 0: it looks at any time.
    quiet_until_ns: u64,
    statistics: ReaderStatistics,
    /// Packets lent or missed by the last wait; the low bits, which say whether there were more.
    seen_at_rest: AtomicU16,
    /// Where it reads a part of the log: what it knows of that.
    pub(crate) part: Option<Box<Part>>,
}

impl Reader {
    /// `buckets` are those that it takes the packets of, in a log that counts them; all if `None`.
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

    /// Lends the packets published since the last burst, all from one segment. `None` when there
    /// are none now: see [`is_finished`](Self::is_finished) and [`wait`](Self::wait). Of a dense
    /// stream from [far away](crate::Handoff) it lets packets gather for a microsecond.
    ///
    /// Cost: one load when there is nothing new; once a segment, a store and a fence more.
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
        // SAFETY: `advance` has read `to` from the watermark under the pin (R1). The borrow of
        // `self` keeps the pin for as long as the burst lives (R2).
        Some(unsafe { lend(&self.memory, &found) })
    }

    /// Whether the writer has ended the log and everything published was lent or missed. Call it
    /// after `next_burst` returned `None`. A killed writer ends nothing: code that passes the log's
    /// files to another process must also tell that process when the writer's process is gone.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// How the writer has ended the log; `None` while it goes on, and after it was killed.
    pub fn ending(&self) -> Option<Ending> {
        self.memory.control.ending()
    }

    /// Packets published since the reader's start: by the writer's count, not by this reader's.
    /// Once the writer is gone and the log drained it is delivered + missed, or packets are
    /// unaccounted for.
    pub fn offered(&self) -> u64 {
        match self.start {
            Some(_) => 0,
            None if self.part.is_some() => self.offered_part(),
            None => self.memory.control.published().saturating_sub(self.first_own),
        }
    }

    /// Packets published before the reader's start, which it never had; 0 while it has none.
    pub fn passed_before(&self) -> u64 {
        match &self.part {
            Some(part) => part.first(),
            None => self.first_own,
        }
    }

    /// The link type and the name of a port, if the writer has named it. Cost: an allocation.
    pub fn port_name(&self, port: u8) -> Option<(u32, String)> {
        self.memory.control.port_name(port).read()
    }

    /// Keeps `socket` open while this reader or a burst that it holds lives: by its end the
    /// publisher learns that the seat is free. Of several the first is kept.
    pub fn tie_to(&self, socket: Arc<OwnedFd>) {
        self.seat.tie_to(socket);
    }

    /// Whether every segment of the window is held, so that the reader cannot go on.
    pub fn is_window_full(&self) -> bool {
        self.current.is_none() && self.seat.free_slot().is_none()
    }

    /// How many segments it can hold at once.
    pub fn window(&self) -> usize {
        self.seat.window
    }

    /// What it has seen so far.
    pub fn statistics(&self) -> ReaderStatistics {
        self.part.as_ref().map_or(self.statistics, |part| part.statistics(&self.statistics))
    }

    /// Packets published and not yet lent or missed.
    pub fn lag(&self) -> u64 {
        if self.part.is_some() {
            return self.offered_part().saturating_sub(self.statistics().seen());
        }
        self.memory.control.published().saturating_sub(self.next_packet)
    }

    /// The part of the log's segments that were begun since the one that it reads, in percent, in
    /// `[0, 100]`. Near 100 the writer is about to use that one anew. Cost: two loads.
    pub fn filled_percent(&self) -> u64 {
        let sequence = self.current.map_or(self.sequence, |current| current.sequence);
        let segments = u64::from(self.memory.control.segment_count());
        let begun = self.head().saturating_sub(sequence).min(segments);
        100 * begun / segments
    }

    /// Bytes of the log's segments: what it holds at most.
    pub fn capacity_bytes(&self) -> u64 {
        *self.memory.control.geometry().packet_bytes().start() as u64
    }

    /// Whether the writer lost patience with this lossless reader.
    pub fn is_demoted(&self) -> bool {
        let state = self.memory.control.seat_state(self.seat.index);
        state.load(Relaxed) == SEAT_DEMOTED // a mark, carries no memory
    }

    /// The flow hash kind that the log was made with.
    pub fn hash_kind(&self) -> u32 {
        self.memory.control.geometry().hash_kind
    }

    /// Whose clock the packets' times are from, as the log was made with.
    pub fn clock_kind(&self) -> u32 {
        self.memory.control.geometry().clock_kind
    }

    /// The segment that it reads now.
    pub(crate) fn current_segment(&self) -> Option<u32> {
        self.current.map(|current| current.segment)
    }

    /// Packets that were found, but not so that they could be lent.
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

    /// Finds the next packets. Looks at control memory only, and believes nothing there: every
    /// number is read once, checked, and may be any.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<Found> {
        self.last = 0; // nothing of an earlier portion can be put back behind this
        if self.current.is_some() {
            let (mark, found) = self.take_published()?;
            if found.is_some() || !mark.is_sealed() {
                return found;
            }
        }
        self.advance_segment()
    }

    /// Takes what is published of the current segment, if there is one and if there is anything.
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
            self.say(); // a part says it once it knows what is its own
        }
        Some((mark, Some(Found { current, from, to })))
    }

    /// Tells the publisher, for people to look at, how far it is.
    #[inline]
    fn say(&self) {
        let ReaderStatistics { delivered, missed, .. } = self.statistics();
        self.seat.page.say([delivered, missed, self.next_packet]);
    }

    #[cold]
    fn advance_segment(&mut self) -> Option<Found> {
        // Read before looking: if the end was announced by now, all that came before it is seen.
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

    /// The newest sequence number; 0 before the first.
    fn head(&self) -> u64 {
        Word64::load(self.memory.control.head(), Acquire) // pairs with `open`
    }

    fn has_no_successor(&self) -> bool {
        self.current.is_none() && self.head() < self.sequence
    }

    /// Lets go of the current segment, which is drained.
    fn leave(&mut self) {
        if let Some(current) = self.current.take() {
            self.sequence = current.sequence + 1;
            protocol::pass(&self.seat.page, self.sequence);
            self.seat.drop_hold(current.slot.into());
        }
    }

    /// Pins the segment of `self.sequence`, or of the head where that one is gone. False when
    /// the writer has not come there, or no pin is free.
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

    /// Takes note of where the entered segment lies in the count of all packets.
    fn arrive(&mut self, segment: u32, slot: usize, mark: Watermark) {
        // Written before the segment was opened; the watermark's Acquire made it visible.
        let line = self.memory.control.line(segment);
        let first_packet = line.first_packet.load(Relaxed);
        let (mut taken, mut has_missed) = (0, false);
        let is_first = self.start.is_some();
        match self.start.take() {
            Some(Start::Now) => {
                // What came between the seat and this call is its own. The page may hold anything.
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

    /// Finds its place at once, before the writer can lap it.
    fn settle(&mut self) {
        // Looked at before entering: what is written between the two is this reader's already.
        let is_empty = self.head() == 0;
        if !self.enter() && is_empty {
            // Nothing was written when it attached: it starts with packet 0 for every `Start`.
            (self.start, self.next_packet) = (None, 0);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
        // The reader wants nothing more, even if it still holds bursts.
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
