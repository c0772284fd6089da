//! A file that one program writes at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};
use rustix::io::Errno;

use crate::late::{self, Opening};
use crate::locked::LockedFile;

/// How to open a file for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    /// Permission bits, regardless of the umask. If `None`, a new file gets `0600`, and an existing
    /// file keeps its mode.
    pub mode: Option<u32>,
    /// The user that becomes the owner of a regular file.
    pub user: Option<u32>,
    /// The group that becomes the group of a regular file.
    pub group: Option<u32>,
    /// Whether the path may be a symbolic link. Links in the folders before it are followed.
    pub follows_links: bool,
    /// Whether an existing file is refused ([`io::ErrorKind::AlreadyExists`]).
    pub is_new: bool,
    /// Whether a block device may be written. Its content is lost.
    pub overwrites_devices: bool,
}

/// A file open for writing. If it is a regular file, no other process can claim it meanwhile.
#[derive(Debug)]
pub struct Claimed {
    file: LockedFile,
    is_regular: bool,
}

impl Claimed {
    /// Returns whether it is a regular file, which was then locked and emptied.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }
}

impl From<File> for Claimed {
    /// Wraps a file that another process has opened, and that is not locked.
    fn from(file: File) -> Self {
        Self { file: file.into(), is_regular: false }
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

/// Opens `path` for writing and creates it if necessary. A regular file is first locked (flock(2)),
/// then gets its owner and mode, then is emptied. Anything else (a FIFO, a terminal, `/dev/null`)
/// is left unchanged.
///
/// A FIFO makes this wait until its other end is opened. File systems without locks are accepted.
///
/// # Errors
/// Errors from the kernel. [`io::ErrorKind::ResourceBusy`] if another writer has the file, with the
/// pid of that process. [`io::ErrorKind::InvalidInput`] for a symbolic link that must not be
/// followed, or a block device that must not be overwritten. The file is then unchanged.
pub fn claim(path: &Path, creation: &Creation) -> io::Result<Claimed> {
    // Emptied below and not by open: only there do we know that it is a regular file, and ours.
    let opening = Opening::write().or_create();
    let opening = if creation.is_new { opening.create_new() } else { opening };
    let file = opening
        .with(link_flags(path, creation.follows_links))
        .open(path)
        .map_err(|error| of_link(path, error))?;
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() && !creation.overwrites_devices {
        let what = "it is a block device: --force overwrites what is on it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if !metadata.is_file() {
        return Ok(file.into());
    }
    let mut file = LockedFile::from(file);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let whose = match holder(metadata.dev(), metadata.ino()) {
                Some(process) => format!("process {process}"),
                None => "another process".to_owned(),
            };
            let what = format!("{whose} is writing it: end it, or write to another file");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
        }
        Err(TryLockError::Error(error)) if knows_no_locks(&error) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    late::set_owner_and_mode(&file, [creation.user, creation.group], creation.mode)?;
    // Last: if any step above is refused, the content stays.
    file.set_len(0)?;
    Ok(Claimed { file, is_regular: true })
}

/// Returns whether the file system is the reason of the error.
fn knows_no_locks(error: &io::Error) -> bool {
    let known = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOLCK].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| known.contains(&number))
}

/// Returns flags for open(2) that do not follow the last component of `path` if it is a link. Links
/// of this process's own descriptors are followed: `/dev/stdout`, `/dev/fd/63` of a shell's
/// `>(...)`.
pub fn link_flags(path: &Path, follows_links: bool) -> i32 {
    if follows_links || is_own_descriptor(path) { 0 } else { libc::O_NOFOLLOW }
}

/// Returns whether a path is that of a descriptor of this process.
pub fn is_own_descriptor(path: &Path) -> bool {
    let own = ["/dev/fd", "/proc/self/fd"];
    ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|own| path == Path::new(own))
        || path.parent().is_some_and(|folder| own.iter().any(|own| folder == Path::new(own)))
}

/// Explains the kernel's error if it is about a link at `path`.
pub fn of_link(path: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::ELOOP) {
        return error;
    }
    match late::read_link(path) {
        Ok(target) => {
            let target = target.display();
            let what = format!("it is a symbolic link to {target}: --follow-links writes there");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        }
        Err(_) => error,
    }
}

