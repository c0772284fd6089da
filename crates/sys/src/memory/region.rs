//! The region: memory that this process made and may write.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::backing::{self, View};
use super::{MemoryError, NodeId, PageChoice, PageKind};

/// What a region should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRequest {
    /// A name for people, at most 249 bytes: it shows in `/proc/PID/maps` as `/memfd:NAME`.
    pub name: String,
    /// Bytes, at least 1; rounded up to whole pages.
    pub bytes: usize,
    /// The page size.
    pub pages: PageChoice,
    /// The node that the pages must be on; `None` leaves it to the kernel (where first touched).
    pub node: Option<NodeId>,
}

/// Where the pages of a region are, as the kernel told when the region was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The page size asked for.
    pub requested: PageChoice,
    /// The kind of page got.
    pub page: PageKind,
    /// The size of such a page, in bytes.
    pub page_bytes: usize,
    /// Pages per node, among at most 1024 pages spread evenly over the region.
    pub nodes: BTreeMap<NodeId, usize>,
    /// What failed and what would fix it, one line each.
    pub notes: Vec<String>,
}

/// Memory made by this process: contiguous, populated, sealed, shareable.
///
/// # Invariants
/// I1 to I4 of [`crate::memory`].
pub struct Region {
    view: View,
    placement: Placement,
}

impl Region {
    /// Makes a region whose bytes are all zero and that only this process can ever write.
    ///
    /// Cost: the kernel clears every page, about 0.2 s per GiB. It takes several seconds per GiB in
    /// a virtual machine whose host has to find the memory first.
    ///
    /// # Errors
    /// - [`MemoryError::BadSize`], [`MemoryError::NoSuchNode`]: the request makes no sense here.
    /// - [`MemoryError::HugePages`], [`MemoryError::NoSuchPages`]: an explicit `1g` or `2m` cannot
    ///   be met. (`Auto` goes on to smaller pages and leaves a note.)
    /// - [`MemoryError::NotEnough`]: there is less memory than asked for.
    /// - [`MemoryError::Misplaced`]: the kernel did not keep to the node.
    /// - [`MemoryError::System`]: a call failed otherwise.
    pub fn create(request: &RegionRequest) -> Result<Self, MemoryError> {
        if request.bytes == 0 || request.bytes >= 1 << 62 {
            return Err(MemoryError::BadSize { bytes: request.bytes });
        }
        let (view, placement) = backing::create(request)?;
        Ok(Self { view, placement })
    }

    /// Makes a small region of 4 KiB pages that every holder of its file may write, too.
    ///
    /// It is sealed against shrinking and growing only. What is read from it is hostile input.
    ///
    /// # Errors
    /// As [`Region::create`], without those about huge pages and nodes.
    pub fn create_shared(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        if bytes == 0 || bytes >= 1 << 62 {
            return Err(MemoryError::BadSize { bytes });
        }
        let (view, placement) = backing::create_shared(name, bytes)?;
        Ok(Self { view, placement })
    }

    /// The first byte, aligned to the page size. Valid for reads and writes of
    /// [`bytes`](Self::bytes) bytes until the region is dropped.
    ///
    /// Other threads and processes may be reading, so the caller makes no `&mut` from it, and
    /// orders its writes with atomics.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.view.start()
    }

    /// The size in bytes: the request, rounded up to whole pages.
    pub fn bytes(&self) -> usize {
        self.view.bytes()
    }

    /// Where the pages are.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The memfd, to be passed to a reader. A process that has it can read the whole region for
    /// as long as it likes.
    ///
    /// # Panics
    /// Under Miri, where there is no file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.view.file()
    }
}
