//! Files and sockets that a job opens by their paths after it has given up its rights.
//!
//! ```text
//!   thread ── same user as the helper, or no helper ──► the kernel
//!      └───── another user ──► helper ──► the kernel
//! ```
//!
//! Code that may run after a job has given up its rights uses these functions. Code that only runs
//! before may use the standard library. Errors are the kernel's either way.
//!
//! Cost: nothing more without a [helper]. With one, a system call; if it is asked, a message there
//! and one back.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;

use crate::folder;
use crate::helper;
use crate::inode::Inode;
use crate::kept;
use crate::seqpacket::{Kind, bound, connected};
use crate::users;

/// The mode of a new file, unless [`Opening::mode`] names one: it is its owner's alone.
pub const OWN_FILE: u32 = 0o600;

/// How to open a file, as [`std::fs::OpenOptions`] says it.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    flags: i32,
    mode: u32,
}

impl Opening {
    /// Reads what is there.
    pub const fn read() -> Self {
        Self { flags: libc::O_RDONLY, mode: OWN_FILE }
    }

    /// Writes what is there.
    pub const fn write() -> Self {
        Self { flags: libc::O_WRONLY, mode: OWN_FILE }
    }

    /// Reads and writes what is there.
    pub const fn read_and_write() -> Self {
        Self { flags: libc::O_RDWR, mode: OWN_FILE }
    }

    /// Also creates a file if nothing is there.
    pub const fn or_create(self) -> Self {
        self.with(libc::O_CREAT)
    }

    /// Creates a file; it is an error if something is there.
    pub const fn create_new(self) -> Self {
        self.with(libc::O_CREAT | libc::O_EXCL)
    }

    /// Also empties what is there.
    pub const fn emptied(self) -> Self {
        self.with(libc::O_TRUNC)
    }

    /// With these flags of open(2), too.
    pub const fn with(self, flags: i32) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// The mode of a new file, less the umask; 0600 if not given.
    pub const fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn open(self, path: &Path) -> io::Result<File> {
        if let Some(file) = kept::take(path, self.flags) {
            return Ok(file);
        }
        let opened = match helper::needed(path) {
            Some(helper) => helper.open(path, self.flags, self.mode)?,
            None => open_directly(path, self.flags, self.mode)?,
        };
        Ok(opened.into())
    }
}

/// Returns the user in whose name these functions open files: the helper's, or the calling
/// thread's.
pub fn user() -> u32 {
    helper::user().unwrap_or_else(users::effective_user)
}

/// Opens a path in the calling thread's own name.
pub(crate) fn open_directly(path: &Path, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
    let mode = Mode::from_bits_retain(mode);
    Ok(retry_on_intr(|| rustix::fs::open(path, flags, mode))?)
}

/// Opens a file or a folder for reading.
///
/// # Errors
/// Errors from the kernel.
pub fn open(path: &Path) -> io::Result<File> {
    Opening::read().open(path)
}

/// Opens a folder, to list it or to sync it.
///
/// # Errors
/// Errors from the kernel: `NotADirectory`.
pub fn open_folder(path: &Path) -> io::Result<File> {
    Opening::read().with(libc::O_DIRECTORY).open(path)
}

/// Returns what is at a path, behind links.
///
/// # Errors
/// Errors from the kernel.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    if let Some(found) = kept::metadata(path) {
        return found;
    }
    match helper::needed(path) {
        Some(helper) => File::from(helper.find(path, true)?).metadata(),
        None => fs::metadata(path),
    }
}

/// Returns what is at a path, which may be a link.
///
/// # Errors
/// Errors from the kernel.
pub fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    match helper::needed(path) {
        Some(helper) => File::from(helper.find(path, false)?).metadata(),
        None => fs::symlink_metadata(path),
    }
}

/// Returns where a link leads.
///
/// # Errors
/// Errors from the kernel: what is there is no link.
pub fn read_link(path: &Path) -> io::Result<PathBuf> {
    let Some(helper) = helper::needed(path) else { return fs::read_link(path) };
    // An empty path is the link itself. Source: readlinkat(2).
    let target = rustix::fs::readlinkat(helper.find(path, false)?, "", Vec::new())?;
    Ok(OsStr::from_bytes(target.as_bytes()).into())
}

/// Returns whether a regular file is at a path. False if that cannot be told.
pub fn is_file(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_file())
}

/// Returns whether a folder is at a path. False if that cannot be told.
pub fn is_folder(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns whether something is at a path. False if that cannot be told.
pub fn exists(path: &Path) -> bool {
    metadata(path).is_ok()
}

/// Returns the names in a folder, in any order.
///
/// # Errors
/// Errors from the kernel.
pub fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    folder::names_of(open_folder(folder)?.into())
}

