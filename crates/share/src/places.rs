//! Finds the directories and files of a name.
//!
//! ```text
//! "tap"          DIRECTORY/tap   DIRECTORY/tap.lock     the directory: the first that applies of
//! "./x/tap"      ./x/tap         ./x/tap.lock             $BURSTLINE_RUN
//!                                                         /run/burstline              for root
//!                                                         $XDG_RUNTIME_DIR/burstline
//!                                                         /tmp/burstline-UID
//! ```
//!
//! A reader looks in its own directory, then in that of root.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use burstline_sys::seqpacket::PATH_BYTES_MAX;
use burstline_sys::{helper, late};

use crate::error::ShareError;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

const ROOTS_DIRECTORY: &str = "/run/burstline";
const LOCK_SUFFIX: &str = ".lock";
const SWITCH_SUFFIX: &str = ".switch";

/// The files of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) socket: PathBuf,
    /// The lock file; the publisher holds the lock.
    pub(crate) lock: PathBuf,
    /// The temporary path of the socket, used by the lock's owner.
    pub(crate) unfinished: PathBuf,
}

/// Returns where to publish `name`. Creates the directory if it is one of ours.
pub(crate) fn to_publish(name: &str) -> Result<Place, ShareError> {
    if !is_path(name) {
        check(name)?;
        let directory = own_directory();
        directory.make()?;
        return Place::new(directory.path.join(name));
    }
    Place::new(PathBuf::from(name))
}

/// Returns where a reader looks for `name`, in order.
pub(crate) fn to_look(name: &str) -> Result<Vec<PathBuf>, ShareError> {
    if is_path(name) {
        return Ok(vec![PathBuf::from(name)]);
    }
    check(name)?;
    Ok(directories_to_look().into_iter().map(|directory| directory.join(name)).collect())
}

/// Returns the control socket of the switch `name`. Creates the directory if it is one of ours.
///
/// # Errors
/// [`ShareError::Name`], [`ShareError::PathTooLong`], or an error of creating the directory.
pub fn switch_socket(name: &str) -> Result<PathBuf, ShareError> {
    Ok(to_publish(name)?.socket.with_file_name(switch_file(name)))
}

/// Returns the possible control sockets of the switch `name`, in the order in which to look.
///
/// # Errors
/// [`ShareError::Name`].
pub fn switch_sockets_to_look(name: &str) -> Result<Vec<PathBuf>, ShareError> {
    let paths = to_look(name)?.into_iter();
    Ok(paths.map(|path| path.with_file_name(switch_file(name))).collect())
}

fn switch_file(name: &str) -> String {
    format!("{}{SWITCH_SUFFIX}", name.rsplit('/').next().unwrap_or(name))
}

/// Returns the files that publishing `name` makes and removes. Creates the directory if it is one
/// of ours.
///
/// # Errors
/// As for [`switch_socket`].
pub fn files_of_name(name: &str) -> Result<[PathBuf; 3], ShareError> {
    let Place { socket, lock, unfinished } = to_publish(name)?;
    Ok([socket, lock, unfinished])
}

/// Returns the directories in which this process creates names or looks for them.
pub fn folders_of_names() -> Vec<PathBuf> {
    directories_to_look()
}

/// Returns the directory in which this process publishes names, and creates it if needed.
///
/// # Errors
/// If the directory cannot be created, or belongs to another user.
pub fn folder_to_publish() -> Result<PathBuf, ShareError> {
    let directory = own_directory();
    directory.make()?;
    Ok(directory.path)
}

/// Returns the sockets in the directories that a reader looks in, sorted; some may belong to killed
/// publishers.
pub fn published_sockets() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in directories_to_look() {
        let names = late::names_in(&directory).unwrap_or_default().into_iter();
        let paths = names.filter(|name| is_name(name)).map(|name| directory.join(name));
        let is_socket = |path: &PathBuf| {
            late::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        };
        found.extend(paths.filter(is_socket));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns whether a log may be published by this name, which is no path.
pub fn is_name(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| check(name).is_ok())
}

impl Place {
    fn new(socket: PathBuf) -> Result<Self, ShareError> {
        let Some(name) = socket.file_name().map(|name| name.to_os_string()) else {
            let name = socket.display().to_string();
            return Err(ShareError::Name { name, reason: "it does not end in a file's name" });
        };
        let (mut lock, mut unfinished) = (name.clone(), std::ffi::OsString::from("."));
        lock.push(LOCK_SUFFIX);
        unfinished.push(name);
        let (lock, unfinished) = (socket.with_file_name(lock), socket.with_file_name(unfinished));
        let bytes = unfinished.as_os_str().as_bytes().len();
        if bytes > PATH_BYTES_MAX {
            return Err(ShareError::PathTooLong { path: socket, most: PATH_BYTES_MAX - 1 });
        }
        Ok(Self { socket, lock, unfinished })
    }
}

