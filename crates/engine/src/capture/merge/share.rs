//! A merge that copies nothing: receive threads fill logs, a leader names the order of their
//! packets, and the recorder follows it.
//!
//! ```text
//!  source 0 --receive-0--> log 0 -- promise --\
//!  source 1 --receive-1--> log 1 -- promise ---> leader --chunks--> recorder --> sink
//!                            \--------- packets, in place ----------/
//! ```
//!
//! The leader is the merging thread of a merge that copies. Each of its inputs is a log, and it
//! names packets instead of copying them. Leader and recorder have a reader of each log, so both
//! hold the packets that they need. An idle source is polled by its receive thread, whose promise
//! the leader sees (edge E7 of `crates/log/src/handover/promise.rs`).

use std::ops::DerefMut;
use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{
    Burst, Ending, Log, LogConfig, Policy, Promise, Promised, Reader, ReaderConfig, Scratch, Start,
    Weave, Writer,
};
use burstline_port::{
    Lent, Port, PortAccount, PortError, PortInfo, PortState, Received, Sink, Source,
};

use super::{Home, Merged, Merger, STAGE};
use crate::capture::{Captured, LogSet, log_config, recorder_core};
use crate::merge::MergeOptions;
use crate::runtime::logs::follow::Follow;
use crate::runtime::logs::gaps::Origin;
use crate::runtime::logs::receive::{Intake, Receiver, dealt, stage_name};
use crate::runtime::logs::record::{NAP_LEAST_NS, Recorded, Recorder};
use crate::runtime::logs::{CaptureOptions, LogCounts};
use crate::runtime::{self, Crew, Done, Job, Pause, Polled, Post, Step, policy_for};
use crate::{EngineError, Inlet};

/// The memory of the chunks, in bytes: a byte a packet, and some for each chunk of 512.
const ORDER_BYTES: usize = 1 << 20;
const ORDER_SEGMENT_BYTES: usize = 64 << 10;

/// How often an idle source is polled for its promise, in ns. Packets of the other sources wait
/// that long, and their logs have to hold what comes meanwhile.
const LOOK_EVERY_NS: u64 = 100_000;

/// The longest sleep of a leader, in ns.
const SLEEP_MOST: Duration = Duration::from_millis(100);

/// Makes a log for each source, all in one region. The first readers are the recorder's, the others
/// the leader's. A source waits for its readers by what it can do itself, unless the user chose.
pub(in crate::capture) fn lanes(
    options: &CaptureOptions,
    sources: &[Inlet],
) -> Result<LogSet, EngineError> {
    let count = sources.len();
    let config = LogConfig { max_readers: 2, ..log_config(options, sources, count) };
    let (logs, writers): (Vec<_>, Vec<_>) =
        Log::create_together(&config, count)?.into_iter().unzip();
    let attach = |(log, source): (&Log, &Inlet)| {
        let policy = options.policy.unwrap_or_else(|| policy_for(slice::from_ref(source)));
        log.attach(ReaderConfig { policy, window: 1, start: Start::Segment })
    };
    let once = || logs.iter().zip(sources);
    let readers = once().chain(once()).map(attach).collect::<Result<_, _>>()?;
    Ok(LogSet { logs, writers, readers })
}

/// Runs the threads of a shared merge to their end.
pub(in crate::capture) fn run(
    job: &Job<'_>,
    options: &CaptureOptions,
    merging: &MergeOptions,
    sources: &mut [Inlet],
    sink: &mut dyn Sink,
    lanes: LogSet,
) -> Result<Captured, EngineError> {
    let LogSet { logs, writers, mut readers } = lanes;
    let count = logs.len();
    let promises: Vec<Arc<Promise>> = (0..count).map(|_| Arc::default()).collect();
    let ends = readers.split_off(count).into_iter().zip(&promises).zip(&*sources);
    let mut ends: Vec<_> = ends.map(|((reader, made), source)| end(reader, made, source)).collect();
    let (chunks, order) = order()?;
    let follow = Follow::new(order, Weave::new(&logs[0]), count);
    let leader = Merger::new(job, merging, &mut ends, chunks, &options.table).naming();
    let origins = Origin::of_all(sources);
    let recorder = Recorder::new(job, readers, sink, origins, options.log.bytes).following(follow);
    let post = |index: usize, name: &str, step| Post { index, name: name.to_owned(), step };
    let behind = vec![
        post(count, STAGE, Behind::Leader(Box::new(leader))),
        post(recorder_core(job.threads, count + 1), "record", Behind::Recorder(Box::new(recorder))),
    ];
    let hands = dealt(sources, count).into_iter().zip(writers).zip(promises).enumerate();
    let crew = runtime::run(job, behind, |threads| {
        let receive = |(number, ((hand, writer), promise))| {
            let intake = Promising { writer, promise, last: Promised::default() };
            let step = Receiver::new(job, number, hand, intake, &options.table)
                .ringing(threads[..1].to_vec())
                .looking_every(LOOK_EVERY_NS);
            Post { index: number, name: stage_name(number, count), step }
        };
        hands.map(receive).collect()
    })?;
    let Crew { places, front: took, readers } = crew;
    let mut readers = readers.into_iter().map(Done::split);
    match (readers.next(), readers.next()) {
        (Some((Came::Led(merged), leader)), Some((Came::Recorded(recorded), recorder))) => {
            let merged = Some(Merged { leader: Some(leader), ..*merged });
            Ok(Captured { places, took, recorded: recorder.with(*recorded), merged })
        }
        _ => unreachable!("a leader and a recorder"),
    }
}

