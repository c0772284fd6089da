//! A pipeline: sources into logs on some cores, stages that read logs on others.
//!
//! ```text
//!                         .--> | log 1 | --> work "even"
//!  sources --> | log 0 | --> route --> | log 2 | --> work "odd"
//!                  '------------------------------> work "all"      two stages read one log
//! ```
//!
//! A [`Lane`] is a log between stages. A receive stage fills one; a routing stage reads some and
//! fills others, a packet into one of them or into none; a working stage reads some and ends there.
//! A lane may be read by several stages, each of which sees every packet; a stage may read several
//! lanes, a burst of each in turn. Each stage is a thread. Work is a closure over bursts, which lie
//! where they are until it returns: what it wants to keep it copies.
//!
//! Who owns what when: a log's writer belongs to the stage that fills it, its readers to those that
//! read it; a stage that has come to the end of all its logs closes the ones it fills, so the end
//! of the sources runs through the pipeline from stage to stage.
//!
//! Invariants:
//! - P1: for each stage, in = out + lost, where `in` is what was published to it. A closure that
//!   routes a packet nowhere loses it by choice, as `shed`.
//! - P2: lossless pipelines have no cycles, because a lane exists before the stages that read it;
//!   so a full log holds up the stages before it and never itself.
//!
//! Run to completion, without a log, is [`run_to_completion`](crate::run_to_completion).

mod lanes;
mod route;

use burstline_log::{Burst, Log, LogConfig, Packet, Policy, Reader, ReaderConfig, Start, Writer};
use burstline_port::Port;

use crate::capture::receive::{Receiver, Took};
use crate::capture::record::{Recorded, Recorder};
use crate::capture::{self, CaptureOptions, Job, summary};
use crate::job::Source;
use crate::published::Publication;
use crate::report::Ending;
use crate::stage::Usage;
use crate::tally::Tally;
use crate::{EngineError, PortReport, Report, Run};
pub(crate) use lanes::{Given, Lanes};
use route::{Route, Work};

/// A log between stages of one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(usize);

type Look<'w> = dyn FnMut(&Burst<'_>) + Send + 'w;
type Choose<'w> = dyn FnMut(&Packet<'_>) -> Option<usize> + Send + 'w;

/// What a stage does with packets.
enum Task<'w> {
    Work(Box<Look<'w>>),
    Route(Box<Choose<'w>>),
}

struct Stage<'w> {
    name: String,
    inputs: Vec<Lane>,
    /// The lanes that it fills: `[outputs.start, outputs.end)`.
    outputs: std::ops::Range<usize>,
    task: Task<'w>,
}

/// A pipeline that is being put together, and then run.
pub struct Pipeline<'w> {
    options: CaptureOptions,
    sources: Vec<Source>,
    receivers: Vec<Receive>,
    stages: Vec<Stage<'w>>,
    lanes: usize,
}

struct Receive {
    name: String,
    /// Its sources, by their numbers in the job: a half-open range.
    sources: std::ops::Range<usize>,
    lane: usize,
}

impl<'w> Pipeline<'w> {
    /// An empty pipeline. Of `options`, cores are for the stages in the order in which they are
    /// added, the receive stages first; `log` is the shape of each lane; with `publish` all lanes
    /// are to be read under that name, by their numbers.
    pub fn new(options: CaptureOptions) -> Self {
        let (sources, receivers, stages) = Default::default();
        Self { options, sources, receivers, stages, lanes: 0 }
    }

    /// Adds a thread that receives these sources into a log: one copy.
    pub fn receive(&mut self, name: &str, sources: Vec<Source>) -> Lane {
        let first = self.sources.len();
        self.sources.extend(sources);
        let sources = first..self.sources.len();
        let lane = self.add_lanes(1).start;
        self.receivers.push(Receive { name: name.to_owned(), sources, lane });
        Lane(lane)
    }

    /// Adds a thread that copies each packet of `inputs` into one of `outputs` new lanes, which
    /// `route` says by its index; `None`, or an index beyond them, leaves the packet out.
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

