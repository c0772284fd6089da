//! Files that one process at a time claims; the claim ends with the process.
//!
//! A claim is a lock on an open file. So neither a crash nor SIGKILL leaves one behind, and the
//! number of a process that has gone never looks alive. Every process that can open the file can
//! claim it, so it has mode 0600.
//!
//! Source: flock(2).

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

/// Read at most this much of the file.
const CONTENT_BYTES_MAX: u64 = 4096;
/// How long a holder is given to write into it.
const WRITING: Duration = Duration::from_millis(20);

/// A claimed file.
#[derive(Debug)]
pub struct Claim {
    file: File,
}

/// What became of a try.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours, and what the last holder left in it.
    Ours(Claim, String),
    /// Another process has it, and what that wrote in it.
    Theirs(String),
}

impl Claim {
    /// Tries to claim `path`; makes the file if there is none. Symbolic links are not followed.
    pub fn take(path: &Path) -> io::Result<Claimed> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        // Not to be kept waiting by a pipe that stands there.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path)?;
        let is_ours = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(rustix::io::Errno::WOULDBLOCK) => false,
            Err(error) => return Err(error.into()),
        };
        if !is_ours {
            // The new owner writes its number in a moment; until then the last owner's is there.
            thread::sleep(WRITING);
        }
        let mut bytes = Vec::new();
        (&file).take(CONTENT_BYTES_MAX).read_to_end(&mut bytes)?;
        let content = String::from_utf8_lossy(&bytes).into_owned();
        Ok(if is_ours { Claimed::Ours(Self { file }, content) } else { Claimed::Theirs(content) })
    }

    /// Replaces the file's content; a reader sees the old, the new, or the new with an old end.
    pub fn write(&self, content: &str) -> io::Result<()> {
        self.file.write_all_at(content.as_bytes(), 0)?;
        self.file.set_len(content.len() as u64)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing alone leaves it to a child that was just forked, until that starts its program.
        let _ = flock(&self.file, FlockOperation::Unlock); // it is closed next in any case
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_content_stays() {
        let path =
            std::env::temp_dir().join(format!("burstline-claim-word-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let Claimed::Ours(first, content) = Claim::take(&path).unwrap() else { panic!() };
        assert_eq!(content, "");
        first.write("a long text").unwrap();
        first.write("short").unwrap();
        let Claimed::Theirs(content) = Claim::take(&path).unwrap() else { panic!() };
        assert_eq!(content, "short");
        drop(first);
        let Claimed::Ours(_second, content) = Claim::take(&path).unwrap() else { panic!() };
        assert_eq!(content, "short");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(Claim::take(&path).is_err(), "a link is not followed");
        std::fs::remove_file(&path).unwrap();
    }
}
