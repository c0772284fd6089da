//! Capturing: sources into a log on one core, the log into a sink on another.
//!
//! ```text
//!  sources --receive--> | segment | segment | ... --burst--> sink
//!  one thread             the log                            one thread
//! ```
//!
//! The receive thread never waits for the sink, unless nothing is lost by that: where every source
//! can wait, or the user says so, the recorder is a lossless reader and a full log holds the
//! sources up. Otherwise it is a lossy one, and what it missed is an exact count.
//!
//! Invariants:
//! - K1: packets of the log = seen by the recorder + missed by it; seen = given to the sink + lost
//!   after the sink broke.
//! - K2: the writer is dropped before the recorder ends, and the recorder reads to the end of the
//!   log, so nothing is in flight between the two when the job is over.

mod receive;
mod record;
mod tail;

use std::sync::atomic::AtomicBool;

use burstline_log::{Log, LogConfig, ReaderConfig, Start, WriterStatistics};
use burstline_port::{InterfaceTotals, Loss, Losses, Port, PortError, PortTable};
use burstline_sys::usage;

use crate::clock::JobClock;
use crate::job::{self, Limits, Source, Threads};
use crate::report::{Ending, MemoryReport};
use crate::tally::Tally;
use crate::{EngineError, PortReport, Progress, Report};
use receive::{Receiver, Took};
use record::{Recorded, Recorder};

pub use burstline_log::Policy;

/// What a capture is made with, besides its ports.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// What bounds it.
    pub limits: Limits,
    /// Where its two threads run: the receiver first.
    pub threads: Threads,
    /// The shape of the log.
    pub log: LogConfig,
    /// Whom a full log holds up; `None` for lossless where every source can wait, else lossy.
    pub policy: Option<Policy>,
    /// The interfaces of the job: the one that its ports were opened with.
    pub table: PortTable,
}

