//! How a program says which packets end, without a call: it writes to a file while it has them.
//! `burst:NAME?verdict=pass&drops=FILE`.
//!
//! ```text
//! packet --> callback: Suricata finds that it ends --its own log of drops--> FILE
//!            returns  --> anything in FILE? yes: drop, and FILE is emptied
//!                                           no: the device's verdict
//! ```
//!
//! A program in line in another way, by a device of its own, has such a log as a rule. The file is
//! emptied by its reader, so it does not grow, and what is in it is of one packet.
//!
//! Invariants:
//! - D1. What is in the file when the program goes on was written while it had the packet: the
//!   file is emptied when the handle is activated and after each packet that ends.
//! - D2. Where the file cannot be looked at or emptied, packets end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file of drops.
pub(crate) struct Drops {
    path: PathBuf,
    file: Mutex<File>,
}

impl Drops {
    /// Opens and empties it, or makes it: the program appends to it, and may come first or second.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Mutex::new(emptied(path)?) })
    }

    /// Whether the program has written since the last call.
    ///
    /// Cost: a system call, and one more if it has.
    pub(crate) fn take(&self) -> bool {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner); // it stays whole
        let Ok(mut found) = file.metadata() else { return true };
        if found.nlink() == 0 {
            // Somebody took its name away, and the program may have made another one.
            let Ok(other) = open(&self.path) else { return true };
            let Ok(of_other) = other.metadata() else { return true };
            (*file, found) = (other, of_other);
        }
        if found.len() == 0 {
            return false;
        }
        let _ = file.set_len(0); // where it cannot be emptied, the next packet ends, too
        true
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
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

    use super::*;

    #[test]
    fn what_is_written_is_taken_once() {
        let path = std::env::temp_dir().join(format!("burstline-drops-{}", std::process::id()));
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
        // A program that opens its logs once more.
        fs::remove_file(&path).unwrap();
        append().write_all(b"a drop\n").unwrap();
        assert!(drops.take());
        assert!(!drops.take());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_is_an_error() {
        assert!(Drops::open(Path::new("/nowhere/drops")).is_err());
    }
}
