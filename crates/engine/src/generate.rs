//! Sending made or recorded packets: a source lends, sinks take, on one core.
//!
//! ```text
//!  wait until due --> gen:    --lend--> burst --transmit--> sink --flush, when nothing more is due
//!                     replay  |           '--- or several, each with its part of the burst
//!                             '-- lateness of each packet, where it is paced
//! ```
//!
//! Made = taken by the sinks + what the sinks lost, by name. What was due and not made, because the
//! core or the sink was too slow, is not in the ledger: it never was a packet. The report says
//! instead what rate was asked for, what was reached, and which of the two it was.
//!
//! Invariant S1: every packet that was lent is given to the sink, and is in its account; one that
//! the sink lost later, on a flush or at its end, is taken back from `delivered`.

mod lane;
mod sent;

use std::time::Duration;

use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{Port, PortError, PortState, Routes};
use burstline_sys::clock;

use crate::budget::{Budget, Grant};
use crate::clock::{JobClock, SECOND_NS};
use crate::job::{self, Source, Threads};
use crate::stage::{StageMeter, Usage};
use crate::waiting::{PollMode, Sleeps};
use crate::{EngineError, Latency, Progress, Report, Run};
use lane::Lanes;
use sent::Sent;

/// How often losses are shown, and sinks are flushed at least, while it runs, in ns.
const LOSSES_EVERY_NS: u64 = 100_000_000;

/// Before a packet is due it is waited for without sleep, so long: a sleeper may take that to get
/// up.
const AWAKE_NS: u64 = 150_000;

/// The longest sleep: as long it may take until a flag is seen.
const SLEEP_MOST_NS: u64 = 50_000_000;

/// How long a source that is not paced is left alone when it has nothing.
const NAP: Duration = Duration::from_millis(1);

/// What kept the rate down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Making packets.
    Core,
    /// Taking them.
    Sink,
}

/// What came of it.
#[derive(Debug)]
pub struct Generated {
    /// What the thread did: "generate" or "replay".
    pub stage: &'static str,
    /// The ledger, as of every job.
    pub report: Report,
    /// Packets a second that were asked for.
    pub asked_pps: Option<f64>,
    /// Packets a second that were made, from the first to the last.
    pub reached_pps: f64,
    /// Why it was less than what was asked for; `None` where it was not.
    pub limit: Option<Limit>,
    /// How long after they were due packets were in the sink; `None` without a rate. A made packet
    /// that is more than a millisecond late counts as that.
    pub lateness: Option<Latency>,
}

