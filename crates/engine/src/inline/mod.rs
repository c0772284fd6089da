//! Inline: packets of a bounce or a switch wait in a published log until a reader gives a verdict.
//!
//! ```text
//! source --lend--> flow passed? --yes----------------------------------------> onward
//!                       | no
//!                       '--copy--> log of its worker --pins--> queue --verdict--> onward
//!                                       |                         ^        '----> dropped, by name
//!                                       '--> reader of log K -----'
//!                                            (another process)    words of its column
//! ```
//!
//! A crossing, or a port of a switch, has a [`Checkpoint`] with a [`Lane`] for each worker: a log
//! with its writer, our own reader whose pins keep waiting packets, and the worker's verdicts. A
//! flow's hash says which lane a packet takes. Both directions of a flow are worker K's, who has
//! logs K and `workers + K` of the name. In a switch that is a log of each port that asks for it.
//!
//! Who owns what when: a lane is its crossing's, and so its thread's. A packet that waits is in the
//! log's memory, pinned; readers see it there and cannot write it. A verdict is the reader's word
//! until it is looked at, once; see `burstline_log::verdict` and Decision 0039.
//!
//! Invariants:
//! - V1: packets of a flow leave in the order they came. A lane is a queue; a flow that is passed
//!   as a whole skips it only when none of its packets is in it.
//! - V2: no packet waits longer than the deadline, and one turn of its thread.
//! - V3: a worker that is slow, dead or hostile changes the fate of its own lane's packets only.
//! - V4: taken from the source = given to the sink + lost by name + waiting.

mod answers;
mod checkpoint;
mod flows;
mod lane;
mod outlet;
mod report;

use std::sync::{Arc, Mutex, PoisonError};

use burstline_log::{Ending, Log, LogConfig, VERDICTS_WAITING_MAX};
use burstline_port::PortTable;
use burstline_share::PublishConfig;
use burstline_wire::hash::HashKind;

use crate::published::Publication;
use crate::{EngineError, Progress, Report};
pub(crate) use answers::Answers;
pub(crate) use checkpoint::{Checkpoint, Entrance};
use lane::Lane;
use outlet::Ends;
pub(crate) use outlet::Onward;
use report::Said;
pub use report::{InlineReport, InlineWorker};

/// Bytes of a segment of a lane's log.
const SEGMENT_BYTES: usize = 256 << 10;
/// Seats of a lane's log: our own, the worker's, and two for readers without verdicts.
const SEATS: usize = 4;
/// Segments of a lane's log: all that its seats can pin, and as many to go on with.
const SEGMENTS: usize = SEATS * burstline_log::MAX_WINDOW + 16;

/// What is said with the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineOptions {
    /// The name under which packets are published, and who may read them.
    pub publish: PublishConfig,
    /// Workers that share the packets, by flow: 1 to [`INLINE_WORKERS_MAX`].
    pub workers: usize,
    /// Whether a packet without a verdict goes on. If not, it is lost by name.
    pub is_open: bool,
    /// How long a packet waits for its verdict, in ns.
    pub deadline_ns: u64,
}

/// The most workers: both directions have a log for each, and a name has at most 64.
pub const INLINE_WORKERS_MAX: usize = 32;

/// The published side of an inline bounce.
pub struct Inline {
    publication: Publication,
    options: InlineOptions,
    /// By direction: what its crossing tells at its end.
    told: Vec<Told>,
}

/// Where a crossing leaves what it has counted.
type Told = Arc<Mutex<Said>>;

impl Inline {
    /// Shows its logs and their readers while the job runs.
    pub fn show(&self, progress: &Progress) {
        self.publication.show(progress);
    }

    /// Ends the publication once the crossings have run: the readers are in the report.
    pub fn end(self, is_stopped: bool, report: &mut Report) -> InlineReport {
        let ending = if is_stopped { Ending::Stopped } else { Ending::Final };
        for told in &self.told {
            let mut said = told.lock().unwrap_or_else(PoisonError::into_inner); // once, whole
            said.writers.drain(..).for_each(|writer| writer.finish(ending));
        }
        report.published = Some(self.publication.end(is_stopped));
        InlineReport::new(self.options, &self.told)
    }
}

/// A way on which packets wait.
pub(crate) struct InlineWay {
    /// The code of the clock that its packets' times are of.
    pub(crate) clock_kind: u32,
    /// For the senders of its packets.
    pub(crate) answers: Answers,
}

/// A checkpoint for each of some ways, and their publication. Worker K has logs K, `workers + K`,
/// and so on: one for each way.
pub(crate) fn checkpoints(
    ways: Vec<InlineWay>,
    table: &PortTable,
    inline: &InlineOptions,
) -> Result<(Vec<Checkpoint>, Inline), EngineError> {
    let (mut checkpoints, mut logs, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let logs_all = ways.len() * inline.workers;
    for (number, InlineWay { clock_kind, answers }) in ways.into_iter().enumerate() {
        let mut lanes = Vec::new();
        for worker in 0..inline.workers {
            let (log, writer) = Log::create(config(number, worker, logs_all, clock_kind))?;
            let mut lane = Lane::new(&log, writer, inline)?;
            lane.counts.log = logs.len();
            lanes.push(lane);
            logs.push(log);
        }
        let place = Told::default();
        let ends = Ends::new(inline.is_open, answers);
        checkpoints.push(Checkpoint::new(lanes, ends, table, Arc::clone(&place)));
        told.push(place);
    }
    let publication = Publication::start(&inline.publish, &logs, table)?;
    Ok((checkpoints, Inline { publication, options: inline.clone(), told }))
}

fn config(way: usize, worker: usize, logs: usize, clock_kind: u32) -> LogConfig {
    LogConfig {
        name: format!("inline-{way}-{worker}"),
        bytes: SEGMENTS * SEGMENT_BYTES,
        segment_bytes: SEGMENT_BYTES,
        max_readers: SEATS,
        allow_lossless: false,
        hash_kind: HashKind::FiveTuple.code().into(),
        clock_kind,
        takes_verdicts: true,
        ..LogConfig::default()
    }
    .one_of(logs)
}

/// How long a thread sleeps at most while a packet waits: a verdict wakes nobody.
pub(crate) const LOOK_EVERY_NS: u64 = 50_000;

/// Packets that may wait in a lane before a source that can wait is held up.
const WAITING_ENOUGH: u64 = VERDICTS_WAITING_MAX / 2;
