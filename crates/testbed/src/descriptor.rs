//! Descriptors of programs started by tests.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Copies descriptor `number` of a process, as if the process had sent it.
///
/// # Errors
/// There is no such process or descriptor, or the caller may not trace the process.
///
/// # Panics
/// If the pid is invalid: a bug of the caller.
pub fn descriptor_of(process_id: u32, number: i32) -> io::Result<OwnedFd> {
    let process = i32::try_from(process_id).ok().and_then(Pid::from_raw);
    let process = process.expect("process numbers are above 0");
    let process = pidfd_open(process, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
}
