//! What a helper may open: files and folders that are opened before the job reads anything.
//!
//! ```text
//!   path of a request ──► a grant that it begins with ──► its folder, and the rest of the path
//!                                                           openat2: never out of the folder
//! ```
//!
//! Source: openat2(2), `RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS`; Linux 5.6.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat2, renameat, unlinkat};
use rustix::io::retry_on_intr;

use crate::inode::{folder_of, open_path};

/// What may be done with a file, or with files below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Read files, list folders.
    Read,
    /// Also create, write, rename and remove them, and make folders.
    Write,
    /// Look at sockets, and remove them.
    Sockets,
}

/// A file or folder of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its path, as the job spells it.
    pub path: PathBuf,
    /// What the job may ask for.
    pub kind: GrantKind,
}

/// The bits of a mode that a helper sets: not setuid, setgid or sticky.
pub(super) const MODE: u32 = 0o777;
/// The flags that a job may open with. Others have rights that no grant knows (`O_TMPFILE`), or
/// need none (an access mode of 3).
const FLAGS: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::DIRECTORY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
/// Opening a pipe does not wait for its other end (H4).
const ALWAYS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A grant whose folder is open.
struct Opened {
    grant: Grant,
    /// Whether the path is the folder, and not a file in it.
    is_folder: bool,
    folder: File,
}

/// A path in a folder of a grant.
struct Place<'a> {
    opened: &'a Opened,
    rest: PathBuf,
}

pub(super) struct Grants(Vec<Opened>);

pub(super) fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}

impl Grants {
    /// Opens the folders. What is not there is not granted.
    pub(super) fn open(grants: Vec<Grant>) -> Self {
        let open = |grant: Grant| {
            let is_folder = grant.path.is_dir();
            let folder = if is_folder { &grant.path } else { folder_of(&grant.path) };
            let folder = open_path(folder, OFlags::DIRECTORY).ok()?;
            Some(Opened { grant, is_folder, folder })
        };
        Self(grants.into_iter().filter_map(open).collect())
    }

    /// Finds a grant for a path that `fits`.
    fn place(&self, path: &Path, fits: impl Fn(GrantKind) -> bool) -> io::Result<Place<'_>> {
        let place = |opened| Some(Place { opened, rest: Self::rest(opened, path)? });
        let mut granted = self.0.iter().filter(|opened| fits(opened.grant.kind));
        granted.find_map(place).ok_or_else(refused)
    }

    fn rest(opened: &Opened, path: &Path) -> Option<PathBuf> {
        let granted = &opened.grant.path;
        if !opened.is_folder {
            return (path == granted).then(|| path.file_name().map(PathBuf::from)).flatten();
        }
        let rest = match granted == Path::new(".") && path.is_relative() {
            true => path,
            false => path.strip_prefix(granted).ok()?,
        };
        let is_folder = rest.as_os_str().is_empty();
        Some(if is_folder { ".".into() } else { rest.to_owned() })
    }

    /// Opens a file or a folder.
    pub(super) fn open_file(&self, path: &Path, flags: i32, mode: u32) -> io::Result<OwnedFd> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let access = flags.intersection(OFlags::RWMODE);
        let is_read = access == OFlags::RDONLY && !flags.intersects(OFlags::CREATE | OFlags::TRUNC);
        let is_known = FLAGS.union(access).contains(flags)
            && [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR].contains(&access)
            && (is_read || access != OFlags::RDONLY);
        if !is_known {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fits = |kind| kind == GrantKind::Write || is_read && kind == GrantKind::Read;
        let mode = if flags.contains(OFlags::CREATE) { mode & MODE } else { 0 };
        self.place(path, fits)?.open(flags | ALWAYS, mode)
    }

    /// Finds what is at a path.
    pub(super) fn find(&self, path: &Path, follows_links: bool) -> io::Result<File> {
        let links = if follows_links { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::PATH | OFlags::CLOEXEC | links;
        Ok(self.place(path, |_| true)?.open(flags, 0)?.into())
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let is_written = self.place(path, |kind| kind == GrantKind::Write);
        let place = is_written.or_else(|_| {
            let found = self.find(path, false)?.metadata()?;
            let place = self.place(path, |kind| kind == GrantKind::Sockets)?;
            if found.file_type().is_socket() { Ok(place) } else { Err(refused()) }
        })?;
        let (folder, name) = place.split()?;
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let places = [from, to].map(|path| self.place(path, |kind| kind == GrantKind::Write));
        let [from, to] = places;
        let (from, to) = (from?, to?);
        let ((from, old), (to, new)) = (from.split()?, to.split()?);
        Ok(renameat(from, old, to, new)?)
    }

    pub(super) fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let place = self.place(path, |kind| kind == GrantKind::Write)?;
        let (folder, name) = place.split()?;
        Ok(mkdirat(folder, name, Mode::from_bits_retain(mode & MODE))?)
    }

    /// Checks that a path is that of a file which the job may have written. Its name below the
    /// grant has only letters, digits, `._-+:` and `others`.
    pub(super) fn check_written(&self, path: &Path, others: &str) -> io::Result<()> {
        let place = self.place(path, |kind| kind == GrantKind::Write)?;
        let is_plain = |one: char| {
            one.is_ascii_alphanumeric() || "._-+:/".contains(one) || others.contains(one)
        };
        let is_name = place.rest.to_str().is_some_and(|rest| rest.chars().all(is_plain));
        // A program would take it for an option.
        let is_option = path.as_os_str().as_encoded_bytes().starts_with(b"-");
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_file = File::from(place.open(flags, 0)?).metadata()?.is_file();
        if is_name && !is_option && is_file { Ok(()) } else { Err(refused()) }
    }
}

impl Place<'_> {
    fn open(&self, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        // The user named this file, and may have named a link.
        let beneath =
            if self.opened.is_folder { ResolveFlags::BENEATH } else { ResolveFlags::empty() };
        let resolve = beneath | ResolveFlags::NO_MAGICLINKS;
        let mode = Mode::from_bits_retain(mode);
        let opened =
            retry_on_intr(|| openat2(&self.opened.folder, &self.rest, flags, mode, resolve))?;
        Ok(opened)
    }

    /// Opens the folder that it is in, and returns its name there.
    fn split(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let Some(Component::Normal(name)) = self.rest.components().next_back() else {
            return Err(refused());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let rest = folder_of(&self.rest).to_owned();
        Ok((Place { opened: self.opened, rest }.open(flags, 0)?, name))
    }
}

/// Returns a path of what a descriptor stands for, whatever its own path leads to later.
pub(super) fn link_to(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
