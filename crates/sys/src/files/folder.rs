//! The names in a folder.
//!
//! `std::fs::read_dir` panics if the folder cannot be closed. No more than another error may it end
//! a job, so all code that jobs run lists folders here.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags, open};

/// Returns the names in a folder, in the order of its file system, without `.` and `..`.
///
/// # Errors
/// Errors from the kernel, also if it lists only a part of the folder.
pub fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    names_of(open(folder, flags, Mode::empty())?)
}

/// The same for an open folder.
///
/// # Errors
/// As for [`names`].
pub fn names_of(folder: OwnedFd) -> io::Result<Vec<OsString>> {
    let mut listed = Dir::new(folder)?;
    let mut names = Vec::new();
    while let Some(entry) = listed.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn every_name_is_listed_once() {
        let folder = crate::temporary::TemporaryFolder::create("burstline-names-").unwrap();
        let mut wanted: Vec<OsString> = (0..3000).map(|n| format!("{n:04}").into()).collect();
        wanted.push(OsString::from_vec(vec![b'x', 0xff]));
        wanted.iter().for_each(|name| drop(File::create(folder.path().join(name)).unwrap()));
        let mut found = names(folder.path()).unwrap();
        found.sort();
        assert_eq!(found, wanted);
        let error = names(&folder.path().join("0000")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
    }
}
