//! How much memory may be locked, and how many descriptors there may be.
//!
//! AF_XDP, on old kernels BPF maps, registered io_uring buffers and `mlock` all count against
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

/// Lets this process lock as much memory as it may grant itself, and at least `needed_bytes`. The
/// kernel adds up what all sockets and maps of a user lock: a limit that is enough for one of them
/// is not enough for the next.
///
/// # Errors
/// [`LimitError::LockedMemory`] if it is not allowed to raise the limit so far.
pub fn allow_locked_memory(needed_bytes: u64) -> Result<(), LimitError> {
    let limit = getrlimit(Resource::Memlock);
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
        let limit = getrlimit(Resource::Memlock);
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
