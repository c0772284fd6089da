//! Capturing: sources into logs on some cores, the logs into a sink on another.
//!
//! ```text
//!  sources 0, 2 --receive-0--> | segment | segment | ... --burst--\
//!                                log 0                             record--> sink
//!  sources 1, 3 --receive-1--> | segment | segment | ... --burst--/
//!                                log 1
//! ```
//!
//! Most captures have one receive thread. Where there are several, each has a log of its own: a
//! log has one writer. Source i goes to thread i modulo their number. Packets of different logs
//! are not merged by time.
//!
//! A receive thread never waits for the sink, unless nothing is lost by that: where every source
//! can wait, or the user says so, the recorder is a lossless reader and a full log holds its
//! sources up. Otherwise it is a lossy one, and what it missed is an exact count.
//!
//! One live source whose own queue is as deep as a log is recorded in place, by one thread and
//! without a log, unless two cores are named for it (`in_place`, decision 0011).
//!
//! Invariants:
//! - K1: for each log, its packets = seen by the recorder + missed by it; seen = given to the sink
//!   + lost after the sink broke.
//! - K2: the writers are dropped before the recorder ends, and the recorder reads to the end of
//!   every log, so nothing is in flight between them when the job is over.

mod flight;
mod gaps;
mod in_place;
mod merge;
pub(crate) mod receive;
pub(crate) mod record;
pub(crate) mod summary;
pub(crate) mod tail;

use std::thread::{Scope, ScopedJoinHandle};

use burstline_log::{Log, LogConfig, Reader, ReaderConfig, Start, Writer, WriterStatistics};
use burstline_port::{Port, PortError, PortTable, TimestampSource};
use burstline_share::PublishConfig;

use crate::budget::Budget;
use crate::clock::JobClock;
use crate::job::{self, Source, Threads};
use crate::merge::MergeOptions;
use crate::published::Publication;
use crate::report::ThreadPlace;
use crate::stage::Usage;
use crate::{EngineError, Limits, Progress, Report, Run};
pub(crate) use gaps::Origin;
use in_place::InPlace;
use merge::Merger;
use receive::{Receiver, Took};
use record::{Recorded, Recorder};
use summary::Summary;

pub use burstline_log::Policy;
pub use flight::{FlightOptions, capture_flight};

/// What a capture is made with, besides its ports and its run.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Where its threads run: the receivers first; the recorder has the last core.
    pub threads: Threads,
    /// The shape of the log, or of each log.
    pub log: LogConfig,
    /// Whom a full log holds up; `None` for lossless where every source can wait, else lossy.
    pub policy: Option<Policy>,
    /// The interfaces of the job: the one that its ports were opened with.
    pub table: PortTable,
    /// Under which name other programs may read the log, or logs.
    pub publish: Option<PublishConfig>,
}

/// What the threads of a capture share.
pub(crate) struct Job<'a> {
    pub(crate) options: &'a CaptureOptions,
    pub(crate) limits: Limits,
    pub(crate) clock: JobClock<'a>,
    pub(crate) budget: Budget,
    pub(crate) progress: &'a Progress,
    /// By source.
    pub(crate) origins: Vec<Origin>,
}

impl<'a> Job<'a> {
    pub(crate) fn start(options: &'a CaptureOptions, run: &Run<'a>, sources: &[Source]) -> Self {
        Self {
            options,
            limits: run.limits,
            clock: JobClock::start(run),
            budget: Budget::new(run.limits.packets),
            progress: run.progress,
            origins: Origin::of_all(sources),
        }
    }
}

/// The logs of a job, with their two ends.
struct Lanes {
    logs: Vec<Log>,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
}

/// What a thread brings home, and where it ran.
pub(crate) type Home<T> = (Result<ThreadPlace, EngineError>, T);

/// What all threads bring home.
struct Done {
    places: Vec<Result<ThreadPlace, EngineError>>,
    took: Vec<Took>,
    recorded: Recorded,
}

/// Captures from all sources into a sink until they end, a limit is reached, `stop` is set or the
/// sink breaks. The sink is opened last, so that no output is left behind by a job that could not
/// begin.
///
/// # Errors
/// A log could not be made, the sink not be opened, or the threads could not be started, pinned
/// or given their class. What goes wrong with a port later is in the report's `errors`.
pub fn capture(
    sources: Vec<Source>,
    open_sink: impl FnOnce() -> Result<Box<dyn Port>, PortError>,
    options: &CaptureOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let way = match in_place::is_chosen(&sources, options) {
        true => Way::InPlace,
        false => Way::Logs(options.threads.receivers.clamp(1, sources.len().max(1))),
    };
    capture_by(way, sources, open_sink, options, run)
}

