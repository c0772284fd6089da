//! The files that a job reads and writes, so that no output overwrites an input.

use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use burstline_sys::direct::is_own_descriptor;
use burstline_sys::inode::{FileId, open_own};

use crate::PortError;

/// How a job uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// The regular files that a job has open, by device and inode. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct OpenedFiles(Arc<Mutex<Vec<OpenedFile>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenedFile {
    id: FileId,
    usage: Use,
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
            true => File::options().write(true).open(path),
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
        let opened = OpenedFile { id: FileId::of(metadata), usage };
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let collides = |known: &OpenedFile| {
            known.id == opened.id && (usage == Use::Write || known.usage == Use::Write)
        };
        if files.iter().any(collides) {
            return Err(PortError::SameFile { path: path.to_owned() });
        }
        files.push(opened);
        Ok(())
    }

    /// Returns an error if the job writes this file.
    pub(crate) fn check_unwritten(&self, path: &Path, of: &Metadata) -> Result<(), PortError> {
        let written = OpenedFile { id: FileId::of(of), usage: Use::Write };
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match files.contains(&written) {
            true => Err(PortError::SameFile { path: path.to_owned() }),
            false => Ok(()),
        }
    }

    /// Unregisters a written file: it is closed, and its inode number may soon be reused.
    pub(crate) fn leave(&self, id: FileId) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|&known| known != OpenedFile { id, usage: Use::Write });
    }
}
