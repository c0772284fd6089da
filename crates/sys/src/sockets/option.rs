//! Socket options, and errors of libc calls.

use std::io;
use std::os::fd::RawFd;

use libc::{c_int, socklen_t};

/// A socket option: its level, as `SOL_SOCKET`, and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOption {
    /// The protocol level.
    pub level: c_int,
    /// The number of the option.
    pub name: c_int,
}

/// Reads an option of any socket. A shorter option fills the beginning of `value`. A descriptor
/// that is not a socket is an error.
///
/// # Errors
/// Errors from the kernel.
///
/// # Safety
/// `T` is an integer or a plain struct of integers: any bytes are a valid value.
pub unsafe fn read_option<T>(fd: RawFd, option: SocketOption, value: &mut T) -> io::Result<()> {
    let mut bytes = size_of::<T>() as socklen_t;
    let (place, SocketOption { level, name }) = ((&raw mut *value).cast(), option);
    // SAFETY: `place` has room for `bytes` bytes; the call fills in at most that many. By the
    // caller's guarantee, any bytes are a valid `T`.
    check(unsafe { libc::getsockopt(fd, level, name, place, &raw mut bytes) }).map(drop)
}

/// Sets an option of any socket.
///
/// # Errors
/// Errors from the kernel.
///
/// # Safety
/// `T` is the type that the kernel reads for this option, without padding. Addresses in it are
/// valid for the kernel's accesses, and for as long as the kernel may make them.
pub unsafe fn set_option<T>(fd: RawFd, option: SocketOption, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as socklen_t;
    let (place, SocketOption { level, name }) = ((&raw const *value).cast(), option);
    // SAFETY: `value` is live and of the given size; the call only reads it. The caller guarantees
    // the addresses in it.
    check(unsafe { libc::setsockopt(fd, level, name, place, bytes) }).map(drop)
}

/// Returns a negative result as the error in `errno`.
///
/// # Errors
/// The error in `errno` if `result` is negative.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
