//! Code shared by packet sockets and XDP sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::c_int;

use crate::helper;
use crate::option::{SocketOption, check, read_option};

/// Opens a raw socket of an address family, non-blocking and close-on-exec. A thread that has given
/// up its rights has the [helper] open it.
///
/// # Errors
/// Errors from the kernel.
pub fn raw_socket(family: c_int) -> io::Result<OwnedFd> {
    match helper::needed_for_descriptors() {
        Some(helper) => helper.raw_socket(family),
        None => raw_socket_directly(family),
    }
}

/// The same in the calling thread's own name.
pub(crate) fn raw_socket_directly(family: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointer.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor is new, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an integer option of level `SOL_SOCKET` that takes a capability: the size of its receive
/// buffer, or busy polling. A thread that has given up its rights has the [helper] do it.
///
/// # Errors
/// Errors from the kernel.
pub fn set_with_rights(socket: impl AsFd, name: c_int, value: c_int) -> io::Result<()> {
    match helper::needed_for_descriptors() {
        Some(helper) => helper.set_option(socket.as_fd(), name, value),
        None => helper::set_option_directly(socket.as_fd(), name, value),
    }
}

/// Returns and clears the socket's pending error, if any.
///
/// # Errors
/// Errors from the kernel about the query itself.
pub fn take_error(socket: impl AsFd) -> io::Result<Option<io::Error>> {
    let mut error: c_int = 0;
    let option = SocketOption { level: libc::SOL_SOCKET, name: libc::SO_ERROR };
    // SAFETY: the option is an integer.
    unsafe { read_option(socket.as_fd().as_raw_fd(), option, &mut error) }?;
    Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
}

/// Asks the kernel to process the socket's tx ring, without waiting for its packets to be sent.
/// With busy polling an XDP socket's driver runs its loop, too.
///
/// # Errors
/// Errors from the kernel, which depend on the packets in the ring.
pub fn kick_send(socket: impl AsFd) -> io::Result<()> {
    let (fd, nothing) = (socket.as_fd().as_raw_fd(), std::ptr::null());
    // SAFETY: the call passes no bytes and no address.
    let sent = unsafe { libc::sendto(fd, nothing, 0, libc::MSG_DONTWAIT, nothing.cast(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
