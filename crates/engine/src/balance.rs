//! Balancing: each packet goes to one worker of each group, all packets of a flow to the same one.
//!
//! ```text
//!                 hash -> bucket -> worker         | log 0 | --burst--> worker 0: count, or a sink
//!  sources --lend--> burst --spread--> append -->  | log 1 | --burst--> worker 1
//!                      '-- cut off, shed           | log 2 | -- published: another program
//! ```
//!
//! The receive thread borrows packets from the source's memory and copies each into the log of its
//! worker, which is the only copy. A flow's hash is the same in both directions and for fragments
//! (see the hash kinds). Eight bits derived from the hash select a bucket, and workers share the
//! buckets equally. So a flow stays with one worker, in order. With several receive threads, each
//! has a log for each worker, and a worker reads one log of each thread.
//!
//! A worker is a thread that counts, a thread that records into its own sink, or another program
//! that reads the published log. Groups of workers are applications that run side by side: each
//! group gets every packet once.
//!
//! In mode *share* all workers read one log, and each takes the packets of its buckets: a part of
//! the log. The log stores the buckets of 64 packets at a time and counts them. So a lapped worker
//! knows which of the missed packets were its own. A part is published like a log.
//!
//! Isolation: each worker's logs are its own queue. A worker that stalls is lapped and loses its
//! own packets, exactly counted (`reader_overrun`). A worker whose sink breaks loses later packets.
//! Neither slows the others, unless the job is lossless.
//!
//! Invariants:
//! - B1: for each worker, offered = delivered + every named loss. `offered` is the receive threads'
//!   count, the rest is the worker's own. A group's row is the sum of its workers'.
//! - B2: for each source and group, a row of the report closes. The total counts a packet once for
//!   each group that should see it.
//! - B3: packets of one flow from one source are in one log, in order.

mod elephants;
pub(crate) mod links;
mod policy;
mod report;
mod spread;
mod summary;

use std::sync::{Mutex, PoisonError};

use burstline_log::{
    Buckets, Handoff, Log, LogConfig, MAX_READERS, Policy, Reader, ReaderConfig, Start, Writer,
};
use burstline_port::{Filter, PortError, Sink};
use burstline_share::LosslessReaders;
use burstline_sys::memory::NodeId;
use burstline_wire::hash::HashKind;

use crate::published::Publication;
use crate::runtime::logs::CaptureOptions;
use crate::runtime::logs::gaps::Origin;
use crate::runtime::logs::lanes::Lanes;
use crate::runtime::logs::receive::{Receiver, Took, dealt, is_stopped, stage_name};
use crate::runtime::logs::record::{Recorded, Recorder};
use crate::runtime::{self, Crew, Job, Post, can_wait, clock_kind, policy_for};
use crate::{EngineError, Inlet, Report, Run};
pub use elephants::Elephant;
use policy::Rules;
pub use report::{BalanceReport, GroupReport, WorkerReport};
pub use spread::worker_of;
use spread::{Jobs, Spread, Spreader};

/// The most workers of all groups together, times receive threads: the most logs of one name.
pub const WORKERS_MAX: usize = 64;

/// How a packet's worker is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// By the flow hash, of the kind that the sources were opened with.
    Hash(HashKind),
    /// Round robin.
    RoundRobin,
}

/// The log that a worker reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Each worker reads its own log; workers share no memory.
    #[default]
    Copy,
    /// One log, from which each worker takes the packets of its buckets. One copy serves any number
    /// of groups. Only for distribution by flow.
    Share,
}

/// The node of a log's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHome {
    /// The node of its reader.
    pub node: NodeId,
    /// Whether its writer is on another node.
    pub is_far: bool,
}

impl LogHome {
    /// Returns the hand-off to this log, if `asked` leaves it open.
    fn handoff(&self, asked: Handoff) -> Handoff {
        match asked {
            Handoff::Auto if self.is_far => Handoff::Far,
            _ => asked,
        }
    }
}

