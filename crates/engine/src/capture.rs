//! Capturing: receives into logs on some cores, and drains the logs into a sink on another.
//!
//! ```text
//!  sources 0, 2 --receive-0--> | segment | segment | ... --burst--\
//!                                log 0                             record--> sink
//!  sources 1, 3 --receive-1--> | segment | segment | ... --burst--/
//!                                log 1
//! ```
//!
//! Most captures have one receive thread. With several, each has its own log, because a log has one
//! writer. Source i goes to thread i modulo their number. Packets of different logs are not merged
//! by time.
//!
//! A receive thread waits for the sink only if that loses nothing. If every source can wait, or the
//! user says so, the recorder is a lossless reader. A full log then holds up its sources. Otherwise
//! the recorder is lossy, and its missed packets are counted exactly.
//!
//! A single live source whose queue is as deep as a log is recorded in place: by one thread,
//! without a log. Naming two cores for it prevents that (`in_place`, decision 0011).
//!
//! A merge has one log, or one for each source: see `crates/engine/src/merge.rs`.
//!
//! Invariants: those of [`logs`](crate::runtime::logs), and
//! - K3: a sink is opened last. It is finished after all counts are known and it has received them.

mod flight;
mod in_place;
mod merge;
mod summary;

use burstline_log::{Log, LogConfig, Policy, Reader, ReaderConfig, Start, Writer};
use burstline_port::{PortError, Sink};

use crate::merge::MergeOptions;
use crate::published::Publication;
use crate::runtime::logs::CaptureOptions;
use crate::runtime::logs::gaps::Origin;
use crate::runtime::logs::receive::{Receiver, Took, dealt, is_stopped, stage_name};
use crate::runtime::logs::record::{Recorded, Recorder};
use crate::runtime::{self, Crew, Done, Job, Post, Step, can_wait, clock_kind, policy_for};
use crate::{EngineError, Inlet, Report, Run, ThreadPlace, Threads};
use in_place::InPlace;
use merge::{Merged, Merger};
use summary::Summary;

pub use flight::{FlightOptions, capture_flight};

/// The logs of a job, with their writers and readers.
struct LogSet {
    logs: Vec<Log>,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
}

/// The outcome of the threads of a capture, for every way of passing packets.
struct Captured {
    places: Vec<ThreadPlace>,
    took: Vec<Done<Took>>,
    recorded: Done<Recorded>,
    merged: Option<Merged>,
}

/// Captures from all sources into a sink until they end, a limit is reached, `stop` is set or the
/// sink breaks. The sink is opened last, so that a job that could not begin leaves no output
/// behind.
///
/// # Errors
/// Fails if a log could not be made, or the sink could not be opened. Also fails if the threads
/// could not be started, pinned or given their class. Later port errors are in the report's
/// `errors`.
pub fn capture(
    sources: Vec<Inlet>,
    open_sink: impl FnOnce() -> Result<Box<dyn Sink>, PortError>,
    options: &CaptureOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let way = match in_place::is_chosen(&sources, options) {
        true => Way::InPlace,
        false => Way::Logs(options.threads.receivers.clamp(1, sources.len().max(1))),
    };
    capture_by(way, sources, open_sink, options, run)
}

/// As [`capture`], but merges all sources into one sequence, in order of time: see
/// [`MergeOptions`]. One thread receives and copies into one log. Another one, or the same
/// ([`MergeOptions::is_one_thread`]), records the log. The options' number of receive threads is
/// ignored.
///
/// # Errors
/// As [`capture`]; also fails if a source lends its packets only once.
pub fn merge(
    sources: Vec<Inlet>,
    open_sink: impl FnOnce() -> Result<Box<dyn Sink>, PortError>,
    options: &CaptureOptions,
    merging: &MergeOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    merge::check(&sources)?;
    capture_by(Way::Merged(merging), sources, open_sink, options, run)
}

