//! How much memory may be locked, and how many descriptors there may be.
//!
//! AF_XDP on old kernels, BPF maps, registered io_uring buffers and `mlock` all count against
//! `RLIMIT_MEMLOCK`. The limit has two parts. The soft one counts; a process may raise it by itself
//! up to the hard one. Root (`CAP_SYS_RESOURCE`) may raise both.
//!
//! Source: getrlimit(2).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Why the limit is too low.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// More is needed than this process may grant itself.
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
    #[error("setrlimit: {0}")]
    System(io::Error),
}

/// Bytes that this process may lock; `None` means without limit.
pub fn locked_memory_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// How much memory a process may lock; `None` means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedMemory {
    /// Bytes that it may lock now.
    pub now_bytes: Option<u64>,
    /// How far it may raise that by itself.
    pub most_bytes: Option<u64>,
}

impl LockedMemory {
    /// That of this process.
    pub fn of_this_process() -> Self {
        let limit = getrlimit(Resource::Memlock);
        Self { now_bytes: limit.current, most_bytes: limit.maximum }
    }
}

/// Descriptors that this process may have open; `None` means without limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lets this process have as many descriptors as it may grant itself, and returns how many those
/// are; `None` means without limit.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // Refused: the old limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    open_files()
}

/// Sees to it that this process may lock at least `needed_bytes` in all, raising the limit only
/// if it is lower.
///
/// # Errors
/// [`LimitError::LockedMemory`] if it is not allowed to raise the limit so far.
pub fn allow_locked_memory(needed_bytes: u64) -> Result<(), LimitError> {
    let limit = getrlimit(Resource::Memlock);
    if limit.current.is_none_or(|bytes| bytes >= needed_bytes) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|bytes| bytes.max(needed_bytes));
    let raised = Rlimit { current: Some(needed_bytes), maximum };
    setrlimit(Resource::Memlock, raised).map_err(|error| match (error, limit.maximum) {
        (rustix::io::Errno::PERM, Some(limit_bytes)) => {
            LimitError::LockedMemory { needed_bytes, limit_bytes }
        }
        _ => LimitError::System(error.into()),
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_only_if_too_low() {
        let Some(before) = locked_memory_bytes() else {
            assert!(allow_locked_memory(u64::MAX - 1).is_ok(), "there is no limit");
            return;
        };
        allow_locked_memory(before / 2).unwrap();
        assert_eq!(locked_memory_bytes(), Some(before));
        match allow_locked_memory(before + 4096) {
            Ok(()) => assert_eq!(locked_memory_bytes(), Some(before + 4096)),
            Err(LimitError::LockedMemory { needed_bytes, limit_bytes }) => {
                assert_eq!(needed_bytes, before + 4096);
                assert!(limit_bytes >= before);
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
