//! Memory that this process made and may write.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::backing::{self, View};
use super::{MemoryError, NodeId, PageChoice, PageKind};

/// The requested properties of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRequest {
    /// A name for people, at most 249 bytes: it shows in `/proc/PID/maps` as `/memfd:NAME`.
    pub name: String,
    /// Bytes, at least 1; rounded up to whole pages.
    pub bytes: usize,
    /// The page size.
    pub pages: PageChoice,
    /// The node that the pages must be on; `None` leaves it to the kernel (first touch).
    pub node: Option<NodeId>,
}

/// The placement of a region's pages, as the kernel reported it at creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The requested page size.
    pub requested: PageChoice,
    /// The kind of page that the region got.
    pub page: PageKind,
    /// The size of such a page, in bytes.
    pub page_bytes: usize,
    /// Pages per node, among at most 1024 pages spread evenly over the region.
    pub nodes: BTreeMap<NodeId, usize>,
    /// What failed and how to fix it, one line each.
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
    /// Cost: the kernel clears every page, about 0.2 s per GiB. It takes several seconds per GiB on
    /// a virtual machine whose host must allocate the memory first.
    ///
    /// # Errors
    /// - [`MemoryError::BadSize`], [`MemoryError::NoSuchNode`]: the request is invalid here.
    /// - [`MemoryError::HugePages`], [`MemoryError::NoSuchPages`]: an explicit `1g` or `2m` cannot
    ///   be met. (`Auto` falls back to smaller pages and leaves a note.)
    /// - [`MemoryError::NotEnough`]: there is less memory than requested.
    /// - [`MemoryError::Misplaced`]: pages are not on the requested node.
    /// - [`MemoryError::System`]: another call failed.
    pub fn create(request: &RegionRequest) -> Result<Self, MemoryError> {
        if request.bytes == 0 || request.bytes >= 1 << 62 {
            return Err(MemoryError::BadSize { bytes: request.bytes });
        }
        let (view, placement) = backing::create(request)?;
        Ok(Self { view, placement })
    }

    /// Makes a small region of 4 KiB pages that every holder of its file may write, too.
    ///
    /// It is sealed only against shrinking and growing. Its content is hostile input.
    ///
    /// # Errors
    /// As [`Region::create`], except for huge pages and nodes.
    pub fn create_shared(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        if bytes == 0 || bytes >= 1 << 62 {
            return Err(MemoryError::BadSize { bytes });
        }
        let (view, placement) = backing::create_shared(name, bytes)?;
        Ok(Self { view, placement })
    }

    /// Returns the first byte, aligned to the page size. Valid for reads and writes of
    /// [`bytes`](Self::bytes) bytes until the region is dropped.
    ///
    /// Other threads and processes may be reading, so the caller makes no `&mut` from it, and
    /// orders its writes with atomics.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.view.start()
    }

    /// Returns the size in bytes: the request, rounded up to whole pages.
    pub fn bytes(&self) -> usize {
        self.view.bytes()
    }

    /// Returns the placement of the pages.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the memfd, to be passed to a reader. A process that has it can read the whole region
    /// for as long as it likes.
    ///
    /// # Panics
    /// Under Miri, where there is no file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.view.file()
    }
}
