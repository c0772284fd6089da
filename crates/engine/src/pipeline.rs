//! Runs a pipeline: some cores receive from sources into logs, others run stages that read them.
//!
//! ```text
//!                         .--> | log 1 | --> work "even"
//!  sources --> | log 0 | --> route --> | log 2 | --> work "odd"
//!                  '------------------------------> work "all"      two stages read one log
//! ```
//!
//! A [`Lane`] is a log between stages. A receive stage fills one lane. A routing stage reads lanes
//! and fills others: it copies each packet into one of them or into none. A working stage only
//! reads. Several stages may read a lane; each sees every packet. A stage may read several lanes,
//! taking a burst from each in turn. Each stage is a thread. Work is a closure that borrows bursts;
//! it must copy what it wants to keep.
//!
//! Ownership: a log's writer belongs to the stage that fills it, its readers to the stages that
//! read it. A stage that has read all its logs to the end closes the logs it fills. So the end of
//! the sources propagates from stage to stage.
//!
//! Invariants:
//! - P1: for each stage, in = out + lost, where `in` is what was published to it. A packet that a
//!   closure routes nowhere is counted as lost, by the name `shed`.
//! - P2: lossless pipelines have no cycles, because a lane exists before the stages that read it.
//!   So a full log only blocks stages upstream of it and cannot deadlock.
//!
//! For run to completion without a log, see [`run_to_completion`](crate::run_to_completion).

mod route;

use burstline_log::{Burst, Log, LogConfig, Packet, Policy, Reader, ReaderConfig, Start, Writer};
use burstline_port::Sink;

use crate::published::Publication;
use crate::runtime::logs::CaptureOptions;
use crate::runtime::logs::gaps::Origin;
use crate::runtime::logs::lanes::Lanes;
use crate::runtime::logs::receive::{Receiver, Took, is_stopped};
use crate::runtime::logs::record::{Recorded, Recorder};
use crate::runtime::{
    self, Crew, Job, Post, Tally, can_wait, clock_kind, policy_for, tally_of_log,
};
use crate::{EngineError, Inlet, PortReport, Report, Run};
use route::{Route, Work};

/// A log between stages of one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(usize);

type Look<'w> = dyn FnMut(&Burst<'_>) + Send + 'w;
type Choose<'w> = dyn FnMut(&Packet<'_>) -> Option<usize> + Send + 'w;

/// The task of a stage.
enum Task<'w> {
    Work(Box<Look<'w>>),
    Route(Box<Choose<'w>>),
}

struct Stage<'w> {
    name: String,
    inputs: Vec<Lane>,
    /// The lanes this stage fills: `[outputs.start, outputs.end)`.
    outputs: std::ops::Range<usize>,
    task: Task<'w>,
}

/// A builder for a pipeline, which also runs it.
pub struct Pipeline<'w> {
    options: CaptureOptions,
    sources: Vec<Inlet>,
    receivers: Vec<Receive>,
    stages: Vec<Stage<'w>>,
    lanes: usize,
}

struct Receive {
    name: String,
    /// Its sources, as a half-open range of source numbers of the job.
    sources: std::ops::Range<usize>,
    lane: usize,
}

impl<'w> Pipeline<'w> {
    /// Creates an empty pipeline. `options` lists cores for the receive stages, then for the other
    /// stages, each in the order they are added. Its `log` is the shape of each lane. Its `publish`
    /// is the name under which other processes read the lanes, by number.
    pub fn new(options: CaptureOptions) -> Self {
        let (sources, receivers, stages) = Default::default();
        Self { options, sources, receivers, stages, lanes: 0 }
    }

    /// Adds a thread that receives from these sources into a log. Each packet is copied once.
    pub fn receive(&mut self, name: &str, sources: Vec<Inlet>) -> Lane {
        let first = self.sources.len();
        self.sources.extend(sources);
        let sources = first..self.sources.len();
        let lane = self.add_lanes(1).start;
        self.receivers.push(Receive { name: name.to_owned(), sources, lane });
        Lane(lane)
    }

