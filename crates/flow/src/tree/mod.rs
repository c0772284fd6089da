//! Writes a tree of Parquet files: `date=/hour=/sensor=/part-*.parquet`.
//!
//! ```text
//! batch ──► parts, one for each hour of a first packet ──► row groups ──► hidden file ──► renamed
//!                                                           every minute, or at the end
//! ```
//!
//! - `names`: sensors, folders. `part`: a file while it is written. `columns`: its contents.
//! - `dictionary`: distinct values of a column. `chunk`, `runs`, `pages`: encoded columns.
//! - `journal`: the cost of a crash. `compact`: merges many files that are `sound`. `message`: a
//!   batch as a file, for a bus.
//!
//! Minutes are counted by the monotonic clock: a clock that jumps opens and closes no file. A
//! record is stored in the hour of its first packet. So several hours may have a part within one
//! minute. At most [`PARTS_MAX`] are open at a time.
//!
//! Invariants:
//! - R1: a record that was taken is in a part, in a file, or counted as lost by name.
//! - R2: at most [`ROWS_MAX`] rows are in memory.

mod chunk;
mod columns;
mod compact;
mod dictionary;
mod journal;
mod message;
mod names;
mod pages;
mod part;
mod runs;
mod sound;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use burstline_sys::late;

pub use columns::{SCHEMA, SCHEMA_VERSION};
pub use compact::{Compacted, compact, compact_telling};
pub use journal::{Journal, NotWritten};
pub use message::{Encoded, encode, place_in_tree};
pub use names::{BootId, SensorName};

use crate::record::PortName;
use crate::sink::{Batch, Made, RecordSink, SinkAccount, TreeError, disk_loss};
use columns::Row;
use names::HOUR_NS;
use part::{GROUP_ROWS, Part, Place};

/// Most files open at a time.
const PARTS_MAX: usize = 16;

/// Most rows in memory: some 100 MiB.
const ROWS_MAX: usize = 4 * GROUP_ROWS;

/// The writer of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The machine's name.
    pub sensor: SensorName,
    /// ID of this start of the program.
    pub boot: BootId,
    /// Its sources, by the port number in records.
    pub ports: Vec<PortName>,
}

/// The sink that writes the tree.
pub struct TreeSink {
    root: PathBuf,
    /// Permission bits of files.
    mode: u32,
    origin: Origin,
    /// How long a file collects records.
    every: Duration,
    /// Parts by hour since 1970.
    parts: BTreeMap<u64, Part>,
    rows: usize,
    journal: Journal,
    account: SinkAccount,
    /// Whether its first error was reported.
    has_told: bool,
}

impl TreeSink {
    /// Opens the tree as a sensor, and creates it if it does not exist. A file collects records for
    /// `every`.
    ///
    /// # Errors
    /// The folder cannot be created or written; another program writes as this sensor.
    pub fn open(
        root: &Path,
        origin: Origin,
        every: Duration,
    ) -> Result<(Self, Option<NotWritten>), TreeError> {
        let is_there = |path: &str| late::exists(&root.join(path));
        let (journal, last) = Journal::open(root, &origin.sensor, &origin.boot, is_there)?;
        remove_hidden(root, &origin.sensor).map_err(|error| TreeError::io("clean", root, error))?;
        let sink = Self {
            root: root.to_owned(),
            mode: late::OWN_FILE,
            origin,
            every,
            parts: BTreeMap::new(),
            rows: 0,
            journal,
            account: SinkAccount { kind: "tree", ..SinkAccount::default() },
            has_told: false,
        };
        Ok((sink, last))
    }

    /// Gives new files these permission bits, less the umask, in place of 0600. Those who may read
    /// a file may search new folders.
    pub fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Writes the part of an hour as a file.
    fn close(&mut self, hour: u64) {
        let Some(mut part) = self.parts.remove(&hour) else { return };
        self.rows -= part.rows.len();
        match self.finish_part(&mut part) {
            Ok(bytes) => {
                self.account.records += part.records;
                self.account.packets += part.packets;
                self.account.bytes += bytes;
                self.account.parts += 1;
            }
            Err(error) => self.fail(part, &error),
        }
    }