/// Removes a file.
///
/// # Errors
/// Errors from the kernel.
pub fn remove_file(path: &Path) -> io::Result<()> {
    helper::needed(path).map_or_else(|| fs::remove_file(path), |helper| helper.remove(path))
}

/// Renames a file.
///
/// # Errors
/// Errors from the kernel.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    helper::needed(from).map_or_else(|| fs::rename(from, to), |helper| helper.rename(from, to))
}

/// Makes a folder with this mode, less the umask.
///
/// # Errors
/// Errors from the kernel; also if something is there.
pub fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    match helper::needed(path) {
        Some(helper) => helper.make_folder(path, mode),
        None => DirBuilder::new().mode(mode).create(path),
    }
}

/// Makes a folder of this mode, less the umask, and those that it is in. What is there stays as it
/// is.
///
/// # Errors
/// Errors from the kernel.
pub fn create_folders_of(path: &Path, mode: u32) -> io::Result<()> {
    if helper::needed(path).is_none() {
        return DirBuilder::new().recursive(true).mode(mode).create(path);
    }
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !is_folder(path);
    let missing: Vec<_> = path.ancestors().take_while(missing).collect();
    for folder in missing.into_iter().rev() {
        match create_folder(folder, mode) {
            // Another thread or program was faster.
            Err(_) if is_folder(folder) => {}
            made => made?,
        }
    }
    Ok(())
}

/// The same for the owner alone (0700).
///
/// # Errors
/// Errors from the kernel.
pub fn create_folders(path: &Path) -> io::Result<()> {
    create_folders_of(path, 0o700)
}

/// Sets owner, group and mode of a file that is open for writing. What is `None` stays. The helper
/// drops the setuid, setgid and sticky bits.
///
/// # Errors
/// Errors from the kernel.
pub fn set_owner_and_mode(
    file: &File,
    owners: [Option<u32>; 2],
    mode: Option<u32>,
) -> io::Result<()> {
    match helper::needed_for_descriptors() {
        Some(helper) if owners != [None, None] || mode.is_some() => {
            helper.set_owner_and_mode(file.as_fd(), owners, mode)
        }
        _ => set_directly(file, owners, mode),
    }
}

/// The same in the calling thread's own name.
pub(crate) fn set_directly(
    file: &File,
    [user, group]: [Option<u32>; 2],
    mode: Option<u32>,
) -> io::Result<()> {
    if user.is_some() || group.is_some() {
        fchown(file, user, group)?;
    }
    mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode)))
}

/// Runs a command for a file and waits for it: no shell, no input, output on standard error, a
/// process group by itself. `{}` stands for the path. A helper ignores `command`, and runs the one
/// that it was started with.
///
/// # Errors
/// Errors from the kernel: the program cannot be started.
pub fn run(command: &[String], path: &Path) -> io::Result<ExitStatus> {
    let output = io::stderr();
    match helper::needed(path) {
        Some(helper) => helper.run(path, output.as_fd()),
        None => helper::run(command, path, output.as_fd().try_clone_to_owned()?),
    }
}

/// Makes a local socket that does not block, bound to a path where nothing is. Its mode and owners
/// are set before others can connect; what is `None` stays as the kernel makes it.
///
/// # Errors
/// Errors from the kernel: `AddrInUse` if something is there.
pub fn bind(
    path: &Path,
    kind: Kind,
    owners: [Option<u32>; 2],
    mode: Option<u32>,
) -> io::Result<OwnedFd> {
    match helper::needed(path) {
        Some(helper) => helper.bind(path, kind, owners, mode),
        None => bind_directly(path, kind, owners, mode),
    }
}

/// The same in the calling thread's own name.
pub(crate) fn bind_directly(
    path: &Path,
    kind: Kind,
    [user, group]: [Option<u32>; 2],
    mode: Option<u32>,
) -> io::Result<OwnedFd> {
    let socket = bound(path, kind)?;
    let made = Inode::find(path)?;
    if !made.metadata()?.file_type().is_socket() {
        // In a folder that others may write somebody was faster.
        return Err(io::ErrorKind::AddrInUse.into());
    }
    if let Some(mode) = mode {
        made.set_mode(0)?;
        made.set_owner(user, group)?;
        made.set_mode(mode)?;
    }
    Ok(socket)
}

/// Connects to the local socket at a path. With a timeout, this call and each later send and
/// receive wait at most that long, then fail with `WouldBlock`. Without one the socket never
/// blocks. The peer sees the helper's pid if the helper connects.
///
/// # Errors
/// Errors from the kernel: `NotFound`, `ConnectionRefused`, `PermissionDenied`.
pub fn connect(path: &Path, kind: Kind, timeout: Option<Duration>) -> io::Result<OwnedFd> {
    match helper::needed(path) {
        Some(helper) => helper.connect(path, kind, timeout),
        None => connected(path, kind, timeout),
    }
}
