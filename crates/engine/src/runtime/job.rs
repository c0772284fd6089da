//! The state that the threads of a job share.

use burstline_log::Ending as LogEnding;
use burstline_port::{Losses, PortAccount, Sink};

use crate::report::{Ending, Report};
use crate::{EngineError, Limits, Progress, Run, ThreadPlace, Threads};

use super::budget::Budget;
use super::clock::JobClock;
use super::meter::Usage;
use super::progress::Standing;

/// A running job.
pub(crate) struct Job<'a> {
    pub(crate) threads: &'a Threads,
    pub(crate) clock: JobClock<'a>,
    pub(crate) budget: Budget,
    pub(crate) progress: &'a Progress,
    usage_before: Usage,
}

impl<'a> Job<'a> {
    /// Starts the clock. The ports must be open and the memory allocated.
    pub(crate) fn start(threads: &'a Threads, run: &Run<'a>) -> Self {
        Self {
            threads,
            usage_before: Usage::now(),
            clock: JobClock::start(run),
            budget: Budget::new(run.limits.packets),
            progress: run.progress,
        }
    }

    /// Returns the same job without limits and with a separate break flag, for a thread that may
    /// end independently of the others.
    pub(crate) fn beside(&self, run: &Run<'a>) -> Self {
        let clock = JobClock::start(&run.within(Limits::default()));
        let (threads, progress, usage_before) = (self.threads, self.progress, self.usage_before);
        Self { threads, clock, budget: Budget::new(None), progress, usage_before }
    }

    /// Returns the base of the report: the elapsed time and the resources used.
    pub(crate) fn ending(&self) -> Ending {
        Ending::of(self.clock.elapsed_ns(), Usage::now().since(&self.usage_before))
    }

    /// Shows the account of source number `index` so far: its losses and events. `delivered`:
    /// packets that it has handed on. Returns the losses without those left out on request. Cost: a
    /// lock or two.
    pub(crate) fn show_account(&self, index: usize, account: PortAccount, delivered: u64) -> u64 {
        self.progress.tell_new(index, &account.events);
        let standing = Standing::of(&account).having_delivered(delivered, &account.lost);
        self.progress.set_standing(index, standing);
        self.show_losses(index, account.lost)
    }

    /// Shows the losses of source number `index` so far. Returns them without those left out on
    /// request. Cost: a lock.
    pub(crate) fn show_losses(&self, index: usize, losses: Losses) -> u64 {
        let missing = losses.missing();
        self.progress.set_losses(index, losses);
        missing
    }

    /// As [`show_losses`](Self::show_losses), for log reader number `number`: losses behind the
    /// sources.
    pub(crate) fn show_losses_behind(&self, number: usize, losses: Losses) -> u64 {
        self.show_losses(self.progress.received.len() + number, losses)
    }

    /// Shows the events and the standing of sink number `number`. Cost: that of its account.
    pub(crate) fn tell_of_sink(&self, number: usize, sink: &dyn Sink) {
        let (place, account) = (self.progress.received.len() + number, sink.account());
        self.progress.tell_new(place, &account.events);
        self.progress.set_standing(place, Standing::of(&account));
    }

    /// Returns the ending of a log whose sources met `errors`: whether another log may follow it.
    pub(crate) fn log_ending(&self, errors: &[EngineError]) -> LogEnding {
        match self.clock.is_stopped() || !errors.is_empty() {
            true => LogEnding::Stopped,
            false => LogEnding::Final,
        }
    }

    /// Adds to the report how and where the threads ran.
    pub(crate) fn describe(&self, report: &mut Report, places: Vec<ThreadPlace>) {
        report.poll = self.threads.poll;
        report.placement.threads = places;
        report.placement.notes.clone_from(&self.threads.notes);
    }
}