/// As [`merge()`], but no packet is copied out of the log that it was received into. A thread for
/// each source receives into a log of its own. One more thread names the packets of all logs, in
/// order of time. The recorder reads them where they are. `options` has the shape of each log. A
/// limit on packets counts them as they are received, so they need not be the oldest.
///
/// # Errors
/// As [`capture`].
///
/// # Panics
/// If packets are to be published, or their times to be changed: nobody else can follow the order,
/// and nothing is copied.
pub fn merge_shared(
    sources: Vec<Inlet>,
    open_sink: impl FnOnce() -> Result<Box<dyn Sink>, PortError>,
    options: &CaptureOptions,
    merging: &MergeOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    assert!(options.publish.is_none(), "a shared merge is not published");
    let has_offset = merging.offsets_ns.iter().any(|&offset_ns| offset_ns != 0);
    assert!(!has_offset, "a shared merge changes no times");
    let way = Way::Shared { merging, logs: sources.len() };
    capture_by(way, sources, open_sink, options, run)
}

/// How packets get from the sources to the sink.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// By one thread, without a log.
    InPlace,
    /// By this number of receive threads, and as many logs.
    Logs(usize),
    /// By one thread that puts them in order, and one log.
    Merged(&'a MergeOptions),
    /// By a receive thread and a log for each source, and one thread that names the order.
    Shared { merging: &'a MergeOptions, logs: usize },
}

impl Way<'_> {
    /// Returns how many logs it needs.
    fn logs(self) -> usize {
        match self {
            Self::InPlace => 0,
            Self::Logs(logs) => logs,
            Self::Merged(_) => 1,
            Self::Shared { logs, .. } => logs,
        }
    }

    /// Returns whether one thread does everything.
    fn is_one_thread(self) -> bool {
        match self {
            Self::InPlace => true,
            Self::Logs(_) | Self::Shared { .. } => false,
            Self::Merged(merging) => merging.is_one_thread,
        }
    }

    /// Returns how many threads it needs.
    fn threads(self) -> usize {
        match self {
            Self::Shared { logs, .. } => logs + 2,
            _ if self.is_one_thread() => 1,
            _ => self.logs() + 1,
        }
    }
}

fn capture_by(
    way: Way<'_>,
    mut sources: Vec<Inlet>,
    open_sink: impl FnOnce() -> Result<Box<dyn Sink>, PortError>,
    options: &CaptureOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let receivers = way.logs();
    options.threads.check(way.threads())?;
    let policy = match way.is_one_thread() {
        // A thread that reads its own log is never held up by it.
        true => Policy::Lossless,
        false => options.policy.unwrap_or_else(|| policy_for(&sources)),
    };
    let lanes = match way {
        Way::Shared { .. } => merge::shared_lanes(options, &sources)?,
        _ => lanes(options, &sources, policy, receivers)?,
    };
    let logs = lanes.logs.clone();
    options.threads.rehearse("capture")?;
    let publication = Publication::of(options, &logs)?;
    let mut sink = open_sink()?;
    let job = Job::start(&options.threads, run);
    run.progress.show_logs(&logs, publication.as_ref().map(Publication::shown));
    run.progress.start((options.log.bytes * receivers) as u64);
    let captured = way.run(&job, options, &mut sources, &mut *sink, lanes)?;
    let is_stopped = is_stopped(&job, &captured.took);
    let Captured { places, took, recorded, merged } = captured;
    let is_in_place = matches!(way, Way::InPlace);
    let interfaces = options.table.len();
    let mut summary = Summary::new(&sources, took, recorded, merged, interfaces);
    summary.is_in_place = is_in_place;
    sink.set_totals(&summary.totals(&sources));
    summary.recorded.outcome.finish(&mut *sink);
    let mut report = summary.report(&sources, &*sink, job.ending());
    job.describe(&mut report, places);
    report.describe_logs(&logs);
    report.published = publication.map(|publication| publication.end(is_stopped));
    Ok(report)
}

