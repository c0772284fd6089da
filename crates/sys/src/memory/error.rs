//! Why memory was not available, in one line each, with the remedy.

use std::error::Error;
use std::io;

use super::{NodeId, PageKind};
use crate::limits;

/// Why a region could not be made or attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The request is empty, or too large to be rounded up to whole pages.
    #[error("a region of {bytes} bytes: the size must be at least 1 and below 2^62")]
    BadSize {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Too few reserved huge pages of this size are free.
    #[error(
        "{page} pages: {needed} needed, {free} of {total} free{}; echo {} > {pool}",
        node.map(|node| format!(" on node {node}")).unwrap_or_default(),
        total + needed.saturating_sub(*free)
    )]
    HugePages {
        /// The page size asked for.
        page: PageKind,
        /// Pages that the region takes.
        needed: u64,
        /// Free pages that are not promised to another mapping.
        free: u64,
        /// Pages reserved by the administrator.
        total: u64,
        /// The node, if one was asked for.
        node: Option<NodeId>,
        /// The file that sets the number of reserved pages.
        pool: String,
    },
    /// This kernel has no pages of this size.
    #[error("{page} pages: not offered by this kernel; see /sys/kernel/mm/hugepages")]
    NoSuchPages {
        /// The page size asked for.
        page: PageKind,
    },
    /// There is less memory than the region takes.
    #[error(
        "memory: {needed} bytes needed, {available} available{}",
        node.map(|node| format!(" on node {node}; see numactl --hardware")).unwrap_or_default()
    )]
    NotEnough {
        /// Bytes that the region takes.
        needed: u64,
        /// Bytes available without swapping.
        available: u64,
        /// The node, if one was asked for.
        node: Option<NodeId>,
    },
    /// The node asked for does not exist.
    #[error("node {node} does not exist; this machine has node {present}")]
    NoSuchNode {
        /// The node asked for.
        node: NodeId,
        /// The existing nodes, as a list such as `0-1`.
        present: String,
    },
    /// Pages came from another node than the one asked for.
    #[error("node {node}: {elsewhere} of {sampled} sampled pages are on another node")]
    Misplaced {
        /// The node asked for.
        node: NodeId,
        /// Pages found elsewhere.
        elsewhere: usize,
        /// Pages looked at.
        sampled: usize,
    },
    /// The descriptor lacks seals, so its memory could change or vanish under the reader.
    #[error("shared memory lacks the seal {missing}: refused, its owner could change its size")]
    MissingSeals {
        /// The missing seals by name, joined with `|`.
        missing: String,
    },
    /// The descriptor has another size than was agreed.
    #[error("shared memory has {found} bytes, but {expected} were agreed")]
    WrongSize {
        /// Bytes agreed.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// The owner has not allocated all of the memory: reading it would cost our memory.
    #[error("shared memory of {bytes} bytes: refused, only {present} bytes are allocated")]
    Hollow {
        /// The size.
        bytes: u64,
        /// Bytes that are allocated.
        present: u64,
    },
    /// Any other system call that failed.
    #[error("{call}: {source}")]
    System {
        /// The call, and what it was for.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Memory that programs can share is a file, and files of this process may not be so large.
    #[error(
        "memory: {needed} bytes needed, {limit} allowed by the limit on the size of a file; \
         ask for less (--buffer), or as root: ulimit -f {} (or LimitFSIZE= in its unit)",
        needed.div_ceil(1024)
    )]
    FileLimit {
        /// Bytes that the region takes.
        needed: u64,
        /// The limit, in bytes.
        limit: u64,
    },
}

impl MemoryError {
    /// Returns whether [`limits::is_out_of_descriptors`] holds for a cause of this error.
    pub fn is_out_of_descriptors(&self) -> bool {
        // Reading the available memory opens files too, and wraps the kernel's error.
        let mut cause: Option<&dyn Error> = Some(self);
        while let Some(error) = cause {
            if error.downcast_ref::<io::Error>().is_some_and(limits::is_out_of_descriptors) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Wraps the error of `call`, for use in `map_err`.
    pub(super) fn system<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { call, source: error.into() }
    }
}
