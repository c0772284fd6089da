//! The recorder: drains the logs into the sink, and counts what became of every packet.
//!
//! Logs have their turns one after the other, a burst each: at most a segment, so none starves.
//! Packets of one log stay in order; those of several are not merged by time.
//!
//! Where there is one log, the recorder sleeps on its futex. It can wait for one word only, so
//! for several it parks, and every receive thread unparks it after a publish. An unpark that comes
//! before the park is kept until then, so nothing is slept through. Before it parks it naps, so
//! that it is woken some thousand times a second at most, at the receive threads' expense. Where
//! nobody unparks it (it is one of several), it waits for its logs in turn.
//!
//! Invariant R1: `written` + `lost` = `seen`, for each interface, at every moment; a packet moves
//! from `written` to `lost` when the sink says that it lost one.

use std::thread;
use std::time::Duration;

use burstline_log::{Burst, Packet, Reader};
use burstline_port::{Loss, Losses, Port, PortError, PortTable};
use burstline_sys::clock;

use super::Job;
use super::gaps::Gaps;
use super::tail::Tail;
use crate::clock::{JobClock, SECOND_NS};
use crate::stage::{StageCost, StageMeter};
use crate::tally::{Span, Tally};
use crate::waiting::{PollMode, Sleeps};
use crate::{EngineError, StageReport};

/// How often an idle recorder makes what it has visible, and looks at losses, in ns.
const FLUSH_EVERY_NS: u64 = 100_000_000;

/// How long a recorder lets news gather before it has itself woken by them, at least and at most:
/// a wake costs both sides some 20 us, as much as hundreds of packets.
const NAP_LEAST_NS: u64 = 50_000;
const NAP_MOST_NS: u64 = 4_000_000;

/// How long a recorder of several logs waits for one of them where nobody unparks it, in ns.
const TURN_NS: u64 = 1_000_000;

/// What a source may bring meanwhile: 40 Gbit/s.
const BYTES_PER_NS: u64 = 5;

/// What the recorder brings home, by interface where it is a list.
pub(crate) struct Recorded {
    pub(crate) seen: Vec<Tally>,
    pub(crate) written: Vec<Tally>,
    pub(crate) lost: Vec<Losses>,
    /// All that is written, over all interfaces.
    total: Tally,
    /// Packets that each log took back before they were read.
    pub(crate) missed: Vec<u64>,
    /// Packets of each log that no trigger asked for; empty where all were asked for.
    pub(crate) expired: Vec<u64>,
    /// Packets that were not even given to the sink, because it was broken.
    pub(crate) lost_after_error: u64,
    pub(crate) span: Span,
    pub(crate) cost: StageCost,
    pub(crate) lost_first_second: u64,
    pub(crate) error: Option<EngineError>,
    tail: Tail,
    /// Losses of the sink that are in `lost` already.
    known: Losses,
    /// What further packets are lost to, once the sink is broken.
    cause: Option<Loss>,
}

/// The recorder thread's own.
pub(crate) struct Recorder<'a> {
    /// Which of the job's recorders this is.
    number: usize,
    /// Whether whoever fills several logs unparks it.
    is_rung: bool,
    readers: Vec<Reader>,
    sink: &'a mut dyn Port,
    job: &'a Job<'a>,
    recorded: Recorded,
    gaps: Gaps<'a>,
    flushed_ns: u64,
    losses_shown_ns: u64,
    is_flushed: bool,
    is_first_second_over: bool,
    /// It has napped since there last was something.
    has_napped: bool,
    nap: Duration,
    sleeps: Sleeps,
}

/// A nap in which no source fills more than a quarter of `queue_bytes`.
pub(crate) fn nap_ns(queue_bytes: u64) -> u64 {
    (queue_bytes / 4 / BYTES_PER_NS).clamp(NAP_LEAST_NS, NAP_MOST_NS)
}

/// The nap for a log of so many bytes; a short one where the least latency was asked for.
fn nap(poll: PollMode, log_bytes: u64) -> Duration {
    Duration::from_nanos(match poll {
        PollMode::Adaptive => nap_ns(log_bytes),
        PollMode::Busy | PollMode::Interrupt => NAP_LEAST_NS,
    })
}

impl<'a> Recorder<'a> {
    /// `readers`: one of each log.
    pub(crate) fn new(readers: Vec<Reader>, sink: &'a mut dyn Port, job: &'a Job<'a>) -> Self {
        Self {
            number: 0,
            is_rung: true,
            gaps: Gaps::new(&job.origins, readers.len()),
            readers,
            sink,
            job,
            recorded: Recorded::new(),
            flushed_ns: job.clock.start_ns,
            losses_shown_ns: job.clock.start_ns,
            is_flushed: true,
            is_first_second_over: false,
            has_napped: false,
            nap: nap(job.options.threads.poll, job.options.log.bytes as u64),
            sleeps: Sleeps::default(),
        }
    }

    /// As one of several, whom nobody unparks; `number` is the place of its counts in the job's
    /// [`Progress`](crate::Progress).
    pub(crate) fn numbered(self, number: usize) -> Self {
        Self { number, is_rung: false, ..self }
    }

