//! Inline: packets of a bounce wait in a published log until a reader gives a verdict.
//!
//! ```text
//! source --lend--> flow passed? --yes----------------------------------------> sink
//!                       | no
//!                       '--copy--> log of its worker --pins--> queue --verdict--> sink
//!                                       |                         ^        '----> dropped, by name
//!                                       '--> reader of log K -----'
//!                                            (another process)    words of its column
//! ```
//!
//! A crossing has a [`Lane`] for each worker: a log with its writer, our own reader whose pins keep
//! waiting packets, and the worker's verdicts. A flow's hash says which lane a packet takes. Both
//! directions of a flow are worker K's: logs K and `workers + K` of the name.
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
mod checked;
mod flows;
mod lane;
mod outlet;
mod report;

use std::sync::{Arc, Mutex, PoisonError};

use burstline_log::{Ending, Log, LogConfig, VERDICTS_WAITING_MAX};
use burstline_port::{Address, Crossing, OpenOptions, Port, PortError, Role, Treatment};
use burstline_share::PublishConfig;
use burstline_wire::hash::HashKind;

use crate::published::Publication;
use crate::{EngineError, Progress, Report};
use checked::Checked;
use lane::Lane;
use report::Said;
pub use report::{InlineReport, InlineWorker};

use super::carry::Carry;

/// Bytes of a segment of a lane's log.
const SEGMENT_BYTES: usize = 256 << 10;
/// Seats of a lane's log: our own, the worker's, and two for readers that look on.
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

/// As [`open_bounce`](super::open_bounce), with verdicts. Packets are copied into a log, also
/// between ports that could pass them on without a copy.
///
/// # Errors
/// What the ports say, and the publisher.
pub fn open_inline(
    ends: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
    options: &OpenOptions,
    inline: &InlineOptions,
) -> Result<(Vec<Box<dyn Crossing>>, Inline), EngineError> {
    let options = &OpenOptions { hash: HashKind::FiveTuple, ..options.clone() };
    let ways: &[[&Address; 2]] = &[ends, [ends[1], ends[0]]];
    let ways = &ways[..if is_both { 2 } else { 1 }];
    let (mut crossings, mut logs, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for (way, [from, to]) in ways.iter().enumerate() {
        let resolved = |address: &Address, role| address.resolved(role).map_err(PortError::from);
        let (from, to) = (resolved(from, Role::Source)?, resolved(to, Role::Sink)?);
        let carry = Carry::open(&from, &to, treatment, options)?;
        let clock_kind = carry.info().timestamps.code();
        let mut lanes = Vec::new();
        for worker in 0..inline.workers {
            let (log, writer) =
                Log::create(config(way, worker, ways.len() * inline.workers, clock_kind))?;
            let mut lane = Lane::new(&log, writer, inline)?;
            lane.counts.log = logs.len();
            lanes.push(lane);
            logs.push(log);
        }
        let place = Told::default();
        let checked = Checked::new(carry, &from, lanes, options, inline, Arc::clone(&place))?;
        crossings.push(Box::new(checked) as Box<dyn Crossing>);
        told.push(place);
    }
    let publication = Publication::start(&inline.publish, &logs, &options.table)?;
    Ok((crossings, Inline { publication, options: inline.clone(), told }))
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

/// Packets that may wait in a lane before a source that can wait is held up.
const WAITING_ENOUGH: u64 = VERDICTS_WAITING_MAX / 2;
