//! Decides which segment the writer fills next.
//!
//! ```text
//!  spare --take--> valid (in the directory, oldest first) --retire--> limbo --take--> valid
//! ```
//!
//! Cache use decides the rate, so the `cycle` segments used last rotate (`cycle.rs` says how many,
//! and why). The least recently used of these is next; with a cycle of one that is the segment used
//! last. A segment that every reader has passed is retired immediately. Limbo is in the order in
//! which segments were retired.
//!
//! Spares, which were never touched, are taken until the cycle is complete, and later only if all
//! of limbo is pinned. Segments that a slow reader added to the rotation are left alone once it has
//! caught up. Only when no spare is left does the writer take the oldest segment from a lossy
//! reader, which is then *lapped*. The writer does not keep segments for a lapped reader until it
//! has kept up for some segments. So a reader that is stopped, or slower than the writer, costs one
//! walk through the pool. It does not push the writer out of the cache for good (Decision 0014).
//!
//! With a *history*, a segment that every reader has passed stays valid until it is older than
//! `keep_ns`, so later readers can still read it. The writer then cycles through as much memory as
//! the history needs. If the pool is too small, the writer gives up the oldest segment and records
//! its age.
//!
//! Invariants:
//! - I1: valid segments hold consecutive sequence numbers, the newest is the head.
//! - I2: a segment is in exactly one of: spare, valid, limbo.
//! - I3: the newest valid segment is never retired, so a lapped reader always finds the head, even
//!   if the log ends there.
//! - I4: a segment leaves limbo only if one snapshot of all pins, read after its retirement, does
//!   not name it (protocol edge E2).
//! - I5: with a history, a segment leaves the valid ones only if its last packet is older than
//!   `keep_ns`, or if nothing else is left.
//! - I6: each decision about a reader uses a single load of its cursor. A hostile page can return
//!   anything to a second load: it could block the writer without being named as the blocker.
//! - I7: without the lock of the seats, only segments that were retired under it before, and
//!   spares, are taken, and nothing is retired. A reader that got its seat since then finds these
//!   segments retired (the lock orders that) and pins none of them. Only earlier ones' pins count.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::protocol::{self, Control, ReaderPage, Word64};

/// What the writer knows about one reader. The page is hostile; the rest is the writer's data.
pub trait Seat {
    /// The page that the reader writes.
    type Page: ReaderPage;
    /// Returns the reader's page.
    fn page(&self) -> &Self::Page;
    /// Returns the number of pins that the reader may use.
    fn window(&self) -> usize;
    /// Returns whether the writer waits for the reader.
    fn is_lossless(&self) -> bool;
    /// Returns the reader's record since it was last lapped.
    fn standing(&self) -> &Standing;
}

/// Segments that a lapped reader has to keep up for before the writer keeps segments for it again.
const PROBATION: u32 = 4;

/// A reader's record since it was last lapped, kept by the writer.
#[derive(Debug, Default)]
pub struct Standing {
    /// Segments that it still has to keep up for; 0 if the writer keeps segments for it.
    ahead: AtomicU32,
}

impl Standing {
    /// Returns whether the writer keeps segments for a lossy reader that wants those from `cursor`
    /// on, if `[oldest, newest]` are valid. Called once a segment.
    fn counts(&self, cursor: u64, oldest: u64, newest: u64) -> bool {
        // Only the writer accesses it. It is atomic because the seats are shared.
        let ahead = match self.ahead.load(Relaxed) {
            _ if cursor < oldest => PROBATION,
            0 => 0,
            ahead if cursor.saturating_add(1) >= newest => ahead - 1,
            _ => PROBATION,
        };
        self.ahead.store(ahead, Relaxed);
        ahead == 0
    }
}

/// The state of every segment of a log.
#[derive(Debug)]
pub struct Reuse {
    segment_count: u32,
    next_spare: u32,
    oldest: u64,
    valid: VecDeque<Valid>,
    limbo: Vec<u32>,
    pins: Vec<u32>,
    /// The number of segments in rotation, at least 1.
    cycle: usize,
    /// How long a segment stays valid after every reader has passed it; `None` for no history.
    keep_ns: Option<u64>,
    /// The lowest age at which a segment was given up although it should have been kept.
    shortest_ns: Option<u64>,
}

