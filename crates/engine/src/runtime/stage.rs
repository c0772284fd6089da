//! A stage: the one loop that every thread of a job runs, around the step that is its own.
//!
//! ```text
//!   found something     show progress; look at the clock now and then; poll again
//!   found nothing       look at the clock; flush if that is due; wait, as the step says for what
//!   at each look        time to the meter, as busy or empty; losses every 100 ms
//! ```
//!
//! Cost of the loop a poll: the clock's two flags, and after every
//! [`POLLS_A_LOOK`](Step::POLLS_A_LOOK)th the time, some 25 ns. A step is known when the loop is
//! compiled, so its poll is called directly, or is part of the loop.
//!
//! Invariants:
//! - S1: a poll is over before anything else is checked. So what a stopped stage has delivered is
//!   what its step has counted.
//! - S2: all time between the first poll and the last is metered once: as busy if something was
//!   found since the last look, else as empty. Sleeps are neither.
//! - S3: `show_losses` is called after the last poll, so the counts that others see are whole.

use std::time::Duration;

use burstline_port::Port;
use burstline_sys::clock;

use super::clock::{Drain, Glances, JobClock};
use super::crew::Done;
use super::job::Job;
use super::losses::{LOSSES_EVERY_NS, LossWatch};
use super::meter::{StageCost, StageMeter};
use super::waiting::Waiter;

/// What a poll has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polled {
    /// Whether there was something to do: packets, or such that a filter did not want.
    pub(crate) has_found: bool,
    /// What the loop does next.
    pub(crate) next: Next,
    /// What time it is, if the step has looked.
    pub(crate) now_ns: Option<u64>,
}

/// What a stage does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Polls again at once.
    Poll,
    /// Waits, as the step's [`wait`](Step::wait) does.
    Wait,
    /// Waits for another thread of the job, which will have news soon.
    WaitForOthers,
    /// Waits until there is room in the log that it fills.
    WaitForRoom,
    /// Ends: sources have ended, or logs, or the limit is reached.
    Over,
}

/// What one kind of stage does.
pub(crate) trait Step: Send {
    /// What it has to tell at the end.
    type Outcome: Send;

    /// Polls that found something, from one look at the clock to the next: more than one where a
    /// poll may cost little beside a look.
    const POLLS_A_LOOK: u32 = 1;

    /// Whether it reads logs: then it ends with these, and not by the job's clock.
    const READS_LOGS: bool = false;

    /// Does what there is to do, once. `now_ns` is as of the last look.
    fn poll(&mut self, now_ns: u64) -> Polled;

    /// A poll has found nothing: waits for what will bring something. Returns whether it slept, or
    /// the time has to be looked at for another reason.
    fn wait(&mut self, pause: Pause<'_>) -> bool;

    /// Shows what was done so far: after each poll that found something. Cost: a few stores.
    #[inline]
    fn show(&mut self) {}

    /// Shows what is lost so far, and returns it without what was left out on request: every 100
    /// ms.
    fn show_losses(&mut self) -> u64;

    /// The time of the newest packet that it has handed on, in ns since 1970; 0: not known.
    fn newest_ns(&self) -> u64 {
        0
    }

    /// Has what was sent so far made visible: when nothing comes, every 100 ms at most.
    fn flush(&mut self) {}

    /// The job is over: stops sources that have packets in hand. Returns whether there are such;
    /// these are polled until they have ended, or bring nothing for half a second.
    fn stop_sources(&mut self) -> bool {
        false
    }

    /// Nothing is polled any more: closes what has to be closed before the last look at losses.
    fn close(&mut self) {}

    /// Ends its work.
    fn end(self) -> Self::Outcome;
}

/// A stage that has nothing to do, and how it can wait.
pub(crate) struct Pause<'w> {
    waiter: &'w mut Waiter,
    /// As of this moment.
    pub(crate) now_ns: u64,
    clock: &'w JobClock<'w>,
}

impl Pause<'_> {
    /// Waits for these ports. Returns whether it slept, as all of these.
    pub(crate) fn on<'p>(self, ports: impl Iterator<Item = &'p dyn Port>) -> bool {
        self.waiter.pause(ports, self.now_ns, self.clock)
    }

    /// Waits for ports that have room for what comes within `nap_ns`: lets news gather first, if
    /// that is not 0.
    pub(crate) fn on_deep<'p>(
        self,
        ports: impl Iterator<Item = &'p dyn Port>,
        nap_ns: u64,
    ) -> bool {
        (nap_ns > 0 && self.waiter.gather(nap_ns, self.clock)) || self.on(ports)
    }

    /// Waits for news of logs that have room for what comes within `nap`. Lets packets gather for
    /// that long, then sleeps as `sleep` does, and returns whether it was woken.
    pub(crate) fn on_logs(self, nap: Duration, sleep: impl FnOnce() -> bool) -> bool {
        self.waiter.wait_for_news(nap, sleep)
    }

    /// Waits for what another thread of the job will have soon.
    pub(crate) fn on_others(self) -> bool {
        self.waiter.pause_briefly(self.now_ns, self.clock)
    }

    /// Waits until there is room in a log.
    pub(crate) fn on_room(self) -> bool {
        self.waiter.wait_for_room(self.clock);
        true
    }

    /// Waits for what wakes nobody and is looked for each `span_ns`.
    pub(crate) fn until_next_look(self, span_ns: u64) -> bool {
        self.waiter.wait_for_a_look(span_ns, self.now_ns, self.clock)
    }

    /// Sleeps for some time.
    pub(crate) fn sleep(self, span: Duration) -> bool {
        self.waiter.sleep_for(span);
        true
    }

    /// The longest sleep that does not miss the job's deadline, in ns.
    pub(crate) fn most_ns(&self) -> u64 {
        self.clock.most_ns()
    }
}

/// Runs a stage on the calling thread, to its end. `number`: where its cost is shown meanwhile.
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
            (is_flushed, flushed_ns) = (true, now_ns);
            step.flush();
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

/// Shows what a stage has cost, and how old its newest packet is, if that has just come.
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

/// Takes what sources have in hand that were stopped.
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
