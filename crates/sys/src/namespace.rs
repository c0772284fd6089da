//! Network namespaces: interfaces, addresses and counters of a thread's own.
//!
//! A namespace without a name lives as long as a thread, a process or a socket is in it. Threads
//! and programs that are started later begin in their starter's namespace.
//!
//! Source: network_namespaces(7), unshare(2).

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
