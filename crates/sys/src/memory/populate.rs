//! Populates pages before they are needed.
//!
//! Linux 5.14 has a call for it, `MADV_POPULATE_WRITE` (madvise(2)), which returns an error if
//! there are too few pages. Older kernels populate a page when it is touched, so we touch each one.
//! There an exhausted pool of huge pages ends the process by SIGBUS. For our own mappings mmap(2)
//! has reserved the pages, or has already failed.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::{Errno, Result};
use rustix::mm::{Advice, madvise};

use super::PageKind;

/// Populates every page of a range, for writing or for reading. Changes no byte.
///
/// # Safety
/// `[start, start + bytes)` is mapped, readable, writable if `writable`, and stays so.
pub(crate) unsafe fn populate(start: NonNull<u8>, bytes: usize, writable: bool) -> Result<()> {
    let advice = match writable {
        true => Advice::LinuxPopulateWrite,
        false => Advice::LinuxPopulateRead,
    };
    // SAFETY: the caller promises that the range is mapped, and populating changes no byte.
    match unsafe { madvise(start.as_ptr().cast(), bytes, advice) } {
        // SAFETY: as the caller promises.
        Err(Errno::INVAL) => unsafe { touch(start, bytes, writable) },
        outcome => outcome?,
    }
    Ok(())
}

/// Touches each page of a range.
///
/// # Safety
/// As for [`populate`].
unsafe fn touch(start: NonNull<u8>, bytes: usize, writable: bool) {
    for offset in (0..bytes).step_by(PageKind::Size4K.bytes()) {
        let byte = start.as_ptr().wrapping_add(offset);
        // SAFETY: the byte is in the range; others that share the page access it by atomics or not
        // yet, and no value changes.
        let byte = unsafe { AtomicU8::from_ptr(byte) };
        match writable {
            // An exchange faults the page in for writing, whatever its value; it orders no memory.
            // A plain store of the loaded value could undo a concurrent store.
            true => {
                let _ = byte.compare_exchange(0, 0, Relaxed, Relaxed);
            }
            false => {
                std::hint::black_box(byte.load(Relaxed)); // only the access matters
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    use super::*;

    const BYTES: usize = 64 << 12;

    /// Returns the number of populated pages of the range. Source: mincore(2).
    fn present(start: NonNull<u8>) -> usize {
        let mut pages = vec![0_u8; BYTES >> 12];
        // SAFETY: the range is mapped, and there is a byte of room for each of its pages.
        let asked = unsafe { libc::mincore(start.as_ptr().cast(), BYTES, pages.as_mut_ptr()) };
        assert_eq!(asked, 0);
        pages.iter().filter(|page| *page & 1 == 1).count()
    }

    #[test]
    fn pages_are_there_by_either_way_and_keep_what_is_in_them() {
        // From an address that no page begins at the call is refused, as by a kernel without it.
        for (by_call, first) in [(true, 0), (true, 1), (false, 0)] {
            let (protection, nowhere) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
            // SAFETY: a new mapping at an address of the kernel's choice.
            let start = unsafe { mmap_anonymous(nowhere, BYTES, protection, MapFlags::PRIVATE) };
            let start = NonNull::new(start.unwrap().cast::<u8>()).unwrap();
            // SAFETY: the mapping is ours, and nothing else knows of it.
            unsafe { start.as_ptr().add(4096).write(7) };
            assert!(present(start) < BYTES >> 12);
            match by_call {
                // SAFETY: likewise.
                true => unsafe { populate(start.add(first), BYTES - first, true) }.unwrap(),
                // SAFETY: likewise.
                false => unsafe { touch(start, BYTES, true) },
            }
            assert_eq!(present(start), BYTES >> 12);
            // SAFETY: likewise.
            assert_eq!(unsafe { start.as_ptr().add(4096).read() }, 7);
            // SAFETY: likewise; nothing uses it afterwards.
            unsafe { munmap(start.as_ptr().cast(), BYTES) }.unwrap();
        }
    }
}
