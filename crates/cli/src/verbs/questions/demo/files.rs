//! The demonstration's files, in a temporary directory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use burstline_sys::temporary::{make_own_folder, random_name};

use crate::failure::Failure;

/// Packets that real programs exchanged; `assets/README.md` says how they were recorded.
pub(super) const REAL_TRAFFIC: &[u8] = include_bytes!("../../../../assets/real-traffic.pcap");
/// Number of packets in [`REAL_TRAFFIC`].
pub(super) const REAL_PACKETS: u64 = 149;

/// Size of the pcap file header. Source: draft-ietf-opsawg-pcap, section 4.
const PCAP_HEADER_BYTES: usize = 24;

/// A temporary directory with the demonstration's files. Dropping it removes them.
pub(super) struct DemoFiles {
    pub(super) directory: PathBuf,
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
    /// Creates the directory and writes the real traffic into it.
    pub(super) fn create(is_kept: bool) -> Result<Self, Failure> {
        let directory = std::env::temp_dir().join(random_name("burstline-demo-"));
        let fail = |error| Failure::new(format!("create {}: {error}", directory.display()));
        make_own_folder(&directory).map_err(fail)?;
        let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
        let files = Self {
            real: path("real.pcap"),
            copies: path("copies.pcap"),
            recorded: path("recorded.pcapng"),
            live: path("live.pcapng"),
            directory: directory.clone(),
            is_kept,
        };
        fs::write(&files.real, REAL_TRAFFIC).map_err(fail)?;
        Ok(files)
    }

    /// Writes `copies` repetitions of the real traffic into one file.
    pub(super) fn write_copies(&self, copies: usize) -> Result<(), Failure> {
        let write = || {
            let (header, packets) = REAL_TRAFFIC.split_at(PCAP_HEADER_BYTES);
            let mut file = BufWriter::new(File::create(&self.copies)?);
            file.write_all(header)?;
            (0..copies).try_for_each(|_| file.write_all(packets))?;
            file.flush()
        };
        write().map_err(|error| Failure::new(format!("write {}: {error}", self.copies)))
    }
}

impl Drop for DemoFiles {
    fn drop(&mut self) {
        if !self.is_kept {
            // Leftovers are in the temporary directory, which the system cleans.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}
