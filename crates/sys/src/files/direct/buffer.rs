//! Memory that a disk can read from directly.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::ALIGNMENT;
use crate::memory::populate::populate;

/// Zeroed memory of this process: 4 KiB aligned, populated, in 2 MiB pages if the kernel has them.
///
/// # Invariants
/// B1. `[start, start + bytes)` is a private anonymous mapping that this value alone owns.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: by B1 the bytes belong to this value as a Vec's do; nothing is bound to a thread.
unsafe impl Send for AlignedBuffer {}
// SAFETY: `&AlignedBuffer` only reads.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Allocates `bytes` bytes, rounded up to a multiple of [`ALIGNMENT`], at least one.
    ///
    /// # Errors
    /// Out of memory or of addresses.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(ALIGNMENT)
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let nowhere = ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let start = unsafe { mmap_anonymous(nowhere, bytes, protection, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let buffer = Self { start, bytes };
        // Only a hint: a kernel without huge pages refuses it, and we get small pages.
        let _ = buffer.advise(Advice::LinuxHugepage);
        // SAFETY: by B1 the range is ours, mapped for writing.
        unsafe { populate(start, bytes, true) }?;
        Ok(buffer)
    }

    /// Passes advice that does not change any byte.
    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: by B1 the range is ours; the caller gives advice that keeps its content.
        Ok(unsafe { madvise(self.start.as_ptr().cast(), self.bytes, advice) }?)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: by B1 the bytes are mapped, initialised to zero and borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: by B1 the bytes are mapped and initialised to zero; `&mut self` makes the borrow
        // the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: by B1 nothing else uses the mapping. Unmapping a whole valid mapping cannot fail.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_rounded_up() {
        for (wanted, got) in [(0, 4096), (1, 4096), (4096, 4096), (3 << 20, 3 << 20)] {
            let mut buffer = AlignedBuffer::new(wanted).unwrap();
            assert_eq!(buffer.len(), got);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer[got - 1] = 1;
            assert_eq!(buffer[got - 1], 1);
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
            assert!(AlignedBuffer::new(bytes).is_err(), "{bytes}");
        }
    }
}
