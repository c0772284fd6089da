//! The recorder: drains the logs into the sink, and accounts for every packet.
//!
//! The logs take turns, a burst each: at most a segment, so none starves. Packets of one log stay
//! in order; packets of different logs are not merged by time.
//!
//! With one log, the recorder sleeps on its futex. A thread can wait for only one futex word. So
//! for several logs the recorder parks, and every receive thread unparks it after a publish. An
//! unpark before the park is not lost, so no packet is missed. The recorder naps before it parks.
//! So it is woken some thousand times a second at most, which limits the cost to the receive
//! threads. A recorder that no thread unparks (one of several) waits for its logs in turn.
//!
//! A recorder that *follows* an order reads all logs in that order, and sleeps on the order's log.
//!
//! Invariant R1: written = seen - lost, for each interface. The recorder counts the packets that it
//! gives to the sink, and the sink reports which of them were lost. Packets that arrive after the
//! sink broke are not given to it, and also count as lost.

use std::ops::DerefMut;
use std::thread;
use std::time::Duration;

use burstline_log::{Burst, Desc, Packet, PlainSum, Reader};
use burstline_port::{Loss, Losses, LostPackets, PortError, PortTable, Sink};

use super::follow::Follow;
use super::gaps::{Gaps, Origin};
use crate::runtime::clock::JobClock;
use crate::runtime::{Job, Next, Pause, PollMode, Polled, Span, StageCost, Step, Tally};
use crate::{EngineError, StageReport};

/// The longest sleep of a recorder, in ns; an idle recorder then flushes its sink.
const SLEEP_MOST_NS: u64 = 100_000_000;

/// The shortest and longest nap in which packets gather before they wake a recorder. A wake-up
/// costs both sides some 20 us, as much as hundreds of packets.
pub(crate) const NAP_LEAST_NS: u64 = 50_000;
const NAP_MOST_NS: u64 = 4_000_000;

/// How long a recorder of several logs waits for one of them if no thread unparks it, in ns.
const TURN_NS: u64 = 1_000_000;

/// Fastest rate assumed for a source during a nap: 40 Gbit/s.
const BYTES_PER_NS: u64 = 5;

/// `deal` counts packets by interface in one word: their number above the sum of their bytes. Each
/// has fewer than 2^19 bytes.
const DEALT_MOST: usize = 4096;
const DEALT_ONE: u64 = 1 << 40;

/// The outcome of a recorder; `seen` is by interface.
pub(crate) struct Recorded {
    pub(crate) seen: Vec<Tally>,
    /// Over all interfaces.
    total_seen: Tally,
    /// Packets lost by the sink, as of the last query.
    lost_by_sink: LostPackets,
    /// Packets not given to the sink because it was broken.
    refused: LostPackets,
    /// Packets overwritten before they were read, by log.
    pub(crate) missed: Vec<u64>,
    /// Packets of each log that no trigger asked for; empty if the job has no triggers.
    pub(crate) expired: Vec<u64>,
    pub(crate) span: Span,
    pub(crate) error: Option<EngineError>,
    /// The loss cause of further packets, once the sink is broken.
    cause: Option<Loss>,
}

/// A recorder thread's state. Its sink is either borrowed, or owned and dropped at its end.
pub(crate) struct Recorder<'a, S> {
    /// Number among the job's recorders.
    number: usize,
    /// Whether the threads that fill its logs unpark it.
    is_rung: bool,
    readers: Vec<Reader>,
    /// The order of its logs' packets; `None` if the logs take turns.
    follow: Option<Follow>,
    sink: S,
    job: &'a Job<'a>,
    recorded: Recorded,
    gaps: Gaps,
    nap: Duration,
}

/// Returns a nap in which no source fills more than a quarter of `queue_bytes`.
pub(crate) fn nap_ns(queue_bytes: u64) -> u64 {
    (queue_bytes / 4 / BYTES_PER_NS).clamp(NAP_LEAST_NS, NAP_MOST_NS)
}

