//! How long the writer waits for lossless readers: until one is over its deadline, or its user's
//! budget is used up.

use std::sync::Arc;

use burstline_sys::clock;

use crate::seat::SeatEntry;

/// What the writer remembers from one look for a segment to the next.
pub(super) struct Patience {
    /// The number of the current look.
    look: u64,
    /// The time of the current look, once it is needed.
    now_ns: Option<u64>,
    /// The time of the first of the looks that found no segment, because of a reader with a
    /// deadline, if none has found one since.
    blocked_since_ns: Option<u64>,
    /// Whether what holds up the writer holds up a source that can wait, and so loses nothing.
    source_waits: bool,
    /// The deadline of seats that have none of their own, in ns.
    log_deadline_ns: Option<u64>,
    clock: fn() -> u64,
}

impl Patience {
    pub(super) fn new(log_deadline_ns: Option<u64>) -> Self {
        Self {
            look: 1,
            now_ns: None,
            blocked_since_ns: None,
            source_waits: false,
            log_deadline_ns,
            clock: clock::monotonic_ns,
        }
    }

    pub(super) fn set_source_waits(&mut self, source_waits: bool) {
        self.source_waits = source_waits;
    }

    /// Returns whether the writer stops waiting for a lossless reader that is in the way. Cost: the
    /// first call of a look reads the clock.
    pub(super) fn is_over(&mut self, seat: &SeatEntry) -> bool {
        let Some(deadline_ns) = self.deadline_ns(seat) else { return false };
        let now_ns = self.now_ns();
        let since_ns = *self.blocked_since_ns.get_or_insert(now_ns);
        let is_spent = !self.source_waits && seat.budget().hold(self.look, now_ns, deadline_ns);
        is_spent || now_ns - since_ns >= deadline_ns
    }

    /// Ends a look for a segment. Cost: two comparisons unless a reader with a deadline was in the
    /// way, now or at the last look; then some loads for each seat.
    pub(super) fn end_look(&mut self, seats: &[Arc<SeatEntry>], has_room: bool) {
        if self.blocked_since_ns.is_none() {
            return;
        }
        let now_ns = self.now_ns();
        for seat in seats {
            if let Some(deadline_ns) = self.deadline_ns(seat) {
                seat.budget().end_look(self.look, has_room, now_ns, deadline_ns);
            }
        }
        if has_room {
            self.blocked_since_ns = None;
        }
        self.now_ns = None;
        self.look += 1;
    }

    fn deadline_ns(&self, seat: &SeatEntry) -> Option<u64> {
        seat.deadline_ns().or(self.log_deadline_ns)
    }

    fn now_ns(&mut self) -> u64 {
        *self.now_ns.get_or_insert_with(self.clock)
    }
}

#[cfg(test)]
mod tests;
