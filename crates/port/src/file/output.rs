//! A file or pipe that is written sequentially.
//!
//! A pipe is written without blocking, so a stalled reader cannot keep the job from ending. The
//! writer waits for room; once the job is to end, at most [`PATIENCE`] at a time. The open file
//! description is private to this process. If others share it, as with most standard outputs, its
//! flags are left alone.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::direct::{Claimed, link_flags, of_link};
use burstline_sys::late::{self, Opening};
use burstline_sys::readiness::{Wish, wait_each_for};

use super::input::O_NONBLOCK;
use super::naming::Compression;
use super::pieces::Pieces;

/// How long the writer waits for a stalled pipe once the job should end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two checks whether the job is to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// `ENXIO`: a FIFO without a reader was opened non-blocking. Source: fifo(7).
const NOBODY_READS: i32 = 6;

/// The path of standard output.
const STANDARD: &str = "/dev/stdout";

/// Set when the job is to end.
pub(super) type Stop = Option<Arc<AtomicBool>>;

/// The destination of a stream of blocks.
pub(super) struct Output {
    file: Claimed,
    pieces: Option<Pieces>,
    stop: Stop,
    /// Bytes of whole blocks written so far.
    pub(super) bytes: u64,
    /// Bytes of whole compressed pieces; what ends the stream follows them.
    pub(super) whole: u64,
}

impl Output {
    pub(super) fn new(file: Claimed, compression: Option<Compression>, stop: Stop) -> Self {
        Self { file, pieces: compression.map(Pieces::new), stop, bytes: 0, whole: 0 }
    }

    /// Opens the pipe at `path`; waits for a reader of it, until the job is to end.
    pub(super) fn open_pipe(path: &Path, follows_links: bool, stop: &Stop) -> io::Result<File> {
        let flags = link_flags(path, follows_links);
        loop {
            match open_without_blocking(path, flags) {
                Err(error) if error.raw_os_error() == Some(NOBODY_READS) => match is_set(stop) {
                    true => return Err(io::Error::other("this pipe has no reader")),
                    false => thread::sleep(LOOK_EVERY),
                },
                outcome => return outcome,
            }
        }
    }

    /// Opens standard output: a pipe is made non-blocking, if possible.
    pub(super) fn standard() -> io::Result<File> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        if !file.metadata()?.file_type().is_fifo() {
            return Ok(file);
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        // By the first path a job without rights has it from before.
        let opened = open_without_blocking(Path::new(STANDARD), 0);
        let opened = opened.or_else(|_| open_without_blocking(Path::new(&own), 0));
        Ok(opened.unwrap_or(file))
    }

    /// Writes whole blocks, compressed according to the file's name. On failure, a regular file
    /// keeps its previous end; bytes that a pipe took are gone.
    pub(super) fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        let Some(pieces) = &mut self.pieces else { return self.write_as_is(blocks) };
        let piece = pieces.next(blocks)?;
        self.write_piece(&piece)
    }

    /// As [`write`](Self::write), with the bytes from `tail_at` on uncompressed.
    pub(super) fn write_with_tail(&mut self, blocks: &[u8], tail_at: usize) -> io::Result<()> {
        let Some(pieces) = &mut self.pieces else { return self.write_as_is(blocks) };
        let piece = pieces.next_with_tail(blocks, tail_at)?;
        self.write_piece(&piece)
    }

    fn write_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write_as_is(piece).inspect_err(|_| {
            // Best effort: the first error is the one to report.
            let _ = self.end();
        })?;
        self.whole = self.bytes;
        Ok(())
    }

    /// Continues after the last whole piece of a regular file, after an error.
    pub(super) fn go_on(&mut self) {
        // Best effort: what cannot be cut off is noted where the file was broken.
        let _ = self.cut(self.whole);
        self.pieces.iter_mut().for_each(|pieces| pieces.go_on(self.whole > 0));
    }

    /// Ends the compressed stream. Nothing may be written afterwards.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let end = self.pieces.as_mut().map_or(&[][..], Pieces::end);
        self.write_as_is(end)
    }

    /// Whether the output is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.pieces.is_some()
    }

    /// Duplicates the descriptor of a regular file.
    pub(super) fn share(&self) -> io::Result<Option<File>> {
        match self.file.metadata()?.is_file() {
            true => self.file.try_clone().map(Some),
            false => Ok(None),
        }
    }

    /// Truncates a regular file to its first `bytes`, after an error.
    pub(super) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        let cut = self.take_back(self.bytes.saturating_sub(bytes));
        self.bytes = self.bytes.min(bytes);
        cut
    }

    fn write_as_is(&mut self, blocks: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < blocks.len() {
            let error = match self.file.write(&blocks[written..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.wait_for_room() {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            // Best effort: the first error is the one to report.
            let _ = self.take_back(written as u64);
            return Err(error);
        }
        self.bytes += written as u64;
        Ok(())
    }

    #[cold]
    fn wait_for_room(&self) -> io::Result<()> {
        let mut stopped_at = None;
        loop {
            let wanted = [(self.file.as_fd(), Wish::Write)];
            match wait_each_for(&wanted, LOOK_EVERY.as_nanos() as u64) {
                Ok(ready) if ready[0] => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if is_set(&self.stop)
                && stopped_at.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
            {
                let what = "the reader of the pipe took nothing for 1 s at exit";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
        }
    }

    /// Cuts the last `bytes` off a regular file, which is already broken.
    fn take_back(&mut self, bytes: u64) -> io::Result<()> {
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && let Ok(position) = self.file.stream_position() {
            let end = position.saturating_sub(bytes);
            self.file.set_len(end)?;
            self.file.seek(SeekFrom::Start(end))?;
        }
        Ok(())
    }
}

/// Whether a pipe is at `path`.
pub(super) fn is_pipe(path: &Path) -> bool {
    late::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn open_without_blocking(path: &Path, flags: i32) -> io::Result<File> {
    let opened = Opening::write().with(O_NONBLOCK | flags).open(path);
    opened.map_err(|error| of_link(path, error))
}

/// Requests the end of the job.
pub(super) fn end_job(stop: &Stop) {
    if let Some(stop) = stop {
        stop.store(true, Relaxed); // a request, publishes no memory
    }
}

fn is_set(stop: &Stop) -> bool {
    stop.as_ref().is_some_and(|stop| stop.load(Relaxed)) // a request, publishes no memory
}
