//! What a helper may open: files and folders that are named before the job reads anything.
//!
//! ```text
//!   path of a request ──► a grant that it begins with ──► its folder, and the rest of the path
//!                                                           openat2: never out of the folder
//! ```
//!
//! Source: openat2(2), `RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS`; Linux 5.6.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2, renameat, unlinkat};
use rustix::io::retry_on_intr;

use super::ports::add_new;
use crate::calendar::Text;
use crate::inode::{folder_of, open_path};
use crate::late::bind_directly;
use crate::seqpacket::Kind;

/// What may be done with a file, or with files in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Read files, list folders.
    Read,
    /// Create, write, read, rename and remove files of the grant's names; list and make its
    /// folders.
    Write,
    /// Look at a socket, and remove it.
    Socket,
}

/// A file or folder of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its path, as the job spells it.
    pub path: PathBuf,
    /// What the job may ask for.
    pub kind: GrantKind,
    /// What names of files begin with that the job changes. Other files of the folder, such as a
    /// script for closed files, are not its own.
    pub name_prefix: String,
    /// What they end with, but for a dot and a number: the name of a file before it is renamed.
    pub name_suffix: String,
    /// Whether folders in the folder belong to it.
    pub is_deep: bool,
    /// Whether it is one file, also if a folder is there: then it has nothing below it.
    pub is_one: bool,
    /// The names of the folders that the job may make below the path, from the top down, with
    /// conversions of strftime(3). If it is empty and the grant is deep, the job may make any.
    pub folders: Vec<String>,
}

impl Grant {
    /// Returns a grant of a file, or of all that is below a folder.
    pub fn of(path: PathBuf, kind: GrantKind) -> Self {
        let (name_prefix, name_suffix, folders) = (String::new(), String::new(), Vec::new());
        Self { path, kind, name_prefix, name_suffix, is_deep: true, is_one: false, folders }
    }

    /// Returns a grant of one file, whatever is there later.
    pub fn of_one(path: PathBuf, kind: GrantKind) -> Self {
        Self { is_one: true, ..Self::of(path, kind) }
    }

    /// Whether a path is what the grant is for.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let Some(rest) = self.rest_of(path) else { return false };
        let is_near = self.is_deep || folder_of(rest) == Path::new(".");
        let is_named = || path.file_name().is_some_and(|name| self.is_name(name));
        let is_itself = rest.as_os_str().is_empty() || rest == Path::new(".");
        is_itself || !self.is_one && is_near && is_named()
    }

    /// Returns the rest of a path that begins with the grant's.
    fn rest_of<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        match self.path == Path::new(".") && path.is_relative() {
            true => Some(path),
            false => path.strip_prefix(&self.path).ok(),
        }
    }

    /// Whether a file of this name is the job's own.
    fn is_name(&self, name: &OsStr) -> bool {
        let name = name.as_encoded_bytes();
        let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let numbered = name[..name.len() - digits].strip_suffix(b".").filter(|_| digits > 0);
        let suffix = self.name_suffix.as_bytes();
        if !suffix.is_empty() && self.name_prefix == self.name_suffix {
            return name == suffix || numbered == Some(suffix);
        }
        name.starts_with(self.name_prefix.as_bytes())
            && (name.ends_with(suffix) || numbered.is_some_and(|name| name.ends_with(suffix)))
    }

    /// Whether the job may make the folder `rest`, a path below that of the grant.
    fn allows_folder(&self, rest: &Path) -> bool {
        let names: Vec<&OsStr> = rest.iter().collect();
        let are_of_times = || {
            names.len() <= self.folders.len()
                && names.iter().zip(&self.folders).all(|(name, format)| is_of_time(name, format))
        };
        let is_any = self.folders.is_empty();
        self.kind == GrantKind::Write && self.is_deep && (is_any || are_of_times())
    }
}

/// Whether a name can be what strftime(3) makes of a format: it begins alike, and has nothing but
/// digits, what the format has, and letters if the format has names of months or days.
fn is_of_time(name: &OsStr, format: &str) -> bool {
    let (Some(name), Some((start, rest))) = (name.to_str(), format.split_once('%')) else {
        return name == format;
    };
    let has_words = Text::in_format(format).any(Text::has_letters);
    let is_part = |one: char| {
        let is_letter = has_words && one.is_ascii_alphabetic();
        one.is_ascii_digit() || " -+:".contains(one) || rest.contains(one) || is_letter
    };
    name.strip_prefix(start).is_some_and(|rest| rest.chars().all(is_part))
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
/// Neither reads nor writes.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Opening a pipe does not wait for its other end (H4).
const ALWAYS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A path in a folder of a grant.
struct Place<'a> {
    grant: &'a Grant,
    is_folder: bool,
    rest: PathBuf,
}

