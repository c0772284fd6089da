//! Limits on locked memory, on open descriptors, and on the size of files.
//!
//! AF_XDP, BPF maps on old kernels, registered io_uring buffers and `mlock` all count against
//! `RLIMIT_MEMLOCK`. The limit has two parts. The soft one applies, and a process may raise it up
//! to the hard one. Root (`CAP_SYS_RESOURCE`) may raise both.
//!
//! A filter of system calls may refuse to tell a limit. Then this module answers as if there were
//! none: calls that exceed it fail, and say so.
//!
//! Source: getrlimit(2).

use std::{io, mem};

use rustix::process::{Resource, Rlimit, setrlimit};

/// A limit that is too low.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The process needs more than it may grant itself.
    #[error(
        "locked memory: {needed_bytes} bytes needed, {limit_bytes} allowed; \
         as root: ulimit -l {} (or LimitMEMLOCK= in its unit)",
        needed_bytes.div_ceil(1024)
    )]
    LockedMemory {
        /// Bytes needed.
        needed_bytes: u64,
        /// The hard limit, in bytes.
        limit_bytes: u64,
    },
    /// The system call failed for another reason.
    #[error("limits of the process: {0}")]
    System(io::Error),
}

/// Reads a limit of this process. Unlike `rustix::process::getrlimit` it can fail.
fn limit(resource: Resource) -> io::Result<Rlimit> {
    let mut found = mem::MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the kernel writes to `found` if it succeeds, and writes nothing else.
    let result = unsafe { libc::getrlimit(resource as _, found.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has written both numbers.
    let found = unsafe { found.assume_init() };
    let bound = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Ok(Rlimit { current: bound(found.rlim_cur), maximum: bound(found.rlim_max) })
}

/// Reads the soft limit of this process.
fn soft(resource: Resource) -> Option<u64> {
    limit(resource).ok().and_then(|limit| limit.current)
}

/// Returns the bytes that this process may lock; `None` means no limit.
pub fn locked_memory_bytes() -> Option<u64> {
    soft(Resource::Memlock)
}

/// Limits on a process's locked memory; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedMemory {
    /// Bytes that it may lock now (soft limit).
    pub now_bytes: Option<u64>,
    /// Value to which it may raise the soft limit (hard limit).
    pub most_bytes: Option<u64>,
}

impl LockedMemory {
    /// Reads the limits of this process.
    pub fn of_this_process() -> Self {
        match limit(Resource::Memlock) {
            Ok(limit) => Self { now_bytes: limit.current, most_bytes: limit.maximum },
            Err(_) => Self { now_bytes: None, most_bytes: None },
        }
    }
}

/// Returns the maximum size of a file that this process writes, in bytes; `None` means no limit.
pub fn file_bytes() -> Option<u64> {
    soft(Resource::Fsize)
}

/// Returns the maximum number of open descriptors of this process; `None` means no limit.
pub fn open_files() -> Option<u64> {
    soft(Resource::Nofile)
}

/// Returns whether an error means too many descriptors: of this process, of the system, or of this
/// user in messages that nobody has received yet. A process without rights may send no more while
/// its user has more than the process's own limit in such messages.
///
/// Source: open(2), and `too_many_unix_fds` in net/core/scm.c.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ETOOMANYREFS))
}

/// Raises the soft limit on descriptors to the hard limit, and returns it; `None` means no limit.
pub fn raise_open_files() -> Option<u64> {
    if let Ok(limit) = limit(Resource::Nofile) {
        // If refused, the old limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
    open_files()
}

/// Takes the limit off locked memory, if this process may; otherwise raises the soft limit to the
/// hard limit. A thread that has given up `CAP_IPC_LOCK` then may still lock memory, and have a
/// device pin it.
pub fn lift_locked_memory() {
    let lifted = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, lifted).is_err()
        && let Ok(limit) = limit(Resource::Memlock)
    {
        // If refused, too, the old limit stays.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: limit.maximum, ..limit });
    }
}

/// Takes the limit off processes, if this process may: those of the user that it becomes count,
/// and its threads are some of them.
pub fn lift_processes() {
    let _ = setrlimit(Resource::Nproc, Rlimit { current: None, maximum: None });
}

/// Allows threads of this process that have given up their rights a real-time class of up to this
/// priority. Returns whether they may take it.
pub fn allow_priority(priority: u8) -> bool {
    let most = u64::from(priority);
    let Ok(limit) = limit(Resource::Rtprio) else { return false };
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= most);
    if is_enough(limit.current) {
        return true;
    }
    let maximum = if is_enough(limit.maximum) { limit.maximum } else { Some(most) };
    setrlimit(Resource::Rtprio, Rlimit { current: Some(most), maximum }).is_ok()
}

/// Raises the soft limit on locked memory to the hard limit, and both to at least `needed_bytes`.
/// The kernel adds up the locked memory of all sockets and maps of a user: a limit that suffices
/// for one of them does not suffice for the next.
///
/// # Errors
/// [`LimitError::LockedMemory`] if the process may not raise the limit so far.
pub fn allow_locked_memory(needed_bytes: u64) -> Result<(), LimitError> {
    let limit = limit(Resource::Memlock).map_err(LimitError::System)?;
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, ..limit };
        setrlimit(Resource::Memlock, raised).map_err(|error| LimitError::System(error.into()))?;
    }
    let Some(limit_bytes) = limit.maximum.filter(|&bytes| bytes < needed_bytes) else {
        return Ok(());
    };
    let raised = Rlimit { current: Some(needed_bytes), maximum: Some(needed_bytes) };
    setrlimit(Resource::Memlock, raised).map_err(|error| match error {
        rustix::io::Errno::PERM => LimitError::LockedMemory { needed_bytes, limit_bytes },
        _ => LimitError::System(error.into()),
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_it_may_be_and_higher_if_root_needs_it() {
        let limit = limit(Resource::Memlock).unwrap();
        allow_locked_memory(1).unwrap();
        assert_eq!(locked_memory_bytes(), limit.maximum, "the next one needs some, too");
        let Some(before) = limit.maximum else { return };
        match allow_locked_memory(before + 4096) {
            Ok(()) => assert_eq!(locked_memory_bytes(), Some(before + 4096)),
            Err(LimitError::LockedMemory { needed_bytes, limit_bytes }) => {
                assert_eq!((needed_bytes, limit_bytes), (before + 4096, before));
                assert_eq!(locked_memory_bytes(), Some(before), "nothing changed");
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_error_has_the_numbers_and_the_mend() {
        let error = LimitError::LockedMemory { needed_bytes: 10_000, limit_bytes: 8192 };
        assert_eq!(
            error.to_string(),
            "locked memory: 10000 bytes needed, 8192 allowed; as root: ulimit -l 10 \
             (or LimitMEMLOCK= in its unit)"
        );
    }
}
