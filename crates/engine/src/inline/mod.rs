//! Holds packets of a bounce or a switch in a published log until a reader gives a verdict.
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
//! A crossing, or a port of a switch, has a [`Checkpoint`] with a [`Lane`] for each worker. A lane
//! is a log with its writer, our own reader whose pins keep waiting packets, and the worker's
//! verdicts. The flow hash selects a packet's lane. Both directions of a flow go to worker K, which
//! reads logs K and `workers + K`. In a switch, worker K has one log for each inline port.
//!
//! Ownership: a lane belongs to its crossing, and so to the crossing's thread. A waiting packet is
//! pinned in the log's memory, where readers can read but not write it. A verdict is untrusted
//! until the lane reads it, once; see `burstline_log::verdict` and Decision 0039.
//!
//! Invariants:
//! - V1: packets of a flow leave in the order they came. A lane is a queue; a passed flow skips the
//!   queue only when none of its packets is in it.
//! - V2: no packet waits longer than the deadline plus one round of its thread.
//! - V3: a slow, dead or hostile worker affects only the packets of its own lane.
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
#[cfg(test)]
pub(crate) use checkpoint::stalled;
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
/// Segments of a lane's log: all that its seats can pin, and 16 more to write to.
const SEGMENTS: usize = SEATS * burstline_log::MAX_WINDOW + 16;

/// The settings of inline operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineOptions {
    /// The name under which packets are published, and who may read them.
    pub publish: PublishConfig,
    /// Workers that share the packets, by flow: 1 to [`INLINE_WORKERS_MAX`].
    pub workers: usize,
    /// Whether a packet without a verdict is forwarded (fail open). If not, it is lost by name.
    pub is_open: bool,
    /// How long a packet waits for its verdict, in ns.
    pub deadline_ns: u64,
}

/// Maximum number of workers: each direction has a log per worker, and a name has at most 64.
pub const INLINE_WORKERS_MAX: usize = 32;

/// The published side of an inline bounce.
pub struct Inline {
    publication: Publication,
    options: InlineOptions,
    /// The results of each direction's crossing.
    told: Vec<Told>,
}

/// The place where a crossing stores its results.
type Told = Arc<Mutex<Said>>;

impl Inline {
    /// Shows its logs and their readers while the job runs.
    pub fn show(&self, progress: &Progress) {
        self.publication.show(progress);
    }

    /// Ends the publication after the crossings have ended, and adds the readers to the report.
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

/// A direction whose packets wait for verdicts.
pub(crate) struct InlineWay {
    /// The code of the clock that stamps its packets.
    pub(crate) clock_kind: u32,
    /// Answers to the senders of its packets.
    pub(crate) answers: Answers,
}

/// Creates a checkpoint for each direction, and publishes their logs. Worker K has logs K,
/// `workers + K`, and so on: one for each direction.
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

/// The longest sleep of a thread while packets wait, because a verdict does not wake it.
pub(crate) const LOOK_EVERY_NS: u64 = 50_000;

/// Packets that may wait in a lane before a source that can wait is held up.
const WAITING_ENOUGH: u64 = VERDICTS_WAITING_MAX / 2;
