//! Network namespaces: interfaces, addresses and counters of a thread's own.
//!
//! A namespace without a name lives as long as a thread, a process or a socket is in it. Threads
//! and programs that are started later begin in their starter's namespace.
//!
//! Source: network_namespaces(7), unshare(2).

use std::ffi::{CStr, CString};
use std::io;

/// Moves the calling thread, and no other, into a new network namespace with nothing in it but a
/// loopback that is down.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, which everyone has inside `unshare -Urn`.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: the flag concerns the calling thread's view of the network alone: no memory, no
    // descriptors.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number of an interface of the calling thread's network namespace; `None` if there is none
/// of this name.
///
/// # Errors
/// What the kernel says, for instance that there are no descriptors left.
pub fn interface_index(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    // SAFETY: the name is live and ends with a 0.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Ok(None),
            error => Err(error),
        },
        index => Ok(Some(index)),
    }
}

/// What to call an interface of the calling thread's network namespace in a message: its name, or
/// its number if it has gone.
pub fn interface_name(index: u32) -> String {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name there can be, with the 0 behind it.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    match CStr::from_bytes_until_nul(&name) {
        Ok(name) if !found.is_null() => name.to_string_lossy().into_owned(),
        _ => format!("interface {index}"),
    }
}

/// Whether this process may make a user namespace with a network namespace in it, as `unshare -Urn`
/// does. A child that does nothing else tries it.
///
/// # Errors
/// What the kernel says: `EPERM` where an administrator has switched it off, `ENOSPC` where there
/// are too many.
pub fn try_user_namespace() -> io::Result<()> {
    // All of them as wide as the kernel reads them: a variadic call widens nothing.
    let flags = libc::c_long::from(libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: without CLONE_VM this is fork(2): the child has a copy of our memory, and no stack
    // or thread number is asked for.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    match child {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: of all that is copied from a process with several threads, the child touches
        // nothing: it ends at once, without running anything registered for that.
        0 => unsafe { libc::_exit(0) },
        child => {
            let (child, nowhere) = (child as libc::pid_t, std::ptr::null_mut());
            // SAFETY: no status is asked for.
            while unsafe { libc::waitpid(child, nowhere, 0) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            Ok(())
        }
    }
}
