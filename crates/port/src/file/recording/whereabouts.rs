//! Whether a file is still where its name says.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use burstline_sys::inode::FileId;
use burstline_sys::late;

/// Where an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Whereabouts {
    /// At its path, as far as can be seen.
    InPlace,
    /// In a folder, but not at its path.
    Moved,
    /// In no folder: what is in it is gone when it is closed.
    Removed,
}

impl Whereabouts {
    /// Looks where `file` is, which was opened at `path`. Cost: one to three system calls.
    pub(in super::super) fn of(file: &File, path: &Path) -> Self {
        // The file says by itself whether it is gone: its folder may be one that we may not search.
        let is_removed = || file.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
        let Ok(metadata) = file.metadata() else { return Self::InPlace };
        match metadata.nlink() > 0 && !is_elsewhere(path, FileId::of(&metadata)) {
            true => Self::InPlace,
            // Again, as it may have been removed since then.
            false if is_removed() => Self::Removed,
            false => Self::Moved,
        }
    }
}

/// Whether `path` certainly leads to another file than `id`, or to none. A folder that may not be
/// searched says nothing.
pub(super) fn is_elsewhere(path: &Path, id: FileId) -> bool {
    match late::metadata(path) {
        Ok(found) => FileId::of(&found) != id,
        Err(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

/// The error of a file that was removed.
pub(in super::super) fn removed() -> io::Error {
    io::Error::other("it was removed or replaced while it was written")
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn a_file_is_moved_or_removed_and_its_folder_is_too() {
        let folder = TemporaryFolder::create("burstline-where-").unwrap();
        let (inner, path) = (folder.path().join("r"), folder.path().join("r/x"));
        fs::create_dir(&inner).unwrap();
        let file = File::create_new(&path).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::InPlace);
        fs::rename(&inner, folder.path().join("s")).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::Moved);
        fs::rename(folder.path().join("s"), &inner).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::InPlace);
        fs::write(inner.join("other"), "other").unwrap();
        fs::rename(inner.join("other"), &path).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::Removed);
        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::Removed);
    }
}
