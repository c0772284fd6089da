//! Files that are locked as long as one process has them open.
//!
//! A lock of flock(2) belongs to the open file and not to a process. A child by fork(2) shares it,
//! and so does every child until it executes its program. So closing is not enough: the lock is
//! released explicitly. Only the process that took it does so: a child that drops its copy must not
//! take the lock away from its parent.

use std::fs::{File, TryLockError};
use std::ops::{Deref, DerefMut};
use std::process;

/// An open file that this process may have locked. Dropping it releases the lock.
#[derive(Debug)]
pub struct LockedFile {
    file: File,
    /// The process that locked it.
    owner: Option<u32>,
}

impl LockedFile {
    /// Locks the file, unless another process has locked it.
    ///
    /// # Errors
    /// As [`File::try_lock`]: another process has the lock, or the file system has no locks.
    pub fn try_lock(&mut self) -> Result<(), TryLockError> {
        self.file.try_lock()?;
        self.owner = Some(process::id());
        Ok(())
    }
}

/// Wraps a file that is not locked.
impl From<File> for LockedFile {
    fn from(file: File) -> Self {
        Self { file, owner: None }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.owner == Some(process::id()) {
            let _ = self.file.unlock(); // it is closed next in any case
        }
    }
}

/// Returns whether someone has locked this file by another descriptor: with [`LockedFile`], because
/// they write it. False if the file system has no locks. It takes a shared lock for a moment.
pub fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock(); // our own lock, so it can be released
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn a_lock_ends_with_its_owner_whoever_else_has_the_file_open() {
        let folder = TemporaryFolder::create("burstline-locked-").unwrap();
        let open = || LockedFile::from(File::create(folder.file("x")).unwrap());
        let is_taken = || {
            let is_taken = matches!(open().try_lock(), Err(TryLockError::WouldBlock));
            assert_eq!(is_locked(&open()), is_taken);
            is_taken
        };
        let mut locked = open();
        locked.try_lock().unwrap();
        // A child's copy of it.
        let copy = locked.try_clone().unwrap();
        let owner = locked.owner.map(|owner| owner + 1);
        drop(LockedFile { file: copy.try_clone().unwrap(), owner });
        assert!(is_taken(), "a child drops its copy");
        drop(locked);
        assert!(!is_taken(), "its owner has dropped it");
        drop(copy);
    }
}