/// As [`capture`], and has all sources in one sequence, in order of time: see [`MergeOptions`].
/// One thread receives and copies into one log, another records that, or the same one does
/// ([`MergeOptions::is_one_thread`]), whatever number of receive threads the options have.
///
/// # Errors
/// As [`capture`]; or a source lends its packets only once.
pub fn merge(
    sources: Vec<Source>,
    open_sink: impl FnOnce() -> Result<Box<dyn Port>, PortError>,
    options: &CaptureOptions,
    merging: &MergeOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    merge::check(&sources)?;
    capture_by(Way::Merged(merging), sources, open_sink, options, run)
}

/// How packets get from the sources to the sink.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// By one thread, without a log.
    InPlace,
    /// By so many receive threads and as many logs.
    Logs(usize),
    /// By one thread that puts them in order, and one log.
    Merged(&'a MergeOptions),
}

impl Way<'_> {
    /// How many logs it takes.
    fn logs(self) -> usize {
        match self {
            Self::InPlace => 0,
            Self::Logs(logs) => logs,
            Self::Merged(_) => 1,
        }
    }

    /// Whether one thread does all.
    fn is_one_thread(self) -> bool {
        match self {
            Self::InPlace => true,
            Self::Logs(_) => false,
            Self::Merged(merging) => merging.is_one_thread,
        }
    }

    /// How many threads it takes.
    fn threads(self) -> usize {
        if self.is_one_thread() { 1 } else { self.logs() + 1 }
    }
}

fn capture_by(
    way: Way<'_>,
    mut sources: Vec<Source>,
    open_sink: impl FnOnce() -> Result<Box<dyn Port>, PortError>,
    options: &CaptureOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let receivers = way.logs();
    options.threads.check(way.threads())?;
    let policy = match way.is_one_thread() {
        // Whoever reads what it has written itself is held up by nobody.
        true => Policy::Lossless,
        false => options.policy.unwrap_or_else(|| policy_for(&sources)),
    };
    let Lanes { logs, writers, readers } = lanes(options, &sources, policy, receivers)?;
    options.threads.rehearse("capture")?;
    let publication = Publication::of(options, &logs)?;
    let mut sink = open_sink()?;
    let usage_before = Usage::now();
    let job = Job::start(options, run, &sources);
    run.progress.start((options.log.bytes * receivers) as u64);
    let done = match way {
        Way::InPlace => run_in_place(&job, &mut sources[0], &mut *sink)?,
        Way::Logs(_) => {
            let recorder = Recorder::new(readers, &mut *sink, &job);
            run_threads(&job, &mut sources, writers, || recorder.run())?
        }
        Way::Merged(merging) => {
            let mut ends = writers.into_iter().zip(readers);
            let Some((writer, reader)) = ends.next() else {
                unreachable!("a merge has one log");
            };
            let merger = Merger::new(&job, merging, &mut sources, writer);
            match merging.is_one_thread {
                true => run_merged(&job, merger.recording(reader, &mut *sink), None)?,
                false => {
                    let recorder = Recorder::new(vec![reader], &mut *sink, &job);
                    run_merged(&job, merger, Some(recorder))?
                }
            }
        }
    };
    let places = done.places.into_iter().collect::<Result<_, _>>()?;
    let interfaces = options.table.len();
    let is_stopped = is_stopped(&job, &done.took);
    let is_in_place = matches!(way, Way::InPlace);
    let mut summary = Summary::new(&sources, done.took, done.recorded, interfaces, is_in_place);
    sink.set_totals(&summary.totals(&sources));
    summary.recorded.finish(&mut *sink);
    let usage = Usage::now().since(&usage_before);
    let elapsed_ns = job.clock.elapsed_ns();
    let mut report = summary.report(&sources, &*sink, elapsed_ns, usage);
    report.poll = options.threads.poll;
    report.placement.threads = places;
    report.placement.notes.clone_from(&options.threads.notes);
    summary::describe_memory(&mut report, &logs);
    report.published = publication.map(|publication| publication.end(is_stopped));
    Ok(report)
}

pub(crate) fn policy_for(sources: &[Source]) -> Policy {
    let can_wait = |source: &Source| source.port.info().capabilities.can_wait;
    if sources.iter().all(can_wait) { Policy::Lossless } else { Policy::Lossy }
}

/// Whose clock the sources' times are from, if it is one.
pub(crate) fn clock_kind(sources: &[Source]) -> u32 {
    let mut clocks = sources.iter().map(|source| source.port.info().timestamps);
    let first = clocks.next().unwrap_or(TimestampSource::Mixed);
    let is_one = clocks.all(|clock| clock == first);
    if is_one { first.code() } else { TimestampSource::Mixed.code() }
}

/// Makes `count` logs.
fn lanes(
    options: &CaptureOptions,
    sources: &[Source],
    policy: Policy,
    count: usize,
) -> Result<Lanes, EngineError> {
    let mut lanes = Lanes { logs: Vec::new(), writers: Vec::new(), readers: Vec::new() };
    for number in 0..count {
        let mut config = LogConfig { clock_kind: clock_kind(sources), ..options.log.clone() };
        if count > 1 {
            config.name += &format!("-{number}");
        }
        let (log, writer) = Log::create(config)?;
        let reader = ReaderConfig { policy, window: 1, start: Start::Segment };
        lanes.readers.push(log.attach(reader)?);
        lanes.logs.push(log);
        lanes.writers.push(writer);
    }
    Ok(lanes)
}

