//! Which format an output gets, and where its bytes go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use burstline_sys::direct::{OutputFile, WriteError, claim};

use super::naming::{Compression, Naming};
use super::output::{Output, Stop, is_pipe};
use super::shown_path;
use crate::opened::{OpenedFiles, Use};
use crate::{Address, AddressError, Key, PortError};

/// What can be said of an output.
pub(crate) const KEYS: &[Key] = &[
    Key::words(
        "format",
        "segmented|pcapng|pcap-ns|pcap",
        "The file's format [default: by its name; else segmented, and pcapng to a pipe]",
    ),
    // By default the smallest that takes the largest packet with room to spare.
    Key::size("segment", 4096..=16 << 20, "Bytes of a segment").powers_of_two().or("1m"),
];

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// pcapng in segments with an index each.
    Segmented,
    /// pcapng, one block behind the other.
    Pcapng,
    /// Classic pcap; `nanoseconds` or microseconds.
    Classic { nanoseconds: bool },
}

/// An output that is open and empty.
pub(super) enum Target {
    Segments(OutputFile),
    Stream(Output),
}

/// What the parameters of an address ask for.
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) segment_bytes: usize,
    pub(super) path: PathBuf,
    compression: Option<Compression>,
}

impl Layout {
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        let values = address.values(KEYS)?;
        let is_standard = address.target() == "-";
        let path = shown_path(address.target(), "standard output");
        let known = fs::metadata(&path).ok().filter(|_| !is_standard);
        let is_stream = is_standard || known.is_some_and(|metadata| !metadata.is_file());
        let name = if is_standard { Ok(Naming::default()) } else { Naming::of(&path) };
        let Naming { format: named, compression } =
            name.map_err(|reason| AddressError::BadName { address: address.to_string(), reason })?;
        // Whoever says how long segments are wants some.
        let is_implied = values.is_typed("segment") && !is_stream;
        let pcap = |nanoseconds| Format::Classic { nanoseconds };
        let formats = [Format::Segmented, Format::Pcapng, pcap(true), pcap(false)];
        let implied = is_implied.then_some(Format::Segmented);
        let format = match values.typed_word("format", formats)?.or(implied) {
            None if let Some(format) = named => format,
            None if is_stream => Format::Pcapng,
            None => Format::Segmented,
            Some(Format::Segmented) if let Some(compression) = compression => {
                let extension = compression.extension();
                let reason = format!("segments are not compressed; for .{extension} use pcapng");
                return Err(address.bad_value("format", "segmented", reason));
            }
            Some(Format::Segmented) if is_stream => {
                let reason = "segments need a regular file; for a pipe use format=pcapng";
                return Err(address.bad_value("format", "segmented", reason));
            }
            Some(format) => format,
        };
        Ok(Self { format, segment_bytes: values.integer("segment")?, path, compression })
    }

    /// Opens the output. A regular file that was there is emptied, unless the job reads it.
    pub(super) fn open(
        &self,
        target: &str,
        files: &OpenedFiles,
        stop: &Stop,
    ) -> Result<Target, PortError> {
        let fail = |error| PortError::Io { action: "create", path: self.path.clone(), error };
        if target == "-" {
            let file = Output::standard().map_err(fail)?;
            files.enter(&self.path, &file.metadata().map_err(fail)?, Use::Write)?;
            return Ok(Target::Stream(Output::new(file.into(), self.compression, stop.clone())));
        }
        let path = Path::new(target);
        let before = fs::metadata(path).ok();
        if let Some(metadata) = &before {
            files.enter(path, metadata, Use::Write)?;
        }
        if is_pipe(path) {
            let file = Output::open_pipe(path, stop).map_err(fail)?;
            return Ok(Target::Stream(Output::new(file.into(), self.compression, stop.clone())));
        }
        let opened = match self.format {
            Format::Segmented => {
                Target::Segments(OutputFile::create(path).map_err(source).map_err(fail)?)
            }
            _ => {
                let file = claim(path).map_err(fail)?;
                Target::Stream(Output::new(file, self.compression, stop.clone()))
            }
        };
        if before.is_none() {
            files.enter(path, &fs::metadata(path).map_err(fail)?, Use::Write)?;
        }
        Ok(opened)
    }
}

/// What the kernel said.
pub(super) fn source(error: WriteError) -> io::Error {
    match error {
        WriteError::File { source, .. } | WriteError::Short { source, .. } => source,
        other => io::Error::other(other),
    }
}
