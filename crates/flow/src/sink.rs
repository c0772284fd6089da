//! Those who take records: files, buses and collectors. The writer's thread calls them.

use std::io;
use std::path::PathBuf;

use crate::record::Record;
use crate::tree::NotWritten;

/// Records in the order in which they ended, as one thread gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Its number, from 0, of this start of the program.
    pub number: u64,
    /// The records.
    pub records: Vec<Record>,
}

impl Batch {
    /// Packets of all its records.
    pub fn packets(&self) -> u64 {
        self.records.iter().map(|record| record.packets).sum()
    }
}

/// What the job has made so far: what a sink may tell about what it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Packets delivered to the tables.
    pub packets: u64,
    /// Of which without a record.
    pub packets_without_flow: u64,
    /// Records that ended.
    pub records: u64,
    /// Of which the queue had no room for.
    pub records_dropped: u64,
    /// Packets of these.
    pub packets_dropped: u64,
}

/// What a sink has written and lost, in absolute counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkAccount {
    /// What it is: tree, ipfix, kafka, nats.
    pub kind: &'static str,
    /// Records written; by a bus, acknowledged.
    pub records: u64,
    /// Packets of these.
    pub packets: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files, or messages.
    pub parts: u64,
    /// Whether parts are messages.
    pub sends: bool,
    /// What a spool on disk keeps for later.
    pub spooled: Spooled,
    /// What earlier starts had left in that spool.
    pub earlier: Earlier,
    /// Records that could not be written, by name.
    pub lost: Vec<LostRecords>,
    /// What went wrong first, with its reason.
    pub first_error: Option<String>,
    /// Things to tell.
    pub notes: Vec<String>,
}

/// Records that wait on disk: neither acknowledged nor lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spooled {
    /// Records.
    pub records: u64,
    /// Packets of these.
    pub packets: u64,
}

/// What earlier starts had left in a spool, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Records found there.
    pub found: u64,
    /// Of which acknowledged by now.
    pub acknowledged: u64,
    /// Of which the bus refuses for good, or the disk does not give back.
    pub lost: u64,
    /// What the start before had not brought into the spool, if it was killed.
    pub last: Option<NotWritten>,
}

/// Records that were lost for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// The reason's name.
    pub name: &'static str,
    /// Records.
    pub records: u64,
    /// Packets of these.
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

    /// Records that are lost, for whatever reason, and their packets.
    pub fn lost_in_all(&self) -> LostRecords {
        let mut sum = LostRecords { name: "all", ..LostRecords::default() };
        for lost in &self.lost {
            sum.records += lost.records;
            sum.packets += lost.packets;
        }
        sum
    }
}

/// Whether the disk has no room, or grants this user no more.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The name of the loss of records that a disk has refused.
#[must_use]
pub fn disk_loss(error: &io::Error) -> &'static str {
    if is_full(error) { "disk_full" } else { "write_failed" }
}

/// Takes batches of records. What it cannot write it counts in its account and forgets; it may take
/// its time, but the records that come meanwhile are then dropped by the queue.
pub trait RecordSink: Send {
    /// Takes a batch.
    fn write(&mut self, batch: &Batch);

    /// Called every 100 ms or so, also when nothing comes.
    fn tick(&mut self, made: &Made);

    /// What has gone wrong since the last call, to be said at once. Called after
    /// [`tick`](Self::tick).
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Writes what it holds. Called once, at the end.
    fn finish(&mut self, made: &Made);

    /// What it has written and lost.
    fn account(&self) -> SinkAccount;
}

/// A tree that cannot be opened, or compacted.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A name that would not be one folder.
    #[error(
        "sensor name {name:?}: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first not \
         a dot; --sensor NAME names it"
    )]
    Sensor {
        /// As it was given.
        name: String,
    },
    /// Somebody else writes it.
    #[error(
        "{path}: another program writes as sensor {sensor}; --sensor NAME names another",
        path = path.display()
    )]
    Taken {
        /// The journal.
        path: PathBuf,
        /// Its sensor.
        sensor: String,
    },
    /// The system refused.
    #[error("{action} {path}: {error}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// A file of the tree that is none.
    #[error("{path}: {what}", path = path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl TreeError {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, error: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
