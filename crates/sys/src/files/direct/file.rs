//! A file that is written and never read.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FallocateFlags, OFlags, StatxFlags, fallocate, fcntl_getfl, fcntl_setfl, statx,
};
use rustix::io::{Errno, retry_on_intr};

use super::{ALIGNMENT, Claimed, Creation, claim};

/// How the bytes of an [`OutputFile`] are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritePath {
    /// Past the page cache: memory, offsets and lengths are multiples of [`ALIGNMENT`].
    Direct,
    /// Through the page cache.
    Buffered {
        /// Why not direct.
        reason: String,
    },
    /// Not a regular file: written in order, and each offset must equal the bytes written so far.
    Stream,
}

impl fmt::Display for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Buffered { reason } => write!(f, "buffered ({reason})"),
            Self::Stream => f.write_str("stream"),
        }
    }
}

/// Why not all bytes were written, or a file was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file could not be opened, sized, synced or inspected.
    #[error("{}: {call}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The call.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Some bytes were written, then no more.
    #[error("{}: {written} of {wanted} bytes written at offset {offset}: {source}", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// Where the write began, in bytes from the start of the file.
        offset: u64,
        /// Bytes written, in `[0, wanted)`.
        written: usize,
        /// Bytes to be written.
        wanted: usize,
        /// The kernel's error for the rest: `ENOSPC` for a full disk.
        source: io::Error,
    },
    /// A stream takes bytes in order only.
    #[error("{}: offset {offset} in a stream that is at {position}", path.display())]
    NotInOrder {
        /// The file.
        path: PathBuf,
        /// The offset asked for.
        offset: u64,
        /// Bytes written so far.
        position: u64,
    },
}

/// A file open for writing.
#[derive(Debug)]
pub struct OutputFile {
    file: Claimed,
    path: PathBuf,
    write_path: WritePath,
    /// Bytes written so far; used for a stream only.
    position: u64,
}

impl OutputFile {
    /// Opens `path`, creates it if necessary, and empties it if it is a regular file.
    ///
    /// A FIFO makes this wait until its other end is opened.
    ///
    /// # Errors
    /// [`WriteError::File`]: a directory, no permission, a read-only file system, another writer.
    pub fn create(path: &Path, creation: &Creation) -> Result<Self, WriteError> {
        let fail = |call| move |source| WriteError::File { path: path.to_owned(), call, source };
        let file = claim(path, creation).map_err(fail("open"))?;
        let write_path = if file.is_regular() { choose_path(&file) } else { WritePath::Stream };
        Ok(Self { file, path: path.to_owned(), write_path, position: 0 })
    }

