//! The byte stream of a file: a regular file or a pipe, decompressed if necessary.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use burstline_sys::late::Opening;
use burstline_sys::locked::is_locked;
use burstline_wire::files::FileKind;
use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Advice, fadvise};

use super::zstd::ZstdReader;
use super::zstd::packed::{Packed, Table};

/// `O_NONBLOCK`: opening a FIFO then does not wait for its writer. Source: open(2), fifo(7);
/// `include/uapi/asm-generic/fcntl.h`, the same on x86-64 and arm64.
pub(super) const O_NONBLOCK: i32 = 0o4000;

/// Bytes passed to a decompressor at a time.
const COMPRESSED_BYTES: usize = 64 << 10;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// Some bytes.
    Bytes,
    /// No bytes now; more may come.
    Nothing,
    /// No bytes, and no more will come.
    End,
}

/// The bytes of a capture file, decompressed.
pub(super) struct Input {
    stream: Stream,
    is_pipe: bool,
    /// The maximum window of a zstd stream.
    window_bytes: u64,
}

enum Stream {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<Compressed>>),
    Zstd(Box<ZstdReader<Compressed>>),
    Packed(Box<Packed<Raw>>),
    /// A transient state between two others.
    Closed,
}

type Compressed = BufReader<io::Chain<Cursor<Vec<u8>>, Raw>>;

impl Input {
    /// Opens the target of an address; `-` is standard input. `window_bytes` is the maximum window
    /// of a zstd stream.
    pub(super) fn open(target: &str, window_bytes: u64) -> io::Result<(Self, Metadata)> {
        let file = if target == "-" {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            Opening::read().with(O_NONBLOCK).open(Path::new(target))?
        };
        Self::of(file, window_bytes)
    }

