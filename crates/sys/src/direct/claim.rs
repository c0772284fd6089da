//! A file that one program writes at a time.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

/// A file that is open for writing. If it is a regular file, nobody else claims it meanwhile.
#[derive(Debug)]
pub struct Claimed {
    file: File,
    is_regular: bool,
}

impl Claimed {
    /// Whether it was found to be a regular file: then it was locked, and emptied.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }
}

impl From<File> for Claimed {
    /// A file that somebody else has opened, and that is not locked.
    fn from(file: File) -> Self {
        Self { file, is_regular: false }
    }
}

impl Deref for Claimed {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for Claimed {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for Claimed {
    /// A lock ends with the last descriptor of what was opened, and a process that another thread
    /// is just starting has one until it runs its program. So it is unlocked explicitly.
    fn drop(&mut self) {
        if self.is_regular {
            // A file system without locks has none to give back.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Opens `path` for writing and makes it if it is not there. A regular file is locked first
/// (flock(2)) and then emptied; what is none (a FIFO, a terminal, `/dev/null`) is left as it is.
///
/// A FIFO makes this wait until somebody opens its other end. File systems that know no locks go
/// without.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::ResourceBusy`] where another writer has the file, with
/// the number of its process: the file is as it was.
pub fn claim(path: &Path) -> io::Result<Claimed> {
    // Emptied below and not on opening: only then is it known to be a regular file, and ours.
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let metadata = file.metadata()?;
    let is_regular = metadata.is_file();
    if is_regular {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => {}
            Err(Errno::WOULDBLOCK) => {
                let whose = match holder(metadata.dev(), metadata.ino()) {
                    Some(process) => format!("process {process}"),
                    None => "another process".to_owned(),
                };
                let what = format!("{whose} is writing it: end that one, or write to another file");
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
    }
    Ok(Claimed { file, is_regular })
}

/// The process that has locked a file. Source: proc(5), /proc/locks:
/// `1: FLOCK ADVISORY WRITE 1234 fe:00:5678 0 EOF`, device numbers in hexadecimal.
fn holder(device: u64, inode: u64) -> Option<u32> {
    let wanted = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&wanted.as_str());
        is_it.then(|| words[4].parse().ok()).flatten()
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_refused_and_the_file_is_as_it_was() {
        let path = std::env::temp_dir().join(format!("burstline-claim-{}", std::process::id()));
        let first = claim(&path).unwrap();
        assert!(first.is_regular());
        let elsewhere = first.try_clone().unwrap();
        fs::write(&path, "precious").unwrap();
        let refused = claim(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert!(refused.to_string().starts_with(&format!("process {} ", std::process::id())));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        drop(first);
        claim(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        drop(elsewhere);
        fs::remove_file(&path).unwrap();
        assert!(!claim(Path::new("/dev/null")).unwrap().is_regular());
    }
}
