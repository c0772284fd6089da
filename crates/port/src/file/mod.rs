//! `file:` ports: capture files, pipes and compressed captures.
//!
//! ```text
//!  file --read--> window --Decoder--> descs in a scratch      lend: no copy of ours
//!                                 \-> Writer::append          receive: one copy
//!
//!  bursts --encode--> segment, aligned --O_DIRECT--> file     segmented pcapng
//!                  \-> buffer --write--> file, pipe           pcapng, pcap
//! ```
//!
//! A file is read with `read(2)` and never mapped: truncating a mapped file means a `SIGBUS`. A
//! read is no slower as long as its buffer stays in the L2 cache. Formats are recognised by the
//! first bytes, never by names; gzip and zstd are decompressed on the fly. An output's name
//! determines its format, unless the address does ([`naming`]).
//!
//! Invariants:
//! - F1: no packet is decoded that the caller did not request, so that a budget balances the
//!   ledger.
//! - F2: damage never ends a job: it is noted with its position, and decoding continues after it.
//! - F3: an output is valid at any time, up to the last block that was certainly written. Packets
//!   beyond that are counted as lost.
//! - F4: only a regular file is ever truncated, and never one that the job reads.

mod classic;
mod input;
mod layout;
mod naming;
mod output;
mod pieces;
mod place;
mod plain;
mod recording;
mod segmented;
mod several;
mod sink;
mod source;
mod window;
mod zstd;

use std::io;
use std::path::{Path, PathBuf};

use burstline_sys::privileges;
use burstline_wire::files::EncodeError;

use crate::{Address, AddressError, OpenOptions, OpenedSink, PortError, Sink, Source};
pub(crate) use layout::KEYS as SINK_KEYS;
pub(crate) use naming::is_capture_name;
pub use recording::{
    FileNaming, Flush, OutputOptions, Resumed, Rotation, RunGap, RunPiece, RunPlace, check_rotated,
    newest_numbered, numbered, rotated, rotated_as, run_gaps, steady_folder, unfilled_gaps,
};
pub use several::links::{link_siblings, rotated_link_siblings};
use several::stripes::Stripes;
pub use several::stripes::striped_paths;
pub use source::catalogue::{CATALOGUE, Capture, Captures, Chosen, catalogued, choose};
pub use source::index::{Indexed, NotIndexed, index_path, is_index_stale, write_index};
pub use source::interfaces::Interfaces;
pub use source::reader::{CaptureReader, Found};
pub use source::selection::Selection;
pub(crate) use source::set::{KEYS as SET_KEYS, SET, open_sources as open_set_address};
pub use source::set::{SetPlaces, captures_of, open_chosen, open_set};
pub(crate) use zstd::SOURCE_KEYS;

/// The outcome of putting a block into an output: the output fails, or the block cannot be encoded.
type Put = io::Result<Result<(), EncodeError>>;

/// Opens a file as a source.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    Ok(Box::new(source::FileSource::open(address, options)?))
}

/// Processes the file at `path` without rights, also if the caller has not given up its own.
pub(crate) fn without_rights<T: Send>(
    path: &Path,
    work: impl FnOnce() -> Result<T, PortError> + Send,
) -> Result<T, PortError> {
    let path = path.to_owned();
    let done = privileges::without_rights(work);
    done.map_err(|error| PortError::Io { action: "give up rights for", path, error })?
}

/// Opens a file as a sink.
pub(crate) fn open_sink(address: &Address, options: &OpenOptions) -> OpenedSink {
    match options.output.splits_links {
        true => Ok(Box::new(several::links::ByLink::open(address, options)?)),
        false => open_one(address, options),
    }
}

/// Opens a file, or several that are striped.
fn open_one(address: &Address, options: &OpenOptions) -> Result<Box<dyn Sink>, PortError> {
    let fail = |reason| AddressError::BadName { address: address.to_string(), reason };
    match &striped_paths(address.target()).map_err(fail)?[..] {
        [_] => Ok(Box::new(sink::FileSink::open(address, options)?)),
        targets => Ok(Box::new(Stripes::open(address, targets, &[], options)?)),
    }
}

/// Opens striped files that each continue a recording of their own: `targets`, at least one, with
/// the parameters of `address`. `resumed` has an entry for each of them, in this order; at `None` a
/// recording begins.
///
/// # Errors
/// [`PortError`]: the address is wrong, or a file cannot be created.
pub fn open_stripes(
    address: &Address,
    targets: &[String],
    resumed: &[Option<Resumed>],
    options: &OpenOptions,
) -> Result<Box<dyn Sink>, PortError> {
    Ok(Box::new(Stripes::open(address, targets, resumed, options)?))
}

/// Returns the path to name in messages.
fn shown_path(target: &str, standard: &str) -> PathBuf {
    if target == "-" { standard.into() } else { target.into() }
}

/// Parses a source's address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_source(address: &Address) {
    let _ = zstd::window_bytes(address);
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = layout::Layout::parse(address, None);
}
