//! Which segment the writer fills next.
//!
//! ```text
//!  spare --take--> valid (in the directory, oldest first) --retire--> limbo --take--> valid
//! ```
//!
//! The caches decide the rate, so the `cycle` segments used last take turns (`cycle.rs` says how
//! many, and why). The least recently used of these is next. With a cycle of one it is the segment
//! used last. A segment that every reader has passed is retired at once; limbo is in the order in
//! which segments were retired.
//!
//! Spares, which nobody has touched yet, are broken open until the cycle is complete, and later
//! only when all of limbo is pinned. What a slow reader made the writer use in addition is left
//! alone when the reader has caught up. Only when no spare is left does the writer take the oldest
//! segment from a lossy reader, which is then *lapped*. The writer does not wait for a lapped
//! reader until it has kept up for some segments. So a reader that is stopped, or slower than the
//! writer, costs one walk through the pool. It does not cost the writer's place in the cache for
//! ever (Decision 0014).
//!
//! With a *history*, a segment that every reader has passed stays valid until it is older than
//! `keep_ns`, so later readers can still read it. The writer then cycles through as much memory as
//! the past needs. A pool that is too small gives up its oldest segment and remembers that
//! segment's age.
//!
//! Invariants:
//! - I1: valid segments hold consecutive sequence numbers, the newest is the head.
//! - I2: a segment is in exactly one of: spare, valid, limbo.
//! - I3: the newest valid segment is never retired, so that a reader that was lapped always finds
//!   the head, even when the log ends there.
//! - I4: a segment leaves limbo only when one snapshot of all pins, read after its retirement,
//!   does not name it (protocol edge E2).
//! - I5: with a history, a segment leaves the valid ones only if its last packet is older than
//!   `keep_ns`, or if nothing else can be taken.
//! - I6: a decision about a reader comes from one load of its cursor. A second load may see
//!   anything: with two loads, a page that changes all the time could block the writer without
//!   being named as the one that blocks it.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::protocol::{self, Control, ReaderPage, Word64};

/// What the writer knows of one reader. All but the page is the writer's own knowledge.
pub trait Seat {
    /// The page that the reader writes.
    type Page: ReaderPage;
    /// That page.
    fn page(&self) -> &Self::Page;
    /// How many pins it may use.
    fn window(&self) -> usize;
    /// Whether the writer waits for it.
    fn is_lossless(&self) -> bool;
    /// How it has done since it was lapped.
    fn standing(&self) -> &Standing;
}

/// Segments that a lapped reader has to keep up for before it counts again.
const PROBATION: u32 = 4;

/// How a reader has done since it was lapped last: the writer's own knowledge.
#[derive(Debug, Default)]
pub struct Standing {
    /// Segments that it has still to keep up for; 0 for one that counts.
    ahead: AtomicU32,
}

impl Standing {
    /// Whether a lossy reader that wants the segments from `cursor` on is one to keep them for,
    /// where `[oldest, newest]` are there. To be asked once a segment.
    fn counts(&self, cursor: u64, oldest: u64, newest: u64) -> bool {
        // Only the writer uses it; it is atomic because the seats are shared.
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
    /// How many segments take turns, at least 1.
    cycle: usize,
    /// How long a segment that every reader has passed stays valid; `None` for not at all.
    keep_ns: Option<u64>,
    /// The least age at which a segment was given up that should have been kept.
    shortest_ns: Option<u64>,
}

/// A segment that can be entered.
#[derive(Clone, Copy, Debug)]
struct Valid {
    segment: u32,
    /// When it was taken, and thus when the one before it got its last packet.
    opened_ns: u64,
}

impl Reuse {
    /// All of `segment_count` segments are spare, and the first sequence number will be 1. The
    /// segment used last is taken first, unless more are to [take turns](Self::cycling).
    pub fn new(segment_count: u32) -> Self {
        Self::starting_at(segment_count, 1)
    }

    /// As it is, with `cycle` segments that take turns, at least 1.
    pub fn cycling(self, cycle: usize) -> Self {
        Self { cycle: cycle.max(1), ..self }
    }