    /// Adds a thread that has `work` look at every burst of `inputs`.
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

    /// How many sources it has, and threads that read lanes: for [`Progress::with_workers`](crate::Progress::with_workers).
    pub fn size(&self) -> (usize, usize) {
        (self.sources.len(), self.stages.len())
    }

    /// Runs all stages until the sources end, a limit is reached or `stop` is set, and the last
    /// packet has gone through. A row of the report says what came into the pipeline; `stages` has
    /// each stage's own ledger: `packets_in = packets_out + lost`, in the order of their adding.
    ///
    /// # Errors
    /// A log could not be made, or a thread not be started, pinned or given its class. What goes
    /// wrong with a source later is in the report's `errors`.
    pub fn run(mut self, run: &Run<'_>) -> Result<Report, EngineError> {
        let options = self.options.clone();
        options.threads.check(self.receivers.len() + self.stages.len())?;
        let policy = options.policy.unwrap_or_else(|| capture::policy_for(&self.sources));
        let mut logs = self.logs(policy)?;
        options.threads.rehearse("pipeline")?;
        let publication = Publication::of(&options, &logs.logs)?;
        let usage_before = Usage::now();
        let job = Job::start(&options, run, &self.sources);
        run.progress.start((options.log.bytes * logs.logs.len()) as u64);
        let (sources, stages) = (&mut self.sources, &mut self.stages);
        let done = run_threads(&job, (sources, &self.receivers, stages), &mut logs, policy)?;
        let usage = Usage::now().since(&usage_before);
        let is_stopped = capture::is_stopped(&job, &done.took);
        let elapsed_ns = job.clock.elapsed_ns();
        let mut report = self.report(done, &logs.logs, elapsed_ns, usage)?;
        report.poll = options.threads.poll;
        report.placement.notes.clone_from(&options.threads.notes);
        summary::describe_memory(&mut report, &logs.logs);
        report.published = publication.map(|publication| publication.end(is_stopped));
        Ok(report)
    }

