//! A wish for large pages, for memory of Rust's own allocator.

use rustix::mm::{Advice, madvise};

/// A large page of x86-64; elsewhere it is a whole number of pages, too.
const LARGE_BYTES: usize = 2 << 20;

/// Asks for large pages where `count` values from `start` on lie in whole ones, before they are
/// first touched. Where the kernel has none to give, small ones come.
///
/// Cost: one system call. A page that comes is cleared whole, at its first touch.
pub fn ask_for_large_pages<T>(start: *const T, count: usize) {
    let first = start.addr().next_multiple_of(LARGE_BYTES);
    let end = start.addr().saturating_add(count.saturating_mul(size_of::<T>()));
    let end = end / LARGE_BYTES * LARGE_BYTES;
    let Some(bytes) = end.checked_sub(first).filter(|bytes| *bytes > 0) else { return };
    let start = start.cast_mut().with_addr(first).cast();
    // A wish: an error means that small pages come.
    // SAFETY: advice on which pages to use changes no byte, whosesoever they are; where nothing is
    // mapped it is an error.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
}