    /// Records until every log is closed and drained.
    pub(crate) fn run(mut self) -> Recorded {
        let mut meter = StageMeter::start();
        let mut now_ns = clock::monotonic_ns();
        loop {
            let is_idle = !self.take_turns();
            let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
            self.look_at_losses(now_ns);
            if !is_idle {
                meter.busy_ns += now_ns - before_ns;
                self.show();
                continue;
            }
            meter.empty_ns += now_ns - before_ns;
            if self.readers.iter().all(Reader::is_finished) {
                break;
            }
            self.flush_if_due(now_ns);
            self.wait();
            now_ns = clock::monotonic_ns();
        }
        self.show();
        self.recorded.missed = self.missed();
        self.show_losses();
        self.recorded.cost = meter.end(self.sleeps);
        self.recorded
    }

    /// Shows what was recorded, if whoever looks asked for so many recorders.
    fn show(&self) {
        if let Some(counter) = self.job.progress.recorded.get(self.number) {
            counter.store(&self.recorded.total);
        }
    }

    /// Records a burst of each log that has one. False if none has.
    fn take_turns(&mut self) -> bool {
        let mut has_found = false;
        for reader in &mut self.readers {
            if let Some(burst) = reader.next_burst() {
                self.recorded.record(&burst, self.sink, &self.job.clock);
                has_found = true;
            }
        }
        if has_found {
            (self.is_flushed, self.has_napped) = (false, false);
        }
        has_found
    }

    /// Packets that each log took back before they were read.
    fn missed(&self) -> Vec<u64> {
        self.readers.iter().map(|reader| reader.statistics().missed).collect()
    }

    /// Waits until there may be news, or it is time to look at other things.
    fn wait(&mut self) {
        if self.job.options.threads.poll == PollMode::Busy {
            std::hint::spin_loop();
            return;
        }
        self.sleeps.sleeps += 1;
        if !std::mem::replace(&mut self.has_napped, true) {
            thread::sleep(self.nap);
            return;
        }
        let patience_ns = if self.is_rung { FLUSH_EVERY_NS } else { TURN_NS };
        match &self.readers[..] {
            [reader] => reader.wait(FLUSH_EVERY_NS),
            _ if self.is_rung => thread::park_timeout(Duration::from_nanos(patience_ns)),
            readers => {
                let open = readers.iter().find(|reader| !reader.is_finished());
                open.into_iter().for_each(|reader| reader.wait(patience_ns));
            }
        }
        let has_news = self.readers.iter().any(|reader| reader.lag() > 0);
        self.sleeps.wakes += u64::from(has_news);
    }

    fn flush_if_due(&mut self, now_ns: u64) {
        if self.is_flushed || now_ns - self.flushed_ns < FLUSH_EVERY_NS {
            return;
        }
        (self.is_flushed, self.flushed_ns) = (true, now_ns);
        self.recorded.flush(self.sink, &self.job.clock);
    }

    fn look_at_losses(&mut self, now_ns: u64) {
        if now_ns - self.losses_shown_ns >= FLUSH_EVERY_NS {
            self.losses_shown_ns = now_ns;
            self.show_losses();
            self.is_first_second_over = now_ns - self.job.clock.start_ns >= SECOND_NS;
        }
    }

    fn show_losses(&mut self) {
        let mut losses = self.recorded.losses();
        let missed = self.missed();
        self.gaps.tell(self.job.progress, &missed, self.sink);
        let missed = missed.into_iter().sum();
        if missed > 0 {
            losses.add(Loss::ReaderOverrun, missed);
        }
        if !self.is_first_second_over {
            self.recorded.lost_first_second = losses.missing();
        }
        let progress = self.job.progress;
        progress.set_losses(progress.received.len() + self.number, losses);
    }
}

impl Recorded {
    pub(crate) fn new() -> Self {
        Self {
            seen: vec![Tally::default(); PortTable::MAX_ENTRIES],
            written: vec![Tally::default(); PortTable::MAX_ENTRIES],
            lost: vec![Losses::default(); PortTable::MAX_ENTRIES],
            total: Tally::default(),
            missed: Vec::new(),
            expired: Vec::new(),
            lost_after_error: 0,
            span: Span::default(),
            cost: StageCost::default(),
            lost_first_second: 0,
            error: None,
            tail: Tail::new(),
            known: Losses::default(),
            cause: None,
        }
    }

    /// Ends the sink's work, and counts what it lost doing so.
    pub(crate) fn finish(&mut self, sink: &mut dyn Port) {
        let finished = sink.finish();
        self.settle(sink, finished.err(), None);
    }

    /// Has the sink write what it has, unless it is broken.
    pub(crate) fn flush(&mut self, sink: &mut dyn Port, clock: &JobClock<'_>) {
        if self.cause.is_none() {
            let flushed = sink.flush();
            self.settle(sink, flushed.err(), Some(clock));
        }
    }

    /// All that is written, over all interfaces.
    pub(crate) fn total(&self) -> &Tally {
        &self.total
    }