/// The grants of a job. A folder is opened for each request: it may have been made anew.
#[derive(Clone)]
pub(super) struct Grants(Vec<Grant>);

pub(super) fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}

impl Grants {
    pub(super) fn new(mut grants: Vec<Grant>) -> Self {
        // The deepest one that covers a path counts.
        grants.sort_by_key(|grant| Reverse(grant.path.components().count()));
        Self(grants)
    }

    /// Adds grants to these.
    pub(super) fn add(&mut self, grants: Vec<Grant>) {
        let mut all = std::mem::take(&mut self.0);
        add_new(&mut all, grants);
        *self = Self::new(all);
    }

    /// Makes a socket at a path where nothing is, with this mode and these owners.
    pub(super) fn bind(
        &self,
        path: &Path,
        kind: Kind,
        owners: [Option<u32>; 2],
        mode: Option<u32>,
    ) -> io::Result<OwnedFd> {
        let may_make = |place: &Place<'_>| match place.grant.kind {
            GrantKind::Read => false,
            GrantKind::Write => !place.is_folder,
            GrantKind::Socket => true,
        };
        let place = self.place(path, may_make)?;
        let (folder, name) = place.split()?;
        let folder = File::from(folder);
        bind_directly(&link_to(&folder).join(name), kind, owners, mode.map(|mode| mode & MODE))
    }

    /// Tries what each request takes.
    ///
    /// # Errors
    /// Errors from the kernel: it has no `openat2`, or a filter forbids it.
    pub(super) fn try_out() -> io::Result<()> {
        openat2(CWD, "/", PLACE, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
        Ok(())
    }

    /// Finds a place for a path that `fits`.
    fn place(&self, path: &Path, fits: impl Fn(&Place<'_>) -> bool) -> io::Result<Place<'_>> {
        let mut places = self.0.iter().filter_map(|grant| Place::of(grant, path));
        places.find(fits).ok_or_else(refused)
    }

    /// Finds a place to change the file at a path.
    fn place_to_change(&self, path: &Path) -> io::Result<Place<'_>> {
        self.place(path, |place| place.is_own_file())
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
        let is_list = flags.contains(OFlags::DIRECTORY);
        let place = match is_read {
            true => self.place(path, |place| place.is_readable(is_list))?,
            false => self.place_to_change(path)?,
        };
        let mode = if flags.contains(OFlags::CREATE) { mode & MODE } else { 0 };
        // A link of such a name leads to a file of another one.
        let is_exact = !is_read && !place.grant.name_suffix.is_empty();
        let links = if is_exact { OFlags::NOFOLLOW } else { OFlags::empty() };
        place.open(flags | ALWAYS | links, mode)
    }

    /// Finds what is at a path.
    pub(super) fn find(&self, path: &Path, follows_links: bool) -> io::Result<File> {
        let links = if follows_links { OFlags::empty() } else { OFlags::NOFOLLOW };
        let may_look =
            |place: &Place<'_>| place.grant.kind == GrantKind::Socket || place.is_readable(true);
        Ok(self.place(path, may_look)?.open(PLACE | links, 0)?.into())
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let place = self.place_to_change(path).or_else(|_| self.place_of_socket(path))?;
        let (folder, name) = place.split()?;
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Renames a file that the job may have written, or a socket of its names to one of them.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = match (self.place_to_change(from), self.place_to_change(to)) {
            (Ok(from), Ok(to)) => (from, to),
            _ => (self.place_of_socket(from)?, self.place_of_socket(to)?),
        };
        let ((from, old), (to, new)) = (from.split()?, to.split()?);
        Ok(renameat(from, old, to, new)?)
    }

    /// Finds a place where a socket of the job's names is, or nothing.
    fn place_of_socket(&self, path: &Path) -> io::Result<Place<'_>> {
        let place = self.place(path, |place| place.grant.kind == GrantKind::Socket)?;
        match place.open(PLACE | OFlags::NOFOLLOW, 0).map(File::from) {
            Ok(found) if !found.metadata()?.file_type().is_socket() => Err(refused()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(place),
        }
    }

    /// Makes a folder, if a grant allows it.
    pub(super) fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let place = self.place(path, |place| place.grant.allows_folder(&place.rest))?;
        let (folder, name) = place.split()?;
        Ok(mkdirat(folder, name, Mode::from_bits_retain(mode & MODE))?)
    }

    /// Checks that a path is that of a file which the job may have written. Its name below the
    /// grant has only letters, digits, `._-+:` and `others`.
    pub(super) fn check_written(&self, path: &Path, others: &str) -> io::Result<()> {
        let place = self.place_to_change(path)?;
        let is_plain = |one: char| {
            one.is_ascii_alphanumeric() || "._-+:/".contains(one) || others.contains(one)
        };
        let is_name = place.rest.to_str().is_some_and(|rest| rest.chars().all(is_plain));
        // A program could take it for an option.
        let is_option = |name: &OsStr| name.as_encoded_bytes().starts_with(b"-");
        let is_option = is_option(path.as_os_str()) || place.name().is_none_or(is_option);
        let is_file = File::from(place.open(PLACE | OFlags::NOFOLLOW, 0)?).metadata()?.is_file();
        if is_name && !is_option && is_file { Ok(()) } else { Err(refused()) }
    }
}

