//! The recorder: drains the logs into the sink, and counts what became of every packet.
//!
//! Logs have their turns one after the other, a burst each: at most a segment, so none starves.
//! Packets of one log stay in order; those of several are not merged by time.
//!
//! Where there is one log, the recorder sleeps on its futex. It can wait for one word only, so for
//! several it parks, and every receive thread unparks it after a publish. An unpark that comes
//! before the park is kept until then, so nothing is slept through. Before it parks it naps. So it
//! is woken some thousand times a second at most, which costs the receive threads time. Where
//! nobody unparks it (it is one of several), it waits for its logs in turn.
//!
//! Invariant R1: written = seen - lost, for each interface. The recorder counts what it gives to
//! the sink, and the sink says which of those packets were lost. What came after the sink broke was
//! not given to it, and is lost as well.

use std::ops::DerefMut;
use std::thread;
use std::time::Duration;

use burstline_log::{Burst, Desc, Packet, PlainSum, Reader};
use burstline_port::{Loss, Losses, LostPackets, PortError, PortTable, Sink};

use super::gaps::{Gaps, Origin};
use crate::runtime::clock::JobClock;
use crate::runtime::{Job, Next, Pause, PollMode, Polled, Span, StageCost, Step, Tally};
use crate::{EngineError, StageReport};

/// How long a recorder sleeps at most, in ns: then an idle one makes what it has visible.
const SLEEP_MOST_NS: u64 = 100_000_000;

/// How long a recorder lets packets gather before they wake it, at least and at most. A wake costs
/// both sides some 20 us, as much as hundreds of packets.
pub(crate) const NAP_LEAST_NS: u64 = 50_000;
const NAP_MOST_NS: u64 = 4_000_000;

/// How long a recorder of several logs waits for one of them where nobody unparks it, in ns.
const TURN_NS: u64 = 1_000_000;

/// What a source may bring meanwhile: 40 Gbit/s.
const BYTES_PER_NS: u64 = 5;

/// Packets are counted by interface in one word: their number above the sum of their bytes. Each
/// has fewer than 2^19 bytes.
const DEALT_MOST: usize = 4096;
const DEALT_ONE: u64 = 1 << 40;

/// What a recorder tells at its end, by interface where it is a list.
pub(crate) struct Recorded {
    pub(crate) seen: Vec<Tally>,
    /// Over all interfaces.
    total_seen: Tally,
    /// What the sink says it has lost, as of the last time it was asked.
    lost_by_sink: LostPackets,
    /// What was not even given to the sink, because it was broken.
    refused: LostPackets,
    /// Packets that each log took back before they were read.
    pub(crate) missed: Vec<u64>,
    /// Packets of each log that no trigger asked for; empty where all were asked for.
    pub(crate) expired: Vec<u64>,
    pub(crate) span: Span,
    pub(crate) error: Option<EngineError>,
    /// What further packets are lost to, once the sink is broken.
    cause: Option<Loss>,
}

/// A recorder thread's own. Its sink is lent to it, or its own and dropped at its end.
pub(crate) struct Recorder<'a, S> {
    /// Which of the job's recorders this is.
    number: usize,
    /// Whether the threads that fill its logs unpark it.
    is_rung: bool,
    readers: Vec<Reader>,
    sink: S,
    job: &'a Job<'a>,
    recorded: Recorded,
    gaps: Gaps,
    nap: Duration,
}

/// A nap in which no source fills more than a quarter of `queue_bytes`.
pub(crate) fn nap_ns(queue_bytes: u64) -> u64 {
    (queue_bytes / 4 / BYTES_PER_NS).clamp(NAP_LEAST_NS, NAP_MOST_NS)
}