/// Whether a job was ended before it was over by itself, so that another may follow it.
pub(crate) fn is_stopped(job: &Job<'_>, took: &[Took]) -> bool {
    job.clock.is_stopped() || took.iter().any(|took| !took.errors.is_empty())
}

/// Runs all threads to their end.
fn run_threads<'a>(
    job: &'a Job<'a>,
    sources: &'a mut [Source],
    writers: Vec<Writer>,
    record: impl FnOnce() -> Recorded + Send,
) -> Result<Done, EngineError> {
    let threads = &job.options.threads;
    let receivers = writers.len();
    let mut hands: Vec<Vec<_>> = writers.iter().map(|_| Vec::new()).collect();
    for (index, source) in sources.iter_mut().enumerate() {
        hands[index % receivers].push((index, source));
    }
    std::thread::scope(|scope| {
        let last = threads.cores.len().saturating_sub(1).max(receivers);
        let recorder = start(scope, job, last, "record".to_owned(), record)?;
        let bells: Vec<_> =
            (receivers > 1).then(|| recorder.thread().clone()).into_iter().collect();
        let mut crew = Vec::new();
        for (number, (hand, writer)) in hands.into_iter().zip(writers).enumerate() {
            let receiver = Receiver::new(job, number, hand, writer, bells.clone());
            let name = stage_name(number, receivers);
            crew.push(start(scope, job, number, name, || receiver.run())?);
        }
        // Only now: a thread begins with the rights of the one that starts it.
        let given_up = threads.drop_privileges().inspect_err(|_| job.clock.break_off());
        let (mut places, took): (Vec<_>, _) = crew.into_iter().map(join).unzip();
        let (place, recorded) = join(recorder);
        places.push(place);
        given_up.map(|()| Done { places, took, recorded })
    })
}

/// Runs the one thread of a job without a log.
fn run_in_place<'a>(
    job: &'a Job<'a>,
    source: &'a mut Source,
    sink: &'a mut dyn Port,
) -> Result<Done, EngineError> {
    std::thread::scope(|scope| {
        let work = InPlace::new(job, source, sink);
        let thread = start(scope, job, 0, in_place::STAGE.to_owned(), || work.run())?;
        // Only now, as in `run_threads`.
        let given_up = job.options.threads.drop_privileges();
        let given_up = given_up.inspect_err(|_| job.clock.break_off());
        let (place, (took, recorded)) = join(thread);
        given_up.map(|()| Done { places: vec![place], took: vec![took], recorded })
    })
}

/// Runs the two threads of a merge, or the one that records, too.
fn run_merged<'a>(
    job: &'a Job<'a>,
    merger: Merger<'a>,
    recorder: Option<Recorder<'a>>,
) -> Result<Done, EngineError> {
    std::thread::scope(|scope| {
        let last = job.options.threads.cores.len().saturating_sub(1).max(1);
        let record = |recorder: Recorder<'a>| {
            start(scope, job, last, "record".to_owned(), || recorder.run())
        };
        let recording = recorder.map(record).transpose()?;
        let merging = start(scope, job, 0, merge::STAGE.to_owned(), || merger.run())?;
        // Only now, as in `run_threads`.
        let given_up = job.options.threads.drop_privileges();
        let given_up = given_up.inspect_err(|_| job.clock.break_off());
        let (place, (took, own)) = join(merging);
        let (second, beside) = recording.map(join).unzip();
        let Some(recorded) = own.or(beside) else { unreachable!("somebody records") };
        let places = [Some(place), second].into_iter().flatten().collect();
        given_up.map(|()| Done { places, took: vec![took], recorded })
    })
}

/// Starts a thread, number `index` of the job. One that cannot take its place ends the job, and
/// does its work nevertheless: the sources end, all is counted.
pub(crate) fn start<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    job: &'scope Job<'_>,
    index: usize,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Home<T>>, EngineError> {
    let threads = &job.options.threads;
    let stage = name.clone();
    let settled = move || {
        let place = threads.settle(index, &stage);
        let place = place.and_then(|place| threads.drop_privileges().map(|()| place));
        let mut place = place.inspect_err(|_| job.clock.break_off());
        let done = work();
        if let Ok(place) = &mut place {
            place.look();
        }
        (place, done)
    };
    job::spawn(scope, &name, settled).inspect_err(|_| job.clock.break_off())
}

pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The stage of receive thread `number` of `count`.
pub(crate) fn stage_name(number: usize, count: usize) -> String {
    match count {
        1 => "receive".to_owned(),
        _ => format!("receive-{number}"),
    }
}

/// A log's own counts, once its writer is gone.
pub(crate) type LogCounts = WriterStatistics;
