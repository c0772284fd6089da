//! Files that one process at a time claims; the claim ends with the process.
//!
//! A claim is a lock on an open file. So neither a crash nor SIGKILL leaves one behind, and the pid
//! of a dead process never looks alive. Every process that can open the file can claim it, so it
//! has mode 0600.
//!
//! Source: flock(2), by [`LockedFile`].

use std::fs::TryLockError;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::late::Opening;
use super::locked::LockedFile;

/// Upper limit of what is read of the file.
const CONTENT_BYTES_MAX: u64 = 4096;
/// Time that a holder gets to write into it.
const WRITING: Duration = Duration::from_millis(20);

/// A claimed file.
#[derive(Debug)]
pub struct Claim {
    file: LockedFile,
}

/// The outcome of an attempt to claim.
#[derive(Debug)]
pub enum Claimed {
    /// The file is ours; holds what the last holder left in it.
    Ours(Claim, String),
    /// Another process has the file; holds what that process wrote in it.
    Theirs(String),
}

impl Claim {
    /// Tries to claim `path`, and creates the file if necessary. Symbolic links are not followed.
    pub fn take(path: &Path) -> io::Result<Claimed> {
        // O_NONBLOCK: a pipe at this path must not block us.
        let opening = Opening::read_and_write().or_create();
        let opening = opening.with(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = LockedFile::from(opening.open(path)?);
        let is_ours = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        if !is_ours {
            // The new owner is about to write its pid; until then the last owner's is there.
            thread::sleep(WRITING);
        }
        let mut bytes = Vec::new();
        (&*file).take(CONTENT_BYTES_MAX).read_to_end(&mut bytes)?;
        let content = String::from_utf8_lossy(&bytes).into_owned();
        Ok(if is_ours { Claimed::Ours(Self { file }, content) } else { Claimed::Theirs(content) })
    }

    /// Replaces the file's content. A reader sees the old, the new, or the new with an old tail.
    pub fn write(&self, content: &str) -> io::Result<()> {
        self.file.write_all_at(content.as_bytes(), 0)?;
        self.file.set_len(content.len() as u64)
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
