//! The files that a job reads and writes, so that no output overwrites an input.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use burstline_sys::direct::is_own_descriptor;
use burstline_sys::inode::{FileId, open_own};
use burstline_sys::late::Opening;

use crate::{BeforeFiles, PortError};

/// How a job uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// What tells a file from any other one, also from a later one of its inode number: its device, its
/// inode number, and the time at which it was made, if its file system knows that.
pub(crate) type Identity = (u64, u64, Option<SystemTime>);

/// Returns the identity in this metadata.
pub(crate) fn identity(of: &Metadata) -> Identity {
    let FileId { device, inode } = FileId::of(of);
    (device, inode, of.created().ok())
}

/// The regular files that a job has open, by device and inode. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct OpenedFiles(Arc<Mutex<Opened>>);

#[derive(Debug, Default)]
struct Opened {
    files: Vec<OpenedFile>,
    /// What the job has written and closed, if someone asks for that.
    written: Option<HashSet<Identity>>,
    before: Option<BeforeFiles>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenedFile {
    id: FileId,
    usage: Use,
    identity: Identity,
}

impl OpenedFiles {
    /// Creates a file that the job writes besides its packets, for its owner alone. An existing
    /// file is emptied, unless the job already reads or writes it. A link or a device is an error.
    ///
    /// # Errors
    /// [`PortError::SameFile`]; [`PortError::Io`].
    pub fn create(&self, path: &Path) -> Result<File, PortError> {
        let failed = |error| PortError::Io { action: "create", path: path.to_owned(), error };
        // Do not truncate before it is clear that the job does not use the file.
        let file = match is_own_descriptor(path) {
            true => Opening::write().open(path),
            false => open_own(path),
        };
        let file = file.map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        self.enter(path, &metadata, Use::Write)?;
        if metadata.is_file() {
            file.set_len(0).map_err(failed)?;
        }
        Ok(file)
    }

    /// Names what the job does before it opens files to read: it gives up its rights. Whoever opens
    /// several ports calls it after those that take rights.
    pub fn set_before(&self, before: Option<BeforeFiles>) {
        self.opened().before = before;
    }

    /// Returns what [`set_before`](Self::set_before) has named.
    pub fn before(&self) -> Option<BeforeFiles> {
        self.opened().before
    }

    /// Registers a file. A file may be read several times, but a written file has one user. Only
    /// regular files are registered.
    pub(crate) fn enter(
        &self,
        path: &Path,
        metadata: &Metadata,
        usage: Use,
    ) -> Result<(), PortError> {
        if !metadata.is_file() {
            return Ok(());
        }
        let opened = OpenedFile { id: FileId::of(metadata), usage, identity: identity(metadata) };
        let files = &mut self.opened().files;
        let collides = |known: &OpenedFile| {
            known.id == opened.id && (usage == Use::Write || known.usage == Use::Write)
        };
        if files.iter().any(collides) {
            return Err(PortError::SameFile { path: path.to_owned() });
        }
        files.push(opened);
        Ok(())
    }

    /// Remembers from now on what the job has written, also when that is closed.
    pub(crate) fn keep_written(&self) {
        self.opened().written.get_or_insert_default();
    }

    /// Returns an error if the job writes this file, or has written it and remembers that.
    pub(crate) fn check_unwritten(&self, path: &Path, of: &Metadata) -> Result<(), PortError> {
        let id = FileId::of(of);
        let opened = self.opened();
        let is_open = opened.files.iter().any(|file| file.id == id && file.usage == Use::Write);
        let is_known = |written: &HashSet<_>| written.contains(&identity(of));
        match is_open || opened.written.as_ref().is_some_and(is_known) {
            true => Err(PortError::SameFile { path: path.to_owned() }),
            false => Ok(()),
        }
    }

    /// Unregisters a written file: it is closed, and its inode number may soon be reused. It is
    /// remembered only if its identity tells it from the next one of that number.
    pub(crate) fn leave(&self, id: FileId) {
        let Opened { files, written, .. } = &mut *self.opened();
        let is_left = |file: &mut OpenedFile| file.id == id && file.usage == Use::Write;
        let left = files.extract_if(.., is_left).map(|file| file.identity);
        let left: Vec<_> = left.filter(|(.., made)| made.is_some()).collect();
        if let Some(written) = written {
            written.extend(left);
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
