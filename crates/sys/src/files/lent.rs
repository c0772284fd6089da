//! Folders of root that another user may read, in mounts that only one thread and its programs see.
//!
//! A program that reads a folder of root as nobody needs a view in which root's files are nobody's.
//! The kernel has that for a mount: it shows other owners than the disk has (idmapped mounts, Linux
//! 5.12). The two users change places, so each file of the folder still has one owner, and files of
//! nobody are closed to nobody.
//!
//! ```text
//!   /root (0700)                       /root: an empty folder in memory (0755)
//!     .ssh/ ...                          flows/   owner: nobody, read-only
//!     flows/  owner: root     ──►
//! ```
//!
//! A folder that nobody may not search hides what is lent below it. An empty folder in memory takes
//! its place, and has only what is lent.
//!
//! Source: mount_setattr(2), open_tree(2), move_mount(2), user_namespaces(7), Linux 6.18.

use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::mounts::{enter_new_mounts, mount_empty};
use crate::namespace::user_namespace_of;
use crate::users::Account;

/// `MOUNT_ATTR_RDONLY`, `NOSUID`, `NODEV`, `NOEXEC`, `IDMAP`. Source: include/uapi/linux/mount.h.
const READ_ONLY: u64 = 1;
const NO_SETUID: u64 = 2;
const NO_DEVICES: u64 = 4;
const NO_PROGRAMS: u64 = 8;
const MAPPED: u64 = 0x10_0000;
/// `OPEN_TREE_CLONE`, `MOVE_MOUNT_F_EMPTY_PATH`.
const CLONE: libc::c_uint = 1;
const FROM_DESCRIPTOR: libc::c_uint = 4;
/// The number of users and groups that a file may have.
const IDS: u32 = u32::MAX;

/// A file, or a folder with everything beneath it, that another user may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Its path, absolute and without links.
    pub path: PathBuf,
    /// Whether programs in it may run.
    pub has_programs: bool,
}

/// `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Moves the calling thread into mounts of its own, where `borrower` may read these files and
/// folders of root as root may. They are read-only, and have no setuid programs and no devices.
/// The thread still has root's rights.
///
/// # Errors
/// Errors from the kernel: `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` from a file system that cannot
/// show other owners. The thread's mounts may then be half done.
pub fn lend(loans: &[Loan], borrower: &Account) -> io::Result<()> {
    let [users, groups] = [borrower.user, borrower.group].map(swapped_with_root);
    let namespace = user_namespace_of(&users, &groups)?;
    enter_new_mounts()?;
    // What is in a folder is mounted after the folder.
    let mut loans: Vec<_> = loans.iter().collect();
    loans.sort_by(|one, other| one.path.cmp(&other.path));
    loans.dedup();
    let (mut mounts, mut hiding) = (Vec::new(), Vec::new());
    for loan in loans {
        mounts.push((loan, lent(loan, &namespace)?));
        hiding.extend(first_hiding(&loan.path, borrower)?);
    }
    hiding.dedup();
    for folder in hiding {
        mount_empty(&folder)?;
    }
    for (loan, mount) in mounts {
        make_place(&loan.path, &mount)?;
        move_mount(&mount, &loan.path)?;
    }
    Ok(())
}

/// Returns whether a user of these groups may search all folders above a path. Access control
/// lists do not count.
///
/// # Errors
/// Errors from the kernel about one of these folders.
pub fn is_in_reach(path: &Path, of: &Account) -> io::Result<bool> {
    Ok(first_hiding(path, of)?.is_none())
}

/// Returns whether the mode of what was found allows this user what `bits` say: 4 to read, 1 to
/// search.
pub fn may(found: &Metadata, user: &Account, bits: u32) -> bool {
    let shift = match () {
        () if found.uid() == user.user => 6,
        () if found.gid() == user.group || user.groups.contains(&found.gid()) => 3,
        () => 0,
    };
    found.mode() >> shift & bits == bits
}