/// A segment that can be entered.
#[derive(Clone, Copy, Debug)]
struct Valid {
    segment: u32,
    /// When it was opened, which is also when the previous segment got its last packet.
    opened_ns: u64,
}

impl Reuse {
    /// Creates a state in which all `segment_count` segments are spare and the first sequence
    /// number is 1. The segment used last is taken first, unless more [rotate](Self::cycling).
    pub fn new(segment_count: u32) -> Self {
        Self::starting_at(segment_count, 1)
    }

    /// Sets the number of segments in rotation to `cycle`, at least 1.
    pub fn cycling(self, cycle: usize) -> Self {
        Self { cycle: cycle.max(1), ..self }
    }

    /// Sets the history to `keep_ns`, or to none.
    pub fn keeping(self, keep_ns: Option<u64>) -> Self {
        Self { keep_ns, ..self }
    }

    /// Like [`new`](Self::new), with another first sequence number, at least 1.
    pub(crate) fn starting_at(segment_count: u32, oldest: u64) -> Self {
        let room = segment_count as usize;
        Self {
            segment_count,
            next_spare: 0,
            oldest,
            valid: VecDeque::with_capacity(room),
            limbo: Vec::with_capacity(room),
            pins: Vec::new(),
            cycle: 1,
            keep_ns: None,
            shortest_ns: None,
        }
    }

    /// Returns whether there is a history, so that [`take`](Self::take) needs the time.
    pub fn has_history(&self) -> bool {
        self.keep_ns.is_some()
    }

    /// Returns the lowest age, in ns, at which a segment was given up although it should have been
    /// kept; `None` if that never happened.
    pub fn shortest_ns(&self) -> Option<u64> {
        self.shortest_ns
    }

    /// Returns the oldest sequence number that can still be entered.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Returns the number of segments ever used: the log's largest working set.
    pub fn high_water(&self) -> u32 {
        self.next_spare
    }

