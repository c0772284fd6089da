//! Options of sockets, and how a call of libc says that it failed.

use std::io;
use std::os::fd::RawFd;

use libc::{c_int, socklen_t};

/// Which option: its level, as `SOL_SOCKET`, and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOption {
    /// The protocol that it belongs to.
    pub level: c_int,
    /// Its number.
    pub name: c_int,
}

/// Reads an option of any socket; a shorter one fills the beginning. A number that is not a socket
/// is refused.
///
/// # Errors
/// Errors from the kernel.
///
/// # Safety
/// `T` is an integer or a plain struct of integers: any bytes are a value of it.
pub unsafe fn read_option<T>(fd: RawFd, option: SocketOption, value: &mut T) -> io::Result<()> {
    let mut bytes = size_of::<T>() as socklen_t;
    let (place, SocketOption { level, name }) = ((&raw mut *value).cast(), option);
    // SAFETY: `place` has room for `bytes` bytes, which the call fills in, or fewer; whatever it
    // writes is a `T`, by the caller's word.
    check(unsafe { libc::getsockopt(fd, level, name, place, &raw mut bytes) }).map(drop)
}

/// Sets an option of any socket.
///
/// # Errors
/// Errors from the kernel.
///
/// # Safety
/// `T` is what the kernel reads for this option, without padding. Addresses in it are valid for
/// what the kernel does there, and for as long as it may.
pub unsafe fn set_option<T>(fd: RawFd, option: SocketOption, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as socklen_t;
    let (place, SocketOption { level, name }) = ((&raw const *value).cast(), option);
    // SAFETY: `value` is live and of the size given; the call reads it. What it points to is the
    // caller's word.
    check(unsafe { libc::setsockopt(fd, level, name, place, bytes) }).map(drop)
}

/// Turns a negative result into the error behind it.
///
/// # Errors
/// What `errno` says, where `result` is negative.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
