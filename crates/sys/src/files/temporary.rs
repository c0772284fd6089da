//! Folders for temporary files that no other user can touch.
//!
//! All users share the folder for temporary files. A guessable name may already exist, as a link to
//! another user's files. So a folder here has a random name, is always newly made, and belongs to
//! its user alone (0700). Files in it may have any names.
//!
//! Invariant T1: a folder is locked (flock(2)) from before its name is returned until it is
//! removed. The kernel unlocks those of a process that is killed, so [`remove_abandoned`] knows
//! them. It may be faster than the lock of a new folder: then the maker finds the folder locked or
//! gone, and makes another.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::folder;
use crate::late::Opening;
use crate::users::effective_user;

/// Names to try: each is one of 2^64.
const TRIES: usize = 16;

/// A folder. Dropping it removes it with its content.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// Keeps the lock (T1). `None` where the file system has no locks.
    _lock: Option<File>,
}

impl TemporaryFolder {
    /// Creates a folder in the system's folder for temporary files. Its name begins with `prefix`.
    ///
    /// # Errors
    /// Errors from the kernel, with the path.
    pub fn create(prefix: &str) -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir(), prefix)
    }

    /// Creates a folder in `place`.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_in(place: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..TRIES {
            let path = place.join(random_name(prefix));
            match make_own_folder(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            if let Some(lock) = lock_new(&path)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        let what = format!("{TRIES} names in {} are taken", place.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it, as a program's argument.
    pub fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Keeps the folder and returns its path.
    pub fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.path); // an error means that it is already gone
        }
    }
}

/// Locks a new folder. The inner `None`: its file system has no locks. The outer one: another
/// process has taken it for one that was left.
fn lock_new(path: &Path) -> io::Result<Option<Option<File>>> {
    let folder = match open_whole(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match folder.try_lock() {
        Ok(()) => Ok(is_at(&folder, path).then_some(Some(folder))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(_)) => Ok(Some(None)),
    }
}

/// Returns whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let found = file.metadata().and_then(|file| Ok((file, fs::symlink_metadata(path)?)));
    found.is_ok_and(|(file, there)| (file.dev(), file.ino()) == (there.dev(), there.ino()))
}

/// Removes folders with this prefix that a killed process of the caller's user left in the places
/// for temporary files. A caller that is root names in `successors` to whom it gives its folders.
/// What cannot be removed stays.
pub fn remove_abandoned(prefix: &str, successors: &[u32]) {
    let own = effective_user();
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/tmp")];
    for place in places {
        remove_abandoned_in(&place, prefix, own, successors);
    }
}

fn remove_abandoned_in(place: &Path, prefix: &str, own: u32, successors: &[u32]) {
    let (Ok(found), Ok(names)) = (fs::metadata(place), folder::names(place)) else { return };
    // Elsewhere others could move a folder of this user to such a name.
    let is_sticky = found.mode() & 0o1000 != 0;
    if ![0, own].contains(&found.uid()) || (found.mode() & 0o022 != 0 && !is_sticky) {
        return;
    }
    let is_owner = |user: u32| user == own || (own == 0 && successors.contains(&user));
    for name in names {
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let is_random =
            |number: &str| number.len() == 16 && u64::from_str_radix(number, 16).is_ok();
        if number.is_some_and(is_random) {
            let _ = remove_if_abandoned(&place.join(&name), is_owner);
        }
    }
}

fn remove_if_abandoned(path: &Path, is_owner: impl Fn(u32) -> bool) -> io::Result<()> {
    let folder = open_whole(path)?;
    let found = folder.metadata()?;
    // T1: who gets the lock is alone with it.
    let is_meant = found.is_dir() && found.mode() & 0o777 == 0o700 && is_owner(found.uid());
    match is_meant && folder.try_lock().is_ok() && is_at(&folder, path) {
        true => fs::remove_dir_all(path),
        false => Ok(()),
    }
}

/// Returns a name that cannot be guessed.
pub fn random_name(prefix: &str) -> String {
    format!("{prefix}{:016x}", random_number())
}

/// Returns a number that cannot be guessed, and that no other process gets.
pub fn random_number() -> u64 {
    // The hasher's keys are random numbers of the kernel.
    RandomState::new().build_hasher().finish()
}

/// Creates a folder that only its user can access.
///
/// # Errors
/// Errors from the kernel, with the path; also if the name already exists.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Opens a file or a folder for reading, in a place that all users may write. It does not follow a
/// link or open a pipe, which would block.
///
/// # Errors
/// Errors from the kernel; `InvalidInput` if it is neither a file nor a folder.
pub fn open_whole(path: &Path) -> io::Result<File> {
    let careful = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = Opening::read().with(careful).open(path)?;
    let found = file.metadata()?;
    match found.is_file() || found.is_dir() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_is_new_private_and_gone_at_the_end() {
        let [first, second] = [(); 2].map(|()| TemporaryFolder::create("burstline-t-").unwrap());
        assert_ne!(first.path(), second.path());
        let path = first.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::write(first.file("x"), "x").unwrap();
        // An existing name is not taken, not even through a link.
        let link = second.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(make_own_folder(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(first);
        assert!(!path.exists());
        let kept = second.keep();
        assert!(kept.exists());
        fs::remove_dir_all(kept).unwrap();
    }

    #[test]
    fn only_folders_that_were_left_are_removed() {
        let place = TemporaryFolder::create("burstline-places-").unwrap();
        let own = fs::metadata(place.path()).unwrap().uid();
        let live = TemporaryFolder::create_in(place.path(), "x-").unwrap();
        let at = |name: &str| place.path().join(name);
        let [left, link, file, other, open] = [
            "x-0123456789abcdef",
            "x-1123456789abcdef",
            "x-2123456789abcdef",
            "x-short",
            "x-3123456789abcdef",
        ]
        .map(at);
        for folder in [&left, &other, &open] {
            make_own_folder(folder).unwrap();
            fs::write(folder.join("spilled"), "").unwrap();
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&other, &link).unwrap();
        fs::write(&file, "").unwrap();
        // Others may move folders here.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
        remove_abandoned_in(place.path(), "x-", own, &[]);
        assert!(left.exists());
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
        remove_abandoned_in(place.path(), "x-", own + 1, &[own]);
        assert!(left.exists(), "that of another user");
        remove_abandoned_in(place.path(), "x-", own, &[]);
        assert!(!left.exists());
        for kept in [live.path(), &link, &file, &other, &open] {
            assert!(fs::symlink_metadata(kept).is_ok(), "{}", kept.display());
        }
        assert!(other.join("spilled").exists());
        // A maker whose new folder another process has locked makes another.
        let lock = open_whole(&other).unwrap();
        lock.lock().unwrap();
        assert!(lock_new(&other).unwrap().is_none());
        assert!(lock_new(&left).unwrap().is_none(), "it is gone");
    }
}
