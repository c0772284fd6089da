//! Decides when a job ends.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use burstline_sys::clock;

use crate::Run;

use super::stage::{Next, Polled};

/// The job's clock and stop flags, which every thread checks once a poll.
pub(crate) struct JobClock<'a> {
    pub(crate) start_ns: u64,
    deadline_ns: u64,
    stop: &'a AtomicBool,
    /// Set by the job itself if the sink fails.
    is_broken: AtomicBool,
}

impl<'a> JobClock<'a> {
    pub(crate) fn start(run: &Run<'a>) -> Self {
        let start_ns = clock::monotonic_ns();
        let duration_ns = run.limits.duration_ns;
        let deadline_ns = duration_ns.map_or(u64::MAX, |span_ns| start_ns.saturating_add(span_ns));
        Self { start_ns, deadline_ns, stop: run.stop, is_broken: AtomicBool::new(false) }
    }

    /// Returns whether sources should end now. Cost: two loads.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        // Relaxed: both flags publish no memory, and a late view costs one more poll.
        now_ns >= self.deadline_ns || self.stop.load(Relaxed) || self.is_broken.load(Relaxed)
    }

    /// Returns whether the job was stopped or broke before its natural end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.is_broken.load(Relaxed) // as in `is_over`
    }

    /// Returns whether the consumer of the sources is broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed) // as in `is_over`
    }

    /// Ends the sources because their consumer is broken.
    pub(crate) fn break_off(&self) {
        self.is_broken.store(true, Relaxed); // as in `is_over`
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        clock::monotonic_ns() - self.start_ns
    }

    /// Returns the longest sleep that does not miss the deadline, in ns.
    pub(crate) fn most_ns(&self) -> u64 {
        self.deadline_ns.saturating_sub(clock::monotonic_ns())
    }
}

/// Decides when a thread reads the clock: after each poll that found nothing, and after every n-th
/// that did. A read takes 25 ns; counting 64 packets of `dpdk:` takes some 600 ns. The stop flag is
/// checked at every poll.
#[derive(Debug, Default)]
pub(super) struct Glances {
    found: u32,
}

impl Glances {
    /// Call this after each poll; `every` is the number of busy polls per read of the clock.
    /// Returns `None` if no read is due, else whether anything was found since the last read.
    #[inline]
    pub(super) fn look(&mut self, polled: &Polled, every: u32) -> Option<bool> {
        self.found += u32::from(polled.has_found);
        let is_due = !polled.has_found || polled.next != Next::Poll || self.found == every;
        is_due.then(|| std::mem::take(&mut self.found) > 0)
    }
}

/// How long a finished job waits for a source to hand over its remaining packets, counted from the
/// last packet. A packet socket's last block comes after its retire timeout, some 10 ms.
const DRAIN_NS: u64 = 500_000_000;

/// Sleep between two polls of such a source.
const DRAIN_NAP: Duration = Duration::from_millis(1);

/// The timeout with which a finished job drains its sources.
pub(crate) struct Drain {
    until_ns: u64,
}

impl Drain {
    pub(crate) fn start() -> Self {
        Self { until_ns: clock::monotonic_ns() + DRAIN_NS }
    }

    /// Call this after each poll, with whether it found anything. Returns false once the timeout
    /// has passed without a packet.
    pub(crate) fn goes_on(&mut self, found: bool) -> bool {
        let now_ns = clock::monotonic_ns();
        if found {
            self.until_ns = now_ns + DRAIN_NS;
        } else {
            std::thread::sleep(DRAIN_NAP);
        }
        now_ns < self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(polls: &[(bool, Next)], every: u32) -> Vec<Option<bool>> {
        let mut glances = Glances::default();
        let polled = |&(has_found, next)| Polled { has_found, next, now_ns: None };
        polls.iter().map(|poll| glances.look(&polled(poll), every)).collect()
    }

    #[test]
    fn the_clock_is_looked_at_whenever_nothing_comes_and_at_times_else() {
        const FOUND: (bool, Next) = (true, Next::Poll);
        const NOTHING: (bool, Next) = (false, Next::Wait);
        let (busy, empty) = (Some(true), Some(false));
        let polls = [NOTHING, NOTHING, FOUND, NOTHING, NOTHING];
        assert_eq!(looks(&polls, 8), [empty, empty, None, busy, empty]);
        let all = looks(&[FOUND; 16], 8);
        assert_eq!((all[7], all[15], all.iter().flatten().count()), (busy, busy, 2));
        assert_eq!(looks(&[FOUND, NOTHING, FOUND], 1), [busy, empty, busy]);
        let waits = [FOUND, (true, Next::Wait), FOUND, (true, Next::Over)];
        assert_eq!(looks(&waits, 8), [None, busy, None, busy], "before it waits or ends");
    }
}
