//! Mounts that only the calling thread and its children see.
//!
//! Threads and programs started later see the mounts of their starter. A mount in a namespace is
//! removed with the last thread in it, however that thread ends.
//!
//! Source: `mount_namespaces(7)`, mount(2), tmpfs(5), sysfs(5).

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Moves only the calling thread into a new mount namespace, which shares no later mount with the
/// old one.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_new_mounts() -> io::Result<()> {
    // SAFETY: the flag changes only the calling thread's view of the mounts: no memory, no
    // descriptors. The thread gets its own working directory and umask, which nothing here changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE, c"")
}

/// Mounts an empty tmpfs over a directory, limited to nine tenths of the memory. It takes pages as
/// large as each write.
///
/// # Errors
/// Errors from the kernel: `EINVAL` if it has no large pages for files in memory.
pub fn mount_memory(over: &Path) -> io::Result<()> {
    let over = CString::new(over.as_os_str().as_bytes())?;
    mount(
        c"tmpfs",
        &over,
        c"tmpfs",
        libc::MS_NOSUID | libc::MS_NODEV,
        c"huge=within_size,size=90%,mode=1777",
    )
}

/// Mounts a small empty folder in memory over a directory. All may search it, and root may write.
pub(crate) fn mount_empty(over: &Path) -> io::Result<()> {
    let over = CString::new(over.as_os_str().as_bytes())?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"tmpfs", &over, c"tmpfs", flags, c"size=1m,mode=0755")
}

/// Mounts sysfs over a directory. It shows the interfaces of the calling thread's network.
///
/// # Errors
/// Errors from the kernel: `EPERM` without `CAP_SYS_ADMIN` over that namespace.
pub fn mount_devices(over: &Path) -> io::Result<()> {
    let over = CString::new(over.as_os_str().as_bytes())?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY;
    mount(c"sysfs", &over, c"sysfs", flags, c"")
}

fn mount(
    source: &CStr,
    over: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    data: &CStr,
) -> io::Result<()> {
    let data = if data.is_empty() { ptr::null() } else { data.as_ptr().cast() };
    // SAFETY: all strings are live and end with a 0; the kernel only reads them.
    match unsafe { libc::mount(source.as_ptr(), over.as_ptr(), kind.as_ptr(), flags, data) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn a_mount_in_a_namespace_of_its_own_is_seen_there_alone() {
        let folder = std::env::temp_dir().join(format!("mounts-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        let mounted = thread::scope(|scope| {
            let mounting = scope.spawn(|| {
                enter_new_mounts()?;
                mount_memory(&folder)?;
                fs::write(&file, "there")?;
                fs::read_to_string(&file)
            });
            mounting.join().unwrap()
        });
        let seen_outside = file.exists();
        fs::remove_dir(&folder).unwrap();
        match mounted {
            Ok(text) => assert_eq!(text, "there"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                burstline_skip::skip(error);
            }
            Err(error) => panic!("{error}"),
        }
        assert!(!seen_outside);
    }
}