    /// What the sink lost so far, and what came after it broke.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.lost.iter().for_each(|lost| losses.merge(lost));
        losses
    }

    /// Packets of an interface that were seen, and those of them that are written.
    pub(crate) fn by_port(&self, port: u8) -> (u64, u64) {
        let port = usize::from(port);
        (self.seen[port].packets, self.written[port].packets)
    }

    /// What it did as a stage: in = out + lost, what was published to it included.
    pub(crate) fn stage(&self, name: &str, elapsed_ns: u64) -> StageReport {
        let (mut seen, missed) = (Tally::default(), self.missed.iter().sum::<u64>());
        self.seen.iter().for_each(|tally| seen.add(tally));
        let mut stage = self.cost.report(name, elapsed_ns, &seen);
        stage.packets_in = seen.packets + missed;
        stage.packets_out = self.total.packets;
        stage.lost = missed + self.losses().total();
        stage
    }

    /// Why the sink takes no more, if it is broken.
    pub(crate) fn cause(&self) -> Option<Loss> {
        self.cause
    }

    /// There is no sink, for this reason: what comes now is lost, and the job ends.
    pub(crate) fn break_with(&mut self, error: PortError, clock: &JobClock<'_>) {
        self.cause = Some(cause_of(&error));
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
        sink: &mut dyn Port,
        clock: &JobClock<'_>,
    ) -> u64 {
        let bytes = self.note(burst);
        if let Some(cause) = self.cause {
            self.lost_after_error += burst.len() as u64;
            self.lose(cause, burst.len() as u64);
            return bytes;
        }
        match sink.transmit(burst) {
            Ok(taken) if taken == burst.len() as u64 => {}
            Ok(_) => self.settle(sink, None, Some(clock)),
            Err(error) => self.settle(sink, Some(error), Some(clock)),
        }
        bytes
    }

    /// Counts a burst as seen and written: the sink may tell otherwise later. Returns its bytes.
    fn note(&mut self, burst: &Burst<'_>) -> u64 {
        let (mut bytes, mut rest) = (0, *burst);
        while !rest.is_empty() {
            let run = self.note_plain(&rest);
            bytes += run.bytes;
            rest = rest.split_at(run.packets as usize).1;
            if let Some(packet) = rest.packets().next() {
                bytes += packet.length() as u64;
                self.note_one(&packet);
                rest = rest.split_at(1).1;
            }
        }
        bytes
    }

    /// Counts the plain packets at the start of a burst that are of one interface.
    fn note_plain(&mut self, burst: &Burst<'_>) -> Tally {
        let (mut run, mut span) = (Tally::default(), self.span);
        let Some(first) = burst.plain_packets().next() else { return run };
        let port = first.desc.port();
        for packet in burst.plain_packets().take_while(|packet| packet.desc.port() == port) {
            let length = packet.desc.length() as usize;
            run.packets += 1;
            run.bytes += length as u64;
            self.tail.push(port, length, length);
            span.see(packet.time_ns);
        }
        run.wire_bytes = run.bytes;
        self.span = span;
        self.put_down(port, &run);
        run
    }

    fn note_one(&mut self, packet: &Packet<'_>) {
        let port = packet.port();
        let (length, wire_length) = (packet.length(), packet.original_length());
        let (bytes, wire_bytes) = (length as u64, wire_length as u64);
        self.tail.push(port, length, wire_length);
        self.span.see(packet.time_ns());
        self.put_down(port, &Tally { packets: 1, bytes, wire_bytes });
    }

    fn put_down(&mut self, port: u8, run: &Tally) {
        self.seen[usize::from(port)].add(run);
        self.written[usize::from(port)].add(run);
        self.total.add(run);
    }

    /// Takes over what the sink says it has lost since the last time.
    pub(crate) fn settle(
        &mut self,
        sink: &dyn Port,
        error: Option<PortError>,
        clock: Option<&JobClock<'_>>,
    ) {
        let lost = sink.account().lost;
        for (cause, packets) in lost.iter() {
            self.lose(cause, packets.saturating_sub(self.known.of(cause)));
        }
        self.known = lost;
        if let Some(error) = error {
            self.cause = Some(cause_of(&error));
            self.error.get_or_insert(error.into());
            if let Some(clock) = clock {
                clock.break_off();
            }
        }
    }

    /// Moves the newest `packets` from written to lost.
    fn lose(&mut self, cause: Loss, packets: u64) {
        for _ in 0..packets {
            let Some((port, one)) = self.tail.take_back() else { return };
            self.written[port].remove(&one);
            self.total.remove(&one);
            self.lost[port].add(cause, 1);
        }
    }
}

/// What packets are lost to when a sink has failed.
fn cause_of(error: &PortError) -> Loss {
    match error {
        error if error.is_pipe_closed() => Loss::PipeClosed,
        error if error.is_pipe_full() => Loss::PipeFull,
        PortError::InterfaceGone { .. } | PortError::Xdp(_) | PortError::Inject(_) => {
            Loss::LinkDown
        }
        _ => Loss::DiskFull,
    }
}
