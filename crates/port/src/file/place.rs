//! Where a file lies, and how one gets there as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The folder of a file.
pub(super) fn folder_of(file: &Path) -> &Path {
    or_here(file.parent().unwrap_or(Path::new("")))
}

/// A folder; without a name it is the one that the program is in.
pub(super) fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Writes a file beside its place and moves it there, so that no reader sees half of it. Only its
/// owner may read it.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let created = File::options().write(true).create_new(true).mode(0o600).open(&beside);
    let written = created.and_then(|mut file| file.write_all(bytes));
    let moved = written.and_then(|()| fs::rename(&beside, path));
    moved.inspect_err(|_| {
        // Half a file is of no use.
        let _ = fs::remove_file(&beside);
    })
}