    /// As it is, with a history of `keep_ns`, or without.
    pub fn keeping(self, keep_ns: Option<u64>) -> Self {
        Self { keep_ns, ..self }
    }

    /// As [`new`](Self::new), with another first sequence number, at least 1.
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

    /// Whether the past is kept, so that [`take`](Self::take) needs to know the time.
    pub fn has_history(&self) -> bool {
        self.keep_ns.is_some()
    }

    /// The least age, in ns, at which a segment had to be given up although it should have been
    /// kept; `None` while memory lasts.
    pub fn shortest_ns(&self) -> Option<u64> {
        self.shortest_ns
    }

    /// The oldest sequence number that can still be entered.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// How many segments have ever been used: the log's working set, at its largest.
    pub fn high_water(&self) -> u32 {
        self.next_spare
    }

    /// The newest sequence number; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.oldest + self.valid.len() as u64 - 1
    }

    /// Takes a segment for the next sequence number, which [`newest`](Self::newest) then is; the
    /// caller opens it. Every valid segment must be sealed. `None` when each candidate is pinned
    /// or still wanted by a lossless reader. `now_ns` is the monotonic time; without a history any
    /// number will do.
    ///
    /// `is_over` says of a lossless reader that wants the oldest segment whether the writer stops
    /// waiting for it. It is asked by the same look at the reader's cursor that found it in the way
    /// (I6).
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
        let mut candidate = match self.is_cycle_complete() {
            true => self.unpinned(control, seats).or_else(|| self.spare()),
            false => self.spare().or_else(|| self.unpinned(control, seats)),
        };
        while candidate.is_none() {
            if self.valid.len() <= 1 || self.is_front_wanted(seats, &mut is_over) {
                return None;
            }
            self.note_shortage(now_ns);
            self.retire_front(control);
            candidate = self.unpinned(control, seats);
        }
        let segment = candidate?;
        self.valid.push_back(Valid { segment, opened_ns: now_ns });
        Some(segment)
    }

    /// Whether a lossless reader that the writer still waits for wants the oldest segment. All of
    /// those in the way are asked, so that each one whose time is over is known at once.
    fn is_front_wanted<S: Seat>(&self, seats: &[S], is_over: &mut impl FnMut(&S) -> bool) -> bool {
        let in_the_way =
            seats.iter().filter(|&seat| seat.is_lossless() && cursor(seat) <= self.oldest);
        in_the_way.filter(|seat| !is_over(seat)).count() > 0
    }

    fn retire_passed<C: Control, S: Seat>(&mut self, control: &C, seats: &[S], now_ns: u64) {
        let (oldest, newest) = (self.oldest, self.newest());
        let wanted = |seat: &S| {
            // Each cursor is read once: between two looks it may have become anything.
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

    /// How long ago the oldest segment got its last packet.
    fn age_of_front_ns(&self, now_ns: u64) -> u64 {
        self.valid.get(1).map_or(0, |next| now_ns.saturating_sub(next.opened_ns))
    }

    fn is_front_kept(&self, now_ns: u64) -> bool {
        self.keep_ns.is_some_and(|keep_ns| self.age_of_front_ns(now_ns) < keep_ns)
    }

    /// The oldest segment is about to be given up because there is no other.
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

    /// Whether as many segments are in use as take turns.
    fn is_cycle_complete(&self) -> bool {
        self.valid.len() + self.limbo.len() >= self.cycle
    }

    /// Takes a segment from limbo that no pin names. Of those that take turns, it is the one
    /// retired first; if all of these are pinned, the newest of the others.
    fn unpinned<C: Control, S: Seat>(&mut self, control: &C, seats: &[S]) -> Option<u32> {
        if self.limbo.is_empty() {
            return None;
        }
        self.pins.clear();
        let pages = seats.iter().map(|seat| (seat.page(), seat.window()));
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
    seat.page().cursor().load(Acquire) // E3 for segments passed without a pin of their own
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
