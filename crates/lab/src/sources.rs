//! Hashes the sources of a folder, to tell whether a figure was measured with the present code.
//!
//! `build.rs` includes this file, too. It stores the hashes in the program, which writes them into
//! each record.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of the repository that affect figures.
pub const FOLDERS: [&str; 28] = [
    "crates/afpacket/src",
    "crates/cli/src",
    "crates/dpdk/src",
    "crates/engine/src",
    "crates/flow/src",
    "crates/lab/rivals-dpdk",
    "crates/lab/rivals-python",
    "crates/lab/src/contenders",
    "crates/lab/src/figures",
    "crates/lab/src/live",
    "crates/lab/src/programs",
    "crates/lab/src/rivals",
    "crates/lab/src/sensors",
    "crates/lab/src/sharing",
    "crates/log/src",
    "crates/memif/src",
    "crates/nicsim/src",
    "crates/pcap/src",
    "crates/peer/src",
    "crates/port/src",
    "crates/python/src",
    "crates/share/src",
    "crates/switch/src",
    "crates/sys/src",
    "crates/testbed/src",
    "crates/vhost/src",
    "crates/wire/src",
    "crates/xdp/src",
];

/// Returns the hash of a folder below `root` as 16 digits. It covers the names and contents of all
/// its sources but tests. Cost: reads all of them.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn number_of(root: &Path, folder: &str) -> io::Result<String> {
    let mut files = Vec::new();
    find(&root.join(folder), &mut files)?;
    files.sort();
    // Source: FNV-1a, 64 bits, draft-eastlake-fnv.
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            number = (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        add(name.as_bytes());
        add(&[0]);
        add(&fs::read(&file)?);
    }
    Ok(format!("{number:016x}"))
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if is_test {
            continue;
        }
        if path.is_dir() {
            find(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|kind| ["rs", "c", "h", "py"].iter().any(|k| kind == *k))
        {
            files.push(path);
        }
    }
    Ok(())
}
