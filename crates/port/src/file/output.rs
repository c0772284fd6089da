//! A file or pipe that is written in order.

use std::fs::File;
use std::io::{self, Seek, Write};

/// Where a stream of blocks goes.
pub(super) struct Output {
    file: File,
    /// Bytes of whole blocks written so far.
    pub(super) bytes: u64,
}

impl Output {
    pub(super) fn new(file: File) -> Self {
        Self { file, bytes: 0 }
    }

    /// Writes whole blocks. When that fails, a regular file ends where it did before; what a pipe
    /// took is gone.
    pub(super) fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < blocks.len() {
            let error = match self.file.write(&blocks[written..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.take_back(written as u64);
            return Err(error);
        }
        self.bytes += written as u64;
        Ok(())
    }

    /// Cuts the last `bytes` off a regular file. Done as well as it goes: the file is broken
    /// already, and the first error is the one to tell.
    fn take_back(&mut self, bytes: u64) {
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && let Ok(position) = self.file.stream_position() {
            let _ = self.file.set_len(position.saturating_sub(bytes));
        }
    }
}