/// The nap for a log of `log_bytes`; a short one where the least latency was asked for.
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
            sink,
            job,
            recorded: Recorded::new(),
            nap: nap(job.threads.poll, log_bytes as u64),
        }
    }

    /// As one of several recorders, which nobody unparks; `number` is the place of its counts in
    /// the job's [`Progress`](crate::Progress).
    pub(crate) fn numbered(self, number: usize) -> Self {
        Self { number, is_rung: false, ..self }
    }

    /// Packets that each log took back before they were read.
    fn missed(&self) -> Vec<u64> {
        self.readers.iter().map(|reader| reader.statistics().missed).collect()
    }

    /// Sleeps until there may be news, or it is time to look at other things. Returns whether
    /// there is news.
    fn sleep(&self) -> bool {
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

    /// Records a burst of each log that has one.
    fn poll(&mut self, _now_ns: u64) -> Polled {
        let mut has_found = false;
        for reader in &mut self.readers {
            if let Some(burst) = reader.next_burst() {
                self.recorded.record(&burst, &mut *self.sink, &self.job.clock);
                has_found = true;
            }
        }
        let next = match has_found {
            true => Next::Poll,
            false if self.readers.iter().all(Reader::is_finished) => Next::Over,
            false => Next::Wait,
        };
        Polled { has_found, next, now_ns: None }
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        pause.on_logs(self.nap, || self.sleep())
    }

    /// Shows what was recorded, if the counters have a place for this recorder.
    fn show(&mut self) {
        if let Some(counter) = self.job.progress.recorded.get(self.number) {
            counter.store(&self.recorded.total());
        }
    }

    fn show_losses(&mut self) -> u64 {
        let mut losses = self.recorded.losses();
        let missed = self.missed();
        self.gaps.tell(self.job.progress, &missed, &mut *self.sink);
        if self.is_rung {
            // For a file that ends before the job does.
            let totals =
                self.gaps.totals(self.job.progress, &missed, |port| self.recorded.lost_of(port));
            self.sink.set_totals(&totals);
        }
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

    fn flush(&mut self) {
        self.recorded.flush(&mut *self.sink, &self.job.clock);
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

    /// Ends the sink's work, and counts what it lost doing so.
    pub(crate) fn finish(&mut self, sink: &mut dyn Sink) {
        let finished = sink.finish();
        self.ask(sink);
        if let Err(error) = finished {
            self.break_off(error);
        }
    }

    /// Has the sink write what it has, unless it is broken.
    pub(crate) fn flush(&mut self, sink: &mut dyn Sink, clock: &JobClock<'_>) {
        if self.cause.is_none() {
            let flushed = sink.flush();
            self.ask(sink);
            self.heed(flushed, clock);
        }
    }

    /// All that is written, over all interfaces.
    pub(crate) fn total(&self) -> Tally {
        let given = self.total_seen.without(&self.refused.total());
        given.without(&self.lost_by_sink.total())
    }

    /// What is written of an interface.
    pub(crate) fn written(&self, port: usize) -> Tally {
        let given = self.seen[port].without(&self.refused.tally_of(port as u8));
        given.without(&self.lost_by_sink.tally_of(port as u8))
    }

    /// What was lost of an interface.
    pub(crate) fn lost(&self, port: usize) -> Losses {
        let mut losses = self.lost_by_sink.losses_of(port as u8);
        losses.merge(&self.refused.losses_of(port as u8));
        losses
    }

    /// How many packets were lost of an interface.
    pub(crate) fn lost_of(&self, port: u8) -> u64 {
        self.lost(port.into()).total()
    }

    /// What the sink lost so far, and what came after it broke.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = self.lost_by_sink.losses();
        losses.merge(&self.refused.losses());
        losses
    }

    /// Packets that were not even given to the sink, because it was broken.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.total().packets
    }

    /// What it did as a stage: in = out + lost, what was published to it included.
    pub(crate) fn stage(&self, name: &str, cost: &StageCost, elapsed_ns: u64) -> StageReport {
        let (seen, missed) = (&self.total_seen, self.missed.iter().sum::<u64>());
        let mut stage = cost.report(name, elapsed_ns, seen);
        stage.packets_in = seen.packets + missed;
        stage.packets_out = self.total().packets;
        stage.lost = missed + self.losses().total();
        stage
    }

    /// Why the sink takes no more, if it is broken.
    pub(crate) fn cause(&self) -> Option<Loss> {
        self.cause
    }

    /// There is no sink, for this reason: what comes now is lost, and the job ends.
    pub(crate) fn break_with(&mut self, error: PortError, clock: &JobClock<'_>) {
        self.cause = Some(error.loss());
        self.fail(error.into(), clock);
    }

    /// Ends the job for this reason, unless there was another before.
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

    /// Counts a burst of plain packets. Cost: some ten instructions a packet; where they are of
    /// several interfaces, some six more.
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

    /// Counts whole packets of several interfaces, by interface: number and bytes in one word each,
    /// so that a packet is one addition.
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

    /// Asks the sink what it has lost.
    pub(crate) fn ask(&mut self, sink: &dyn Sink) {
        self.lost_by_sink = sink.lost();
    }

    /// Ends the job, where the sink is broken.
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