fn is_path(name: &str) -> bool {
    name.contains('/')
}

fn check(name: &str) -> Result<(), ShareError> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_BYTES_MAX {
        "it is longer than 64 characters"
    } else if name.starts_with('.') {
        "it starts with a dot"
    } else if name.ends_with(LOCK_SUFFIX) {
        "it ends in .lock"
    } else if name.ends_with(SWITCH_SUFFIX) {
        "it ends in .switch"
    } else if !name.bytes().all(is_known) {
        "only letters, digits and . _ - may be in it"
    } else {
        return Ok(());
    };
    Err(ShareError::Name { name: name.to_owned(), reason })
}

struct Directory {
    path: PathBuf,
    /// The mode of a new directory.
    mode: u32,
    /// Whether the user chose it, so that no other is used.
    is_chosen: bool,
    /// Whether it must belong to this user: any user could create a directory there.
    is_guarded: bool,
}

fn own_directory() -> Directory {
    let from = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = from("BURSTLINE_RUN") {
        return Directory { path, mode: 0o755, is_chosen: true, is_guarded: false };
    }
    let user = late::user();
    if user == 0 {
        let path = ROOTS_DIRECTORY.into();
        return Directory { path, mode: 0o755, is_chosen: false, is_guarded: false };
    }
    let (path, is_guarded) = match from("XDG_RUNTIME_DIR") {
        Some(path) => (path.join("burstline"), false),
        None => (PathBuf::from(format!("/tmp/burstline-{user}")), true),
    };
    Directory { path, mode: 0o700, is_chosen: false, is_guarded }
}

fn directories_to_look() -> Vec<PathBuf> {
    let own = own_directory();
    let own_is_chosen = own.is_chosen;
    // This user's names are never in another user's directory.
    let is_sound = !own.is_guarded || own.check_owner().is_ok();
    let mut directories = if is_sound { vec![own.path] } else { Vec::new() };
    if !own_is_chosen && !directories.iter().any(|path| path == Path::new(ROOTS_DIRECTORY)) {
        directories.push(ROOTS_DIRECTORY.into());
    }
    directories
}

impl Directory {
    fn make(&self) -> Result<(), ShareError> {
        // A thread without rights names what its helper has made.
        if helper::is_needed() {
            return Ok(());
        }
        let failed = |call| move |error| ShareError::system(call, &self.path, error);
        if self.path.is_dir() {
            // A list of calls may forbid to try.
            return if self.is_guarded { self.check_owner() } else { Ok(()) };
        }
        match DirBuilder::new().mode(self.mode).create(&self.path) {
            // The process's umask may have removed bits of the mode.
            Ok(()) => fs::set_permissions(&self.path, fs::Permissions::from_mode(self.mode))
                .map_err(failed("chmod"))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("mkdir")(error)),
        }
        if self.is_guarded { self.check_owner() } else { Ok(()) }
    }

    fn check_owner(&self) -> Result<(), ShareError> {
        let path = &self.path;
        let found = fs::symlink_metadata(path).map_err(|e| ShareError::system("stat", path, e))?;
        let (uid, mode, ours) = (found.uid(), found.mode() & 0o777, late::user());
        if found.is_dir() && uid == ours && mode & 0o077 == 0 {
            return Ok(());
        }
        Err(ShareError::Directory { path: path.clone(), uid, mode, ours })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["tap", "a", "A-1_b.c", &"x".repeat(64)] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", ".x", "a b", "a\n", "ä", "x.lock", "a\0", "a?b", &"x".repeat(65)] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_path_is_the_socket_itself() {
        let place = to_publish("/x/tap").unwrap();
        assert_eq!(place.socket, Path::new("/x/tap"));
        assert_eq!(place.lock, Path::new("/x/tap.lock"));
        assert_eq!(place.unfinished, Path::new("/x/.tap"));
        assert_eq!(to_look("./tap").unwrap(), [Path::new("./tap")]);
        for bad in ["/", "/x/.."] {
            assert!(matches!(to_publish(bad), Err(ShareError::Name { .. })), "{bad}");
        }
        let long = format!("/{}", "x".repeat(106));
        assert!(matches!(to_publish(&long), Err(ShareError::PathTooLong { most: 106, .. })));
        assert!(to_publish(&long[..106]).is_ok());
    }
}