/// Returns the nap for a log of `log_bytes`; a short one if the poll mode asks for low latency.
fn nap(poll: PollMode, log_bytes: u64) -> Duration {
    Duration::from_nanos(match poll {
        PollMode::Adaptive => nap_ns(log_bytes),
        PollMode::Busy | PollMode::Interrupt => NAP_LEAST_NS,
    })
}

impl<'a, 'p, S: DerefMut<Target = dyn Sink + 'p>> Recorder<'a, S> {
    /// `readers`: one of each log, of `log_bytes` each; `origins`: all sources of the job.
    pub(crate) fn new(
        job: &'a Job<'a>,
        readers: Vec<Reader>,
        sink: S,
        origins: Vec<Origin>,
        log_bytes: usize,
    ) -> Self {
        Self {
            number: 0,
            is_rung: true,
            gaps: Gaps::new(origins, readers.len()),
            readers,
            follow: None,
            sink,
            job,
            recorded: Recorded::new(),
            nap: nap(job.threads.poll, log_bytes as u64),
        }
    }

    /// Makes it one of several recorders, which no thread unparks; `number` is the place of its
    /// counts in the job's [`Progress`](crate::Progress).
    pub(crate) fn numbered(self, number: usize) -> Self {
        Self { number, is_rung: false, ..self }
    }

    /// Makes it follow an order of its logs' packets.
    pub(crate) fn following(self, follow: Follow) -> Self {
        Self { follow: Some(follow), ..self }
    }

    /// Returns whether all logs were read to their end.
    fn is_over(&self) -> bool {
        match &self.follow {
            Some(follow) => follow.is_over(),
            None => self.readers.iter().all(Reader::is_finished),
        }
    }

    /// Returns the packets of each log that were overwritten before they were read.
    fn missed(&self) -> Vec<u64> {
        if let Some(follow) = &self.follow {
            return follow.missed(&self.readers);
        }
        self.readers.iter().map(|reader| reader.statistics().missed).collect()
    }

    /// Sleeps until a log may have packets, or the time is up. Returns whether a log has packets.
    fn sleep(&self) -> bool {
        if let Some(follow) = &self.follow {
            return follow.sleep(SLEEP_MOST_NS);
        }
        let patience_ns = if self.is_rung { SLEEP_MOST_NS } else { TURN_NS };
        match &self.readers[..] {
            [reader] => reader.wait(SLEEP_MOST_NS),
            _ if self.is_rung => thread::park_timeout(Duration::from_nanos(patience_ns)),
            readers => {
                let open = readers.iter().find(|reader| !reader.is_finished());
                open.into_iter().for_each(|reader| reader.wait(patience_ns));
            }
        }
        self.readers.iter().any(|reader| reader.lag() > 0)
    }
}

impl<'p, S: DerefMut<Target = dyn Sink + 'p> + Send> Step for Recorder<'_, S> {
    type Outcome = Recorded;
    const READS_LOGS: bool = true;

    /// Records a burst of each log that has one, or what the order names.
    fn poll(&mut self, _now_ns: u64) -> Polled {
        let (recorded, sink, clock) = (&mut self.recorded, &mut self.sink, &self.job.clock);
        let mut has_found = false;
        if let Some(follow) = &mut self.follow {
            has_found = follow.poll(&mut self.readers, |burst| {
                recorded.record(burst, &mut **sink, clock);
            });
        } else {
            for reader in &mut self.readers {
                if let Some(burst) = reader.next_burst() {
                    recorded.record(&burst, &mut **sink, clock);
                    has_found = true;
                }
            }
        }
        let next = match has_found {
            true => Next::Poll,
            false if self.is_over() => Next::Over,
            false => Next::Wait,
        };
        Polled { has_found, next, now_ns: None }
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        pause.on_logs(self.nap, || self.sleep())
    }

    /// Shows the recorded counts, if the counters have a place for this recorder.
    fn show(&mut self) {
        if let Some(counter) = self.job.progress.recorded.get(self.number) {
            counter.store(&self.recorded.total());
        }
    }

    fn show_losses(&mut self) -> u64 {
        let mut losses = self.recorded.losses();
        let missed = self.missed();
        self.gaps.tell(self.job.progress, &missed, &self.recorded.seen, &mut *self.sink);
        if self.is_rung {
            // Totals for a file that ends before the job does.
            let totals =
                self.gaps.totals(self.job.progress, &missed, |port| self.recorded.lost_of(port));
            self.sink.set_totals(&totals);
        }
        self.recorded.look_at_clock(&mut *self.sink, &self.job.clock);
        let missed = missed.into_iter().sum();
        if missed > 0 {
            losses.add(Loss::ReaderOverrun, missed);
        }
        self.job.tell_of_sink(self.number, &*self.sink);
        self.job.show_losses_behind(self.number, losses)
    }

    fn newest_ns(&self) -> u64 {
        self.recorded.span.last_ns
    }

    fn flush(&mut self) -> bool {
        self.recorded.flush(&mut *self.sink, &self.job.clock)
    }

    fn end(mut self) -> Recorded {
        self.recorded.missed = self.missed();
        self.recorded
    }
}

