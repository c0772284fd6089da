//! Stages that fill logs, and stages that read them.
//!
//! ```text
//!  sources --[receive]--> | segment | segment | ... --[record]--> sink
//!              '- or into several: lanes                 '- tells the sink of gaps
//! ```
//!
//! A receive stage has a log, or several; a log has one writer. A recorder reads one or several and
//! gives what it reads to a sink: a file, a port, a closure.
//!
//! Invariants:
//! - K1: for each log, its packets = seen by a recorder + missed by it; seen = given to the sink
//!   + lost after the sink broke.
//! - K2: a receive stage ends its log at its own end, and a recorder reads to the end of every log.
//!   So nothing is in flight between them when the job is over.

pub(crate) mod gaps;
pub(crate) mod lanes;
pub(crate) mod receive;
pub(crate) mod record;

use burstline_log::{LogConfig, Policy, WriterStatistics};
use burstline_port::PortTable;
use burstline_share::PublishConfig;

use crate::Threads;

/// What a job that has logs is made with, besides its ports and its run.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Where its threads run: the receivers first; the recorder has the last core.
    pub threads: Threads,
    /// The shape of the log, or of each log.
    pub log: LogConfig,
    /// Who waits when a log is full; `None`: lossless if every source can wait, else lossy.
    pub policy: Option<Policy>,
    /// The interfaces of the job: the one that its ports were opened with.
    pub table: PortTable,
    /// Under which name other programs may read the log, or logs.
    pub publish: Option<PublishConfig>,
}

/// A log's own counts, once its writer is gone.
pub(crate) type LogCounts = WriterStatistics;
