//! Sending made packets: a generator lends, a sink takes, on one core.
//!
//! ```text
//!  wait until due --> gen: --lend--> burst --transmit--> sink --flush, when nothing more is due
//!                                                 '-- lateness of each packet, where it is paced
//! ```
//!
//! Made = taken by the sink + what the sink lost, by name. What was due and not made, because the
//! core or the sink was too slow, is not in the ledger: it never was a packet. The report says
//! instead what rate was asked for, what was reached, and which of the two it was.
//!
//! Invariant S1: every packet that was lent is given to the sink, and is in its account; one that
//! the sink lost later, on a flush or at its end, is taken back from `delivered`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};
use burstline_port::{Losses, Port, PortError, PortState};
use burstline_sys::clock;
use hdrhistogram::Histogram;

use crate::budget::{Budget, Grant};
use crate::capture::tail::Tail;
use crate::clock::{JobClock, SECOND_NS};
use crate::job::{self, Limits, Source, Threads};
use crate::report::Ending;
use crate::stage::{StageCost, StageMeter, Usage};
use crate::tally::{Span, Tally, tally};
use crate::waiting::{PollMode, Sleeps};
use crate::{EngineError, Latency, PortReport, Progress, Report};

/// How often losses are shown while it runs, in ns.
const LOSSES_EVERY_NS: u64 = 100_000_000;

/// Before a packet is due it is waited for without sleep, so long: a sleeper may take that to get
/// up.
const AWAKE_NS: u64 = 150_000;

/// The longest sleep: as long it may take until a flag is seen.
const SLEEP_MOST_NS: u64 = 50_000_000;

/// A rate that was reached to this part was kept: what is left is the first and the last packet.
const KEPT: f64 = 0.99;

/// What a job is made with.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// What bounds it, besides the source's own number of packets.
    pub limits: Limits,
    /// Where its thread runs. [`PollMode::Busy`] never sleeps between packets.
    pub threads: Threads,
}

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
    /// The ledger, as of every job.
    pub report: Report,
    /// Packets a second that were asked for.
    pub asked_pps: Option<f64>,
    /// Packets a second that were made, from the first to the last.
    pub reached_pps: f64,
    /// Why it was less than what was asked for; `None` where it was not.
    pub limit: Option<Limit>,
    /// How long after they were due packets were in the sink; `None` without a rate. A packet that
    /// is more than a millisecond late counts as that.
    pub lateness: Option<Latency>,
}