/// Returns the process that has locked a file. Source: proc(5), /proc/locks:
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
    use std::fs::Permissions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    use std::thread;

    use burstline_skip::skip;

    use crate::privileges;
    use crate::temporary::TemporaryFolder;

    use super::*;

    const CREATION: Creation = Creation {
        mode: None,
        user: None,
        group: None,
        follows_links: false,
        is_new: false,
        overwrites_devices: false,
    };

    #[test]
    fn a_second_writer_is_refused_and_the_file_is_as_it_was() {
        let path = std::env::temp_dir().join(format!("burstline-claim-{}", std::process::id()));
        let first = claim(&path, &CREATION).unwrap();
        assert!(first.is_regular());
        let elsewhere = first.try_clone().unwrap();
        fs::write(&path, "precious").unwrap();
        let refused = claim(&path, &CREATION).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert!(refused.to_string().starts_with(&format!("process {} ", std::process::id())));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        drop(first);
        claim(&path, &CREATION).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        drop(elsewhere);
        fs::remove_file(&path).unwrap();
        assert!(!claim(Path::new("/dev/null"), &CREATION).unwrap().is_regular());
    }

    #[test]
    fn a_file_is_its_owners_unless_told_otherwise() {
        let name = format!("burstline-mode-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        drop(claim(&path, &CREATION).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(claim(&path, &CREATION).unwrap());
        assert_eq!(mode(), 0o644, "what is there keeps its mode");
        drop(claim(&path, &Creation { mode: Some(0o640), ..CREATION }).unwrap());
        assert_eq!(mode(), 0o640);
        let refused = claim(&path, &Creation { is_new: true, ..CREATION }).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_given_away_keeps_what_is_in_it() {
        let folder = TemporaryFolder::create("burstline-claim-").unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "precious").unwrap();
        let attempt = || {
            // On this thread alone. If it is refused, the thread has no rights to give up.
            let _ = privileges::give_up();
            claim(&path, &Creation { user: Some(65534), ..CREATION })
        };
        let refused = thread::scope(|scope| scope.spawn(attempt).join().unwrap()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_link_is_followed_only_where_that_is_asked_for() {
        let name = format!("burstline-link-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let (precious, link) = (folder.join("precious"), folder.join("link"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let refused = claim(&link, &CREATION).unwrap_err();
        assert!(refused.to_string().starts_with("it is a symbolic link to /"), "{refused}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        claim(&link, &Creation { follows_links: true, ..CREATION }).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "");
        // A descriptor of this process is not treated as a link.
        let own = format!("/proc/self/fd/{}", File::open(&folder).unwrap().as_raw_fd());
        assert_eq!(link_flags(Path::new(&own), false), 0);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Opens a device of this machine through our own device node, and writes nothing.
    #[test]
    fn a_block_device_is_written_only_if_that_is_asked_for() {
        let numbers = fs::read_dir("/sys/block").into_iter().flatten().flatten().find_map(|one| {
            let is_large = fs::read_to_string(one.path().join("size")).ok()?.trim() != "0";
            fs::read_to_string(one.path().join("dev")).ok().filter(|_| is_large)
        });
        let Some((major, minor)) = numbers.as_deref().and_then(|line| line.trim().split_once(':'))
        else {
            return skip("there is no block device");
        };
        let folder = TemporaryFolder::create("burstline-claim-").unwrap();
        let node = folder.path().join("device");
        let mknod = Command::new("mknod").arg(&node).args(["b", major, minor]).output().unwrap();
        if !mknod.status.success() {
            return skip("a node of a device is not permitted here");
        }
        let refused = claim(&node, &CREATION).unwrap_err();
        if refused.kind() == io::ErrorKind::PermissionDenied {
            return skip("devices may not be opened here");
        }
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
        assert!(refused.to_string().contains("--force"), "{refused}");
        let claimed = claim(&node, &Creation { overwrites_devices: true, ..CREATION }).unwrap();
        assert!(!claimed.is_regular());
    }
}
