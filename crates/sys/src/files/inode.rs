//! A file found by its path, even if the path names another file later.
//!
//! ```text
//!   find(path) --> descriptor without rights (O_PATH) --> chmod, chown through /proc/self/fd
//! ```
//!
//! A user with write access to a directory can replace a file by a link between two calls that name
//! the path. A program with more rights would then change the link's target. An [`Inode`] always
//! stays the same file. Symbolic links are not followed.
//!
//! Source: open(2), `O_PATH`; symlink(7), magic links.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::direct::is_own_descriptor;
use crate::late::{self, Opening};
use crate::readiness;

/// Opens a regular file for reading, following links. Does not block on a pipe.
///
/// # Errors
/// Errors from the kernel; `Other` if it is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = Opening::read().with(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// The longest text of [`read_text`]: descriptions of machines and of scenarios are far shorter.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Reads a text that a user has named, following links. It may come through a pipe. One that nobody
/// has open for writing is refused: its reader would wait for ever.
///
/// # Errors
/// Errors from the kernel; `Other` for such a pipe, and for more than 64 MiB; `InvalidData` if it
/// is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut file = Opening::read().with(libc::O_NONBLOCK).open(path)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let mut bytes = Vec::new();
    loop {
        let room = TEXT_BYTES_MAX + 1 - bytes.len() as u64;
        match (&mut file).take(room).read_to_end(&mut bytes) {
            Ok(_) => break,
            // Someone has the pipe open for writing, and will close it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                readiness::wait(&[file.as_fd()], u64::MAX)?;
            }
            Err(error) => return Err(error),
        }
    }
    if is_pipe && bytes.is_empty() {
        return Err(io::Error::other("nobody writes into this pipe"));
    }
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
    }
    let is_text = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(bytes).map_err(is_text)
}

/// Returns the folder of a file, by its path.
pub fn folder_of(file: &Path) -> &Path {
    or_here(file.parent().unwrap_or(Path::new("")))
}

/// Returns a folder; an empty path means the current one.
pub fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Makes a folder for its owner alone (0700), and those that it is in as usual. What is there stays
/// as it is.
///
/// # Errors
/// Errors from the kernel.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    // A thread without rights may not look above what it is granted.
    if late::is_folder(path) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    // Recursive: no error if it is there.
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a regular file to read and write it, and creates it for its owner alone if nothing is
/// there. Does not follow a symbolic link, and does not block on a pipe.
///
/// # Errors
/// Errors from the kernel; `InvalidInput` if the path is a link or not a regular file.
pub fn open_own(path: &Path) -> io::Result<File> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    let careful = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opening = Opening::read_and_write().or_create().with(careful);
    let file = opening.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refused("it is a symbolic link"),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused("it is not a regular file")),
    }
}

/// Writes an output of the program: a regular file, which it creates for its owner alone, or a
/// descriptor of this process such as `/dev/stdout`. An existing file is emptied first, and keeps
/// its mode.
///
/// # Errors
/// As for [`open_own`].
pub fn write_own(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_own_descriptor(path) {
        return Opening::write().open(path)?.write_all(bytes);
    }
    let mut file = open_own(path)?;
    file.set_len(0)?;
    file.write_all(bytes)
}

/// Writes a temporary file and renames it into place, so that no reader sees half of it. Only its
/// owner may read it. What has the name and is no regular file, such as a link or a pipe, was put
/// there by someone else: it stays, and is an error.
///
/// # Errors
/// Errors from the kernel; `InvalidInput` if the path is that of something else than a file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if late::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        let what = "it is not a regular file, and is not replaced";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    // An existing file belongs to someone else and is kept.
    let mut file = Opening::write().create_new().open(&beside)?;
    let moved = file.write_all(bytes).and_then(|()| late::rename(&beside, path));
    moved.inspect_err(|_| {
        // Half a file is useless.
        let _ = late::remove_file(&beside);
    })
}

