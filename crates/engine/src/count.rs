//! Counting, run to completion: packets are looked at where they lie, on the core that polls.
//!
//! ```text
//! worker 0:  source 0 --lend--> burst -> work, tally  the burst's bytes stay in the port until
//! worker 1:  source 1 --lend--> burst -> work, tally  the next poll; nothing is copied
//! ```
//!
//! Invariants:
//! - C1: a worker owns its source, scratch and tally alone; only the budget, the flag and the
//!   progress counters are shared.
//! - C2: a burst is tallied whole before anything is polled again, so what a stopped worker has
//!   delivered is exactly what its tally says.

use std::sync::{Mutex, PoisonError};

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};
use burstline_port::{Losses, PortState};
use burstline_sys::clock;

use crate::budget::{Budget, Grant};
use crate::clock::{Drain, Glances, JobClock, SECOND_NS};
use crate::job::{self, Source, Threads};
use crate::report::{Ending, ThreadPlace};
use crate::stage::{StageCost, StageMeter, Usage};
use crate::tally::{Span, Tally, tally};
use crate::waiting::Waiter;
use crate::{EngineError, PortReport, Progress, Report, Run, Verifier};

/// How often a port's losses are shown while it runs, in ns.
const LOSSES_EVERY_NS: u64 = 100_000_000;

/// Counts the packets of all sources, each on a thread of its own, until they end, a limit is
/// reached or `stop` is set.
///
/// # Errors
/// The threads could not be started, pinned or given their class. What goes wrong with a source
/// later is in the report's `errors`; the other sources are counted to their end.
pub fn count(
    sources: Vec<Source>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    run_to_completion(sources, |_| |_: &Burst<'_>| {}, threads, run)
}

/// As [`count`], and has every packet looked at. The workers take turns with the verifier, a burst
/// each, so packets of one flow that come by several sources are in the order of that.
///
/// # Errors
/// As [`count`].
pub fn count_verified(
    sources: Vec<Source>,
    verifier: &Mutex<Verifier>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let see = |burst: &Burst<'_>| {
        verifier.lock().unwrap_or_else(PoisonError::into_inner).see(burst);
    };
    run_to_completion(sources, |_| see, threads, run)
}

/// Receives, works and lets go, on one core for each source: `work_for` makes the closure that
/// sees every burst of a source, given the source's number, where the port has the packets. What it
/// wants to keep it copies; what it wants to send it gives to a sink of its own.
///
/// # Errors
/// As [`count`].
pub fn run_to_completion<W: FnMut(&Burst<'_>) + Send>(
    mut sources: Vec<Source>,
    mut work_for: impl FnMut(usize) -> W,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    threads.check(sources.len())?;
    let usage_before = Usage::now();
    let job = Job {
        budget: Budget::new(run.limits.packets),
        clock: JobClock::start(run),
        threads,
        progress: run.progress,
    };
    run.progress.start(0);
    let works = (0..sources.len()).map(&mut work_for).collect();
    let done = run_workers(&job, &mut sources, works)?;
    Ok(report(&job, &sources, done, Usage::now().since(&usage_before)))
}

struct Job<'a> {
    budget: Budget,
    clock: JobClock<'a>,
    threads: &'a Threads,
    progress: &'a Progress,
}

/// What a worker brings home.
struct Done {
    place: ThreadPlace,
    tally: Tally,
    span: Span,
    cost: StageCost,
    lost_first_second: u64,
    error: Option<EngineError>,
}

fn run_workers<W: FnMut(&Burst<'_>) + Send>(
    job: &Job<'_>,
    sources: &mut [Source],
    works: Vec<W>,
) -> Result<Vec<Done>, EngineError> {
    let works = sources.iter_mut().zip(works).enumerate().map(|(index, (source, work))| {
        (stage_name(index), move || Worker::new(job, index, source, work)?.run())
    });
    job::run_each(job.threads, &job.clock, works)
}

struct Worker<'a, W> {
    job: &'a Job<'a>,
    index: usize,
    source: &'a mut Source,
    work: W,
    done: Done,
    meter: StageMeter,
    waiter: Waiter,
    losses_shown_ns: u64,
    is_first_second_over: bool,
}

