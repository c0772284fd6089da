//! The mapping: a region seen through its file, or through the same addresses.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::backing::{self, View};
use super::{MemoryError, PageKind, Region};

/// Memory that another party made, attached here.
///
/// # Invariants
/// I1 and I4 of [`crate::memory`]. The seals that `attach` checked make I1 hold,
/// whatever the other process does.
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
    /// This many, and what is left of the last page.
    InPages(RangeInclusive<usize>),
}

impl WantedBytes {
    /// The least and the most, where the file has `found` bytes in blocks of `page_bytes`.
    pub(super) fn range(&self, found: u64, page_bytes: usize) -> RangeInclusive<u64> {
        // Transparent huge pages are no block size.
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
    /// Attaches a region for reading. The descriptor is closed; the mapping needs it no more.
    ///
    /// With `expected_bytes` the size must be just that; without, the file tells. No read faults,
    /// whatever the other process does: all of the memory must be present already, and every page
    /// is mapped before this returns.
    ///
    /// # Errors
    /// - [`MemoryError::MissingSeals`] unless shrink, grow, future write and seal are all there.
    /// - [`MemoryError::WrongSize`] if the size is not the expected one, or 0.
    /// - [`MemoryError::Hollow`] if pages are missing that only reading would bring.
    /// - [`MemoryError::System`]: it is not a memfd, or cannot be mapped.
    pub fn attach_read_only(
        file: OwnedFd,
        expected_bytes: Option<usize>,
    ) -> Result<Self, MemoryError> {
        let wanted = expected_bytes.map_or(WantedBytes::Any, WantedBytes::Exactly);
        let view = backing::attach(file, wanted, false)?;
        Ok(Self { memory: Memory::Attached(view), writable: false })
    }

    /// As [`attach_read_only`](Self::attach_read_only), a region that [`Region::create`] was asked
    /// to make for `bytes` bytes: it is larger only as far as its pages are.
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
    /// `writable` only records what the view is for; it is the caller who keeps to it.
    pub fn within(region: Arc<Region>, writable: bool) -> Self {
        Self { memory: Memory::Shared(region), writable }
    }

    /// The first byte, aligned to 4 KiB. Valid for reads of [`bytes`](Self::bytes) bytes until the
    /// mapping is dropped, and for writes only if [`is_writable`](Self::is_writable).
    ///
    /// The other party may write at any time, so a value is loaded once, atomically or as a copy,
    /// and checked before use. On pages mapped without write permission Rust allows only relaxed
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
