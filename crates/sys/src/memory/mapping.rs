//! A region seen through its file, or at its owner's addresses.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::backing::{self, View};
use super::{MemoryError, PageKind, Region};

/// Memory of another process, attached here.
///
/// # Invariants
/// I1 and I4 of [`crate::memory`]. The seals checked by `attach` guarantee I1, whatever the other
/// process does.
pub struct Mapping {
    memory: Memory,
    writable: bool,
}

enum Memory {
    Attached(View),
    Shared(Arc<Region>),
}

/// How large shared memory may be.
#[derive(Clone, Debug)]
pub(super) enum WantedBytes {
    Any,
    Exactly(usize),
    /// In this range, plus the rest of the last page.
    InPages(RangeInclusive<usize>),
}

impl WantedBytes {
    /// Returns the minimum and maximum for a file of `found` bytes in blocks of `page_bytes`.
    pub(super) fn range(&self, found: u64, page_bytes: usize) -> RangeInclusive<u64> {
        // The block size does not include transparent huge pages.
        let page_bytes = (page_bytes as u64).max(PageKind::Transparent.bytes() as u64);
        match self {
            Self::Any => found..=found,
            Self::Exactly(bytes) => *bytes as u64..=*bytes as u64,
            Self::InPages(bytes) => {
                let most = (*bytes.end() as u64).checked_next_multiple_of(page_bytes);
                *bytes.start() as u64..=most.unwrap_or(u64::MAX)
            }
        }
    }
}

impl Mapping {
    /// Attaches a region for reading. The descriptor is closed; the mapping no longer needs it.
    ///
    /// With `expected_bytes` the size must match exactly; without it, any size is accepted. No read
    /// faults, whatever the other process does: all of the memory must be present already, and
    /// every page is mapped before this returns.
    ///
    /// # Errors
    /// - [`MemoryError::MissingSeals`] unless shrink, grow, future write and seal are all set.
    /// - [`MemoryError::WrongSize`] if the size is not the expected one, or 0, or if blocks are
    ///   allocated beyond it.
    /// - [`MemoryError::Hollow`] if pages are missing that a read would have to allocate.
    /// - [`MemoryError::System`] if it is not a memfd, or cannot be mapped.
    pub fn attach_read_only(
        file: OwnedFd,
        expected_bytes: Option<usize>,
    ) -> Result<Self, MemoryError> {
        let wanted = expected_bytes.map_or(WantedBytes::Any, WantedBytes::Exactly);
        let view = backing::attach(file, wanted, false)?;
        Ok(Self { memory: Memory::Attached(view), writable: false })
    }

    /// Like [`attach_read_only`](Self::attach_read_only), for a region that [`Region::create`] made
    /// for `bytes` bytes. The region may be larger only because of whole pages.
    ///
    /// # Errors
    /// The same.
    pub fn attach_region(file: OwnedFd, bytes: RangeInclusive<usize>) -> Result<Self, MemoryError> {
        let view = backing::attach(file, WantedBytes::InPages(bytes), false)?;
        Ok(Self { memory: Memory::Attached(view), writable: false })
    }

    /// Attaches a region made by [`Region::create_shared`] for reading and writing.
    ///
    /// # Errors
    /// As [`attach_read_only`](Self::attach_read_only), but only the shrink and grow seals are
    /// required. A region sealed against writing is a [`MemoryError::System`] with `EPERM`.
    pub fn attach_writable(
        file: OwnedFd,
        expected_bytes: Option<usize>,
    ) -> Result<Self, MemoryError> {
        let wanted = expected_bytes.map_or(WantedBytes::Any, WantedBytes::Exactly);
        let view = backing::attach(file, wanted, true)?;
        Ok(Self { memory: Memory::Attached(view), writable: true })
    }

    /// Views a region of this process at its own addresses: no new mapping, no system call.
    /// `writable` only records the purpose; the caller must respect it.
    pub fn within(region: Arc<Region>, writable: bool) -> Self {
        Self { memory: Memory::Shared(region), writable }
    }

    /// Returns the first byte, aligned to 4 KiB. Valid for reads of [`bytes`](Self::bytes) bytes
    /// until the mapping is dropped, and for writes only if [`is_writable`](Self::is_writable).
    ///
    /// The other process may write at any time. So load a value once, atomically or as a copy, and
    /// check it before use. On pages mapped without write permission Rust allows only relaxed
    /// atomic loads (of at most a pointer's size). So write an acquire load as a relaxed load and
    /// then `fence(Acquire)`. Source: std::sync::atomic, "Atomic accesses to read-only memory".
    pub fn as_ptr(&self) -> NonNull<u8> {
        match &self.memory {
            Memory::Attached(view) => view.start(),
            Memory::Shared(region) => region.as_ptr(),
        }
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        match &self.memory {
            Memory::Attached(view) => view.bytes(),
            Memory::Shared(region) => region.bytes(),
        }
    }

    /// Whether this side may write.
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}