/// Captures from all sources into a sink until they end, a limit is reached, `stop` is set or the
/// sink breaks. The sink is opened last, so that no output is left behind by a job that could not
/// begin.
///
/// # Errors
/// The log could not be made, the sink not be opened, or the threads could not be started, pinned
/// or given their class. What goes wrong with a port later is in the report's `errors`.
pub fn capture(
    mut sources: Vec<Source>,
    open_sink: impl FnOnce() -> Result<Box<dyn Port>, PortError>,
    options: &CaptureOptions,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<Report, EngineError> {
    options.threads.check(2)?;
    let policy = options.policy.unwrap_or_else(|| policy_for(&sources));
    let (log, writer) = Log::create(options.log.clone())?;
    let reader = log.attach(ReaderConfig { policy, window: 1, start: Start::Segment })?;
    options.threads.rehearse("capture")?;
    let mut sink = open_sink()?;
    let usage_before = usage::process();
    let clock = JobClock::start(options.limits.duration_ns, stop);
    progress.start(options.log.bytes as u64);
    let (took, recorded) = std::thread::scope(|scope| {
        let recorder = Recorder::new(reader, &mut *sink, &clock, progress);
        let threads = &options.threads;
        let recorder = job::spawn(scope, "record", || {
            // A sink whose thread cannot begin is a broken sink: the sources end, all is counted.
            let place = threads.settle(1, "record").inspect_err(|_| clock.break_off());
            (place, recorder.run())
        })?;
        let receiver = Receiver::new(&mut sources, writer, options, &clock, progress);
        let receiver = job::spawn(scope, "receive", || {
            let place = threads.settle(0, "receive").inspect_err(|_| clock.break_off());
            (place, receiver.run())
        })
        .inspect_err(|_| clock.break_off())?;
        Ok::<_, EngineError>((join(receiver), join(recorder)))
    })?;
    let ((receive_place, took), (record_place, mut recorded)) = (took, recorded);
    let places = vec![receive_place?, record_place?];
    sink.set_totals(&totals(&took, &recorded));
    recorded.finish(&mut *sink);
    let usage = usage::process().since(&usage_before);
    let elapsed_ns = clock.elapsed_ns();
    let mut report = report(&sources, &*sink, took, recorded, elapsed_ns, usage);
    report.placement.threads = places;
    describe_memory(&mut report, &log);
    Ok(report)
}

fn policy_for(sources: &[Source]) -> Policy {
    let can_wait = |source: &Source| source.port.info().capabilities.can_wait;
    if sources.iter().all(can_wait) { Policy::Lossless } else { Policy::Lossy }
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// What is known of each interface. What a lapped recorder missed belongs to a source; it is told
/// of an interface only where the source has just one.
fn totals(took: &Took, recorded: &Recorded) -> Vec<InterfaceTotals> {
    let interface = |(port, (seen, written)): (usize, (&Tally, &Tally))| {
        let source = usize::from(took.owners[port]);
        let is_alone = took.owners[..took.interfaces].iter().filter(|&&s| s == took.owners[port]);
        let missed = match is_alone.count() {
            1 => took.received[source].saturating_sub(seen.packets),
            _ => 0,
        };
        InterfaceTotals {
            port: port as u8,
            received: seen.packets + missed,
            missed: 0,
            lost: missed + seen.packets - written.packets,
        }
    };
    let tallies = recorded.seen.iter().zip(&recorded.written).enumerate();
    tallies.take(took.interfaces).map(interface).collect()
}

fn report(
    sources: &[Source],
    sink: &dyn Port,
    took: Took,
    recorded: Recorded,
    elapsed_ns: u64,
    usage: usage::CpuUsage,
) -> Report {
    let mut ending = Ending {
        elapsed_ns,
        usage,
        empty_ns: took.cost.empty_ns + recorded.cost.empty_ns,
        span: recorded.span,
        lost_first_second: took.lost_first_second + recorded.lost_first_second,
        bytes_copied: sink.account().bytes_copied,
    };
    let mut missed_by_rows = 0;
    let mut ports = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let (mut seen, mut written) = (Tally::default(), Tally::default());
        let mut lost = Losses::default();
        for port in (0..took.interfaces).filter(|&port| usize::from(took.owners[port]) == index) {
            seen.add(&recorded.seen[port]);
            written.add(&recorded.written[port]);
            lost.merge(&recorded.lost[port]);
        }
        let missed = took.received[index].saturating_sub(seen.packets);
        missed_by_rows += missed;
        if missed > 0 {
            lost.add(Loss::ReaderOverrun, missed);
        }
        let account = source.port.account();
        ending.bytes_copied += account.bytes_copied;
        ports.push(PortReport::new(&source.port.info().name, &account, &written, &lost));
    }
    let mut report = Report::new(ports, &ending);
    check(&mut report, sink, &took, &recorded, missed_by_rows);
    report.stages = stages(&took, &recorded, elapsed_ns, sink);
    report.hear(sources);
    report.hear_port(sink);
    report.errors.extend(took.errors);
    report.errors.extend(recorded.error);
    for cause in [Loss::LinkMismatch, Loss::TooLong] {
        let packets = report.total.lost.of(cause);
        if packets > 0 {
            report.errors.push(EngineError::LeftOut { packets, cause });
        }
    }
    report
}

/// Holds our counts against those of the log and of the sink, which were made apart from them.
fn check(report: &mut Report, sink: &dyn Port, took: &Took, recorded: &Recorded, missed: u64) {
    let sink = sink.account();
    let by_sink = sink.offered as i64 - sink.lost.total() as i64 - sink.in_flight as i64;
    let delivered = report.total.delivered;
    for (what, ours, theirs) in [
        ("packets in the log", took.received.iter().sum::<u64>() as i64, took.log.packets as i64),
        ("packets missed by the recorder", missed as i64, recorded.missed as i64),
        ("packets written", delivered as i64, by_sink),
    ] {
        if ours != theirs {
            report.total.unaccounted += ours - theirs;
            report.notes.push(format!("{what}: {ours} by one count, {theirs} by another"));
        }
    }
}

fn stages(
    took: &Took,
    recorded: &Recorded,
    elapsed_ns: u64,
    sink: &dyn Port,
) -> Vec<crate::StageReport> {
    let sum = |tallies: &[Tally]| {
        let mut sum = Tally::default();
        tallies.iter().for_each(|tally| sum.add(tally));
        sum
    };
    let (seen, written) = (sum(&recorded.seen), sum(&recorded.written));
    let through = Tally { packets: took.log.packets, bytes: took.log.bytes, ..seen };
    let mut receive = took.cost.report("receive", elapsed_ns, &through);
    receive.packets_in = took.log.packets + took.lost;
    receive.lost = took.lost;
    let mut record = recorded.cost.report("record", elapsed_ns, &seen);
    record.packets_in = seen.packets + recorded.missed;
    record.packets_out = written.packets;
    record.lost = recorded.missed + sink.account().lost.total() + recorded.lost_after_error;
    record.high_water = took.log.segments_high_water.into();
    vec![receive, record]
}

fn describe_memory(report: &mut Report, log: &Log) {
    let placement = log.placement();
    let mut nodes = placement.nodes.keys();
    let node = nodes.next().copied().filter(|_| nodes.next().is_none());
    report.memory = MemoryReport {
        page_bytes: placement.page_bytes,
        page_kind: placement.page.to_string(),
        node,
        log_bytes: log.config().bytes,
        segment_bytes: log.config().segment_bytes,
        resident: usage::resident().unwrap_or_default(),
    };
    report.memory_notes.extend(placement.notes.iter().cloned());
}

/// The log's own counts, once its writer is gone.
type LogCounts = WriterStatistics;