impl<'a> Place<'a> {
    /// Returns the place of a path in a grant, if it begins with the grant's. Cost: a system call
    /// if it is the grant's, otherwise none.
    fn of(grant: &'a Grant, path: &Path) -> Option<Self> {
        let rest = grant.rest_of(path)?;
        let (is_folder, rest) = match rest.as_os_str().is_empty() {
            false if grant.is_one => return None,
            false => (true, rest),
            true if !grant.is_one && grant.path.is_dir() => (true, Path::new(".")),
            true => (false, Path::new(path.file_name()?)),
        };
        let is_covered = !is_folder || grant.kind != GrantKind::Socket;
        is_covered.then(|| Self { grant, is_folder, rest: rest.to_owned() })
    }

    /// Returns the last name of its path, if that is a name.
    fn name(&self) -> Option<&OsStr> {
        match self.rest.components().next_back() {
            Some(Component::Normal(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether it is that of a file which the job may make and change.
    fn is_own_file(&self) -> bool {
        let is_named = self.name().is_some_and(|name| self.grant.is_name(name));
        self.grant.kind == GrantKind::Write && self.is_near() && is_named
    }

    /// Whether it is in the grant's folder, or that is deep.
    fn is_near(&self) -> bool {
        self.grant.is_deep || folder_of(&self.rest) == Path::new(".")
    }

    /// Whether the job may read the file that is there, or the folder if it `is_list`: other files
    /// of a folder that it writes to are not its own.
    fn is_readable(&self, is_list: bool) -> bool {
        let is_itself = self.is_folder && self.rest == Path::new(".");
        let is_own_folder = || is_itself || is_list && self.grant.allows_folder(&self.rest);
        match self.grant.kind {
            GrantKind::Read => self.is_near(),
            GrantKind::Write => self.is_own_file() || is_own_folder(),
            GrantKind::Socket => false,
        }
    }

    fn open(&self, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let path = &self.grant.path;
        let folder =
            open_path(if self.is_folder { path } else { folder_of(path) }, OFlags::DIRECTORY)?;
        // The user named this file, and may have named a link.
        let beneath = if self.is_folder { ResolveFlags::BENEATH } else { ResolveFlags::empty() };
        let resolve = beneath | ResolveFlags::NO_MAGICLINKS;
        let mode = Mode::from_bits_retain(mode);
        Ok(retry_on_intr(|| openat2(&folder, &self.rest, flags, mode, resolve))?)
    }

    /// Opens the folder that it is in, and returns its name there.
    fn split(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let name = self.name().ok_or_else(refused)?;
        let rest = folder_of(&self.rest).to_owned();
        Ok((Self { rest, ..*self }.open(PLACE | OFlags::DIRECTORY, 0)?, name))
    }
}

/// Returns a path of what a descriptor stands for, whatever its own path leads to later.
pub(super) fn link_to(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
