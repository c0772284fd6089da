//! Prefetches of cache lines. A no-op on architectures without the instruction.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Prefetches the line of `at` for reading. Any address will do.
#[inline]
pub fn to_read<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The most bytes that are prefetched at a time: the processor sees by itself that many bytes are
/// read or written one after the other.
const START_BYTES_MOST: usize = 256;

/// Prefetches the start of the `bytes` from `at` on for reading. Any addresses will do.
#[inline(always)]
pub fn start_to_read(at: *const u8, bytes: usize) {
    let (mut line, end) = (0, bytes.min(START_BYTES_MOST));
    while line < end {
        to_read(at.wrapping_add(line));
        line += LINE_BYTES;
    }
}

/// As [`start_to_read`], for writing.
#[inline(always)]
pub fn start_to_write(at: *const u8, bytes: usize) {
    let (mut line, end) = (0, bytes.min(START_BYTES_MOST));
    while line < end {
        to_write(at.wrapping_add(line));
        line += LINE_BYTES;
    }
}

/// Prefetches the line of `at` for writing: it leaves the other core's cache. Any address will do.
#[inline]
pub fn to_write<T>(at: *const T) {
    to_write_ahead::<0>(at.cast());
}

/// Prefetches the line `AHEAD` bytes after `at` for writing, in one instruction. Any address is
/// fine.
///
/// Unless the target is a newer processor, the compiler turns a prefetch for writing into one for
/// reading. Every x86-64 processor sold since 2006 has this instruction, or treats it as a no-op.
/// Source: AMD64 Architecture Programmer's Manual, volume 3, PREFETCHW.
#[inline(always)]
pub fn to_write_ahead<const AHEAD: isize>(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults and changes no memory; x86-64 without it ignores it.
    unsafe {
        std::arch::asm!("prefetchw [{} + {}]", in(reg) at, const AHEAD,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
