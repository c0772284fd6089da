//! Network namespaces: a thread's private interfaces, addresses and counters.
//!
//! A namespace without a name lives as long as a thread, a process or a socket is in it. Threads
//! and programs started later begin in their starter's namespace.
//!
//! Source: network_namespaces(7), unshare(2).

use std::ffi::{CStr, CString};
use std::io;

/// Moves only the calling thread into a new network namespace, whose only interface is a loopback
/// that is down.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, which every user has inside `unshare -Urn`.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: the flag changes only the calling thread's view of the network: no memory, no
    // descriptors.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the index of an interface of the calling thread's network namespace; `None` if no
/// interface has this name.
///
/// # Errors
/// Errors from the kernel, for instance that no descriptors are left.
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

/// Returns the name of an interface of the calling thread's network namespace, for messages; or its
/// index if the interface is gone.
pub fn interface_name(index: u32) -> String {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has room for the longest possible name and its final 0.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    match CStr::from_bytes_until_nul(&name) {
        Ok(name) if !found.is_null() => name.to_string_lossy().into_owned(),
        _ => format!("interface {index}"),
    }
}

/// Tests whether this process may make a user namespace with a network namespace in it, as
/// `unshare -Urn` does. A child process tries it and exits.
///
/// # Errors
/// Errors from the kernel: `EPERM` if an administrator disabled it, `ENOSPC` if there are too many.
pub fn try_user_namespace() -> io::Result<()> {
    // All of them are as wide as the kernel reads them: a variadic call widens nothing.
    let flags = libc::c_long::from(libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: without CLONE_VM this is fork(2): the child has a copy of our memory, and we request
    // no stack or thread number.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    match child {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the child touches none of the memory copied from a multi-threaded process: it
        // exits immediately, and runs no exit handlers.
        0 => unsafe { libc::_exit(0) },
        child => {
            let (child, nowhere) = (child as libc::pid_t, std::ptr::null_mut());
            // SAFETY: the status pointer is null, so the call writes no memory.
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
