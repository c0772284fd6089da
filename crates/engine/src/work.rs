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
//! Each source has a thread, unless there are many files: a file can wait, so a thread that has
//! read one takes the next. There are a few such threads for each core. A file has the same worker,
//! and so the same order, tally and row, on any thread.
//!
//! Invariants:
//! - C1: a worker owns its source, scratch, work and tally exclusively; only the budget, the stop
//!   flag and the progress counters are shared.
//! - C2: a burst is tallied completely before the next poll, so a stopped worker's tally is exactly
//!   what it delivered.
//! - C3: each worker is closed and ended once: by the thread that had it last, or without a packet
//!   by the job, if it ended before the worker's turn.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};
use burstline_port::{Lent, Losses, PortAccount, Received};

use crate::runtime::logs::receive::gather_ns;
use crate::runtime::{self, Crew, Job, Next, Pause, Polled, Post, Round, Span, Step, Tally, tally};
use crate::{EngineError, Inlet, PortReport, Report};

/// The processing of one source's bursts, on the thread that polls the source.
pub(crate) trait Work: Send {
    /// The result at the end.
    type Outcome: Send;

    /// Whether packets may gather before it sees them: nobody needs each of them soon.
    const GATHERS: bool = false;

    /// Whether it keeps the times of packets. If these are those of polls, packets do not gather.
    const KEEPS_TIMES: bool = true;

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

/// A closure whose packets may gather.
pub(crate) struct Unhurried<F>(pub(crate) F);

impl<F: FnMut(&Burst<'_>) + Send> Work for Unhurried<F> {
    type Outcome = ();
    const GATHERS: bool = true;
    const KEEPS_TIMES: bool = false;

    #[inline]
    fn see(&mut self, lent: &Lent<'_>) {
        (self.0)(&lent.burst);
    }

    fn end(self) {}
}

/// Threads that read files, for each core: more than one, so that a thread that waits for the disk
/// leaves its core to another.
const THREADS_A_CORE: usize = 4;

/// What the threads of works have done: a thread has one or several sources.
type Worked<O> = Crew<Vec<Counted<O>>, ()>;

/// Runs the sources and their works on threads named after `stage`.
pub(crate) fn run_works<W: Work>(
    job: &Job<'_>,
    sources: &mut [Inlet],
    works: Vec<W>,
    stage: &str,
) -> Result<Worked<W::Outcome>, EngineError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // With named cores, there is one for each source.
    let most = if job.threads.cores.is_empty() { THREADS_A_CORE * cores } else { usize::MAX };
    run_within(job, sources, works, stage, most)
}

/// As [`run_works`], with at most this many threads for files, at least 1.
fn run_within<W: Work>(
    job: &Job<'_>,
    sources: &mut [Inlet],
    works: Vec<W>,
    stage: &str,
    most: usize,
) -> Result<Worked<W::Outcome>, EngineError> {
    let (pool, mut first, mut files) = (Pool(Mutex::default()), Vec::new(), 0);
    for (index, (source, work)) in sources.iter_mut().zip(works).enumerate() {
        let is_file = is_file(source);
        let worker = Worker::new(job, index, source, work);
        match is_file && files == most {
            true => pool.put(worker),
            false => first.push(worker),
        }
        files += usize::from(is_file && files < most);
    }
    let posts = first.into_iter().map(|worker| Post {
        index: worker.index,
        name: stage_name(stage, worker.index),
        step: Lane { worker, pool: &pool, done: Vec::new(), lost: 0 },
    });
    let mut crew = runtime::run_alone(job, posts.collect())?;
    while let Some(mut worker) = pool.take() {
        worker.close();
        if let Some(lane) = crew.front.first_mut() {
            lane.outcome.push(worker.end());
        }
    }
    Ok(crew)
}

/// Whether a source has all its packets in files, so that it can wait for a thread.
fn is_file(source: &Inlet) -> bool {
    let capabilities = source.port.info().capabilities;
    let waits = capabilities.can_wait && capabilities.is_finite;
    waits && source.port.readiness().is_none() && !source.port.files().is_empty()
}

/// Workers whose turn has not come.
struct Pool<'a, W>(Mutex<VecDeque<Worker<'a, W>>>);

impl<'a, W> Pool<'a, W> {
    fn put(&self, worker: Worker<'a, W>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(worker);
    }

    fn take(&self) -> Option<Worker<'a, W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The workers of one thread, one after another.
struct Lane<'q, 'a, W: Work> {
    worker: Worker<'a, W>,
    pool: &'q Pool<'a, W>,
    /// The workers before this one, in order.
    done: Vec<Counted<W::Outcome>>,
    /// Packets that their sources lost.
    lost: u64,
}

impl<W: Work> Step for Lane<'_, '_, W> {
    type Outcome = Vec<Counted<W::Outcome>>;
    const POLLS_A_LOOK: u32 = 8;