    fn finish_part(&mut self, part: &mut Part) -> io::Result<u64> {
        let Some(closed) = part.close(&self.origin)? else { return Ok(0) };
        // The root may have any name; the names below it are plain.
        let whole = closed.whole.strip_prefix(&self.root).unwrap_or(&closed.whole);
        let whole = whole.display().to_string();
        self.journal.announce(&whole, part.records, part.packets);
        let shown = closed.show();
        self.journal.settle(late::exists(&closed.whole));
        shown.map(|()| closed.bytes)
    }

    /// Counts the records of a part that could not be written.
    fn fail(&mut self, part: Part, error: &io::Error) {
        self.account.lose(disk_loss(error), part.records, part.packets);
        let root = self.root.display();
        self.account.first_error.get_or_insert_with(|| format!("write records to {root}: {error}"));
        part.discard();
    }

    /// Writes a row group of the part with the most rows.
    fn write_largest(&mut self) {
        let largest = self.parts.iter().max_by_key(|(_, part)| part.rows.len());
        let Some((&hour, _)) = largest else { return };
        self.write_rows(hour);
    }

    fn write_rows(&mut self, hour: u64) {
        let Some(part) = self.parts.get_mut(&hour) else { return };
        let rows = part.rows.len();
        let written = part.write(&self.origin);
        self.rows -= rows;
        if let Err(error) = written {
            // The part still has the rows that it could not write, and they are lost with it.
            if let Some(part) = self.parts.remove(&hour) {
                self.fail(part, &error);
            }
        }
    }
}

impl RecordSink for TreeSink {
    fn write(&mut self, batch: &Batch) {
        for record in &batch.records {
            let hour = record.first_ns / HOUR_NS;
            if !self.parts.contains_key(&hour) && self.parts.len() == PARTS_MAX {
                let oldest = self.parts.iter().min_by_key(|(_, part)| part.begun);
                if let Some((&oldest, _)) = oldest {
                    self.close(oldest);
                }
            }
            let folder = || names::folder(&self.root, hour, &self.origin.sensor);
            let place = || Place { folder: folder(), mode: self.mode };
            let part = self.parts.entry(hour).or_insert_with(|| Part::new(place()));
            part.push(Row { batch: batch.number, record: *record });
            self.rows += 1;
            if part.rows.len() >= GROUP_ROWS {
                self.write_rows(hour);
            } else if self.rows >= ROWS_MAX {
                self.write_largest();
            }
        }
    }

    fn tick(&mut self, made: &Made) {
        let is_due = |part: &Part| part.begun.elapsed() >= self.every;
        let due: Vec<u64> =
            self.parts.iter().filter(|(_, part)| is_due(part)).map(|(hour, _)| *hour).collect();
        due.into_iter().for_each(|hour| self.close(hour));
        self.journal.tell(made, &self.account.lost_in_all());
    }

    fn news(&mut self) -> Vec<String> {
        let error = self.account.first_error.as_ref().filter(|_| !self.has_told);
        self.has_told |= error.is_some();
        error.into_iter().cloned().collect()
    }

    fn finish(&mut self, made: &Made) {
        while let Some((&hour, _)) = self.parts.first_key_value() {
            self.close(hour);
        }
        self.journal.tell(made, &self.account.lost_in_all());
        self.journal.end();
    }

    fn account(&self) -> SinkAccount {
        self.account.clone()
    }
}

/// Removes unfinished files of earlier starts of this sensor.
fn remove_hidden(root: &Path, sensor: &SensorName) -> io::Result<()> {
    for folder in sensor_folders(root)? {
        if !folder.ends_with(format!("sensor={}", sensor.as_str())) {
            continue;
        }
        for name in late::names_in(&folder)? {
            let path = folder.join(&name);
            let name = name.to_string_lossy();
            let is_part = name.starts_with(".part-") && name.ends_with(".tmp");
            if is_part && !late::symlink_metadata(&path)?.is_dir() {
                late::remove_file(&path)?;
            }
        }
    }
    Ok(())
}

/// Returns all sensor folders in a tree, sorted.
fn sensor_folders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    for prefix in ["date=", "hour=", "sensor="] {
        let mut deeper = Vec::new();
        for folder in folders {
            for name in late::names_in(&folder)? {
                let path = folder.join(&name);
                if name.to_string_lossy().starts_with(prefix) && late::is_folder(&path) {
                    deeper.push(path);
                }
            }
        }
        deeper.sort();
        folders = deeper;
    }
    Ok(folders)
}