impl Way<'_> {
    /// Runs the job's threads to their end.
    fn run(
        self,
        job: &Job<'_>,
        options: &CaptureOptions,
        sources: &mut [Inlet],
        sink: &mut dyn Sink,
        lanes: LogSet,
    ) -> Result<Captured, EngineError> {
        let LogSet { writers, readers, .. } = lanes;
        let (origins, log_bytes) = (Origin::of_all(sources), options.log.bytes);
        let recorder = |readers: Vec<Reader>, sink, origins| Post {
            index: recorder_core(job.threads, self.logs()),
            name: "record".to_owned(),
            step: Recorder::new(job, readers, sink, origins, log_bytes),
        };
        match self {
            Self::InPlace => {
                let step = InPlace::new(job, options, &mut sources[0], sink, origins);
                let post = Post { index: 0, name: in_place::STAGE.to_owned(), step };
                Ok(InPlace::captured(runtime::run_alone(job, vec![post])?))
            }
            Self::Logs(_) => {
                let recorder = recorder(readers, sink, origins);
                let crew = receive_into(job, options, sources, writers, recorder)?;
                let Crew { places, front: took, readers } = crew;
                Ok(Captured { places, took, recorded: only(readers), merged: None })
            }
            Self::Shared { merging, .. } => {
                let lanes = LogSet { logs: lanes.logs, writers, readers };
                merge::run_shared(job, options, merging, sources, sink, lanes)
            }
            Self::Merged(merging) => {
                let writer = only(writers);
                let merger = Merger::new(job, merging, sources, writer, &options.table);
                let post = |step| Post { index: 0, name: merge::STAGE.to_owned(), step };
                let crew = match merging.is_one_thread {
                    true => {
                        let merger = merger.recording(only(readers), sink);
                        runtime::run(job, Vec::<Post<Recorder<'_, &mut dyn Sink>>>::new(), |_| {
                            vec![post(merger)]
                        })?
                    }
                    false => {
                        let recorders = vec![recorder(readers, sink, origins)];
                        runtime::run(job, recorders, |_| vec![post(merger)])?
                    }
                };
                Ok(merge::captured(crew))
            }
        }
    }
}

/// Returns the only item of a list of one.
fn only<T>(list: Vec<T>) -> T {
    let mut list = list.into_iter();
    match (list.next(), list.next()) {
        (Some(only), None) => only,
        _ => unreachable!("a list of one"),
    }
}

/// Returns the recorder's index in the list of cores: the last one.
fn recorder_core(threads: &Threads, receivers: usize) -> usize {
    threads.cores.len().saturating_sub(1).max(receivers)
}

/// Runs a receive thread for each log, and the thread that reads all of them.
fn receive_into<R: Step>(
    job: &Job<'_>,
    options: &CaptureOptions,
    sources: &mut [Inlet],
    writers: Vec<Writer>,
    reader: Post<R>,
) -> Result<Crew<Took, R::Outcome>, EngineError> {
    let receivers = writers.len();
    let lanes = dealt(sources, receivers).into_iter().zip(writers).enumerate();
    runtime::run(job, vec![reader], |readers| {
        let bells = if receivers > 1 { readers } else { &[] };
        let post = |(number, (hand, writer))| {
            let receiver = Receiver::new(job, number, hand, writer, &options.table).gathering(true);
            let name = stage_name(number, receivers);
            Post { index: number, name, step: receiver.ringing(bells.to_vec()) }
        };
        lanes.map(post).collect()
    })
}

/// Returns the configuration of one of `count` logs.
fn log_config(options: &CaptureOptions, sources: &[Inlet], count: usize) -> LogConfig {
    LogConfig { clock_kind: clock_kind(sources), ..options.log.clone().one_of(count) }
}

/// Makes `count` logs.
fn lanes(
    options: &CaptureOptions,
    sources: &[Inlet],
    policy: Policy,
    count: usize,
) -> Result<LogSet, EngineError> {
    let mut lanes = LogSet { logs: Vec::new(), writers: Vec::new(), readers: Vec::new() };
    for number in 0..count {
        let mut config = log_config(options, sources, count);
        if count > 1 {
            config.name += &format!("-{number}");
        }
        let (log, mut writer) = Log::create(config)?;
        writer.set_source_waits(can_wait(sources));
        let reader = ReaderConfig { policy, window: 1, start: Start::Segment };
        lanes.readers.push(log.attach(reader)?);
        lanes.logs.push(log);
        lanes.writers.push(writer);
    }
    Ok(lanes)
}