impl Recorded {
    pub(crate) fn new() -> Self {
        Self {
            seen: vec![Tally::default(); PortTable::MAX_ENTRIES],
            total_seen: Tally::default(),
            lost_by_sink: LostPackets::default(),
            refused: LostPackets::default(),
            missed: Vec::new(),
            expired: Vec::new(),
            span: Span::default(),
            error: None,
            cause: None,
        }
    }

    /// Finishes the sink, and counts its losses in doing so.
    pub(crate) fn finish(&mut self, sink: &mut dyn Sink) {
        let finished = sink.finish();
        self.ask(sink);
        if let Err(error) = finished {
            self.break_off(error);
        }
    }

    /// Flushes the sink if that is due, unless it is broken. Returns whether nothing is left for
    /// later.
    pub(crate) fn flush(&mut self, sink: &mut dyn Sink, clock: &JobClock<'_>) -> bool {
        if self.cause.is_some() {
            return true;
        }
        let flushed = sink.flush_when_due();
        self.ask(sink);
        let is_flushed = *flushed.as_ref().unwrap_or(&true);
        self.heed(flushed.map(drop), clock);
        is_flushed
    }

    /// Has the sink do what is due by the clock, unless it is broken.
    pub(crate) fn look_at_clock(&mut self, sink: &mut dyn Sink, clock: &JobClock<'_>) {
        if self.cause.is_none()
            && let Err(error) = sink.look_at_clock()
        {
            self.ask(sink);
            self.heed(Err(error), clock);
        }
    }

    /// Returns the packets written, over all interfaces.
    pub(crate) fn total(&self) -> Tally {
        let given = self.total_seen.without(&self.refused.total());
        given.without(&self.lost_by_sink.total())
    }

    /// Returns the packets written of an interface.
    pub(crate) fn written(&self, port: usize) -> Tally {
        let given = self.seen[port].without(&self.refused.tally_of(port as u8));
        given.without(&self.lost_by_sink.tally_of(port as u8))
    }

    /// Returns the losses of an interface, by cause.
    pub(crate) fn lost(&self, port: usize) -> Losses {
        let mut losses = self.lost_by_sink.losses_of(port as u8);
        losses.merge(&self.refused.losses_of(port as u8));
        losses
    }

    /// Returns how many packets of an interface were lost.
    pub(crate) fn lost_of(&self, port: u8) -> u64 {
        self.lost(port.into()).total()
    }