/// Makes the log of the chunks, with its only reader.
fn order() -> Result<(Writer, Reader), EngineError> {
    let (log, writer) = Log::create(LogConfig {
        name: "order".to_owned(),
        bytes: ORDER_BYTES,
        segment_bytes: ORDER_SEGMENT_BYTES,
        max_readers: 1,
        ..LogConfig::default()
    })?;
    let reader = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Segment };
    Ok((writer, log.attach(reader)?))
}

/// Returns the leader's input for the log of `source`.
fn end(reader: Reader, promise: &Arc<Promise>, source: &Inlet) -> Inlet {
    let (info, promise) = (source.port.info().clone(), Arc::clone(promise));
    Inlet::of(Box::new(LogEnd { info, reader, promise, promised: Promised::default() }))
}

/// A log that a receive thread fills, with its promise.
struct Promising {
    writer: Writer,
    promise: Arc<Promise>,
    /// What its source last promised.
    last: Promised,
}

impl Intake for Promising {
    fn receive(
        &mut self,
        _source: usize,
        port: &mut dyn Source,
        budget: u64,
    ) -> Result<Received, PortError> {
        let received = port.receive(&mut self.writer, budget)?;
        if received.state == PortState::Idle {
            self.last.low_ns = port.low_time_ns().unwrap_or(self.last.low_ns);
        }
        self.last.is_coming = match received.state {
            PortState::Blocked => true, // the log is full
            PortState::Busy => received.packets > 0,
            _ => false,
        };
        Ok(received)
    }

    fn publish(&mut self) {
        self.writer.publish();
        self.promise.make(self.last); // after the packets that came before it
    }

    fn statistics(&self) -> LogCounts {
        self.writer.statistics()
    }

    fn end(self, ending: Ending) {
        self.writer.finish(ending);
    }
}

/// The leader's end of a log: a source of the packets in it.
struct LogEnd {
    info: PortInfo,
    reader: Reader,
    promise: Arc<Promise>,
    /// The promise as of the last poll.
    promised: Promised,
}

impl Port for LogEnd {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount::default()
    }
}

impl Source for LogEnd {
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.promised = self.promise.look(); // before the log (E7)
        let state = match self.reader.take_up_to(budget) {
            0 if self.reader.is_finished() => PortState::Ended,
            0 if self.reader.lag() > 0 => {
                // The writer is lapping this reader, so the log is not empty.
                self.promised.low_ns = 0;
                PortState::Blocked
            }
            0 if self.promised.is_coming => PortState::Blocked,
            0 => PortState::Idle,
            _ => PortState::Busy,
        };
        scratch.clear();
        let burst = match self.reader.taken() {
            Some(burst) => burst,
            None => scratch.burst(&[], 0),
        };
        Ok(Lent::new(burst, state))
    }

    fn receive(&mut self, _: &mut Writer, _: u64) -> Result<Received, PortError> {
        unreachable!("the leader takes packets where they are");
    }

    fn lent<'a>(&'a self, _: &'a mut Scratch) -> Option<Burst<'a>> {
        self.reader.taken()
    }

    fn low_time_ns(&self) -> Option<u64> {
        Some(self.promised.low_ns).filter(|low_ns| *low_ns > 0)
    }
}

/// A thread that reads the logs.
enum Behind<'a, S> {
    Leader(Box<Merger<'a>>),
    Recorder(Box<Recorder<'a, S>>),
}

/// The outcome of a thread that reads the logs.
enum Came {
    Led(Box<Merged>),
    Recorded(Box<Recorded>),
}

/// Parks until a receive thread has published. Returns whether one has.
fn park() -> bool {
    let begun = Instant::now();
    thread::park_timeout(SLEEP_MOST);
    begun.elapsed() < SLEEP_MOST
}

impl<'p, S: DerefMut<Target = dyn Sink + 'p> + Send> Step for Behind<'_, S> {
    type Outcome = Came;
    const READS_LOGS: bool = true;

    fn poll(&mut self, now_ns: u64) -> Polled {
        match self {
            Self::Leader(merger) => Step::poll(&mut **merger, now_ns),
            Self::Recorder(recorder) => recorder.poll(now_ns),
        }
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        match self {
            Self::Leader(_) => pause.on_logs(Duration::from_nanos(NAP_LEAST_NS), park),
            Self::Recorder(recorder) => recorder.wait(pause),
        }
    }

    fn show(&mut self) {
        if let Self::Recorder(recorder) = self {
            recorder.show();
        }
    }

    fn show_losses(&mut self) -> u64 {
        match self {
            Self::Leader(_) => 0,
            Self::Recorder(recorder) => recorder.show_losses(),
        }
    }

    fn newest_ns(&self) -> u64 {
        match self {
            Self::Leader(_) => 0,
            Self::Recorder(recorder) => recorder.newest_ns(),
        }
    }

    fn flush(&mut self) -> bool {
        match self {
            Self::Leader(_) => true,
            Self::Recorder(recorder) => recorder.flush(),
        }
    }

    fn end(self) -> Came {
        match self {
            Self::Leader(merger) => {
                let Home { merged, .. } = merger.end();
                Came::Led(Box::new(merged))
            }
            Self::Recorder(recorder) => Came::Recorded(Box::new(recorder.end())),
        }
    }
}
