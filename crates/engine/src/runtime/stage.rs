//! A stage: the loop that every thread of a job runs around its step.
//!
//! ```text
//!   found something     show progress; look at the clock now and then; poll again
//!   found nothing       look at the clock; flush if that is due; wait by the step's `wait`
//!   at each look        time to the meter, as busy or empty; losses every 100 ms
//! ```
//!
//! Cost of the loop a poll: two loads of the clock's flags, and the time after every
//! [`POLLS_A_LOOK`](Step::POLLS_A_LOOK)th, some 25 ns. The step's type is known at compile time, so
//! its poll is called directly or inlined.
//!
//! Invariants:
//! - S1: a poll is over before anything else is checked. So the packets that a stopped stage has
//!   delivered are those its step has counted.
//! - S2: all time between the first poll and the last is metered once. It is busy if something was
//!   found since the last look, else empty. Sleeps count as neither.
//! - S3: `show_losses` is called after the last poll, so the counts that others see are complete.

use std::time::Duration;

use burstline_port::Port;
use burstline_sys::clock;

use super::clock::{Drain, Glances, JobClock};
use super::crew::Done;
use super::job::Job;
use super::losses::{LOSSES_EVERY_NS, LossWatch};
use super::meter::{StageCost, StageMeter};
use super::waiting::Waiter;

/// The result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polled {
    /// Whether there was work: packets, or packets that a filter rejected.
    pub(crate) has_found: bool,
    /// The next action of the loop.
    pub(crate) next: Next,
    /// The time, if the step has read the clock.
    pub(crate) now_ns: Option<u64>,
}

/// The next action of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Polls again immediately.
    Poll,
    /// Waits by the step's [`wait`](Step::wait).
    Wait,
    /// Waits for another thread of the job, which will have packets or room soon.
    WaitForOthers,
    /// Waits for room in the log that it fills.
    WaitForRoom,
    /// Ends: the sources or logs have ended, or the limit is reached.
    Over,
}

/// The work of one kind of stage.
pub(crate) trait Step: Send {
    /// The result at the end.
    type Outcome: Send;

    /// Busy polls between two reads of the clock: more than one if a poll may cost little compared
    /// to a read.
    const POLLS_A_LOOK: u32 = 1;

    /// Whether it reads logs: such a stage ends with its logs, and not by the job's clock.
    const READS_LOGS: bool = false;

    /// Does the available work once. `now_ns` is as of the last look.
    fn poll(&mut self, now_ns: u64) -> Polled;

    /// Waits after a poll that found nothing. Returns whether it slept, or the time must be read
    /// for another reason.
    fn wait(&mut self, pause: Pause<'_>) -> bool;

    /// Shows the counts so far: after each poll that found something. Cost: a few stores.
    #[inline]
    fn show(&mut self) {}

    /// Shows the losses so far, and returns them without those left out on request: every 100 ms.
    fn show_losses(&mut self) -> u64;

    /// Returns the time of the newest packet that it has passed on, in ns since 1970; 0 if unknown.
    fn newest_ns(&self) -> u64 {
        0
    }

    /// Flushes what was sent so far, at a moment without packets: every 100 ms at most. Returns
    /// whether nothing is left for later. If something is, it is called again.
    fn flush(&mut self) -> bool {
        true
    }

    /// Called when the job is over: stops sources that still hold packets. Returns whether there
    /// are any. These are polled until they have ended, or deliver nothing for half a second.
    fn stop_sources(&mut self) -> bool {
        false
    }

    /// Called after the last poll: closes what must be closed before the last look at losses.
    fn close(&mut self) {}

    /// Ends the step and returns its outcome.
    fn end(self) -> Self::Outcome;
}

/// Waiting methods for a stage without work.
pub(crate) struct Pause<'w> {
    waiter: &'w mut Waiter,
    /// Time of the last look.
    pub(crate) now_ns: u64,
    clock: &'w JobClock<'w>,
}

