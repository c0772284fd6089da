//! Descriptors of this process that its user names by a path, such as `/dev/stdin`.
//!
//! A thread without rights cannot open such a path: what is below `/proc/self/fd` belongs to root,
//! and a helper has other descriptors. So they are opened before, and [`late`](crate::late) takes
//! them from here. Each is taken once.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::late::open_directly;

struct Kept {
    path: PathBuf,
    is_written: bool,
    file: File,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a path of this process's own descriptors for [`late`](crate::late): for writing if it
/// `is_written`, else for reading. Neither reads, empties nor creates anything. Whoever opens it
/// later reports what cannot be opened.
pub fn keep(path: &Path, is_written: bool) {
    let is_pipe = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let flags = match is_written {
        true if is_pipe() => libc::O_WRONLY | libc::O_NONBLOCK,
        true => libc::O_WRONLY,
        false => libc::O_RDONLY | libc::O_NONBLOCK,
    };
    if let Ok(file) = open_directly(path, flags, 0) {
        kept().push(Kept { path: path.to_owned(), is_written, file: file.into() });
    }
}

/// Takes the descriptor of a path that was kept for this access.
pub(crate) fn take(path: &Path, flags: i32) -> Option<File> {
    let is_written = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let mut kept = kept();
    let at = kept.iter().position(|one| one.path == path && one.is_written == is_written)?;
    Some(kept.remove(at).file)
}

/// Returns what is at a path that was kept and not taken.
pub(crate) fn metadata(path: &Path) -> Option<io::Result<Metadata>> {
    kept().iter().find(|one| one.path == path).map(|one| one.file.metadata())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::late::{self, Opening};

    #[test]
    fn a_descriptor_is_taken_once_for_the_access_that_it_was_kept_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        keep(&path, false);
        assert!(take(&path, libc::O_WRONLY).is_none());
        assert!(late::metadata(&path).unwrap().file_type().is_fifo());
        writer.write_all(b"x").unwrap();
        let mut byte = [0];
        Opening::read().open(&path).unwrap().read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert!(take(&path, libc::O_RDONLY).is_none(), "it was taken");
    }
}
