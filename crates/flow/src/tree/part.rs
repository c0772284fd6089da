//! A file of the tree while it is written: hidden until it is complete, then renamed.
//!
//! ```text
//! rows gather ──► .part-BOOT-BATCH.tmp: row groups ──► closed, synced ──► part-BOOT-BATCH.parquet
//! ```
//!
//! Invariant P1: a file without a leading dot is complete, synced and never changed again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burstline_sys::late::{self, Opening};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::Origin;
use super::columns::{self, Row};

pub(super) const GROUP_ROWS: usize = 1 << 17;

/// A file of one hour.
pub(super) struct Part {
    pub(super) begun: Instant,
    pub(super) records: u64,
    pub(super) packets: u64,
    pub(super) rows: Vec<Row>,
    file: Option<Open>,
    place: Place,
}

/// Where a file is, and who may read it.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// Permission bits of the file, less the umask.
    pub(super) mode: u32,
}

impl Place {
    /// The permission bits of folders: who may read the file may enter them.
    fn folder_mode(&self) -> u32 {
        let readers = self.mode & 0o444;
        0o700 | readers | readers >> 2
    }
}

struct Open {
    writer: SerializedFileWriter<File>,
    hidden: PathBuf,
    whole: PathBuf,
}

impl Part {
    pub(super) fn new(place: Place) -> Self {
        let (begun, rows) = (Instant::now(), Vec::new());
        Self { begun, records: 0, packets: 0, rows, file: None, place }
    }

    pub(super) fn push(&mut self, row: Row) {
        self.records += 1;
        self.packets += row.record.packets;
        self.rows.push(row);
    }

    /// Writes the current rows as a row group.
    pub(super) fn write(&mut self, origin: &Origin) -> io::Result<()> {
        let Some(first) = self.rows.first() else { return Ok(()) };
        let open = match &mut self.file {
            Some(open) => open,
            None => self.file.insert(Open::create(&self.place, first.batch, origin)?),
        };
        columns::write_group(&mut open.writer, &self.rows, origin).map_err(io_of)?;
        self.rows.clear();
        Ok(())
    }

    /// Writes the remaining rows and closes the file, which is then synced to disk. Returns its
    /// bytes and its final name.
    pub(super) fn close(&mut self, origin: &Origin) -> io::Result<Option<Closed>> {
        self.write(origin)?;
        let Some(open) = &mut self.file else { return Ok(None) };
        open.writer.finish().map_err(io_of)?;
        let file = open.writer.inner();
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        let (hidden, whole) = (open.hidden.clone(), open.whole.clone());
        Ok(Some(Closed { bytes, hidden, whole }))
    }

    /// Removes a file that cannot be finished.
    pub(super) fn discard(self) {
        if let Some(open) = self.file {
            // It is hidden, and the next start also removes it.
            let _ = late::remove_file(&open.hidden);
        }
    }
}

/// A complete file that is still hidden.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) bytes: u64,
    pub(super) hidden: PathBuf,
    pub(super) whole: PathBuf,
}

impl Closed {
    /// Renames it to its final name.
    pub(super) fn show(&self) -> io::Result<()> {
        show(&self.hidden, &self.whole)
    }
}

/// Renames a synced file so that it survives a crash.
pub(super) fn show(hidden: &Path, whole: &Path) -> io::Result<()> {
    late::rename(hidden, whole)?;
    match whole.parent() {
        Some(folder) => late::open_folder(folder)?.sync_all(),
        None => Ok(()),
    }
}

impl Open {
    fn create(place: &Place, batch: u64, origin: &Origin) -> io::Result<Self> {
        let folder = &place.folder;
        late::create_folders_of(folder, place.folder_mode())?;
        let boot = origin.boot.as_str();
        let hidden = folder.join(format!(".part-{boot}-{batch:010}.tmp"));
        let whole = folder.join(format!("part-{boot}-{batch:010}.parquet"));
        // A batch may have records in several consecutive files of this hour.
        let (mut whole, mut next) = (whole, 1);
        while late::exists(&whole) {
            whole = folder.join(format!("part-{boot}-{batch:010}-{next}.parquet"));
            next += 1;
        }
        let file = Opening::write().or_create().emptied().mode(place.mode).open(&hidden)?;
        let schema = columns::schema().map_err(io_of)?;
        let writer = SerializedFileWriter::new(file, schema, columns::properties());
        Ok(Self { writer: writer.map_err(io_of)?, hidden, whole })
    }
}

/// Converts an error of the library, preserving a system error.
pub(super) fn io_of(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}
