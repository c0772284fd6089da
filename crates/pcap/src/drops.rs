//! Lets a program drop packets without a call: it writes to a file while it has them.
//! `burst:NAME?verdict=pass&drops=FILE`.
//!
//! ```text
//! packet --> callback: Suricata drops the packet --its own drop log--> FILE
//!            returns  --> anything in FILE? yes: drop, and FILE is emptied
//!                                           no: the device's verdict
//! ```
//!
//! Programs that can run in line in another way, with their own devices, usually have such a log.
//! The reader empties the file, so it does not grow, and its contents are about one packet.
//!
//! Invariants:
//! - D1. Contents of the file when the program goes on were written while it had the packet: the
//!   file is emptied when the handle is activated and after each dropped packet.
//! - D2. If the file cannot be checked or emptied, packets are dropped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(crate) struct Drops {
    path: PathBuf,
    file: Mutex<File>,
}

impl Drops {
    /// Opens and empties the file, or creates it. The program appends to it, and may open it first.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Mutex::new(emptied(path)?) })
    }

    /// Returns whether the program has written since the last call.
    ///
    /// Cost: a system call, and one more if it has.
    pub(crate) fn take(&self) -> bool {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner); // stays whole
        let Ok(mut found) = file.metadata() else { return true };
        if found.nlink() == 0 {
            // The name was removed, and the program may have created another file.
            let Ok(other) = open(&self.path) else { return true };
            let Ok(of_other) = other.metadata() else { return true };
            (*file, found) = (other, of_other);
        }
        if found.len() == 0 {
            return false;
        }
        let _ = file.set_len(0); // if that fails, the next packet is dropped, too
        true
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

fn emptied(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn what_is_written_is_taken_once() {
        let folder = TemporaryFolder::create("burstline-drops-").unwrap();
        let path = folder.path().join("drops");
        fs::write(&path, "of an earlier run").unwrap();
        let drops = Drops::open(&path).unwrap();
        let append = || OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut program = append();
        assert!(!drops.take(), "what was there before is nobody's");
        for _ in 0..3 {
            program.write_all(b"{\"event_type\":\"drop\"}\n").unwrap();
            assert!(drops.take());
            assert!(!drops.take());
            assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        }
        // The program reopens its logs.
        fs::remove_file(&path).unwrap();
        append().write_all(b"a drop\n").unwrap();
        assert!(drops.take());
        assert!(!drops.take());
    }

    #[test]
    fn a_file_that_cannot_be_is_an_error() {
        assert!(Drops::open(Path::new("/nowhere/drops")).is_err());
    }
}