    /// Uses an open file, from its current position.
    pub(super) fn of(file: File, window_bytes: u64) -> io::Result<(Self, Metadata)> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let is_pipe = !metadata.is_file();
        let stream = Stream::Plain(Raw { file, is_pipe, bytes_read: 0 });
        Ok((Self { stream, is_pipe, window_bytes }, metadata))
    }

    /// Duplicates the descriptor of a regular file; the position is shared.
    pub(super) fn share(&self) -> io::Result<Option<File>> {
        let raw = self.raw().filter(|raw| !raw.is_pipe);
        raw.map(|raw| raw.file.try_clone()).transpose()
    }

    /// Whether another program writes the bytes as it runs.
    pub(super) fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Whether the bytes are decompressed.
    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self.stream, Stream::Plain(_))
    }

    /// Switches to decompression. `first` are the bytes already read.
    pub(super) fn decompress(&mut self, kind: FileKind, first: &[u8]) {
        let Stream::Plain(raw) = std::mem::replace(&mut self.stream, Stream::Closed) else {
            return;
        };
        let is_zstd_file = kind == FileKind::Zstd && !raw.is_pipe;
        if let Some(table) = is_zstd_file.then(|| Table::of(&raw.file)).flatten() {
            self.stream = Stream::Packed(Box::new(Packed::new(table, raw)));
            return;
        }
        let chained = Cursor::new(first.to_vec()).chain(raw);
        let buffered = BufReader::with_capacity(COMPRESSED_BYTES, chained);
        self.stream = match kind {
            FileKind::Zstd => Stream::Zstd(Box::new(ZstdReader::new(buffered, self.window_bytes))),
            _ => Stream::Gzip(Box::new(MultiGzDecoder::new(buffered))),
        };
    }

    /// Switches to decompression if the file is a compressed recording whose first bytes are
    /// damaged. Returns whether it is. Cost: reads 17 MiB of another file.
    pub(super) fn decompress_headless(&mut self) -> bool {
        let Some(table) = self.plain_file().and_then(Table::of) else { return false };
        if let Stream::Plain(raw) = std::mem::replace(&mut self.stream, Stream::Closed) {
            self.stream = Stream::Packed(Box::new(Packed::new(table, raw)));
        }
        true
    }

    /// Reads the available bytes, without waiting for more.
    pub(super) fn pull(&mut self, place: &mut [u8]) -> io::Result<(usize, Pulled)> {
        loop {
            let read = match &mut self.stream {
                Stream::Plain(raw) => raw.read(place),
                Stream::Gzip(decoder) => decoder.read(place),
                Stream::Zstd(decoder) => decoder.read(place),
                Stream::Packed(packed) => packed.read(place),
                Stream::Closed => Ok(0),
            };
            return match read {
                Ok(0) => Ok((0, Pulled::End)),
                Ok(bytes) => Ok((bytes, Pulled::Bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, Pulled::Nothing)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Returns a descriptor that is readable when a pipe has data.
    pub(super) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.raw().filter(|raw| raw.is_pipe).map(|raw| raw.file.as_fd())
    }

    fn raw(&self) -> Option<&Raw> {
        match &self.stream {
            Stream::Plain(raw) => Some(raw),
            Stream::Gzip(decoder) => Some(decoder.get_ref().get_ref().get_ref().1),
            Stream::Zstd(decoder) => Some(decoder.get_ref().get_ref().get_ref().1),
            Stream::Packed(packed) => Some(&packed.file),
            Stream::Closed => None,
        }
    }

    /// Returns the file, if it is a regular one and not compressed.
    fn plain_file(&self) -> Option<&File> {
        match &self.stream {
            Stream::Plain(raw) if !raw.is_pipe => Some(&raw.file),
            _ => None,
        }
    }

    /// Whether any byte of the capture is directly accessible.
    pub(super) fn can_seek(&self) -> bool {
        self.plain_file().is_some()
    }

    /// Continues reading at `offset`.
    pub(super) fn seek(&mut self, offset: u64) -> io::Result<()> {
        if let Stream::Packed(packed) = &mut self.stream {
            packed.position = offset;
            return Ok(());
        }
        let Some(mut file) = self.plain_file() else { return Err(io::ErrorKind::Other.into()) };
        file.seek(io::SeekFrom::Start(offset)).map(drop)
    }

    /// Reads `place.len()` bytes at `offset`, independent of sequential reads; in a compressed file
    /// only from the end of a segment. False if they do not exist or are not accessible.
    pub(super) fn read_at(&self, offset: u64, place: &mut [u8]) -> bool {
        match &self.stream {
            Stream::Packed(packed) => packed.read_at(offset, place),
            _ => self.plain_file().is_some_and(|file| file.read_exact_at(place, offset).is_ok()),
        }
    }

    /// Returns the length of the capture, if every byte is directly accessible.
    pub(super) fn capture_bytes(&self) -> Option<u64> {
        match &self.stream {
            Stream::Packed(packed) => Some(packed.capture_bytes()),
            _ => self.plain_file()?.metadata().ok().map(|metadata| metadata.len()),
        }
    }

    /// Prefetches bytes into the page cache, without waiting for them.
    pub(super) fn ask_for(&self, place: Range<u64>) {
        let (Some(file), Some(bytes)) =
            (self.plain_file(), NonZeroU64::new(place.end.saturating_sub(place.start)))
        else {
            return;
        };
        // This is advice: a later read gets the bytes in any case.
        let _ = fadvise(file, place.start, Some(bytes), Advice::WillNeed);
    }

    /// Returns the size of a regular file on disk.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    /// Returns the current metadata of a regular file.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        self.raw().filter(|raw| !raw.is_pipe).and_then(|raw| raw.file.metadata().ok())
    }

    /// Whether a recorder has a regular file locked, because it writes it.
    pub(super) fn is_locked(&self) -> bool {
        self.raw().is_some_and(|raw| !raw.is_pipe && is_locked(&raw.file))
    }

    /// Returns the bytes read from the file in order.
    pub(super) fn bytes_read(&self) -> u64 {
        match &self.stream {
            Stream::Packed(packed) => packed.bytes_read(),
            _ => self.raw().map_or(0, |raw| raw.bytes_read),
        }
    }
}

/// The file itself. An empty pipe returns `WouldBlock`.
struct Raw {
    file: File,
    is_pipe: bool,
    bytes_read: u64,
}

impl AsRef<File> for Raw {
    fn as_ref(&self) -> &File {
        &self.file
    }
}

impl Read for Raw {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        if self.is_pipe {
            // Poll here for two reasons. Standard input is shared with others and keeps its own
            // flags, and a FIFO that never had a writer is not at its end.
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut wanted = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut wanted, Some(&now))? == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let bytes = self.file.read(place)?;
        self.bytes_read += bytes as u64;
        Ok(bytes)
    }
}
