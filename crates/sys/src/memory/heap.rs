//! Memory from the heap in place of the kernel, under Miri only.
//!
//! Same functions as `linux.rs`, no system call: Miri can then follow every access to a region.

use std::alloc::{self, Layout};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use super::mapping::WantedBytes;
use super::{MemoryError, PageKind, Placement, RegionRequest};

/// Zeroed heap memory, 4 KiB aligned, freed on drop. `start` is valid for `layout.size()` bytes.
pub(super) struct View {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a View is the sole owner of plain bytes; only Drop touches them, and Drop needs `self`.
unsafe impl Send for View {}
// SAFETY: `&View` gives out the address and the size and reads no byte.
unsafe impl Sync for View {}

impl View {
    fn new(bytes: usize) -> Result<Self, MemoryError> {
        let page = PageKind::Size4K.bytes();
        let layout = Layout::from_size_align(bytes.next_multiple_of(page), page)
            .map_err(|_| MemoryError::BadSize { bytes })?;
        // SAFETY: the size is not zero: the caller checked `bytes`, and it was rounded up.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start)
            .ok_or(io::Error::from(io::ErrorKind::OutOfMemory))
            .map_err(MemoryError::system("alloc_zeroed"))?;
        Ok(Self { start, layout })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        panic!("a region has no file under Miri")
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this very layout and is freed only here.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

pub(super) fn create(request: &RegionRequest) -> Result<(View, Placement), MemoryError> {
    let page = PageKind::Size4K;
    let placement = Placement {
        requested: request.pages,
        page,
        page_bytes: page.bytes(),
        nodes: Default::default(),
        notes: vec!["heap memory under Miri".to_owned()],
    };
    Ok((View::new(request.bytes)?, placement))
}

pub(super) fn create_shared(name: &str, bytes: usize) -> Result<(View, Placement), MemoryError> {
    let pages = super::PageChoice::Size4K;
    create(&RegionRequest { name: name.to_owned(), bytes, pages, node: None })
}

pub(super) fn attach(
    _file: OwnedFd,
    _wanted: WantedBytes,
    _writable: bool,
) -> Result<View, MemoryError> {
    let error = io::Error::from(io::ErrorKind::Unsupported);
    Err(MemoryError::system("mmap of a file under Miri")(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::{Mapping, PageChoice, Region};
    use super::*;

    #[test]
    fn a_region_is_zeroed_aligned_and_shared_between_threads() {
        let (bytes, pages) = (5000, PageChoice::Auto);
        let request = RegionRequest { name: "heap".to_owned(), bytes, pages, node: None };
        let region = Arc::new(Region::create(&request).unwrap());
        assert_eq!((region.bytes(), region.as_ptr().addr().get() % 4096), (8192, 0));
        let mapping = Mapping::within(Arc::clone(&region), false);
        let writer = std::thread::spawn(move || {
            // SAFETY: the first word is inside the region, aligned, and only accessed atomically.
            let word = unsafe { region.as_ptr().cast::<AtomicU32>().as_ref() };
            word.store(7, Ordering::Release);
        });
        // SAFETY: the first word again, seen through the mapping: only accessed atomically.
        let word = unsafe { mapping.as_ptr().cast::<AtomicU32>().as_ref() };
        while word.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        writer.join().unwrap();
        assert_eq!(word.load(Ordering::Relaxed), 7);
    }
}
