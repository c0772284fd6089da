//! One mapping in this process's address space.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::io::{Errno, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::PageKind;
use super::populate::populate;

/// Collapses the mapping into transparent huge pages now. Source: `MADV_COLLAPSE` in the kernel's
/// include/uapi/asm-generic/mman-common.h, Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;

/// How often another thread may take the free addresses that we found.
const TRIES: usize = 1000;

/// A shared mapping of a file.
///
/// # Invariants
/// - V1. `[start, start + bytes)` maps the file, and is this View's alone until it is dropped.
pub(crate) struct View {
    start: NonNull<u8>,
    bytes: usize,
    file: Option<OwnedFd>,
}

// SAFETY: a View is an address range that belongs to the process, not to a thread. Its methods
// access no byte of it, and any thread may unmap it.
unsafe impl Send for View {}
// SAFETY: `&View` gives out addresses and asks the kernel about them; the kernel orders such calls.
unsafe impl Sync for View {}

impl View {
    /// Maps the first `bytes` bytes of `file`, shared, at an address that suits its page size.
    ///
    /// Ordinary memory of 2 MiB and more is aligned to 2 MiB. Otherwise the kernel could not map it
    /// by transparent huge pages.
    pub(crate) fn map(
        file: BorrowedFd<'_>,
        bytes: usize,
        page_bytes: usize,
        writable: bool,
    ) -> Result<Self> {
        let least = match bytes >= PageKind::Transparent.bytes() {
            true => PageKind::Transparent.bytes(),
            false => PageKind::Size4K.bytes(),
        };
        let align = page_bytes.checked_next_power_of_two().ok_or(Errno::INVAL)?.max(least);
        let protection = match writable {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        // Never MAP_FIXED over reserved addresses. A file may refuse, as a pool without huge pages
        // does. Then the old mapping is gone all the same, and the hole belongs to the first thread
        // that maps something. Source: mmap_region() in the kernel's mm/vma.c.
        let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
        for _ in 0..TRIES {
            let address = free_addresses(bytes, align)?;
            // SAFETY: with MAP_FIXED_NOREPLACE a new mapping disturbs no other memory.
            match unsafe { mmap(address, bytes, protection, flags, file, 0) } {
                Err(Errno::EXIST) => {}
                mapped => {
                    let start = NonNull::new(mapped?.cast::<u8>()).ok_or(Errno::NOMEM)?;
                    return Ok(Self { start, bytes, file: None });
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// Keeps the file open as long as the view lives.
    pub(crate) fn keep(&mut self, file: OwnedFd) {
        self.file = Some(file);
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the file given to [`keep`](Self::keep): every region has one.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("a region keeps its file").as_fd()
    }

    /// Populates every page, for writing or for reading.
    pub(crate) fn populate(&self, writable: bool) -> Result<()> {
        // SAFETY: by V1 the range is ours and mapped; callers request writing only if it is mapped
        // for writing.
        unsafe { populate(self.start, self.bytes, writable) }
    }

    /// Passes advice about the whole view. The advice must not discard content.
    pub(crate) fn advise(&self, advice: Advice) -> Result<()> {
        // SAFETY: by V1 the range is ours and mapped; callers give populate and huge page advice
        // only, which changes no byte.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, advice) }
    }

    /// Populates the first small page of each `step` bytes. `step` is a multiple of 4 KiB.
    pub(crate) fn populate_one_page_every(&self, step: usize) -> Result<()> {
        for offset in (0..self.bytes).step_by(step) {
            // SAFETY: `offset` is inside the mapping (V1), so the sum does not wrap.
            let page = unsafe { self.start.add(offset) };
            // SAFETY: by V1 the page is ours and mapped: `bytes` is a multiple of 4 KiB, or the
            // mapping ends with a whole page anyway.
            unsafe { populate(page, PageKind::Size4K.bytes(), true) }?;
        }
        Ok(())
    }

    /// Collapses the view into transparent huge pages, as far as the kernel can.
    pub(crate) fn collapse(&self) -> std::io::Result<()> {
        // SAFETY: by V1 the range is ours and mapped; collapsing moves pages and keeps content.
        let result =
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, MADV_COLLAPSE) };
        match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: by V1 the mapping belongs to this View, and every right to use it ends here. The
        // result is ignored: unmapping a whole valid mapping cannot fail.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Finds `bytes` free bytes of address space at a multiple of `align`. Nothing reserves them.
fn free_addresses(bytes: usize, align: usize) -> Result<*mut libc::c_void> {
    let with_room = bytes.checked_add(align).ok_or(Errno::NOMEM)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
    let found = unsafe { mmap_anonymous(ptr::null_mut(), with_room, ProtFlags::empty(), flags) }?;
    // SAFETY: the mapping was made above, and nothing else knows of it.
    unsafe { munmap(found, with_room) }?;
    Ok(found.wrapping_byte_add(found.cast::<u8>().align_offset(align)))
}