impl<'a, W: FnMut(&Burst<'_>)> Worker<'a, W> {
    fn new(
        job: &'a Job<'a>,
        index: usize,
        source: &'a mut Source,
        work: W,
    ) -> Result<Self, EngineError> {
        let place = job.threads.settle(index, &stage_name(index));
        let place = place.and_then(|place| job.threads.drop_privileges().map(|()| place));
        // The others need not begin what will not be reported.
        let place = place.inspect_err(|_| job.clock.break_off())?;
        let done = Done {
            place,
            tally: Tally::default(),
            span: Span::default(),
            cost: StageCost::default(),
            lost_first_second: 0,
            error: None,
        };
        let meter = StageMeter::start();
        let waiter = Waiter::new(job.threads.poll, clock::monotonic_ns());
        let (losses_shown_ns, is_first_second_over) = (job.clock.start_ns, false);
        Ok(Self {
            job,
            index,
            source,
            work,
            done,
            meter,
            waiter,
            losses_shown_ns,
            is_first_second_over,
        })
    }

    fn run(mut self) -> Result<Done, EngineError> {
        if let Err(error) = self.poll_until_over() {
            self.done.error = Some(error);
        }
        let losses = self.show_losses();
        if !self.is_first_second_over {
            self.done.lost_first_second = losses.missing();
        }
        self.done.cost = self.meter.end(self.waiter.sleeps());
        self.done.place.look();
        Ok(self.done)
    }

    fn poll_until_over(&mut self) -> Result<(), EngineError> {
        let job = self.job;
        let mut scratch = Scratch::new();
        let (mut now_ns, mut glances) = (clock::monotonic_ns(), Glances::default());
        while !job.clock.is_over(now_ns) {
            let granted = match job.budget.take(SCRATCH_PACKETS as u64) {
                Grant::Packets(packets) => packets,
                Grant::Wait => {
                    self.waiter.pause_briefly(now_ns, &job.clock);
                    now_ns = clock::monotonic_ns();
                    continue;
                }
                Grant::Reached => break,
            };
            let (state, packets) = self.poll(&mut scratch, granted)?;
            // Busy without packets: the filter wanted none of those it met.
            if let Some(was_busy) = glances.look(packets > 0 || state == PortState::Busy) {
                let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
                if was_busy {
                    self.waiter.work(now_ns);
                }
                self.meter.pass(now_ns - before_ns, was_busy);
                self.look_at_losses(now_ns);
            }
            match state {
                PortState::Ended => break,
                PortState::Idle | PortState::Blocked if packets == 0 => {
                    let port = std::iter::once(&*self.source.port);
                    if self.waiter.pause(port, now_ns, &job.clock) {
                        now_ns = clock::monotonic_ns();
                    }
                }
                PortState::Busy | PortState::Idle | PortState::Blocked => {}
            }
        }
        self.drain(&mut scratch)
    }

    /// Borrows up to `granted` packets and counts them.
    fn poll(
        &mut self,
        scratch: &mut Scratch,
        granted: u64,
    ) -> Result<(PortState, u64), EngineError> {
        let lent = self.source.port.lend(scratch, granted);
        let lent = lent.inspect_err(|_| self.job.budget.settle(granted, 0))?;
        let (state, packets) = (lent.state, lent.burst.len() as u64);
        (self.work)(&lent.burst);
        self.done.tally.add(&tally(&lent.burst, &mut self.done.span));
        self.job.budget.settle(granted, packets);
        if packets > 0 {
            self.job.progress.received[self.index].store(&self.done.tally);
        }
        Ok((state, packets))
    }

    /// Stops a source that has packets in hand, and counts those too.
    fn drain(&mut self, scratch: &mut Scratch) -> Result<(), EngineError> {
        if !self.source.port.info().capabilities.can_drain {
            return Ok(());
        }
        self.source.port.finish()?;
        let mut drain = Drain::start();
        while let Grant::Packets(granted) = self.job.budget.take(SCRATCH_PACKETS as u64) {
            let (state, packets) = self.poll(scratch, granted)?;
            if state == PortState::Ended || !drain.goes_on(packets > 0 || state == PortState::Busy)
            {
                break;
            }
        }
        Ok(())
    }

    /// Some times a second, not at every poll: an account costs an allocation.
    fn look_at_losses(&mut self, now_ns: u64) {
        if now_ns - self.losses_shown_ns < LOSSES_EVERY_NS {
            return;
        }
        self.losses_shown_ns = now_ns;
        let losses = self.show_losses();
        if !self.is_first_second_over {
            self.done.lost_first_second = losses.missing();
            self.is_first_second_over = now_ns - self.job.clock.start_ns >= SECOND_NS;
        }
    }

    fn show_losses(&self) -> Losses {
        let losses = self.source.port.account().lost;
        self.job.progress.set_losses(self.index, losses.clone());
        losses
    }
}

fn report(job: &Job<'_>, sources: &[Source], done: Vec<Done>, usage: Usage) -> Report {
    let elapsed_ns = job.clock.elapsed_ns();
    let mut ending = Ending::of(elapsed_ns, usage);
    let (mut ports, mut stages) = (Vec::new(), Vec::new());
    for (index, (source, worker)) in sources.iter().zip(&done).enumerate() {
        let account = source.port.account();
        let none = Losses::default();
        let row = PortReport::new(&source.port.info().name, &account, &worker.tally, &none);
        stages.push(worker.cost.report(&stage_name(index), elapsed_ns, &worker.tally));
        ports.push(row);
        ending.empty_ns += worker.cost.empty_ns;
        ending.span.merge(&worker.span);
        ending.lost_first_second += worker.lost_first_second;
        ending.bytes_copied += account.bytes_copied;
    }
    let mut report = Report::new(ports, &ending);
    report.stages = stages;
    report.memory.node = done.first().and_then(|worker| worker.place.node);
    report.poll = job.threads.poll;
    report.placement.notes.clone_from(&job.threads.notes);
    report.hear(sources);
    for worker in done {
        report.placement.threads.push(worker.place);
        report.errors.extend(worker.error);
    }
    report
}

fn stage_name(index: usize) -> String {
    format!("poll-{index}")
}
