//! Network namespaces: a thread's private interfaces, addresses and counters.
//!
//! A namespace without a name lives as long as a thread, a process or a socket is in it. Threads
//! and programs started later begin in their starter's namespace.
//!
//! Source: network_namespaces(7), unshare(2), setns(2).

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

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

/// Moves only the calling thread into the network namespace of another thread, by its id.
///
/// # Errors
/// `NotFound`: there is no such thread; `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_network_of(thread: u32) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{thread}/ns/net"))?;
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(namespace.as_fd(), kind)?)
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
    match clone_into(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the child touches none of the memory copied from a multi-threaded process: it
        // exits immediately, and runs no exit handlers.
        0 => unsafe { libc::_exit(0) },
        child => wait_for(child as libc::pid_t),
    }
}

/// Makes a user namespace with these maps of users and groups, which has no process.
///
/// # Errors
/// As for [`try_user_namespace`]; `EPERM` without `CAP_SETUID` and `CAP_SETGID`.
pub(crate) fn user_namespace_of(users: &str, groups: &str) -> io::Result<OwnedFd> {
    let child = match clone_into(libc::CLONE_NEWUSER) {
        ..0 => return Err(io::Error::last_os_error()),
        // SAFETY: the child touches none of the memory copied from a multi-threaded process: it
        // makes two system calls that take no memory, and runs no exit handlers.
        0 => unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            loop {
                libc::pause();
            }
        },
        child => child as libc::pid_t,
    };
    let made = (|| {
        fs::write(format!("/proc/{child}/uid_map"), users)?;
        fs::write(format!("/proc/{child}/gid_map"), groups)?;
        File::open(format!("/proc/{child}/ns/user"))
    })();
    // SAFETY: the call reads no memory. The child is not waited for yet, so it has its number.
    unsafe { libc::kill(child, libc::SIGKILL) };
    wait_for(child)?;
    made.map(OwnedFd::from)
}

/// Forks into new namespaces. Returns 0 in the child, and a negative number for an error.
fn clone_into(namespaces: libc::c_int) -> libc::c_long {
    // All of them are as wide as the kernel reads them: a variadic call widens nothing.
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: without CLONE_VM this is fork(2): the child has a copy of our memory, and we request
    // no stack or thread number.
    unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) }
}

fn wait_for(child: libc::pid_t) -> io::Result<()> {
    let nowhere = std::ptr::null_mut();
    // SAFETY: the status pointer is null, so the call writes no memory.
    while unsafe { libc::waitpid(child, nowhere, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}