    /// Returns the newest sequence number; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.oldest + self.valid.len() as u64 - 1
    }

    /// Takes a segment for the next sequence number, which then is [`newest`](Self::newest); the
    /// caller opens it. Every valid segment must be sealed. Returns `None` if each candidate is
    /// pinned or still wanted by a lossless reader. `now_ns` is the monotonic time; it is ignored
    /// without a history.
    ///
    /// `is_over` is called for a lossless reader that wants the oldest segment, and says whether
    /// the writer stops waiting for it. It follows the same load of the reader's cursor that found
    /// the reader in the way (I6).
    ///
    /// Cost: a full fence and one load per pin, once a segment.
    pub fn take<C: Control, S: Seat>(
        &mut self,
        control: &C,
        seats: &[S],
        now_ns: u64,
        mut is_over: impl FnMut(&S) -> bool,
    ) -> Option<u32> {
        self.retire_passed(control, seats, now_ns);
        let pages = || seats.iter().map(|seat| (seat.page(), seat.window()));
        let mut candidate = self.unused(control, pages());
        while candidate.is_none() {
            if self.valid.len() <= 1 || self.is_front_wanted(seats, &mut is_over) {
                return None;
            }
            self.note_shortage(now_ns);
            self.retire_front(control);
            candidate = self.unpinned(control, pages());
        }
        let segment = candidate?;
        self.valid.push_back(Valid { segment, opened_ns: now_ns });
        Some(segment)
    }

    /// Like [`take`](Self::take), for a writer that does not have the lock of the seats. Retires
    /// nothing, and asks no lossless reader (I7). `pages`, with their windows, are at least those
    /// that [`take`](Self::take) last saw, except those of readers that left since.
    pub fn take_retired<'p, C: Control, P: ReaderPage + 'p>(
        &mut self,
        control: &C,
        pages: impl Iterator<Item = (&'p P, usize)>,
        now_ns: u64,
    ) -> Option<u32> {
        let segment = self.unused(control, pages)?;
        self.valid.push_back(Valid { segment, opened_ns: now_ns });
        Some(segment)
    }

    /// Takes a segment that is in no reader's way.
    fn unused<'p, C: Control, P: ReaderPage + 'p>(
        &mut self,
        control: &C,
        pages: impl Iterator<Item = (&'p P, usize)>,
    ) -> Option<u32> {
        match self.is_cycle_complete() {
            true => self.unpinned(control, pages).or_else(|| self.spare()),
            false => self.spare().or_else(|| self.unpinned(control, pages)),
        }
    }

    /// Returns whether a lossless reader that the writer still waits for wants the oldest segment.
    /// Asks all readers in the way, so that every expired deadline is found in this call.
    fn is_front_wanted<S: Seat>(&self, seats: &[S], is_over: &mut impl FnMut(&S) -> bool) -> bool {
        let in_the_way =
            seats.iter().filter(|&seat| seat.is_lossless() && cursor(seat) <= self.oldest);
        in_the_way.filter(|seat| !is_over(seat)).count() > 0
    }

    fn retire_passed<C: Control, S: Seat>(&mut self, control: &C, seats: &[S], now_ns: u64) {
        let (oldest, newest) = (self.oldest, self.newest());
        let wanted = |seat: &S| {
            // Each cursor is read once, because a second load may return anything (I6).
            let cursor = cursor(seat);
            let counts = seat.is_lossless() || seat.standing().counts(cursor, oldest, newest);
            counts.then_some(cursor)
        };
        let floor = seats.iter().filter_map(wanted).min();
        let floor = floor.map_or(newest, |floor| floor.min(newest));
        while self.oldest < floor && !self.is_front_kept(now_ns) {
            self.retire_front(control);
        }
    }

    /// Time since the oldest segment got its last packet.
    fn age_of_front_ns(&self, now_ns: u64) -> u64 {
        self.valid.get(1).map_or(0, |next| now_ns.saturating_sub(next.opened_ns))
    }

    fn is_front_kept(&self, now_ns: u64) -> bool {
        self.keep_ns.is_some_and(|keep_ns| self.age_of_front_ns(now_ns) < keep_ns)
    }

    /// Records the age of the oldest segment, which is given up because nothing else can be taken.
    fn note_shortage(&mut self, now_ns: u64) {
        if self.is_front_kept(now_ns) {
            let age_ns = self.age_of_front_ns(now_ns);
            self.shortest_ns = Some(self.shortest_ns.map_or(age_ns, |least| least.min(age_ns)));
        }
    }

    fn retire_front<C: Control>(&mut self, control: &C) {
        if let Some(front) = self.valid.pop_front() {
            protocol::retire(control, front.segment);
            self.limbo.push(front.segment);
            self.oldest += 1;
        }
    }

    /// Returns whether the number of segments in use has reached the cycle.
    fn is_cycle_complete(&self) -> bool {
        self.valid.len() + self.limbo.len() >= self.cycle
    }

    /// Takes an unpinned segment from limbo. Of those in rotation, it takes the one retired first;
    /// if all of these are pinned, the newest of the others.
    fn unpinned<'p, C: Control, P: ReaderPage + 'p>(
        &mut self,
        control: &C,
        pages: impl Iterator<Item = (&'p P, usize)>,
    ) -> Option<u32> {
        if self.limbo.is_empty() {
            return None;
        }
        self.pins.clear();
        protocol::pinned(control, pages, &mut self.pins);
        let turns = self.cycle.saturating_sub(self.valid.len()).max(1);
        let (others, turns) = self.limbo.split_at(self.limbo.len().saturating_sub(turns));
        let is_free = |segment: &u32| !self.pins.contains(segment);
        let next = turns.iter().position(is_free).map(|at| others.len() + at);
        let next = next.or_else(|| others.iter().rposition(is_free))?;
        Some(self.limbo.remove(next))
    }

    fn spare(&mut self) -> Option<u32> {
        let segment = self.next_spare;
        (segment < self.segment_count).then(|| {
            self.next_spare += 1;
            segment
        })
    }
}

fn cursor<S: Seat>(seat: &S) -> u64 {
    seat.page().cursor().load(Acquire) // E3 for segments passed without a pin
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lapped_reader_counts_again_once_it_has_kept_up() {
        let standing = Standing::default();
        assert!(standing.counts(5, 3, 90), "far behind, but never lapped");
        assert!(!standing.counts(2, 3, 90), "lapped");
        for sequence in 91..94 {
            assert!(!standing.counts(sequence, 4, sequence));
        }
        assert!(!standing.counts(92, 4, 94), "two behind: from the start");
        for sequence in 95..98 {
            assert!(!standing.counts(sequence - 1, 4, sequence), "one behind is in step");
        }
        assert!(standing.counts(98, 4, 98));
        assert!(standing.counts(u64::MAX, 4, 99) && standing.counts(50, 4, 200));
    }
}
