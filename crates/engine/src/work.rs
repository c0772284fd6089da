//! Processes the bursts of each source to completion: packets are read in place, on the core that
//! polls.
//!
//! ```text
//! worker 0:  source 0 --lend--> burst -> work, tally  the burst's bytes stay in the port until
//! worker 1:  source 1 --lend--> burst -> work, tally  the next poll; nothing is copied
//! ```
//!
//! A verb supplies a [`Work`] for each source: `count` a closure, `flows` its table.
//!
//! Invariants:
//! - C1: a worker owns its source, scratch, work and tally exclusively; only the budget, the stop
//!   flag and the progress counters are shared.
//! - C2: a burst is tallied completely before the next poll, so a stopped worker's tally is exactly
//!   what it delivered.

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};
use burstline_port::{Lent, Losses, PortAccount, Received};

use crate::runtime::{self, Crew, Job, Next, Pause, Polled, Post, Round, Span, Step, Tally, tally};
use crate::{EngineError, Inlet, PortReport, Report};

/// The processing of one source's bursts, on the thread that polls the source.
pub(crate) trait Work: Send {
    /// The result at the end.
    type Outcome: Send;

    /// Processes a burst in place.
    fn see(&mut self, lent: &Lent<'_>);

    /// Publishes the results so far. Called after each poll that found packets.
    fn show(&mut self) {}

    /// Receives the source's account so far. Called every 100 ms and before `close`.
    fn hear(&mut self, _account: &PortAccount) {}

    /// Hands on buffered results. Called when a poll finds nothing.
    fn flush(&mut self) {}

    /// Called after the last burst.
    fn close(&mut self) {}

    /// Returns the result.
    fn end(self) -> Self::Outcome;
}

impl<W: FnMut(&Burst<'_>) + Send> Work for W {
    type Outcome = ();

    #[inline]
    fn see(&mut self, lent: &Lent<'_>) {
        self(&lent.burst);
    }

    fn end(self) {}
}

/// Runs each source and its work on a thread named after `stage`.
pub(crate) fn run_works<W: Work>(
    job: &Job<'_>,
    sources: &mut [Inlet],
    works: Vec<W>,
    stage: &str,
) -> Result<Crew<Counted<W::Outcome>, ()>, EngineError> {
    let posts = sources.iter_mut().zip(works).enumerate().map(|(index, (source, work))| Post {
        index,
        name: stage_name(stage, index),
        step: Worker::new(job, index, source, work),
    });
    runtime::run_alone(job, posts.collect())
}

/// The tally and the outcome of a worker.
pub(crate) struct Counted<T> {
    tally: Tally,
    span: Span,
    error: Option<EngineError>,
    outcome: T,
}

struct Worker<'a, W> {
    job: &'a Job<'a>,
    index: usize,
    source: &'a mut Inlet,
    scratch: Scratch,
    work: W,
    counted: Counted<()>,
    is_ended: bool,
}

impl<'a, W: Work> Worker<'a, W> {
    fn new(job: &'a Job<'a>, index: usize, source: &'a mut Inlet, work: W) -> Self {
        let counted =
            Counted { tally: Tally::default(), span: Span::default(), error: None, outcome: () };
        Self { job, index, source, scratch: Scratch::new(), work, counted, is_ended: false }
    }
}

impl<W: Work> Step for Worker<'_, W> {
    type Outcome = Counted<W::Outcome>;
    const POLLS_A_LOOK: u32 = 8;

    /// Borrows packets and counts them.
    #[inline]
    fn poll(&mut self, _now_ns: u64) -> Polled {
        let mut round = Round::default();
        if self.is_ended {
            return round.polled(Next::Wait);
        }
        let Self { job, source, scratch, work, counted, .. } = self;
        let taken = round.poll(&job.budget, SCRATCH_PACKETS as u64, |granted| {
            let lent = source.port.lend(scratch, granted)?;
            work.see(&lent);
            counted.tally.add(&tally(&lent.burst, &mut counted.span));
            Ok(Received { packets: lent.burst.len() as u64, state: lent.state })
        });
        self.is_ended = taken.unwrap_or_else(|error: EngineError| {
            self.counted.error = Some(error);
            true
        });
        round.polled(Next::Wait)
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        pause.on(std::iter::once(self.source.port()))
    }

    #[inline]
    fn show(&mut self) {
        self.job.progress.received[self.index].store(&self.counted.tally);
        self.work.show();
    }

    fn show_losses(&mut self) -> u64 {
        let account = self.source.port.account();
        self.work.hear(&account);
        self.job.show_account(self.index, account, self.counted.tally.packets)
    }

    fn flush(&mut self) {
        self.work.flush();
    }

    fn newest_ns(&self) -> u64 {
        self.counted.span.last_ns
    }

    fn stop_sources(&mut self) -> bool {
        if self.is_ended || !self.source.port.info().capabilities.can_drain {
            return false;
        }
        let finished = self.source.port.finish();
        self.counted.error = finished.err().map(EngineError::from);
        self.counted.error.is_none()
    }

    fn close(&mut self) {
        self.work.hear(&self.source.port.account());
        self.work.close();
    }

    fn end(self) -> Counted<W::Outcome> {
        let Counted { tally, span, error, outcome: () } = self.counted;
        Counted { tally, span, error, outcome: self.work.end() }
    }
}

/// A job's report, and the outcomes of its works in the order of the sources.
pub(crate) struct Reported<T> {
    pub(crate) report: Report,
    pub(crate) outcomes: Vec<T>,
}

pub(crate) fn report<T>(
    job: &Job<'_>,
    sources: &[Inlet],
    crew: Crew<Counted<T>, ()>,
    stage: &str,
) -> Reported<T> {
    let mut ending = job.ending();
    let (mut ports, mut stages) = (Vec::new(), Vec::new());
    for (index, (source, done)) in sources.iter().zip(&crew.front).enumerate() {
        let (account, counted) = (source.port.account(), &done.outcome);
        let none = Losses::default();
        let row = PortReport::new(&source.port.info().name, &account, &counted.tally, &none);
        let name = stage_name(stage, index);
        stages.push(done.cost.report(&name, ending.elapsed_ns, &counted.tally));
        ports.push(row);
        ending.add(done);
        ending.span.merge(&counted.span);
        ending.bytes_copied += account.bytes_copied;
    }
    let mut report = Report::new(ports, &ending);
    report.stages = stages;
    report.memory.node = crew.places.first().and_then(|place| place.node);
    job.describe(&mut report, crew.places);
    report.hear(sources);
    let mut outcomes = Vec::new();
    for done in crew.front {
        report.errors.extend(done.outcome.error);
        outcomes.push(done.outcome.outcome);
    }
    Reported { report, outcomes }
}

fn stage_name(stage: &str, index: usize) -> String {
    format!("{stage}-{index}")
}
