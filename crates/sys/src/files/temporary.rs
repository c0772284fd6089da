//! Folders for temporary files that no other user can touch.
//!
//! All users share the folder for temporary files. A guessable name may already exist, as a link to
//! another user's files. So a folder here has a random name, is always newly made, and belongs to
//! its user alone (0700). Files in it may have any names.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::late::Opening;

/// Names to try: each is one of 2^64.
const TRIES: usize = 16;

/// A folder. Dropping it removes it with its content.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
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
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self { path }),
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
    use std::os::unix::fs::{MetadataExt, symlink};

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
}
