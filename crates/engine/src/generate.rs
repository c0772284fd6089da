//! Sends generated or recorded packets: a source lends them and sinks take them, on one core.
//!
//! ```text
//!  wait until due --> gen:    --lend--> burst --transmit--> sink --flush, when nothing more is due
//!                     replay  |           '--- or several, each with its part of the burst
//!                             '-- lateness of each packet, if paced
//! ```
//!
//! Made = taken by the sinks + lost by the sinks, by name. If the core or the sink is too slow,
//! some packets are due but never made; they are not in the ledger. The report gives the requested
//! rate, the achieved rate, and whether the core or the sink was the bottleneck.
//!
//! Invariant S1: every lent packet is given to the sink and is in its account. A packet that the
//! sink loses later, on a flush or at its end, is subtracted from `delivered`.

mod lane;
mod sent;

use std::time::Duration;

use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{PortError, PortState, Received, Routes, Sink, Source};
use burstline_sys::clock;

use crate::runtime::{self, Job, Next, Pause, PollMode, Polled, Post, Round, Step};
use crate::{EngineError, Inlet, Latency, Report, Run, Threads};
use lane::SinkBooks;
use sent::Sent;

/// Longest time between two flushes of the sinks, in ns.
const FLUSH_EVERY_NS: u64 = 100_000_000;

/// Time before a packet is due during which the thread spins, because waking up may take this long.
const AWAKE_NS: u64 = 150_000;

/// The longest sleep, which bounds how late the stop flag is seen.
const SLEEP_MOST_NS: u64 = 50_000_000;

/// How long to sleep when a source without pacing has no packets.
const NAP: Duration = Duration::from_millis(1);

/// What limited the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The core: making packets took longer.
    Core,
    /// The sink: sending took longer, or the sink refused packets.
    Sink,
}

/// The outcome of [`generate`] or [`replay`].
#[derive(Debug)]
pub struct Generated {
    /// The name of the stage: "generate" or "replay".
    pub stage: &'static str,
    /// The job's ledger.
    pub report: Report,
    /// The requested rate in packets per second.
    pub asked_pps: Option<f64>,
    /// The achieved rate in packets per second, from the first packet to the last.
    pub reached_pps: f64,
    /// Why the achieved rate is below the requested one; `None` if it is not.
    pub limit: Option<Limit>,
    /// How long after its due time each packet was in the sink; `None` without a rate. A generated
    /// packet more than a millisecond late counts as one millisecond late.
    pub lateness: Option<Latency>,
}

