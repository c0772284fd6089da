//! Chooses the format of an output, and opens its target.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use burstline_sys::direct::{Creation, OutputFile, WriteError, claim};
use burstline_sys::inode::FileId;
use burstline_sys::late;

use super::naming::{Compression, Naming};
use super::output::{Output, Stop, is_pipe};
use super::shown_path;
use crate::opened::{OpenedFiles, Use};
use crate::{Address, AddressError, Key, PortError};

/// The keys of an output's address.
pub(crate) const KEYS: &[Key] = &[
    Key::words(
        "format",
        "segmented|pcapng|pcap-ns|pcap",
        "The file's format [default: from its name; else segmented, or pcapng for a pipe]",
    ),
    // The default is the smallest that fits the largest packet with room to spare.
    Key::size("segment", 4096..=16 << 20, "Bytes of a segment").powers_of_two().or("1m"),
    Key::words("compress", "zstd|gzip|none", "How the file is compressed [default: from its name]"),
];

/// The formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// pcapng in segments, each with an index.
    Segmented,
    /// pcapng, as consecutive blocks.
    Pcapng,
    /// Classic pcap; `nanoseconds` or microseconds.
    Classic { nanoseconds: bool },
}

/// An open, empty output.
pub(super) enum Target {
    Segments(OutputFile),
    Stream(Output),
}

/// The layout that the parameters of an address request.
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) segment_bytes: usize,
    pub(super) path: PathBuf,
    /// Whether segments were requested, so that a small file has them, too.
    pub(super) keeps_segments: bool,
    /// Zstandard-compressed segments are stored contiguously.
    compression: Option<Compression>,
}

/// Below this many bytes a rotated file has no segments unless they are requested: segments would
/// be too sparse.
const SEGMENTED_FROM: u64 = 8 << 20;

impl Layout {
    /// Parses an address; `most_bytes` is a limit on the size of a file.
    pub(super) fn parse(address: &Address, most_bytes: Option<u64>) -> Result<Self, AddressError> {
        let values = address.values(KEYS)?;
        let is_standard = address.target() == "-";
        let path = shown_path(address.target(), "standard output");
        let known = late::metadata(&path).ok().filter(|_| !is_standard);
        let is_stream = is_standard || known.is_some_and(|metadata| !metadata.is_file());
        let name = if is_standard { Ok(Naming::default()) } else { Naming::of(&path) };
        let Naming { format: named, compression } =
            name.map_err(|reason| AddressError::BadName { address: address.to_string(), reason })?;
        let compressions = [Some(Compression::Zstd), Some(Compression::Gzip), None];
        let compression = values.typed_word("compress", compressions)?.unwrap_or(compression);
        // A user who sets the segment size wants segments.
        let is_implied = values.is_typed("segment") && !is_stream;
        let pcap = |nanoseconds| Format::Classic { nanoseconds };
        let formats = [Format::Segmented, Format::Pcapng, pcap(true), pcap(false)];
        let implied = is_implied.then_some(Format::Segmented);
        let format = match values.typed_word("format", formats)?.or(implied) {
            None if let Some(format) = named => format,
            None if is_stream
                || compression == Some(Compression::Gzip)
                || most_bytes.is_some_and(|most| most < SEGMENTED_FROM) =>
            {
                Format::Pcapng
            }
            None => Format::Segmented,
            Some(Format::Segmented) if compression == Some(Compression::Gzip) => {
                let reason = "segments are compressed by zstd only; for gzip use pcapng";
                return Err(address.bad_value("format", "segmented", reason));
            }
            Some(Format::Segmented) if is_stream => {
                let reason = "segments need a regular file; for a pipe use format=pcapng";
                return Err(address.bad_value("format", "segmented", reason));
            }
            Some(format) => format,
        };
        let keeps_segments = is_implied || values.is_typed("format");
        let segment_bytes = values.integer("segment")?;
        Ok(Self { format, segment_bytes, path, keeps_segments, compression })
    }

    /// Whether the file has segments at fixed offsets.
    pub(super) fn has_places(&self) -> bool {
        self.format == Format::Segmented && self.compression.is_none()
    }

    /// Opens standard output.
    pub(super) fn open_standard(
        &self,
        files: &OpenedFiles,
        stop: &Stop,
    ) -> Result<Target, PortError> {
        let fail = |error| PortError::Io { action: "create", path: self.path.clone(), error };
        let file = Output::standard().map_err(fail)?;
        files.enter(&self.path, &file.metadata().map_err(fail)?, Use::Write)?;
        Ok(Target::Stream(Output::new(file.into(), self.compression, stop.clone())))
    }

    /// Opens the output at `path`. An existing regular file is truncated, unless the job reads it.
    pub(super) fn open(
        &self,
        path: &Path,
        creation: &Creation,
        files: &OpenedFiles,
        stop: &Stop,
    ) -> Result<Target, PortError> {
        let fail = |error| PortError::Io { action: "create", path: path.to_owned(), error };
        let before = late::metadata(path).ok();
        if before.is_some() && creation.is_new {
            return Err(fail(io::ErrorKind::AlreadyExists.into()));
        }
        if let Some(metadata) = &before {
            files.enter(path, metadata, Use::Write)?;
        }
        let opened = self.open_entered(path, creation, stop);
        match (&opened, before) {
            // Not by its path: another program may have moved it already.
            (Ok(target), None) => match target.share().map_err(fail)? {
                Some(file) => files.enter(path, &file.metadata().map_err(fail)?, Use::Write)?,
                None => files.enter(path, &late::metadata(path).map_err(fail)?, Use::Write)?,
            },
            (Err(_), Some(metadata)) => files.leave(FileId::of(&metadata)),
            _ => {}
        }
        opened.map_err(fail)
    }

    fn open_entered(&self, path: &Path, creation: &Creation, stop: &Stop) -> io::Result<Target> {
        if !creation.is_new && is_pipe(path) {
            let file = Output::open_pipe(path, creation.follows_links, stop)?;
            return Ok(Target::Stream(Output::new(file.into(), self.compression, stop.clone())));
        }
        Ok(match self.has_places() {
            true => Target::Segments(OutputFile::create(path, creation).map_err(source)?),
            false => {
                let file = claim(path, creation)?;
                Target::Stream(Output::new(file, self.compression, stop.clone()))
            }
        })
    }
}

impl Target {
    /// Duplicates the descriptor of a regular file.
    pub(super) fn share(&self) -> io::Result<Option<File>> {
        match self {
            Self::Segments(output) => output.share().map_err(source),
            Self::Stream(output) => output.share(),
        }
    }
}

/// Returns the kernel's error.
pub(super) fn source(error: WriteError) -> io::Error {
    match error {
        WriteError::File { source, .. } | WriteError::Short { source, .. } => source,
        other => io::Error::other(other),
    }
}