/// Sends what `source` makes to a sink until it ends, a limit is reached, `stop` is set or the sink
/// breaks. [`PollMode::Busy`] never sleeps between packets.
///
/// # Errors
/// The sink could not be opened, or the thread not be started, pinned or given its class. What goes
/// wrong later is in the report's `errors`.
pub fn generate(
    source: Source,
    open_sink: impl FnOnce() -> Result<Box<dyn Port>, PortError>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Generated, EngineError> {
    let open_lanes = || Ok(Lanes::new(vec![open_sink()?], &Routes::default()));
    send("generate", source, open_lanes, threads, run)
}

/// Sends what `source`, a [replay](burstline_port::open_replay), has to the sinks that `routes`
/// tells, as [`generate`] otherwise. Several sinks have a row each in the report.
///
/// # Errors
/// As [`generate`].
pub fn replay(
    source: Source,
    routes: &Routes,
    open_sinks: impl FnOnce() -> Result<Vec<Box<dyn Port>>, PortError>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Generated, EngineError> {
    send("replay", source, || Ok(Lanes::new(open_sinks()?, routes)), threads, run)
}

fn send(
    stage: &'static str,
    mut source: Source,
    open_lanes: impl FnOnce() -> Result<Lanes, PortError>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Generated, EngineError> {
    threads.check(1)?;
    threads.rehearse(stage)?;
    let mut lanes = open_lanes()?;
    let usage_before = Usage::now();
    let job = Job {
        threads,
        clock: JobClock::start(run),
        budget: Budget::new(run.limits.packets),
        progress: run.progress,
    };
    run.progress.start(0);
    let sender = Sender::new(&job, &mut *source.port, &mut lanes);
    let (place, sent) = std::thread::scope(|scope| {
        let work = || {
            let place = threads.settle(0, stage);
            let place = place.and_then(|place| threads.drop_privileges().map(|()| place));
            (place.inspect_err(|_| job.clock.break_off()), sender.run())
        };
        let thread = job::spawn(scope, stage, work)?;
        threads.drop_privileges().inspect_err(|_| job.clock.break_off())?;
        Ok::<_, EngineError>(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let place = place?;
    let usage = Usage::now().since(&usage_before);
    let mut generated = sent.conclude(stage, &source, &lanes, job.clock.elapsed_ns(), usage);
    let report = &mut generated.report;
    report.poll = threads.poll;
    report.memory.node = place.node;
    report.placement.threads.push(place);
    Ok(generated)
}

struct Job<'a> {
    threads: &'a Threads,
    clock: JobClock<'a>,
    budget: Budget,
    progress: &'a Progress,
}

struct Sender<'a> {
    job: &'a Job<'a>,
    source: &'a mut dyn Port,
    lanes: &'a mut Lanes,
    sent: Sent,
    sleeps: Sleeps,
    shown_ns: u64,
    flushed_ns: u64,
}

impl<'a> Sender<'a> {
    fn new(job: &'a Job<'a>, source: &'a mut dyn Port, lanes: &'a mut Lanes) -> Self {
        let shown_ns = job.clock.start_ns;
        let (sent, sleeps) = (Sent::default(), Sleeps::default());
        Self { job, source, lanes, sent, sleeps, shown_ns, flushed_ns: shown_ns }
    }

    fn run(mut self) -> Sent {
        let mut meter = StageMeter::start();
        if let Err(error) = self.send_until_over() {
            self.sent.error = Some(error);
        }
        if let Err(error) = self.lanes.finish() {
            self.sent.error.get_or_insert(error);
        }
        self.lanes.settle();
        self.show(clock::monotonic_ns());
        meter.busy_ns = self.sent.making_ns + self.sent.sending_ns;
        self.sent.cost = meter.end(self.sleeps);
        self.sent
    }

    fn send_until_over(&mut self) -> Result<(), EngineError> {
        let job = self.job;
        let mut scratch = Scratch::new();
        let mut now_ns = clock::monotonic_ns();
        while !job.clock.is_over(now_ns) {
            let Grant::Packets(granted) = job.budget.take(SCRATCH_PACKETS as u64) else { break };
            let lent = self.source.lend(&mut scratch, granted);
            let lent = lent.inspect_err(|_| job.budget.settle(granted, 0))?;
            let (state, packets) = (lent.state, lent.burst.len() as u64);
            job.budget.settle(granted, packets);
            let made_ns = clock::monotonic_ns();
            if packets > 0 {
                self.sent.making_ns += made_ns - now_ns;
                self.sent.first_ns.get_or_insert(now_ns);
                let is_full = self.lanes.send(&lent.burst, &mut self.sent.span)? < packets;
                if state != PortState::Busy && self.is_pause(made_ns) {
                    self.lanes.flush()?;
                    self.flushed_ns = made_ns;
                }
                now_ns = clock::monotonic_ns();
                self.sent.sending_ns += now_ns - made_ns;
                self.sent.last_ns = now_ns;
                self.look_at_lateness(&scratch, now_ns);
                if is_full {
                    self.lanes.settle();
                }
                job.progress.received[0].store(&self.lanes.taken());
            } else {
                now_ns = made_ns;
            }
            if now_ns - self.shown_ns >= LOSSES_EVERY_NS {
                self.lanes.settle();
                self.show(now_ns);
            }
            match state {
                PortState::Ended => break,
                PortState::Idle | PortState::Blocked => now_ns = self.wait(now_ns),
                PortState::Busy => {}
            }
        }
        Ok(())
    }

    /// Whether there is time for a flush: a live sink waits in it for its device, for longer than
    /// packets may be late. Where packets are never so far apart, now and then there is.
    fn is_pause(&self, now_ns: u64) -> bool {
        let next_ns = self.source.pacing().map_or(u64::MAX, |pacing| pacing.next_ns);
        next_ns.saturating_sub(now_ns) > AWAKE_NS || now_ns - self.flushed_ns >= LOSSES_EVERY_NS
    }

    fn look_at_lateness(&mut self, scratch: &Scratch, now_ns: u64) {
        let Some(pacing) = self.source.pacing() else { return };
        let now_ns = now_ns.wrapping_add(pacing.origin_ns);
        for packet in scratch.burst(&[], 0).packets() {
            let late_ns = now_ns.saturating_sub(packet.time_ns());
            crate::verify::record(&mut self.sent.lateness, late_ns);
        }
    }

    /// Waits until the next packet is nearly due, or it is time to look at the flag. Returns the
    /// time.
    fn wait(&mut self, now_ns: u64) -> u64 {
        let is_busy = self.job.threads.poll == PollMode::Busy;
        let until_ns = match self.source.pacing() {
            Some(pacing) => pacing.next_ns.saturating_sub(now_ns).min(self.job.clock.most_ns()),
            None => AWAKE_NS + NAP.as_nanos() as u64,
        };
        if is_busy || until_ns <= AWAKE_NS {
            std::hint::spin_loop();
            return clock::monotonic_ns();
        }
        self.sleeps.sleeps += 1;
        std::thread::sleep(Duration::from_nanos((until_ns - AWAKE_NS).min(SLEEP_MOST_NS)));
        clock::monotonic_ns()
    }

    fn show(&mut self, now_ns: u64) {
        let mut losses = self.source.account().lost;
        losses.merge(&self.lanes.lost());
        if self.shown_ns - self.job.clock.start_ns < SECOND_NS {
            self.sent.lost_first_second = losses.missing();
        }
        self.shown_ns = now_ns;
        self.job.progress.set_losses(0, losses);
        self.job.progress.received[0].store(&self.lanes.taken());
    }
}