    #[inline]
    fn poll(&mut self, now_ns: u64) -> Polled {
        let polled = self.worker.poll(now_ns);
        match polled.next {
            Next::Over if self.worker.is_ended => self.go_on(polled),
            _ => polled,
        }
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        self.worker.wait(pause)
    }

    #[inline]
    fn show(&mut self) {
        self.worker.show();
    }

    fn show_losses(&mut self) -> u64 {
        self.lost + self.worker.show_losses()
    }

    fn flush(&mut self) -> bool {
        self.worker.flush();
        true
    }

    fn newest_ns(&self) -> u64 {
        self.worker.newest_ns()
    }

    fn stop_sources(&mut self) -> bool {
        self.worker.stop_sources()
    }

    fn close(&mut self) {
        self.worker.close();
    }

    fn end(mut self) -> Self::Outcome {
        self.done.push(self.worker.end());
        self.done
    }
}

impl<W: Work> Lane<'_, '_, W> {
    /// Ends a worker whose source has ended, and takes the next one, if there is one.
    #[cold]
    fn go_on(&mut self, polled: Polled) -> Polled {
        let Some(next) = self.pool.take() else { return polled };
        let mut ended = std::mem::replace(&mut self.worker, next);
        ended.close();
        ended.show();
        self.lost += ended.show_losses();
        self.done.push(ended.end());
        Polled { next: Next::Poll, ..polled }
    }
}

/// The tally and the outcome of a worker.
pub(crate) struct Counted<T> {
    /// The number of its source.
    index: usize,
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
    /// How long the source can be left alone, in ns, as of the last look; 0 if packets must not
    /// gather.
    nap_ns: u64,
}

impl<'a, W: Work> Worker<'a, W> {
    fn new(job: &'a Job<'a>, index: usize, source: &'a mut Inlet, work: W) -> Self {
        let (tally, span) = (Tally::default(), Span::default());
        let counted = Counted { index, tally, span, error: None, outcome: () };
        let scratch = Scratch::new();
        Self { job, index, source, scratch, work, counted, is_ended: false, nap_ns: 0 }
    }
}

/// As a [`Step`].
impl<W: Work> Worker<'_, W> {
    /// Borrows packets and counts them.
    #[inline(always)]
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
        pause.on_deep(std::iter::once(self.source.port()), self.nap_ns)
    }

    #[inline]
    fn show(&mut self) {
        self.job.progress.received[self.index].store(&self.counted.tally);
        self.work.show();
    }

    fn show_losses(&mut self) -> u64 {
        let account = self.source.port.account();
        if W::GATHERS {
            self.nap_ns = gather_ns(self.source.port(), &account, W::KEEPS_TIMES);
        }
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
        let Counted { index, tally, span, error, outcome: () } = self.counted;
        Counted { index, tally, span, error, outcome: self.work.end() }
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
    crew: Crew<Vec<Counted<T>>, ()>,
    stage: &str,
) -> Reported<T> {
    let mut ending = job.ending();
    let (mut all, mut ports, mut stages) = (Vec::new(), Vec::new(), Vec::new());
    for done in crew.front {
        ending.add(&done);
        let mut through = Tally::default();
        done.outcome.iter().for_each(|counted| through.add(&counted.tally));
        let first = done.outcome.first().map_or(0, |counted| counted.index);
        let name = stage_name(stage, first);
        stages.push(done.cost.report(&name, ending.elapsed_ns, &through));
        all.extend(done.outcome);
    }
    all.sort_unstable_by_key(|counted| counted.index);
    for (source, counted) in sources.iter().zip(&all) {
        let (account, none) = (source.port.account(), Losses::default());
        ports.push(PortReport::new(&source.port.info().name, &account, &counted.tally, &none));
        ending.span.merge(&counted.span);
        ending.bytes_copied += account.bytes_copied;
    }
    let mut report = Report::new(ports, &ending);
    report.stages = stages;
    report.memory.node = crew.places.first().and_then(|place| place.node);
    job.describe(&mut report, crew.places);
    report.hear(sources);
    let mut outcomes = Vec::new();
    for counted in all {
        report.errors.extend(counted.error);
        outcomes.push(counted.outcome);
    }
    Reported { report, outcomes }
}

fn stage_name(stage: &str, index: usize) -> String {
    format!("{stage}-{index}")
}

#[cfg(test)]
mod tests;