/// Sends the packets of `source` to a sink until the source ends, a limit is reached, `stop` is set
/// or the sink fails. [`PollMode::Busy`] never sleeps between packets.
///
/// # Errors
/// If the sink cannot be opened, or the thread cannot be started, pinned or given its scheduling
/// class. Later failures are in the report's `errors`.
pub fn generate(
    source: Inlet,
    open_sink: impl FnOnce() -> Result<Box<dyn Sink>, PortError>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Generated, EngineError> {
    let open_lanes = || Ok(SinkBooks::new(vec![open_sink()?], &Routes::default()));
    send("generate", source, open_lanes, threads, run)
}

/// Sends the packets of `source`, a [replay](burstline_port::open_replay), to the sinks that
/// `routes` selects; otherwise like [`generate`]. With several sinks, each has a row in the report.
///
/// # Errors
/// As [`generate`].
pub fn replay(
    source: Inlet,
    routes: &Routes,
    open_sinks: impl FnOnce() -> Result<Vec<Box<dyn Sink>>, PortError>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Generated, EngineError> {
    send("replay", source, || Ok(SinkBooks::new(open_sinks()?, routes)), threads, run)
}

fn send(
    stage: &'static str,
    mut source: Inlet,
    open_lanes: impl FnOnce() -> Result<SinkBooks, PortError>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Generated, EngineError> {
    threads.check(1)?;
    threads.rehearse(stage)?;
    let mut lanes = open_lanes()?;
    let job = Job::start(threads, run);
    run.progress.start(0);
    let step = Sender::new(&job, &mut *source.port, &mut lanes);
    let mut crew = runtime::run_alone(&job, vec![Post { index: 0, name: stage.to_owned(), step }])?;
    let Some(done) = crew.front.pop() else { unreachable!("one thread was started") };
    let mut generated = sent::conclude(done, stage, &source, &lanes, job.ending());
    let report = &mut generated.report;
    report.memory.node = crew.places.first().and_then(|place| place.node);
    job.describe(report, crew.places);
    Ok(generated)
}

struct Sender<'a> {
    job: &'a Job<'a>,
    source: &'a mut dyn Source,
    lanes: &'a mut SinkBooks,
    scratch: Scratch,
    sent: Sent,
    /// The last reading of the clock.
    now_ns: u64,
    flushed_ns: u64,
    /// The source has nothing until the next packet is due.
    is_idle: bool,
    is_ended: bool,
}

impl<'a> Sender<'a> {
    fn new(job: &'a Job<'a>, source: &'a mut dyn Source, lanes: &'a mut SinkBooks) -> Self {
        let (scratch, sent, start_ns) = (Scratch::new(), Sent::default(), job.clock.start_ns);
        let (is_idle, is_ended) = (false, false);
        let (now_ns, flushed_ns) = (start_ns, start_ns);
        Self { job, source, lanes, scratch, sent, now_ns, flushed_ns, is_idle, is_ended }
    }

    /// Makes up to `granted` packets and sends them.
    fn send(&mut self, granted: u64) -> Result<Received, EngineError> {
        let start_ns = self.now_ns;
        let lent = self.source.lend(&mut self.scratch, granted)?;
        let (state, packets) = (lent.state, lent.burst.len() as u64);
        self.is_idle = matches!(state, PortState::Idle | PortState::Blocked);
        let made_ns = clock::monotonic_ns();
        self.now_ns = made_ns;
        if packets > 0 {
            self.sent.making_ns += made_ns - start_ns;
            self.sent.first_ns.get_or_insert(start_ns);
            self.lanes.send(&lent.burst, &mut self.sent.span)?;
            if state != PortState::Busy && self.is_pause(made_ns) {
                self.lanes.flush()?;
                self.flushed_ns = made_ns;
            }
            self.now_ns = clock::monotonic_ns();
            self.sent.sending_ns += self.now_ns - made_ns;
            self.sent.last_ns = self.now_ns;
            self.look_at_lateness();
        }
        Ok(Received { packets, state })
    }

    /// Returns whether there is time for a flush. In a flush a live sink waits for its device for
    /// longer than packets may be late. If packets are never far enough apart, it is periodic.
    fn is_pause(&self, now_ns: u64) -> bool {
        let next_ns = self.source.pacing().map_or(u64::MAX, |pacing| pacing.next_ns);
        next_ns.saturating_sub(now_ns) > AWAKE_NS || now_ns - self.flushed_ns >= FLUSH_EVERY_NS
    }

    fn look_at_lateness(&mut self) {
        let Some(pacing) = self.source.pacing() else { return };
        let now_ns = self.now_ns.wrapping_add(pacing.origin_ns);
        for packet in self.scratch.burst(&[], 0).packets() {
            let late_ns = now_ns.saturating_sub(packet.time_ns());
            crate::verify::record(&mut self.sent.lateness, late_ns);
        }
    }
}

impl Step for Sender<'_> {
    type Outcome = Sent;

    /// Sends what is due.
    fn poll(&mut self, now_ns: u64) -> Polled {
        let (mut round, job) = (Round::default(), self.job);
        self.now_ns = now_ns;
        if !self.is_ended {
            let sent = round.poll(&job.budget, SCRATCH_PACKETS as u64, |most| self.send(most));
            self.is_ended = sent.unwrap_or_else(|error| {
                self.sent.error = Some(error);
                true
            });
        }
        let polled = round.polled(Next::Wait);
        let waits = self.is_idle && polled.next == Next::Poll;
        let next = if waits { Next::Wait } else { polled.next };
        Polled { next, now_ns: Some(self.now_ns), ..polled }
    }

    /// Waits until the next packet is nearly due, or it is time to check the stop flag.
    fn wait(&mut self, pause: Pause<'_>) -> bool {
        let until_ns = match self.source.pacing() {
            Some(pacing) => pacing.next_ns.saturating_sub(pause.now_ns).min(pause.most_ns()),
            None => AWAKE_NS + NAP.as_nanos() as u64,
        };
        if self.job.threads.poll == PollMode::Busy || until_ns <= AWAKE_NS {
            std::hint::spin_loop();
            return true;
        }
        pause.sleep(Duration::from_nanos((until_ns - AWAKE_NS).min(SLEEP_MOST_NS)))
    }

    fn show(&mut self) {
        self.job.progress.received[0].store(&self.lanes.taken());
    }

    fn show_losses(&mut self) -> u64 {
        let mut losses = self.source.account().lost;
        losses.merge(&self.lanes.lost());
        for (number, lane) in self.lanes.all.iter().enumerate() {
            self.job.tell_of_sink(number, &*lane.sink);
        }
        self.job.show_losses(0, losses)
    }

    fn close(&mut self) {
        if let Err(error) = self.lanes.finish() {
            self.sent.error.get_or_insert(error);
        }
    }

    fn end(self) -> Sent {
        self.sent
    }
}