    /// Makes the logs, with a reader for each stage that reads one.
    fn logs(&self, policy: Policy) -> Result<Logs, EngineError> {
        let base = &self.options.log;
        let mut made = Logs { logs: Vec::new(), writers: Vec::new(), readers: Vec::new() };
        for lane in 0..self.lanes {
            let reading = self.stages.iter().filter(|stage| stage.inputs.contains(&Lane(lane)));
            let (log, writer) = Log::create(LogConfig {
                name: format!("{}-{lane}", base.name),
                clock_kind: capture::clock_kind(&self.sources),
                max_readers: base.max_readers + reading.count(),
                ..base.clone()
            })?;
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

    fn report(
        &self,
        done: Done,
        logs: &[Log],
        elapsed_ns: u64,
        usage: Usage,
    ) -> Result<Report, EngineError> {
        let mut ending = Ending::of(elapsed_ns, usage);
        let mut ports: Vec<_> = self.sources.iter().map(|_| PortReport::default()).collect();
        let (mut stages, mut errors, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
        for (receive, took) in self.receivers.iter().zip(done.took) {
            let log = Tally::of_log(&took.log);
            let mut stage = took.cost.report(&receive.name, elapsed_ns, &log);
            (stage.packets_in, stage.lost) = (log.packets + took.lost, took.lost);
            stage.high_water = took.log.segments_high_water.into();
            stages.push(stage);
            ending.empty_ns += took.cost.empty_ns;
            ending.lost_first_second += took.lost_first_second;
            for &(source, packets) in &took.received {
                let (port, account) =
                    (&self.sources[source].port, self.sources[source].port.account());
                // Bytes are known by log, so by source where there is one.
                let alone = if took.received.len() == 1 { log.bytes } else { 0 };
                let tally = Tally { packets, bytes: alone, wire_bytes: alone };
                ports[source] =
                    PortReport::new(&port.info().name, &account, &tally, &Default::default());
                ending.bytes_copied += account.bytes_copied;
            }
            errors.extend(took.errors);
        }
        for (stage, recorded) in self.stages.iter().zip(done.recorded) {
            let ledger = recorded.stage(&stage.name, elapsed_ns);
            let published = stage.inputs.iter().map(|lane| logs[lane.0].published()).sum();
            if ledger.packets_in != published {
                doubts.push((&stage.name, ledger.packets_in, published));
            }
            stages.push(ledger);
            ending.empty_ns += recorded.cost.empty_ns;
            ending.span.merge(&recorded.span);
        }
        let mut report = Report::new(ports, &ending);
        for (name, ours, theirs) in doubts {
            report.total.unaccounted += theirs as i64 - ours as i64;
            report.notes.push(format!("{name}: {ours} packets came, {theirs} were published"));
        }
        report.stages = stages;
        report.hear(&self.sources);
        report.errors = errors;
        report.placement.threads = done.places.into_iter().collect::<Result<_, _>>()?;
        Ok(report)
    }
}

/// The logs of a pipeline, with their two ends.
struct Logs {
    logs: Vec<Log>,
    /// `None` once a stage has it.
    writers: Vec<Option<Writer>>,
    /// By stage.
    readers: Vec<Vec<Reader>>,
}

/// What all threads bring home, in the order of the stages.
struct Done {
    places: Vec<Result<crate::ThreadPlace, EngineError>>,
    took: Vec<Took>,
    recorded: Vec<Recorded>,
}

/// Runs all threads to their end.
fn run_threads<'a, 'w>(
    job: &'a Job<'a>,
    (sources, receivers, stages): (&'a mut [Source], &[Receive], &'a mut [Stage<'w>]),
    logs: &mut Logs,
    policy: Policy,
) -> Result<Done, EngineError> {
    let mut writers = std::mem::take(&mut logs.writers);
    let mut writer = |lane: usize| writers[lane].take().expect("one stage fills a lane");
    let mut sinks: Vec<Box<dyn Port + '_>> = Vec::new();
    for stage in stages {
        sinks.push(match &mut stage.task {
            Task::Work(work) => Box::new(Work::new(&stage.name, work)),
            Task::Route(route) => {
                let writers = stage.outputs.clone().map(&mut writer).collect();
                let lanes = Lanes::new(writers, policy == Policy::Lossless, &job.clock);
                Box::new(Route::new(&stage.name, route, lanes))
            }
        });
    }
    let mut sources = sources.iter_mut().enumerate();
    std::thread::scope(|scope| {
        // The threads' own: where one cannot be started, those that run find their logs closed.
        let mut writers = writers;
        let (mut first, mut later) = (Vec::new(), Vec::new());
        let readers = logs.readers.drain(..);
        for (number, (mut sink, readers)) in sinks.into_iter().zip(readers).enumerate() {
            let name = sink.info().name.clone();
            later.push(capture::start(scope, job, receivers.len() + number, name, move || {
                // The sink goes with the thread, and closes what it fills.
                Recorder::new(readers, &mut *sink, job).numbered(number).run()
            })?);
        }
        for (number, receive) in receivers.iter().enumerate() {
            let hand = sources.by_ref().take(receive.sources.len()).collect();
            let log = writers[receive.lane].take().expect("one stage fills a lane");
            let receiver = Receiver::new(job, number, hand, log, Vec::new());
            first
                .push(capture::start(scope, job, number, receive.name.clone(), || receiver.run())?);
        }
        // Only now: a thread begins with the rights of the one that starts it.
        let given_up = job.options.threads.drop_privileges();
        let given_up = given_up.inspect_err(|_| job.clock.break_off());
        let (mut places, took): (Vec<_>, _) = first.into_iter().map(capture::join).unzip();
        let (more, recorded): (Vec<_>, _) = later.into_iter().map(capture::join).unzip();
        places.extend(more);
        given_up.map(|()| Done { places, took, recorded })
    })
}