    /// Writes all of `bytes` at `offset`, counted in bytes from the start of the file.
    ///
    /// On [`WritePath::Direct`] the kernel refuses an unaligned write (`EINVAL` in
    /// [`WriteError::Short`]); call [`leave_direct`](Self::leave_direct) first for an odd tail. If
    /// the kernel refuses an aligned one, the file continues through the page cache. An overlay
    /// over a file system in memory accepts `O_DIRECT`, and then refuses every direct write.
    ///
    /// # Errors
    /// - [`WriteError::Short`]: how much was written, and why it stopped.
    /// - [`WriteError::NotInOrder`]: a stream, and `offset` differs from the bytes written so far.
    pub fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        let is_stream = self.write_path == WritePath::Stream;
        if is_stream && offset != self.position {
            let (path, position) = (self.path.clone(), self.position);
            return Err(WriteError::NotInOrder { path, offset, position });
        }
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            let result = match is_stream {
                true => self.file.write(rest),
                false => self.file.write_at(rest, offset.saturating_add(written as u64)),
            };
            let source = match result {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    written += count;
                    self.position += count as u64;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if self.is_refused(&error, rest, offset) => {
                    set_direct(&self.file, false)
                        .map_err(|error| self.fail("F_SETFL", error.into()))?;
                    let reason = format!("O_DIRECT: {error}");
                    self.write_path = WritePath::Buffered { reason };
                    continue;
                }
                Err(error) => error,
            };
            let (path, wanted) = (self.path.clone(), bytes.len());
            return Err(WriteError::Short { path, offset, written, wanted, source });
        }
        Ok(())
    }

    /// Returns whether the kernel refused a valid direct write.
    fn is_refused(&self, error: &io::Error, bytes: &[u8], offset: u64) -> bool {
        let places = [bytes.as_ptr().addr(), bytes.len(), offset as usize];
        error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
            && self.write_path == WritePath::Direct
            && places.iter().all(|place| place.is_multiple_of(ALIGNMENT))
    }

    /// Reserves disk space for the first `bytes` bytes, without changing the file's size. Returns
    /// `false` if the file cannot do that (a stream, some file systems).
    ///
    /// # Errors
    /// [`WriteError::File`], most often because the disk is full.
    pub fn preallocate(&self, bytes: u64) -> Result<bool, WriteError> {
        if self.write_path == WritePath::Stream || bytes == 0 {
            return Ok(false);
        }
        // A file system in memory gives up on a signal, with EINTR.
        let reserve = || fallocate(&*self.file, FallocateFlags::KEEP_SIZE, 0, bytes);
        match retry_on_intr(reserve) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(self.fail("fallocate", error.into())),
        }
    }

    /// Writes through the page cache from now on, so that any offset and length will do.
    ///
    /// # Errors
    /// [`WriteError::File`] if the kernel does not clear `O_DIRECT`.
    pub fn leave_direct(&mut self) -> Result<(), WriteError> {
        if self.write_path == WritePath::Direct {
            set_direct(&self.file, false).map_err(|error| self.fail("F_SETFL", error.into()))?;
            self.write_path = WritePath::Buffered { reason: "as asked".to_owned() };
        }
        Ok(())
    }

    /// Truncates the file, or extends it with zeros, to `bytes` bytes. A stream is left unchanged.
    ///
    /// # Errors
    /// [`WriteError::File`].
    pub fn set_len(&self, bytes: u64) -> Result<(), WriteError> {
        match self.write_path {
            WritePath::Stream => Ok(()),
            _ => self.file.set_len(bytes).map_err(|error| self.fail("ftruncate", error)),
        }
    }

    /// Waits until everything written is on the disk. Does nothing for a stream.
    ///
    /// # Errors
    /// [`WriteError::File`]; then some earlier write may be lost. The kernel reports it only once.
    pub fn sync(&self) -> Result<(), WriteError> {
        match self.write_path {
            WritePath::Stream => Ok(()),
            _ => self.file.sync_data().map_err(|error| self.fail("fdatasync", error)),
        }
    }

    /// Returns another descriptor of the file, for another thread to sync; `None` for a stream.
    ///
    /// # Errors
    /// [`WriteError::File`]: too many descriptors.
    pub fn share(&self) -> Result<Option<File>, WriteError> {
        match self.write_path {
            WritePath::Stream => Ok(None),
            _ => self.file.try_clone().map(Some).map_err(|error| self.fail("dup", error)),
        }
    }

    /// How this file is written.
    pub fn write_path(&self) -> &WritePath {
        &self.write_path
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn fail(&self, call: &'static str, source: io::Error) -> WriteError {
        WriteError::File { path: self.path.clone(), call, source }
    }
}

impl AsFd for OutputFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Turns `O_DIRECT` on if the file system accepts it at [`ALIGNMENT`].
fn choose_path(file: &File) -> WritePath {
    if let Err(error) = set_direct(file, true) {
        let reason = format!("O_DIRECT: {}", io::Error::from(error));
        return WritePath::Buffered { reason };
    }
    match alignment_needed(file) {
        Some(needed) if needed == 0 || !ALIGNMENT.is_multiple_of(needed) => {
            let reason = format!("O_DIRECT needs an alignment of {needed} bytes");
            // The same call turned it on a moment ago, so it can turn it off.
            let _ = set_direct(file, false);
            WritePath::Buffered { reason }
        }
        _ => WritePath::Direct,
    }
}

fn set_direct(file: &File, direct: bool) -> rustix::io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    fcntl_setfl(file, flags)
}

/// Returns the alignment of offsets and memory that direct writes need, in bytes. 0 if the file
/// does not support them, `None` if the kernel does not say (before 6.1, and some file systems).
fn alignment_needed(file: &File) -> Option<usize> {
    let told = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if told.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return None;
    }
    Some(told.stx_dio_offset_align.max(told.stx_dio_mem_align) as usize)
}

#[cfg(all(test, not(miri)))]
mod tests;
