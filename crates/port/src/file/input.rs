//! Where a file's bytes come from: a regular file, a pipe, or either of them decompressed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader, Cursor, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use burstline_wire::files::FileKind;
use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::zstd::ZstdReader;

/// `O_NONBLOCK`: opening a FIFO then does not wait for its writer. Source: open(2), fifo(7);
/// `include/uapi/asm-generic/fcntl.h`, the same on x86-64 and arm64.
pub(super) const O_NONBLOCK: i32 = 0o4000;

/// Bytes that a decompressor is fed with at a time.
const COMPRESSED_BYTES: usize = 64 << 10;

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// Some bytes.
    Bytes,
    /// None now; there may be some later.
    Nothing,
    /// None, and there will never be more.
    End,
}

/// The bytes of a capture file, decompressed.
pub(super) struct Input {
    stream: Stream,
    is_pipe: bool,
    /// The largest window of a zstd stream.
    window_bytes: u64,
}

enum Stream {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<Compressed>>),
    Zstd(Box<ZstdReader<Compressed>>),
    /// Between two of the others.
    Closed,
}

type Compressed = BufReader<io::Chain<Cursor<Vec<u8>>, Raw>>;

impl Input {
    /// Opens what an address names; `-` is standard input.
    /// `window_bytes`: the most that a zstd stream may have kept.
    pub(super) fn open(target: &str, window_bytes: u64) -> io::Result<(Self, Metadata)> {
        let file = if target == "-" {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(Path::new(target))?
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let is_pipe = !metadata.is_file();
        let stream = Stream::Plain(Raw { file, is_pipe });
        Ok((Self { stream, is_pipe, window_bytes }, metadata))
    }

    /// Whether bytes come when somebody writes them.
    pub(super) fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Whether the bytes are decompressed on their way.
    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self.stream, Stream::Plain(_))
    }

    /// Goes on with decompressing. `first` are the bytes that were read already.
    pub(super) fn decompress(&mut self, kind: FileKind, first: &[u8]) {
        let Stream::Plain(raw) = std::mem::replace(&mut self.stream, Stream::Closed) else {
            return;
        };
        let chained = Cursor::new(first.to_vec()).chain(raw);
        let buffered = BufReader::with_capacity(COMPRESSED_BYTES, chained);
        self.stream = match kind {
            FileKind::Zstd => Stream::Zstd(Box::new(ZstdReader::new(buffered, self.window_bytes))),
            _ => Stream::Gzip(Box::new(MultiGzDecoder::new(buffered))),
        };
    }

    /// Reads what is there, without waiting for more than that.
    pub(super) fn pull(&mut self, place: &mut [u8]) -> io::Result<(usize, Pulled)> {
        loop {
            let read = match &mut self.stream {
                Stream::Plain(raw) => raw.read(place),
                Stream::Gzip(decoder) => decoder.read(place),
                Stream::Zstd(decoder) => decoder.read(place),
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

    /// Readable when a pipe has something.
    pub(super) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        let raw = match &self.stream {
            Stream::Plain(raw) => raw,
            Stream::Gzip(decoder) => decoder.get_ref().get_ref().get_ref().1,
            Stream::Zstd(decoder) => decoder.get_ref().get_ref().get_ref().1,
            Stream::Closed => return None,
        };
        raw.is_pipe.then(|| raw.file.as_fd())
    }
}

/// The file itself. A pipe says `WouldBlock` when it has nothing.
struct Raw {
    file: File,
    is_pipe: bool,
}

impl Read for Raw {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        if self.is_pipe {
            // Asked here, because standard input is shared with others and keeps its own flags,
            // and because a FIFO that never had a writer is not at its end.
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut wanted = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut wanted, Some(&now))? == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.file.read(place)
    }
}
