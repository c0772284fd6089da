//! When a job ends.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use burstline_sys::clock;

use crate::Run;

/// How often losses are shown while a job runs, in ns.
const LOSSES_EVERY_NS: u64 = 100_000_000;

/// One second: what `lost_first_second` is about.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// What every thread of a job asks once a poll.
pub(crate) struct JobClock<'a> {
    pub(crate) start_ns: u64,
    deadline_ns: u64,
    stop: &'a AtomicBool,
    /// Set by the job itself: the sink cannot take any more.
    is_broken: AtomicBool,
}

impl<'a> JobClock<'a> {
    pub(crate) fn start(run: &Run<'a>) -> Self {
        let start_ns = clock::monotonic_ns();
        let duration_ns = run.limits.duration_ns;
        let deadline_ns = duration_ns.map_or(u64::MAX, |span_ns| start_ns.saturating_add(span_ns));
        Self { start_ns, deadline_ns, stop: run.stop, is_broken: AtomicBool::new(false) }
    }

    /// Whether sources should end now. Cost: two loads.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        // Both flags are only told and carry no memory: seen late, they cost a poll.
        now_ns >= self.deadline_ns || self.stop.load(Relaxed) || self.is_broken.load(Relaxed)
    }

    /// Whether somebody has ended the job, or something broke, before it was over by itself.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.is_broken.load(Relaxed) // as in `is_over`
    }

    /// Whether what the sources feed is broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed) // as in `is_over`
    }

    /// Ends the sources because what they feed is broken.
    pub(crate) fn break_off(&self) {
        self.is_broken.store(true, Relaxed); // as in `is_over`
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        clock::monotonic_ns() - self.start_ns
    }

    /// How long one may sleep without missing the deadline.
    pub(crate) fn most_ns(&self) -> u64 {
        self.deadline_ns.saturating_sub(clock::monotonic_ns())
    }
}

/// Polls that found something, from one look at the clock to the next. A look takes 25 ns, and to
/// count 64 packets of `dpdk:` some 600.
const POLLS_A_LOOK: u32 = 8;

/// When a thread looks at the clock: after each poll that found nothing, and after some that did.
/// The stop flag is looked at each time.
#[derive(Debug, Default)]
pub(crate) struct Glances {
    found: u32,
}

impl Glances {
    /// To be asked after each poll. `None`: not yet; else whether anything was found since the last
    /// look.
    #[inline]
    pub(crate) fn look(&mut self, has_found: bool) -> Option<bool> {
        self.found += u32::from(has_found);
        let is_due = !has_found || self.found == POLLS_A_LOOK;
        is_due.then(|| std::mem::take(&mut self.found) > 0)
    }
}

/// How long a job that is over waits for a source to hand over what it has, counted from its last
/// packet. A packet socket's last block comes after its retire timeout, some 10 ms.
const DRAIN_NS: u64 = 500_000_000;

/// Between two looks at such a source.
const DRAIN_NAP: Duration = Duration::from_millis(1);

/// The patience with which a job that is over empties its sources.
pub(crate) struct Drain {
    until_ns: u64,
}

impl Drain {
    pub(crate) fn start() -> Self {
        Self { until_ns: clock::monotonic_ns() + DRAIN_NS }
    }

    /// To be asked after each poll, with whether that found anything. False when it has waited long
    /// enough for nothing.
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

/// When losses are to be looked at, and how many there were in the first second.
pub(crate) struct LossWatch {
    start_ns: u64,
    shown_ns: u64,
    first_second: Option<u64>,
}

impl LossWatch {
    /// For a job that began at `start_ns`.
    pub(crate) fn new(start_ns: u64) -> Self {
        Self { start_ns, shown_ns: start_ns, first_second: None }
    }

    /// Whether it is time to look again; true once for each time.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns - self.shown_ns >= LOSSES_EVERY_NS;
        if is_due {
            self.shown_ns = now_ns;
        }
        is_due
    }

    /// So many were `lost` by now.
    pub(crate) fn saw(&mut self, lost: u64, now_ns: u64) {
        if self.first_second.is_none() && now_ns - self.start_ns >= SECOND_NS {
            self.first_second = Some(lost);
        }
    }

    /// Lost in the first second: of a job that did not last as long, all that were `lost`.
    pub(crate) fn first_second_or(&self, lost: u64) -> u64 {
        self.first_second.unwrap_or(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_looked_at_whenever_nothing_comes_and_at_times_else() {
        let mut glances = Glances::default();
        let looks = |glances: &mut Glances, polls: &[bool]| {
            polls.iter().map(|found| glances.look(*found)).collect::<Vec<_>>()
        };
        assert_eq!(looks(&mut glances, &[false, false]), [Some(false), Some(false)]);
        assert_eq!(looks(&mut glances, &[true, false, false]), [None, Some(true), Some(false)]);
        let busy = looks(&mut glances, &[true; 2 * POLLS_A_LOOK as usize]);
        assert_eq!(busy.iter().flatten().collect::<Vec<_>>(), [&true, &true]);
        assert_eq!(busy.last(), Some(&Some(true)));
    }
}