/// Identity of a file under any name, as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The number of its file system's device.
    pub device: u64,
    /// Its inode number there.
    pub inode: u64,
}

impl FileId {
    /// Returns the identity in this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A file of any kind. Takes a descriptor.
#[derive(Debug)]
pub struct Inode {
    file: File,
}

impl Inode {
    /// Finds what is at `path` now: a link itself, not its target.
    pub fn find(path: &Path) -> io::Result<Self> {
        Ok(Self { file: open_path(path, OFlags::NOFOLLOW)? })
    }

    /// Returns kind, owner, group, mode, device and inode number.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Changes the mode. Needs `/proc`, like `set_owner`.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        fs::set_permissions(self.path(), Permissions::from_mode(mode))
    }

    /// Changes the owner and the group, if given.
    pub fn set_owner(&self, owner: Option<u32>, group: Option<u32>) -> io::Result<()> {
        chown(self.path(), owner, group)
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

/// Returns whether a path leads through a link of /proc that is no path, such as
/// `/proc/self/fd/3` or `/proc/1/root`. A helper follows none.
pub fn is_by_magic_link(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    found.is_err_and(|error| error == Errno::LOOP) && fs::metadata(path).is_ok()
}

/// Opens a descriptor of `path` that neither reads nor writes. With musl, the standard library's
/// `open` takes `O_PATH` for an access mode and drops it.
pub(crate) fn open_path(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_ones_own_is_neither_a_link_nor_a_pipe() {
        let folder = crate::temporary::TemporaryFolder::create("burstline-own-").unwrap();
        let [own, link, pipe] = ["own", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(open_own(&own).map(|_| &own).unwrap(), "kept").unwrap();
        open_own(&own).unwrap();
        assert_eq!(fs::read(&own).unwrap(), b"kept");
        std::os::unix::fs::symlink(folder.path().join("target"), &link).unwrap();
        let error = open_own(&link).unwrap_err();
        assert_eq!(error.to_string(), "it is a symbolic link");
        assert!(!folder.path().join("target").exists());
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let error = open_own(&pipe).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }

    #[test]
    fn a_text_comes_from_a_file_or_a_pipe_that_somebody_writes() {
        let folder = crate::temporary::TemporaryFolder::create("burstline-text-").unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "of a file").unwrap();
        assert_eq!(read_text(&file).unwrap(), "of a file");
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_text(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let error = read_text(&pipe).unwrap_err();
        assert_eq!(error.to_string(), "nobody writes into this pipe");
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 67108864 bytes");
        // Opened for both, a pipe has a writer at once, and bytes are waited for.
        let mut writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        std::thread::scope(|scope| {
            let text = scope.spawn(|| read_text(&pipe).unwrap());
            writer.write_all(b"of a pipe").unwrap();
            // Once the text is read the pipe is empty. Before that its end must not come.
            while rustix::io::ioctl_fionread(&writer).unwrap() > 0 {
                std::thread::yield_now();
            }
            drop(writer);
            assert_eq!(text.join().unwrap(), "of a pipe");
        });
    }

    #[test]
    fn it_stays_the_file_that_was_found() {
        let directory =
            std::env::temp_dir().join(format!("burstline-inode-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let [found, moved, precious] = ["found", "moved", "precious"].map(|it| directory.join(it));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in [&found, &precious] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        let inode = Inode::find(&found).unwrap();
        fs::rename(&found, &moved).unwrap();
        std::os::unix::fs::symlink(&precious, &found).unwrap();
        inode.set_mode(0o644).unwrap();
        inode.set_owner(None, None).unwrap();
        assert_eq!((mode(&moved), mode(&precious)), (0o644, 0o600));
        let link = Inode::find(&found).unwrap();
        assert!(link.metadata().unwrap().is_symlink());
        let _ = link.set_mode(0o666); // refused by most file systems: a link has no mode
        assert_eq!(mode(&precious), 0o600);
        fs::remove_dir_all(&directory).unwrap();
    }
}
