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
    /// Looks where `file` is, which was opened at `path`. Cost: two or three system calls.
    pub(in super::super) fn of(file: &File, path: &Path) -> Self {
        let Ok(metadata) = file.metadata() else { return Self::InPlace };
        let leads = Destination::of(path, FileId::of(&metadata));
        if leads == Destination::Here {
            return Self::InPlace;
        }
        // Asked after the path: the file may have been removed in between. It knows this even if
        // its folder may not be searched.
        if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
            return Self::Removed;
        }
        if leads == Destination::Elsewhere { Self::Moved } else { Self::InPlace }
    }
}

/// Where a path leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    Here,
    Elsewhere,
    /// A folder that may not be searched says nothing.
    Unknown,
}

impl Destination {
    fn of(path: &Path, id: FileId) -> Self {
        match late::metadata(path) {
            Ok(found) if FileId::of(&found) == id => Self::Here,
            Ok(_) => Self::Elsewhere,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Elsewhere,
                _ => Self::Unknown,
            },
        }
    }
}

/// Whether `path` certainly leads to another file than `id`, or to none.
pub(super) fn is_elsewhere(path: &Path, id: FileId) -> bool {
    Destination::of(path, id) == Destination::Elsewhere
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
