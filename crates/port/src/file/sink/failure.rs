//! What becomes of an output that fails, and which of its packets are safe.

use std::io;
use std::path::PathBuf;

use super::super::recording::{Mark, Unsafe};
use super::{Body, FileSink};
use crate::{Loss, PortError};

/// Why an output takes no more packets.
pub(super) struct Failure {
    path: PathBuf,
    /// What the system said.
    error: io::Error,
    /// How far the file at `path` is safe.
    safe: Mark,
    is_synced: bool,
    /// Packets of the open file that are safe.
    pub(super) packets: u64,
}

impl Failure {
    pub(super) fn error(&self) -> PortError {
        PortError::OutputFailed {
            path: self.path.clone(),
            error: copy_of(&self.error),
            kept_packets: self.safe.packets,
            bytes: self.safe.bytes,
            is_synced: self.is_synced,
        }
    }
}

impl FileSink {
    /// Tells the thread that syncs how far the file is written.
    pub(super) fn tell_written(&mut self) {
        if let Body::Segmented(_) | Body::Plain(_) = self.body {
            let written = self.written();
            self.files.wrote(written);
        }
    }

    /// Fails where a sync has. Cost: a lock.
    pub(super) fn look_at_syncs(&mut self) -> Result<(), PortError> {
        match self.files.failed_sync() {
            None => Ok(()),
            Some(failed) => Err(self.fail_sync(failed)),
        }
    }

    /// Ends the file where it is safe, and counts what is not in it.
    #[cold]
    pub(super) fn fail(&mut self, error: io::Error) -> PortError {
        let written = self.written();
        self.cut(written.bytes);
        let safe = self.files.sync(written);
        if safe != written {
            self.cut(safe.bytes);
        }
        let (path, is_synced) = (self.files.path().to_owned(), self.files.syncs());
        self.break_off(Failure { path, error, safe, is_synced, packets: safe.packets })
    }

    /// As [`fail`](Self::fail), because the file, or one before it, could not be synced.
    #[cold]
    pub(super) fn fail_sync(&mut self, failed: Unsafe) -> PortError {
        let Unsafe { path, error, synced, lost_packets } = failed;
        self.account.lost.add(Loss::WriteError, lost_packets);
        if let Body::Failed(failure) = &self.body {
            return failure.error();
        }
        // The kernel tells of a failure once: of this file, a later sync proves nothing.
        let is_open = path == self.files.path() && lost_packets == 0;
        let written = self.written();
        let safe = if is_open { synced } else { self.files.sync(written) };
        if safe != written {
            self.cut(safe.bytes);
        }
        let (packets, is_synced) = (safe.packets, true);
        self.break_off(Failure { path, error, safe: synced, is_synced, packets })
    }

    fn break_off(&mut self, failure: Failure) -> PortError {
        let error = failure.error();
        self.account.lost.add(error.loss(), self.accepted.saturating_sub(failure.packets));
        self.body = Body::Failed(failure);
        error
    }

    fn written(&self) -> Mark {
        let (packets, bytes) = self.kept();
        Mark { packets, bytes }
    }

    fn cut(&mut self, bytes: u64) {
        match &mut self.body {
            Body::Segmented(body) => body.cut(bytes),
            Body::Plain(body) => body.cut(bytes),
            _ => {}
        }
    }
}

/// The same error once more: `io::Error` cannot be cloned.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
