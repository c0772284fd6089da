//! Files and folders that are removed soon after their process ends, even if it was killed.
//!
//! ```text
//!   .NAME-7f.. --lock it--> .. --rename--> NAME-7f.. --drop--> nothing
//!                                             | killed: the lock is gone, the file stays
//!                                             `--the next one finds it among what is left
//! ```
//!
//! A killed process removes nothing, but the kernel releases its lock. So another process that uses
//! the same folder can find abandoned files, even across process namespaces. A file is locked
//! before it gets its final name. The folder may be open to all users. Names are random, and only
//! files and folders are touched: never a link, nor a pipe, which would block its opener.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use burstline_sys::locked::LockedFile;
use burstline_sys::temporary::{open_whole, random_name};

/// A locked file or folder, removed on drop.
pub(crate) struct Held {
    path: PathBuf,
    /// The lock, held while this is open.
    _lock: File,
}

impl Held {
    /// Calls `make` to create it and gives it a name in `place` that begins with `prefix`.
    pub(crate) fn create(
        place: &Path,
        prefix: &str,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Self> {
        let name = random_name(prefix);
        let (path, hidden) = (place.join(&name), place.join(format!(".{name}")));
        make(&hidden)?;
        let lock = File::open(&hidden)?;
        lock.lock()?;
        fs::rename(&hidden, &path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        take_away(&self.path);
    }
}

/// Finds abandoned files and folders in `place` whose names begin with `prefix`. While an item is
/// alive, no other process finds it.
pub(crate) fn left(place: &Path, prefix: &str) -> impl Iterator<Item = (PathBuf, LockedFile)> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let is_one = entry.file_name().to_string_lossy().starts_with(prefix);
        if !is_one {
            return None;
        }
        // An entry that cannot be opened belongs to another user or is already removed.
        let mut lock = LockedFile::from(open_whole(&entry.path()).ok()?);
        lock.try_lock().is_ok().then(|| (entry.path(), lock))
    })
}

/// Removes a file, or a folder with its contents. Ignores errors: it may already be removed.
pub(crate) fn take_away(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn what_nobody_holds_is_left_and_nothing_else() {
        let place = TemporaryFolder::create("burstline-held-").unwrap();
        let place = place.path();
        fs::create_dir_all(place.join("a-0-0/deep")).unwrap();
        fs::create_dir(place.join("another's")).unwrap();
        // These would block the process that opens them, or lead elsewhere.
        let pipe = Command::new("mkfifo").arg(place.join("a-pipe")).status().unwrap();
        assert!(pipe.success());
        std::os::unix::fs::symlink("/", place.join("a-link")).unwrap();
        let folder = Held::create(place, "a-", |path| fs::create_dir(path)).unwrap();
        let file = Held::create(place, "a-", |path| fs::write(path, "x")).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"x");
        let names = || left(place, "a-").map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(names(), [place.join("a-0-0")]);
        // The process that found it holds it.
        let found: Vec<_> = left(place, "a-").collect();
        assert!(names().is_empty());
        found.iter().for_each(|(path, _)| take_away(path));
        let (folder_path, file_path) = (folder.path().to_owned(), file.path().to_owned());
        assert!(folder_path.is_dir() && file_path.is_file() && folder_path != file_path);
        drop((folder, file));
        assert!(!folder_path.exists() && !file_path.exists());
        assert!(place.join("another's").exists() && !place.join("a-0-0").exists());
    }
}