    /// Returns the losses of the sink so far, and the packets that arrived after it broke.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = self.lost_by_sink.losses();
        losses.merge(&self.refused.losses());
        losses
    }

    /// Returns the packets not given to the sink because it was broken.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.total().packets
    }

    /// Returns the report of the stage: in = out + lost, where `in` includes missed packets.
    pub(crate) fn stage(&self, name: &str, cost: &StageCost, elapsed_ns: u64) -> StageReport {
        let (seen, missed) = (&self.total_seen, self.missed.iter().sum::<u64>());
        let mut stage = cost.report(name, elapsed_ns, seen);
        stage.packets_in = seen.packets + missed;
        stage.packets_out = self.total().packets;
        stage.lost = missed + self.losses().total();
        stage
    }

    /// Returns the loss cause of a broken sink.
    pub(crate) fn cause(&self) -> Option<Loss> {
        self.cause
    }

    /// Marks the sink as broken by `error`: packets from now on are lost, and the job ends.
    pub(crate) fn break_with(&mut self, error: PortError, clock: &JobClock<'_>) {
        self.cause = Some(error.loss());
        self.fail(error.into(), clock);
    }

    /// Ends the job with this error, unless an earlier one is recorded.
    pub(crate) fn fail(&mut self, error: EngineError, clock: &JobClock<'_>) {
        self.error.get_or_insert(error);
        clock.break_off();
    }

    /// Gives a burst to the sink and counts it. Returns its bytes.
    pub(crate) fn record(
        &mut self,
        burst: &Burst<'_>,
        sink: &mut dyn Sink,
        clock: &JobClock<'_>,
    ) -> u64 {
        let bytes = self.note(burst);
        if let Some(cause) = self.cause {
            self.refused.add_burst(cause, burst);
            return bytes;
        }
        let taken = sink.transmit(burst);
        if taken.as_ref().ok() != Some(&(burst.len() as u64)) {
            self.ask(sink);
        }
        self.heed(taken.map(drop), clock);
        bytes
    }

    /// Counts a burst as seen. Returns its bytes.
    fn note(&mut self, burst: &Burst<'_>) -> u64 {
        if let Some(sum) = burst.plain_sum() {
            return self.note_plain(burst, &sum);
        }
        let mut bytes = 0;
        for packet in burst.packets() {
            bytes += packet.length() as u64;
            self.note_one(&packet);
        }
        bytes
    }

    /// Counts a burst of plain packets. Cost: some ten instructions a packet; some six more if they
    /// are of several interfaces.
    fn note_plain(&mut self, burst: &Burst<'_>, sum: &PlainSum) -> u64 {
        self.span.see(sum.first_ns);
        self.span.see(sum.last_ns);
        let packets = burst.len() as u64;
        match sum.port {
            Some(port) => self.seen[usize::from(port)].add(&Tally::whole(packets, sum.bytes)),
            None => self.deal(burst.worklist()),
        }
        self.total_seen.add(&Tally::whole(packets, sum.bytes));
        sum.bytes
    }

    /// Counts whole packets of several interfaces, by interface. Packets and bytes share one word,
    /// so that a packet costs one addition.
    fn deal(&mut self, worklist: &[Desc]) {
        for part in worklist.chunks(DEALT_MOST) {
            let mut sums = [0_u64; PortTable::MAX_ENTRIES];
            let mut highest = 0;
            for desc in part {
                sums[usize::from(desc.port())] += DEALT_ONE | u64::from(desc.length());
                highest |= desc.port();
            }
            let (sums, _) = sums.split_at(usize::from(highest) + 1);
            for (seen, sum) in self.seen.iter_mut().zip(sums) {
                seen.add(&Tally::whole(sum / DEALT_ONE, sum % DEALT_ONE));
            }
        }
    }

    fn note_one(&mut self, packet: &Packet<'_>) {
        self.span.see(packet.time_ns());
        self.put_down(packet.port(), &Tally::one(packet));
    }

    fn put_down(&mut self, port: u8, run: &Tally) {
        self.seen[usize::from(port)].add(run);
        self.total_seen.add(run);
    }

    /// Queries the sink's losses.
    pub(crate) fn ask(&mut self, sink: &dyn Sink) {
        self.lost_by_sink = sink.lost();
    }

    /// Ends the job if the sink is broken.
    pub(crate) fn heed(&mut self, outcome: Result<(), PortError>, clock: &JobClock<'_>) {
        if let Err(error) = outcome {
            self.break_off(error);
            clock.break_off();
        }
    }

    fn break_off(&mut self, error: PortError) {
        self.cause = Some(error.loss());
        self.error.get_or_insert(error.into());
    }
}
