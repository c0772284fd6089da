//! Which segment the writer fills next.
//!
//! ```text
//!  spare --take--> valid (in the directory, oldest first) --retire--> limbo --take--> valid
//! ```
//!
//! The cache decides the rate, so the segment taken is the one used last: a segment that every
//! reader has passed is retired at once, and limbo is a stack. Spares, which nobody has touched
//! yet, are broken open only when all of limbo is pinned. Only when there are none left does the
//! writer take the oldest segment from a lossy reader, which is then *lapped*: it no longer
//! counts as a reader to wait for until it has caught up, so that a stopped reader costs the
//! writer one walk through the pool and not its place in the cache for ever.
//!
//! Invariants:
//! - I1: valid segments hold consecutive sequence numbers, the newest is the head.
//! - I2: a segment is in exactly one of: spare, valid, limbo.
//! - I3: the newest valid segment is never retired, so that a reader that was lapped always finds
//!   the head, even when the log ends there.
//! - I4: a segment leaves limbo only when one snapshot of all pins, read after its retirement,
//!   does not name it (protocol edge E2).

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Acquire;

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
}

/// The state of every segment of a log.
#[derive(Debug)]
pub struct Reuse {
    segment_count: u32,
    next_spare: u32,
    oldest: u64,
    valid: VecDeque<u32>,
    limbo: Vec<u32>,
    pins: Vec<u32>,
}

impl Reuse {
    /// All of `segment_count` segments are spare, and the first sequence number will be 1.
    pub fn new(segment_count: u32) -> Self {
        Self::starting_at(segment_count, 1)
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
        }
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
    /// or still wanted by a lossless reader.
    ///
    /// Cost: a full fence and one load per pin, once a segment.
    pub fn take<C: Control, S: Seat>(&mut self, control: &C, seats: &[S]) -> Option<u32> {
        self.retire_passed(control, seats);
        let mut candidate = self.unpinned(control, seats).or_else(|| self.spare());
        while candidate.is_none() {
            if self.valid.len() <= 1 || self.is_front_wanted(seats) {
                return None;
            }
            self.retire_front(control);
            candidate = self.unpinned(control, seats);
        }
        let segment = candidate?;
        self.valid.push_back(segment);
        Some(segment)
    }

    /// The lossless seats that keep the oldest segment from being taken.
    pub fn blockers<'s, S: Seat>(&self, seats: &'s [S]) -> impl Iterator<Item = &'s S> {
        let oldest = self.oldest;
        seats.iter().filter(move |seat| seat.is_lossless() && cursor(*seat) <= oldest)
    }

    fn is_front_wanted<S: Seat>(&self, seats: &[S]) -> bool {
        self.blockers(seats).next().is_some()
    }

    fn retire_passed<C: Control, S: Seat>(&mut self, control: &C, seats: &[S]) {
        // Each cursor is read once: between two looks it may have become anything.
        let cursors = seats.iter().map(|seat| (cursor(seat), seat.is_lossless()));
        let counts = |&(cursor, is_lossless): &(u64, bool)| is_lossless || cursor >= self.oldest;
        let floor = cursors.filter(counts).map(|(cursor, _)| cursor).min();
        let floor = floor.map_or(self.newest(), |floor| floor.min(self.newest()));
        while self.oldest < floor {
            self.retire_front(control);
        }
    }

    fn retire_front<C: Control>(&mut self, control: &C) {
        if let Some(segment) = self.valid.pop_front() {
            protocol::retire(control, segment);
            self.limbo.push(segment);
            self.oldest += 1;
        }
    }

    fn unpinned<C: Control, S: Seat>(&mut self, control: &C, seats: &[S]) -> Option<u32> {
        if self.limbo.is_empty() {
            return None;
        }
        self.pins.clear();
        let pages = seats.iter().map(|seat| (seat.page(), seat.window()));
        protocol::pinned(control, pages, &mut self.pins);
        let newest = self.limbo.iter().rposition(|segment| !self.pins.contains(segment))?;
        Some(self.limbo.remove(newest))
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