/// The options of a balancer.
#[derive(Clone, Debug)]
pub struct BalanceOptions {
    /// Threads, the shape of each worker's log, the policy towards workers, and the table that the
    /// ports were opened with. With a name, logs are published: those of the first receive thread
    /// by worker, then those of the next. Receive threads get the first cores.
    pub job: CaptureOptions,
    /// The log that a worker reads.
    pub mode: Mode,
    /// The node of each log's memory, by receive thread and then by worker, or by receive thread if
    /// workers share a log. Logs beyond its end follow the log's shape.
    pub log_homes: Vec<LogHome>,
    /// How packets are spread.
    pub distribution: Distribution,
    /// Number of workers in each group; workers are numbered from 0 through all groups.
    pub groups: Vec<usize>,
    /// Whether the workers are threads of this job. If not, they are other programs.
    pub has_workers: bool,
    /// Bytes of each flow to pass.
    pub cutoff_bytes: Option<u64>,
    /// Packets to shed: those that match the filter.
    pub shed: Option<Filter>,
}

impl BalanceOptions {
    fn workers(&self) -> usize {
        self.groups.iter().sum()
    }
}

/// Spreads the packets of all sources over workers until the sources end, a limit is reached or
/// `stop` is set. `open_sink` opens the sink of a worker, given its number. A sink that breaks ends
/// its worker, and the last one ends the job.
///
/// # Errors
/// As [`capture()`](crate::capture()). Later errors of ports are in the report's `errors`.
///
/// # Panics
/// Panics if there is no worker, or more than [`WORKERS_MAX`] allows; or if a log is shared without
/// distribution by flow.
pub fn balance(
    mut sources: Vec<Inlet>,
    open_sink: impl FnMut(usize) -> Result<Box<dyn Sink>, PortError>,
    options: &BalanceOptions,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let (job_options, workers) = (&options.job, options.workers());
    let receivers = job_options.threads.receivers.clamp(1, sources.len().max(1));
    let is_sound = options.groups.iter().all(|&group| group > 0) && workers > 0;
    let is_shared = options.mode == Mode::Share;
    let is_by_flow = matches!(options.distribution, Distribution::Hash(_));
    assert!(!is_shared || is_by_flow, "a log is shared by flow");
    assert!(is_sound && workers * receivers <= WORKERS_MAX, "{workers} workers x {receivers}");
    let crew = if options.has_workers { workers } else { 0 };
    job_options.threads.check(receivers + crew)?;
    Rules::check(options)?;
    let policy = job_options.policy.unwrap_or_else(|| policy_for(&sources));
    let ends = Ends::new(options, &sources, policy, receivers)?;
    job_options.threads.rehearse("balance")?;
    let publication = Publication::of(job_options, &ends.offered)?;
    let mut sinks: Vec<_> = (0..crew).map(open_sink).collect::<Result<_, _>>()?;
    let job = Job::start(&job_options.threads, run);
    // Each worker has its own clock, so that a broken sink does not stop the others.
    let own: Vec<_> = sinks.iter().map(|_| job.beside(run)).collect();
    run.progress.show_logs(&ends.logs, publication.as_ref().map(Publication::shown));
    run.progress.start((job_options.log.bytes * ends.logs.len()) as u64);
    let logs = ends.logs.clone();
    let mut done =
        run_threads(options, Jobs { job: &job, workers: &own }, &mut sources, &mut sinks, ends)?;
    let is_stopped = is_stopped(&job, &done.crew.front);
    let totals = summary::totals(&sources, &done);
    for ((recorder, sink), totals) in done.crew.readers.iter_mut().zip(&mut sinks).zip(totals) {
        sink.set_totals(&totals);
        recorder.outcome.finish(&mut **sink);
    }
    let places = std::mem::take(&mut done.crew.places);
    let mut report = summary::report(options, &sources, &sinks, done, job.ending());
    job.describe(&mut report, places);
    report.describe_logs(&logs);
    summary::describe_logs(&mut report, &logs);
    report.published = publication.map(|publication| publication.end(is_stopped));
    Ok(report)
}

/// The logs of a job with both ends; log `receiver * workers + worker`, or `receiver`.
///
/// A shared log has as many seats as all logs of a receive thread would have together.
struct Ends {
    logs: Vec<Log>,
    /// The log or part of a log that each worker reads, by receive thread and then by worker.
    offered: Vec<Log>,
    /// By receive thread.
    writers: Vec<Vec<Writer>>,
    /// By worker; empty if the workers are other programs.
    readers: Vec<Vec<Reader>>,
    /// Whether to wait for a full log, because some reader may hold up the job.
    is_waiting: bool,
}

