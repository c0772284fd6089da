//! Stages that fill logs, and stages that read logs.
//!
//! ```text
//!  sources --[receive]--> | segment | segment | ... --[record]--> sink
//!              '- or into several: lanes                 '- tells the sink of gaps
//! ```
//!
//! A receive stage fills one log or several; a log has one writer. A recorder reads one log or
//! several and passes the packets to a sink: a file, a port, or a closure.
//!
//! Invariants:
//! - K1: for each log, its packets = seen by a recorder + missed by it. Seen packets = given to the
//!   sink + lost after the sink broke.
//! - K2: a receive stage ends its log when it ends, and a recorder reads every log to its end. So
//!   no packet is in flight between them when the job is over.

pub(crate) mod follow;
pub(crate) mod gaps;
pub(crate) mod lanes;
pub(crate) mod receive;
pub(crate) mod record;

use burstline_log::{LogConfig, Policy, WriterStatistics};
use burstline_port::PortTable;
use burstline_share::PublishConfig;

use crate::Threads;

/// The options of a job with logs, besides its ports and its run.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Placement of the threads: receivers come first; the recorder has the last core.
    pub threads: Threads,
    /// The shape of the log, or of each log.
    pub log: LogConfig,
    /// Who waits if a log is full; `None`: lossless if every source can wait, else lossy.
    pub policy: Option<Policy>,
    /// The job's interface table, the same that its ports were opened with.
    pub table: PortTable,
    /// Name under which other programs may read the logs.
    pub publish: Option<PublishConfig>,
}

impl CaptureOptions {
    /// Creates the options of a job whose ports were opened with `table`; the rest are defaults.
    pub fn new(table: PortTable) -> Self {
        let (threads, log) = (Threads::default(), LogConfig::default());
        Self { threads, log, policy: None, table, publish: None }
    }
}

/// A log's own counts, kept after its writer is gone.
pub(crate) type LogCounts = WriterStatistics;