    /// Adds a thread that copies each packet of `inputs` into one of `outputs` new lanes. `route`
    /// returns the lane's index; `None` or an index out of range drops the packet.
    pub fn route(
        &mut self,
        name: &str,
        inputs: &[Lane],
        outputs: usize,
        route: impl FnMut(&Packet<'_>) -> Option<usize> + Send + 'w,
    ) -> Vec<Lane> {
        let outputs = self.add_lanes(outputs);
        self.add_stage(name, inputs, outputs.clone(), Task::Route(Box::new(route)));
        outputs.map(Lane).collect()
    }

    /// Adds a thread that calls `work` on every burst of `inputs`.
    pub fn work(&mut self, name: &str, inputs: &[Lane], work: impl FnMut(&Burst<'_>) + Send + 'w) {
        self.add_stage(name, inputs, self.lanes..self.lanes, Task::Work(Box::new(work)));
    }

    fn add_lanes(&mut self, count: usize) -> std::ops::Range<usize> {
        let first = self.lanes;
        self.lanes += count;
        first..self.lanes
    }

    fn add_stage(
        &mut self,
        name: &str,
        inputs: &[Lane],
        outputs: std::ops::Range<usize>,
        task: Task<'w>,
    ) {
        let is_known = inputs.iter().all(|lane| lane.0 < outputs.start);
        assert!(is_known && !inputs.is_empty(), "stage {name} reads lanes of this pipeline");
        self.stages.push(Stage { name: name.to_owned(), inputs: inputs.to_vec(), outputs, task });
    }

    /// Returns the number of sources and of threads that read lanes, for
    /// [`Progress::with_workers`](crate::Progress::with_workers).
    pub fn size(&self) -> (usize, usize) {
        (self.sources.len(), self.stages.len())
    }

    /// Runs all stages until the sources end, a limit is reached or `stop` is set, and every packet
    /// has left the pipeline. The report's rows count the packets that entered it. `stages` has
    /// each stage's own ledger, in the order they were added: `packets_in = packets_out + lost`.
    ///
    /// # Errors
    /// If a log cannot be created, or a thread cannot be started, pinned or given its scheduling
    /// class. Later failures of a source are in the report's `errors`.
    pub fn run(mut self, run: &Run<'_>) -> Result<Report, EngineError> {
        let options = self.options.clone();
        options.threads.check(self.receivers.len() + self.stages.len())?;
        let policy = options.policy.unwrap_or_else(|| policy_for(&self.sources));
        let mut logs = self.logs(policy)?;
        options.threads.rehearse("pipeline")?;
        let publication = Publication::of(&options, &logs.logs)?;
        let job = Job::start(&options.threads, run);
        run.progress.show_logs(&logs.logs, publication.as_ref().map(Publication::shown));
        run.progress.start((options.log.bytes * logs.logs.len()) as u64);
        let crew = self.run_stages(&job, &mut logs, policy)?;
        let is_stopped = is_stopped(&job, &crew.front);
        let mut report = self.report(&job, crew, &logs.logs);
        report.describe_logs(&logs.logs);
        report.published = publication.map(|publication| publication.end(is_stopped));
        Ok(report)
    }

    /// Runs all threads to their end.
    fn run_stages(
        &mut self,
        job: &Job<'_>,
        logs: &mut Logs,
        policy: Policy,
    ) -> Result<Crew<Took, Recorded>, EngineError> {
        let Self { options, sources, receivers, stages, .. } = self;
        let mut writers = std::mem::take(&mut logs.writers);
        let mut writer = |lane: usize| writers[lane].take().expect("one stage fills a lane");
        let origins = Origin::of_all(sources);
        let mut readers = Vec::new();
        for (number, (stage, ends)) in stages.iter_mut().zip(logs.readers.drain(..)).enumerate() {
            let sink: Box<dyn Sink + '_> = match &mut stage.task {
                Task::Work(work) => Box::new(Work::new(&stage.name, work)),
                Task::Route(route) => {
                    let writers = stage.outputs.clone().map(&mut writer).collect();
                    let lanes = Lanes::new(writers, policy == Policy::Lossless, &job.clock);
                    Box::new(Route::new(&stage.name, route, lanes))
                }
            };
            // The thread owns the sink; dropping the sink closes the logs it fills.
            let step = Recorder::new(job, ends, sink, origins.clone(), options.log.bytes);
            let (index, name) = (receivers.len() + number, stage.name.clone());
            readers.push(Post { index, name, step: step.numbered(number) });
        }
        let mut sources = sources.iter_mut().enumerate();
        let mut front = Vec::new();
        for (index, receive) in receivers.iter().enumerate() {
            let hand = sources.by_ref().take(receive.sources.len()).collect();
            let log = writer(receive.lane);
            let step = Receiver::new(job, index, hand, log, &options.table)
                .gathering(options.publish.is_some());
            front.push(Post { index, name: receive.name.clone(), step });
        }
        runtime::run(job, readers, |_| front)
    }

    /// Creates the logs, and a reader for each stage and each log it reads.
    fn logs(&self, policy: Policy) -> Result<Logs, EngineError> {
        let base = &self.options.log;
        let mut made = Logs { logs: Vec::new(), writers: Vec::new(), readers: Vec::new() };
        for lane in 0..self.lanes {
            let reading = self.stages.iter().filter(|stage| stage.inputs.contains(&Lane(lane)));
            let (log, mut writer) = Log::create(LogConfig {
                name: format!("{}-{lane}", base.name),
                clock_kind: clock_kind(&self.sources),
                max_readers: base.max_readers + reading.count(),
                ..base.clone().one_of(self.lanes)
            })?;
            writer.set_source_waits(can_wait(&self.sources));
            made.logs.push(log);
            made.writers.push(Some(writer));
        }
        for stage in &self.stages {
            let config = ReaderConfig { policy, window: 1, start: Start::Segment };
            let readers = stage.inputs.iter().map(|lane| made.logs[lane.0].attach(config));
            made.readers.push(readers.collect::<Result<_, _>>()?);
        }
        Ok(made)
    }

    fn report(&self, job: &Job<'_>, crew: Crew<Took, Recorded>, logs: &[Log]) -> Report {
        let mut ending = job.ending();
        let mut ports: Vec<_> = self.sources.iter().map(|_| PortReport::default()).collect();
        let (mut stages, mut errors, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
        for (receive, done) in self.receivers.iter().zip(crew.front) {
            ending.add(&done);
            let took = done.outcome;
            let log = tally_of_log(&took.log);
            let mut stage = done.cost.report(&receive.name, ending.elapsed_ns, &log);
            (stage.packets_in, stage.lost) = (log.packets + took.lost, took.lost);
            stage.high_water = took.log.segments_high_water.into();
            stages.push(stage);
            for &(source, packets) in &took.received {
                let (port, account) =
                    (&self.sources[source].port, self.sources[source].port.account());
                // Bytes are counted per log, so they are known for a source only if it is alone.
                let alone = if took.received.len() == 1 { log.bytes } else { 0 };
                let tally = Tally { packets, bytes: alone, wire_bytes: alone };
                ports[source] =
                    PortReport::new(&port.info().name, &account, &tally, &Default::default());
                ending.bytes_copied += account.bytes_copied;
            }
            errors.extend(took.errors);
        }
        for (stage, done) in self.stages.iter().zip(crew.readers) {
            let recorded = &done.outcome;
            let ledger = recorded.stage(&stage.name, &done.cost, ending.elapsed_ns);
            let published = stage.inputs.iter().map(|lane| logs[lane.0].published()).sum();
            if ledger.packets_in != published {
                doubts.push((&stage.name, ledger.packets_in, published));
            }
            stages.push(ledger);
            ending.empty_ns += done.cost.empty_ns;
            ending.span.merge(&recorded.span);
        }
        let mut report = Report::new(ports, &ending);
        for (name, ours, theirs) in doubts {
            report.total.unaccounted += theirs as i64 - ours as i64;
            report.notes.push(format!("{name}: received {ours} packets, {theirs} were published"));
        }
        report.stages = stages;
        report.hear(&self.sources);
        report.errors = errors;
        job.describe(&mut report, crew.places);
        report
    }
}

/// The logs of a pipeline, with their writers and readers.
struct Logs {
    logs: Vec<Log>,
    /// By lane; `None` once a stage has taken the writer.
    writers: Vec<Option<Writer>>,
    /// By stage.
    readers: Vec<Vec<Reader>>,
}
