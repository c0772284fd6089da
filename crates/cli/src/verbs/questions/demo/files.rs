//! The demonstration's files, in a temporary directory.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use burstline_sys::temporary::TemporaryFolder;

use crate::failure::Failure;

/// Packets that real programs exchanged; `assets/README.md` says how they were recorded.
pub(super) const REAL_TRAFFIC: &[u8] = include_bytes!("../../../../assets/real-traffic.pcap");
/// Number of packets in [`REAL_TRAFFIC`].
pub(super) const REAL_PACKETS: u64 = 149;

/// Size of the pcap file header. Source: draft-ietf-opsawg-pcap, section 4.
const PCAP_HEADER_BYTES: usize = 24;

/// Copies of the real traffic that the second step captures.
pub(super) const COPIES: usize = 300;

/// A temporary directory with the demonstration's files. Dropping it removes them.
pub(super) struct DemoFiles {
    pub(super) directory: PathBuf,
    /// `None` if the files are kept.
    _removed: Option<TemporaryFolder>,
    /// The real traffic.
    pub(super) real: String,
    /// The real traffic, repeated.
    pub(super) copies: String,
    /// The recorded file.
    pub(super) recorded: String,
    /// The file recorded from live traffic.
    pub(super) live: String,
    pub(super) is_kept: bool,
}

impl DemoFiles {
    /// Creates the directory and writes the real traffic into it, once and [`COPIES`] times.
    pub(super) fn create(is_kept: bool) -> Result<Self, Failure> {
        let fail = |error| Failure::new(format!("make files for the demonstration: {error}"));
        let folder = TemporaryFolder::create("burstline-demo-").map_err(fail)?;
        let [real, copies, recorded, live] =
            ["real.pcap", "copies.pcap", "recorded.pcapng", "live.pcapng"]
                .map(|name| folder.file(name));
        fs::write(&real, REAL_TRAFFIC).and_then(|()| write_copies(&copies)).map_err(fail)?;
        let (directory, removed) = match is_kept {
            true => (folder.keep(), None),
            false => (folder.path().to_owned(), Some(folder)),
        };
        Ok(Self { directory, _removed: removed, real, copies, recorded, live, is_kept })
    }
}

/// Writes repetitions of the real traffic into one file.
fn write_copies(path: &str) -> io::Result<()> {
    let (header, packets) = REAL_TRAFFIC.split_at(PCAP_HEADER_BYTES);
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(header)?;
    (0..COPIES).try_for_each(|_| file.write_all(packets))?;
    file.flush()
}