impl Pause<'_> {
    /// Waits for these ports. Returns whether it slept, as do the other methods.
    pub(crate) fn on<'p>(self, ports: impl Iterator<Item = &'p dyn Port>) -> bool {
        self.waiter.pause(ports, self.now_ns, self.clock)
    }

    /// Waits for ports that have room for `nap_ns` of traffic. If that is not 0, lets packets
    /// gather first.
    pub(crate) fn on_deep<'p>(
        self,
        ports: impl Iterator<Item = &'p dyn Port>,
        nap_ns: u64,
    ) -> bool {
        (nap_ns > 0 && self.waiter.gather(nap_ns, self.clock)) || self.on(ports)
    }

    /// Waits for logs that have room for `nap` of traffic. Lets packets gather for that long, then
    /// sleeps by `sleep`, which returns whether it was woken.
    pub(crate) fn on_logs(self, nap: Duration, sleep: impl FnOnce() -> bool) -> bool {
        self.waiter.wait_for_news(nap, sleep)
    }

    /// Waits for packets or room that another thread of the job will have soon.
    pub(crate) fn on_others(self) -> bool {
        self.waiter.pause_briefly(self.now_ns, self.clock)
    }

    /// Waits for room in a log.
    pub(crate) fn on_room(self) -> bool {
        self.waiter.wait_for_room(self.clock);
        true
    }

    /// Waits for an event that wakes no thread; the caller looks for it every `span_ns`.
    pub(crate) fn until_next_look(self, span_ns: u64) -> bool {
        self.waiter.wait_for_a_look(span_ns, self.now_ns, self.clock)
    }

    /// Sleeps for `span`.
    pub(crate) fn sleep(self, span: Duration) -> bool {
        self.waiter.sleep_for(span);
        true
    }

    /// Returns the longest sleep that does not miss the job's deadline, in ns.
    pub(crate) fn most_ns(&self) -> u64 {
        self.clock.most_ns()
    }
}

/// Runs a stage on the calling thread, to its end. `number`: the stage that its cost is shown for.
pub(super) fn run<S: Step>(job: &Job<'_>, mut step: S, number: Option<usize>) -> Done<S::Outcome> {
    let clock = &job.clock;
    let mut meter = StageMeter::start();
    let mut now_ns = clock::monotonic_ns();
    let mut waiter = Waiter::new(job.threads.poll, now_ns);
    let mut losses = LossWatch::new(clock.start_ns);
    let mut glances = Glances::default();
    let (mut is_flushed, mut flushed_ns) = (true, clock.start_ns);
    while S::READS_LOGS || !clock.is_over(now_ns) {
        let polled = step.poll(now_ns);
        if polled.has_found {
            is_flushed = false;
            step.show();
        }
        if let Some(was_busy) = glances.look(&polled, S::POLLS_A_LOOK) {
            let time_ns = polled.now_ns.unwrap_or_else(clock::monotonic_ns);
            let before_ns = std::mem::replace(&mut now_ns, time_ns);
            meter.pass(now_ns - before_ns, was_busy);
            if was_busy {
                waiter.work(now_ns);
            }
            if losses.is_due(now_ns) {
                losses.saw(step.show_losses(), now_ns);
                show_cost(job, number, &meter.so_far(waiter.sleeps()), &step, was_busy);
            }
        }
        match polled.next {
            Next::Poll => continue,
            Next::Over => break,
            Next::Wait | Next::WaitForOthers | Next::WaitForRoom => {}
        }
        if !is_flushed && now_ns - flushed_ns >= LOSSES_EVERY_NS {
            (is_flushed, flushed_ns) = (step.flush(), now_ns);
        }
        let pause = Pause { waiter: &mut waiter, now_ns, clock };
        let has_slept = match polled.next {
            Next::WaitForRoom => pause.on_room(),
            Next::WaitForOthers => pause.on_others(),
            _ => step.wait(pause),
        };
        if has_slept {
            now_ns = clock::monotonic_ns();
        }
    }
    drain(&mut step);
    step.close();
    step.show();
    let lost = step.show_losses();
    let lost_first_second = losses.first_second_or(lost);
    let cost = meter.so_far(waiter.sleeps());
    show_cost(job, number, &cost, &step, false);
    Done { cost, lost_first_second, outcome: step.end() }
}

/// Shows a stage's cost, and the age of its newest packet if one has just arrived.
fn show_cost<S: Step>(
    job: &Job<'_>,
    number: Option<usize>,
    cost: &StageCost,
    step: &S,
    was_busy: bool,
) {
    let Some(number) = number else { return };
    let newest_ns = step.newest_ns();
    let age_ns =
        (was_busy && newest_ns > 0).then(|| clock::realtime_ns().saturating_sub(newest_ns));
    job.progress.set_stage(number, cost, age_ns);
}

/// Takes the remaining packets of the stopped sources.
fn drain<S: Step>(step: &mut S) {
    if !step.stop_sources() {
        return;
    }
    let mut drain = Drain::start();
    loop {
        let polled = step.poll(clock::monotonic_ns());
        if polled.next == Next::Over || !drain.goes_on(polled.has_found) {
            return;
        }
    }
}