impl Ends {
    fn new(
        options: &BalanceOptions,
        sources: &[Inlet],
        policy: Policy,
        receivers: usize,
    ) -> Result<Self, EngineError> {
        let (base, workers) = (&options.job.log, options.workers());
        let guests = options.job.publish.as_ref().map(|publish| publish.lossless);
        let is_waiting = (options.has_workers && policy == Policy::Lossless)
            || guests.is_some_and(|guests| guests != LosslessReaders::Refused);
        let (mut logs, mut offered, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        let mut readers: Vec<Vec<Reader>> = (0..workers).map(|_| Vec::new()).collect();
        let seat = ReaderConfig { policy, window: 1, start: Start::Segment };
        let is_shared = options.mode == Mode::Share;
        let max_readers = if is_shared { base.max_readers * workers } else { base.max_readers };
        let logs_each = if is_shared { 1 } else { workers };
        for receiver in 0..receivers {
            let mut own = Vec::new();
            for number in 0..logs_each {
                let home = options.log_homes.get(logs.len());
                let (log, mut writer) = Log::create(LogConfig {
                    name: format!("{}-{receiver}-{number}", base.name),
                    node: home.map(|home| home.node).or(base.node),
                    handoff: home.map_or(base.handoff, |home| home.handoff(base.handoff)),
                    clock_kind: clock_kind(sources),
                    max_readers: max_readers.min(MAX_READERS),
                    has_buckets: is_shared,
                    ..base.clone().one_of(receivers * logs_each)
                })?;
                writer.set_source_waits(can_wait(sources));
                match is_shared {
                    true => offered.extend(parts(&log, &options.groups)),
                    false => offered.push(log.clone()),
                }
                logs.push(log);
                own.push(writer);
            }
            let here = &offered[receiver * workers..];
            if options.has_workers {
                for (log, readers) in here.iter().zip(&mut readers) {
                    readers.push(log.attach(seat)?);
                }
            }
            writers.push(own);
        }
        Ok(Self { logs, offered, writers, readers, is_waiting })
    }
}

/// Returns the part of a shared log that each worker of each group takes.
fn parts(log: &Log, groups: &[usize]) -> impl Iterator<Item = Log> {
    let part = |worker, workers| log.part(Buckets::of_worker(worker, workers));
    groups.iter().flat_map(move |&workers| (0..workers).map(move |worker| part(worker, workers)))
}

/// The outcome of all threads.
struct Balanced {
    /// The receive threads, and the workers; no workers if these are other programs.
    crew: Crew<Took, Recorded>,
    /// By receive thread.
    spread: Vec<Spread>,
}

/// Runs all threads to their end.
fn run_threads<'a>(
    options: &'a BalanceOptions,
    jobs: Jobs<'a>,
    sources: &'a mut [Inlet],
    sinks: &'a mut [Box<dyn Sink>],
    ends: Ends,
) -> Result<Balanced, EngineError> {
    let receivers = ends.writers.len();
    let homes: Vec<Mutex<Spread>> = ends.writers.iter().map(|_| Mutex::default()).collect();
    let (all, origins) = (sources.len(), Origin::of_all(sources));
    let workers = ends.readers.into_iter().zip(sinks).zip(jobs.workers).enumerate();
    let worker = |(number, ((readers, sink), own)): (usize, ((_, &'a mut Box<dyn Sink>), _))| {
        let (sink, log_bytes) = (&mut **sink, options.job.log.bytes);
        let step = Recorder::new(own, readers, sink, origins.clone(), log_bytes).numbered(number);
        Post { index: receivers + number, name: format!("worker-{number}"), step }
    };
    let writers = ends.writers.into_iter().zip(dealt(sources, receivers)).zip(&homes).enumerate();
    let receive = |(index, ((writers, hand), home))| {
        let lanes = Lanes::new(writers, ends.is_waiting, &jobs.job.clock);
        let spreader = Spreader::new(options, jobs, all, lanes, home);
        let step = Receiver::new(jobs.job, index, hand, spreader, &options.job.table)
            .gathering(options.job.publish.is_some() && !options.has_workers);
        Post { index, name: stage_name(index, receivers), step }
    };
    let crew =
        runtime::run(jobs.job, workers.map(worker).collect(), |_| writers.map(receive).collect())?;
    let home = |home: Mutex<Spread>| home.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Balanced { crew, spread: homes.into_iter().map(home).collect() })
}
