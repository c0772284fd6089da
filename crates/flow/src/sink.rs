//! The sinks of records: files, buses and collectors. The writer's thread calls them.

use std::io;
use std::path::PathBuf;

use crate::record::Record;
use crate::tree::NotWritten;

/// Records in the order in which they ended, from one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Its number since the program's start, from 0.
    pub number: u64,
    /// The records.
    pub records: Vec<Record>,
}

impl Batch {
    /// Returns the packets of all its records.
    pub fn packets(&self) -> u64 {
        self.records.iter().map(|record| record.packets).sum()
    }
}

/// The job's progress, for sinks that report what they did not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Packets delivered to the tables.
    pub packets: u64,
    /// Packets of these without a record.
    pub packets_without_flow: u64,
    /// Records that ended.
    pub records: u64,
    /// Records of these that the queue had no room for.
    pub records_dropped: u64,
    /// Packets of the dropped records.
    pub packets_dropped: u64,
}

/// What a sink has written and lost, in absolute counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkAccount {
    /// Kind of the sink: tree, ipfix, kafka, nats.
    pub kind: &'static str,
    /// Records written; for a bus, acknowledged.
    pub records: u64,
    /// Packets of the records written.
    pub packets: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Number of files or messages.
    pub parts: u64,
    /// Whether parts are messages.
    pub sends: bool,
    /// Records that a spool on disk keeps for later.
    pub spooled: Spooled,
    /// Records that earlier starts left in that spool.
    pub earlier: Earlier,
    /// Records that could not be written, by name.
    pub lost: Vec<LostRecords>,
    /// The first error, with its reason.
    pub first_error: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Records that wait on disk: neither acknowledged nor lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spooled {
    /// Records.
    pub records: u64,
    /// Packets of the records.
    pub packets: u64,
}

/// Records that earlier starts left in a spool, and their fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Records found in the spool.
    pub found: u64,
    /// Records of these acknowledged so far.
    pub acknowledged: u64,
    /// Records of these that the bus rejected permanently, or the disk failed to read.
    pub lost: u64,
    /// Records that the previous start did not spool, if it was killed.
    pub last: Option<NotWritten>,
}

/// Records that were lost for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// The reason's name.
    pub name: &'static str,
    /// Records.
    pub records: u64,
    /// Packets of the records.
    pub packets: u64,
}

impl SinkAccount {
    /// Counts records that are lost.
    pub fn lose(&mut self, name: &'static str, records: u64, packets: u64) {
        let at = match self.lost.iter().position(|lost| lost.name == name) {
            Some(at) => at,
            None => {
                self.lost.push(LostRecords { name, ..LostRecords::default() });
                self.lost.len() - 1
            }
        };
        self.lost[at].records += records;
        self.lost[at].packets += packets;
    }

    /// Returns the lost records and their packets, over all reasons.
    pub fn lost_in_all(&self) -> LostRecords {
        let mut sum = LostRecords { name: "all", ..LostRecords::default() };
        for lost in &self.lost {
            sum.records += lost.records;
            sum.packets += lost.packets;
        }
        sum
    }
}

/// Returns whether the disk is full, or the user's quota is exceeded.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the name of the loss if a disk refused records.
#[must_use]
pub fn disk_loss(error: &io::Error) -> &'static str {
    if is_full(error) { "disk_full" } else { "write_failed" }
}

/// Takes batches of records. A sink counts records that it cannot write in its account and drops
/// them. It may be slow, but the queue then drops the records that arrive in the meantime.
pub trait RecordSink: Send {
    /// Takes a batch.
    fn write(&mut self, batch: &Batch);

    /// Called about every 100 ms, even if no records arrive.
    fn tick(&mut self, made: &Made);

    /// Returns the errors since the last call, to be reported immediately. Called after
    /// [`tick`](Self::tick).
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Writes all remaining records. Called once, at the end.
    fn finish(&mut self, made: &Made);

    /// Returns the records written and lost.
    fn account(&self) -> SinkAccount;
}

/// Why a tree cannot be opened or compacted.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A name that is not a valid folder name.
    #[error(
        "sensor name {name:?}: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, not starting \
         with a dot; set it with --sensor NAME"
    )]
    Sensor {
        /// The name as given.
        name: String,
    },
    /// Another program writes as this sensor.
    #[error(
        "{path}: another program writes as sensor {sensor}; choose another with --sensor NAME",
        path = path.display()
    )]
    Taken {
        /// Path of the journal.
        path: PathBuf,
        /// Name of the sensor.
        sensor: String,
    },
    /// A system error.
    #[error("{action} {path}: {error}", path = path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// A file of the tree that is not valid Parquet.
    #[error("{path}: {what}", path = path.display())]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
}

impl TreeError {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, error: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
