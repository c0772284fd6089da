//! Hints for large pages, for memory of Rust's own allocator.

use rustix::mm::{Advice, madvise};

/// A large page of x86-64; on other architectures it is a whole number of pages, too.
const LARGE_BYTES: usize = 2 << 20;

/// Requests large pages for the whole ones among `count` values from `start` on, before they are
/// first touched. If the kernel has none, it provides small ones.
///
/// Cost: one system call. The kernel clears a whole page at its first touch.
pub fn ask_for_large_pages<T>(start: *const T, count: usize) {
    let first = start.addr().next_multiple_of(LARGE_BYTES);
    let end = start.addr().saturating_add(count.saturating_mul(size_of::<T>()));
    let end = end / LARGE_BYTES * LARGE_BYTES;
    let Some(bytes) = end.checked_sub(first).filter(|bytes| *bytes > 0) else { return };
    let start = start.cast_mut().with_addr(first).cast();
    // Only a hint: after an error the kernel provides small pages.
    // SAFETY: advice on page sizes changes no byte of any memory; for unmapped addresses
    // it is an error.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn whole_large_pages_and_no_others_are_asked_for() {
        let memory = Vec::<u64>::with_capacity(3 * LARGE_BYTES / 8);
        let first = memory.as_ptr().addr().next_multiple_of(LARGE_BYTES);
        ask_for_large_pages(memory.as_ptr(), memory.capacity());
        // The kernel cuts a mapping in two where its advice changes.
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let of_ours = maps.split_once(&format!("\n{first:x}-")).expect("a mapping of its own").1;
        let flags = of_ours.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
    }
}