/// Returns the first folder above `path` that this user may not search.
fn first_hiding(path: &Path, of: &Account) -> io::Result<Option<PathBuf>> {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    for folder in above {
        if !may(&fs::metadata(folder)?, of, 1) {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

/// Returns a map in which root and this number change places: inside, outside, how many.
fn swapped_with_root(number: u32) -> String {
    let after = number + 1;
    match number {
        0 => format!("0 0 {IDS}\n"),
        1 => format!("0 1 1\n1 0 1\n2 2 {}\n", IDS - 2),
        _ => format!(
            "0 {number} 1\n1 1 {}\n{number} 0 1\n{after} {after} {}\n",
            number - 1,
            IDS - after
        ),
    }
}

/// Returns a mount of a loan that is nowhere yet.
fn lent(loan: &Loan, namespace: &OwnedFd) -> io::Result<OwnedFd> {
    let path = CString::new(loan.path.as_os_str().as_bytes())?;
    let flags = CLONE | (libc::O_CLOEXEC | libc::AT_RECURSIVE) as libc::c_uint;
    // SAFETY: the path is live and ends with a 0; the kernel only reads it.
    let mount = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    if mount < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nothing else has it.
    let mount = unsafe { OwnedFd::from_raw_fd(mount as i32) };
    let programs = if loan.has_programs { 0 } else { NO_PROGRAMS };
    let attributes = MountAttributes {
        set: READ_ONLY | NO_SETUID | NO_DEVICES | MAPPED | programs,
        clear: 0,
        propagation: 0,
        user_namespace: namespace.as_raw_fd() as u64,
    };
    let (of, flags) = (mount.as_raw_fd(), libc::AT_EMPTY_PATH | libc::AT_RECURSIVE);
    let (at, bytes, empty) = (&raw const attributes, size_of::<MountAttributes>(), c"".as_ptr());
    // SAFETY: `at` points to this many bytes of ours, the path is an empty string, and the kernel
    // only reads both; the descriptors are open.
    let set = unsafe { libc::syscall(libc::SYS_mount_setattr, of, empty, flags, at, bytes) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(mount) }
}

/// Makes what a mount is put on, where an empty folder hides it.
fn make_place(path: &Path, mount: &OwnedFd) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let is_folder = File::from(mount.try_clone()?).metadata()?.is_dir();
    let folder = if is_folder { path } else { path.parent().unwrap_or(path) };
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    if !is_folder {
        File::create_new(path)?;
    }
    Ok(())
}

fn move_mount(mount: &OwnedFd, to: &Path) -> io::Result<()> {
    let to = CString::new(to.as_os_str().as_bytes())?;
    let (of, empty, at): (_, &CStr, _) = (mount.as_raw_fd(), c"", libc::AT_FDCWD);
    let (empty, to) = (empty.as_ptr(), to.as_ptr());
    // SAFETY: both paths are live and end with a 0; the kernel only reads them; the descriptor is
    // open.
    let moved = unsafe { libc::syscall(libc::SYS_move_mount, of, empty, at, to, FROM_DESCRIPTOR) };
    if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::thread;

    use super::*;
    use crate::privileges::{Confinement, give_up_as};
    use crate::temporary::TemporaryFolder;
    use crate::users::effective_user;

    /// Returns what a thread of `borrower` reads at each path, in mounts with these loans.
    fn read_as(loans: &[Loan], borrower: &Account, paths: &[PathBuf]) -> io::Result<Vec<String>> {
        let read = || {
            lend(loans, borrower)?;
            let user = Some(borrower.clone());
            give_up_as(&Confinement { user, files: None, calls: None })?;
            let text = |path| fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
            Ok(paths.iter().map(text).collect())
        };
        thread::scope(|scope| scope.spawn(read).join().unwrap())
    }

    #[test]
    fn what_is_lent_is_read_and_its_neighbours_are_not() {
        if effective_user() != 0 {
            return burstline_skip::skip("needs root");
        }
        let nobody = Account::nobody();
        let folder = TemporaryFolder::create("burstline-lent-").unwrap();
        let inside = folder.path().join("private");
        let lent = inside.join("lent");
        fs::create_dir_all(&lent).unwrap();
        let [own, others, nobodys, secret] =
            ["lent/own", "lent/others", "lent/nobodys", "secret"].map(|name| inside.join(name));
        for path in [&own, &others, &nobodys, &secret] {
            fs::write(path, "text").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        chown(&others, Some(12345), Some(12345)).unwrap();
        chown(&nobodys, Some(nobody.user), Some(nobody.group)).unwrap();
        let loans = [Loan { path: lent.clone(), has_programs: false }];
        assert!(!is_in_reach(&own, &nobody).unwrap());
        let paths = [own.clone(), others, nobodys, secret];
        let read = match read_as(&loans, &nobody, &paths) {
            Ok(read) => read,
            // A file system may not have it, nor a container the right.
            Err(error)
                if [libc::EPERM, libc::EINVAL, libc::ENOSYS]
                    .map(Some)
                    .contains(&error.raw_os_error()) =>
            {
                return burstline_skip::skip(error);
            }
            Err(error) => panic!("{error}"),
        };
        let [denied, missing] = [libc::EACCES, libc::ENOENT].map(io::Error::from_raw_os_error);
        let [denied, missing] = [denied.to_string(), missing.to_string()];
        assert_eq!(read, ["text", &denied, &denied, &missing]);
        // Outside nothing has changed.
        assert_eq!(fs::metadata(&own).unwrap().uid(), 0);
        fs::write(&own, "new").unwrap();
    }

    #[test]
    fn each_number_has_one_place_in_the_map() {
        for number in [0, 1, 2, 1000, 65534] {
            let map = swapped_with_root(number);
            let mut next = 0_u64;
            let mut outside = Vec::new();
            for line in map.lines() {
                let numbers: Vec<u64> = line.split(' ').map(|one| one.parse().unwrap()).collect();
                assert_eq!(numbers[0], next, "{map}");
                assert!(numbers[2] > 0, "{map}");
                next += numbers[2];
                outside.push((numbers[1], numbers[2]));
            }
            outside.sort_unstable();
            let ends = outside.iter().map(|(first, count)| first + count);
            let firsts = outside.iter().skip(1).map(|(first, _)| *first).chain([IDS.into()]);
            assert!(ends.eq(firsts), "{map}");
            assert_eq!(next, IDS.into());
        }
    }
}