/// Sends what `source` makes to a sink until it ends, a limit is reached, `stop` is set or the sink
/// breaks.
///
/// # Errors
/// The sink could not be opened, or the thread not be started, pinned or given its class. What goes
/// wrong later is in the report's `errors`.
pub fn generate(
    mut source: Source,
    open_sink: impl FnOnce() -> Result<Box<dyn Port>, PortError>,
    options: &GenerateOptions,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<Generated, EngineError> {
    let threads = &options.threads;
    threads.check(1)?;
    threads.rehearse(STAGE)?;
    let mut sink = open_sink()?;
    let usage_before = Usage::now();
    let job = Job {
        options,
        clock: JobClock::start(options.limits.duration_ns, stop),
        budget: Budget::new(options.limits.packets),
        progress,
    };
    progress.start(0);
    let sender = Sender::new(&job, &mut *source.port, &mut *sink);
    let (place, sent) = std::thread::scope(|scope| {
        let work = || {
            let place = threads.settle(0, STAGE);
            let place = place.and_then(|place| threads.drop_privileges().map(|()| place));
            (place.inspect_err(|_| job.clock.break_off()), sender.run())
        };
        let thread = job::spawn(scope, STAGE, work)?;
        threads.drop_privileges().inspect_err(|_| job.clock.break_off())?;
        Ok::<_, EngineError>(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let place = place?;
    let usage = Usage::now().since(&usage_before);
    let mut generated = sent.conclude(&source, &*sink, job.clock.elapsed_ns(), usage);
    let report = &mut generated.report;
    report.poll = threads.poll;
    report.memory.node = place.node;
    report.placement.threads.push(place);
    Ok(generated)
}

const STAGE: &str = "generate";

struct Job<'a> {
    options: &'a GenerateOptions,
    clock: JobClock<'a>,
    budget: Budget,
    progress: &'a Progress,
}

/// What the thread brings home.
struct Sent {
    /// Packets lent, and of them those that the sink took and has not lost since.
    made: Tally,
    taken: Tally,
    lost: Losses,
    span: Span,
    /// When the first packet was to be sent, and when the last one had been: monotonic clock.
    first_ns: Option<u64>,
    last_ns: u64,
    /// Time that making packets took, and sending them.
    making_ns: u64,
    sending_ns: u64,
    lateness: Histogram<u64>,
    lost_first_second: u64,
    cost: StageCost,
    error: Option<EngineError>,
}

struct Sender<'a> {
    job: &'a Job<'a>,
    source: &'a mut dyn Port,
    sink: &'a mut dyn Port,
    sent: Sent,
    tail: Tail,
    is_flushed: bool,
    sleeps: Sleeps,
    shown_ns: u64,
}

impl<'a> Sender<'a> {
    fn new(job: &'a Job<'a>, source: &'a mut dyn Port, sink: &'a mut dyn Port) -> Self {
        let lateness = crate::verify::histogram();
        let sent = Sent {
            made: Tally::default(),
            taken: Tally::default(),
            lost: Losses::default(),
            span: Span::default(),
            first_ns: None,
            last_ns: 0,
            making_ns: 0,
            sending_ns: 0,
            lateness,
            lost_first_second: 0,
            cost: StageCost::default(),
            error: None,
        };
        let (tail, shown_ns) = (Tail::new(), job.clock.start_ns);
        Self {
            job,
            source,
            sink,
            sent,
            tail,
            is_flushed: true,
            sleeps: Sleeps::default(),
            shown_ns,
        }
    }

    fn run(mut self) -> Sent {
        let mut meter = StageMeter::start();
        if let Err(error) = self.send_until_over() {
            self.sent.error = Some(error);
        }
        if let Err(error) = self.sink.finish() {
            self.sent.error.get_or_insert(error.into());
        }
        self.settle();
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
                let sent = Self::send(&mut *self.sink, &mut self.sent, &mut self.tail, &lent.burst);
                self.is_flushed = false;
                let is_full = sent? < packets;
                if state != PortState::Busy {
                    self.flush()?;
                }
                now_ns = clock::monotonic_ns();
                self.sent.sending_ns += now_ns - made_ns;
                self.sent.last_ns = now_ns;
                self.look_at_lateness(&scratch, now_ns);
                if is_full {
                    self.settle();
                }
                job.progress.received[0].store(&self.sent.taken);
            } else {
                now_ns = made_ns;
            }
            if now_ns - self.shown_ns >= LOSSES_EVERY_NS {
                self.settle();
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

    /// Gives a burst to the sink. Returns how many packets it took.
    fn send(
        sink: &mut dyn Port,
        sent: &mut Sent,
        tail: &mut Tail,
        burst: &Burst<'_>,
    ) -> Result<u64, EngineError> {
        let sum = tally(burst, &mut sent.span);
        sent.made.add(&sum);
        sent.taken.add(&sum);
        for packet in burst.packets() {
            tail.push(packet.port(), packet.length(), packet.original_length());
        }
        Ok(sink.transmit(burst)?)
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        if !std::mem::replace(&mut self.is_flushed, true) {
            self.sink.flush()?;
        }
        Ok(())
    }

    /// Takes over what the sink says it has lost since the last time.
    fn settle(&mut self) {
        let lost = self.sink.account().lost;
        let new = lost.total().saturating_sub(self.sent.lost.total());
        for _ in 0..new {
            if let Some((_, one)) = self.tail.take_back() {
                self.sent.taken.remove(&one);
            }
        }
        self.sent.lost = lost;
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
        let next_ns = self.source.pacing().map_or(now_ns, |pacing| pacing.next_ns);
        let until_ns = next_ns.saturating_sub(now_ns).min(self.job.clock.most_ns());
        if self.job.options.threads.poll == PollMode::Busy || until_ns <= AWAKE_NS {
            std::hint::spin_loop();
            return clock::monotonic_ns();
        }
        self.sleeps.sleeps += 1;
        std::thread::sleep(Duration::from_nanos((until_ns - AWAKE_NS).min(SLEEP_MOST_NS)));
        clock::monotonic_ns()
    }

    fn show(&mut self, now_ns: u64) {
        let mut losses = self.source.account().lost;
        losses.merge(&self.sent.lost);
        if self.shown_ns - self.job.clock.start_ns < SECOND_NS {
            self.sent.lost_first_second = losses.missing();
        }
        self.shown_ns = now_ns;
        self.job.progress.set_losses(0, losses);
        self.job.progress.received[0].store(&self.sent.taken);
    }
}

impl Sent {
    fn conclude(
        mut self,
        source: &Source,
        sink: &dyn Port,
        elapsed_ns: u64,
        usage: Usage,
    ) -> Generated {
        let mut account = source.port.account();
        let given = sink.account();
        let name = format!("{} > {}", source.port.info().name, sink.info().name);
        // What was due and not made never was a packet.
        account.offered -= std::mem::take(&mut account.in_flight);
        account.in_flight = given.in_flight;
        self.taken.packets -= given.in_flight.min(self.taken.packets);
        let row = PortReport::new(&name, &account, &self.taken, &given.lost);
        let ending = Ending {
            elapsed_ns,
            usage,
            empty_ns: 0,
            span: self.span,
            lost_first_second: self.lost_first_second,
            bytes_copied: account.bytes_copied + given.bytes_copied,
        };
        let mut report = Report::new(vec![row], &ending);
        if given.offered != self.made.packets {
            let (ours, theirs) = (self.made.packets, given.offered);
            report.total.unaccounted += ours as i64 - theirs as i64;
            report.notes.push(format!(
                "packets given to the sink: {ours} by one count, {theirs} by another"
            ));
        }
        let mut stage = self.cost.report(STAGE, elapsed_ns, &self.taken);
        stage.packets_in = self.made.packets;
        stage.lost = given.lost.total();
        report.stages.push(stage);
        report.hear(std::slice::from_ref(source));
        report.hear_port(sink);
        report.errors.extend(self.error.take());
        let asked_pps = source.port.pacing().map(|pacing| pacing.packets_per_s);
        let reached_pps = self.reached_pps();
        Generated {
            report,
            asked_pps,
            reached_pps,
            limit: asked_pps
                .filter(|asked| reached_pps < asked * KEPT)
                .map(|_| self.limit(&given.lost)),
            lateness: asked_pps.map(|_| Latency::of(&self.lateness)),
        }
    }

    /// Each packet but the first is the end of an interval.
    fn reached_pps(&self) -> f64 {
        let span_ns = self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns));
        match span_ns {
            0 => 0.0,
            _ => self.made.packets.saturating_sub(1).max(1) as f64 * 1e9 / span_ns as f64,
        }
    }

    /// Whichever took longer; a sink that refused packets in any case.
    fn limit(&self, lost: &Losses) -> Limit {
        match lost.missing() > 0 || self.sending_ns > self.making_ns {
            true => Limit::Sink,
            false => Limit::Core,
        }
    }
}
