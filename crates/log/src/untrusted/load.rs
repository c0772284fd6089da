//! Copies from memory that another process may write at the same time.
//!
//! A plain read of such memory is a data race: undefined behaviour, even if the value is not used.
//! A relaxed atomic load is none: it returns some value that was there. So the portable way is a
//! loop over words of 8 bytes, five instructions each. No compiler makes it faster, because none
//! combines or widens atomic loads.
//!
//! On x86-64 the loop is written in assembly, in pieces of 16 bytes. An `asm!` block may only do
//! what the language allows. Here that is a relaxed atomic load of each byte in turn, and a store
//! of it to private memory. Nothing is guaranteed across bytes: a word may be half old and half
//! new, as packets may be anyway. The code does not rely on the processor loading 16 bytes in one
//! access. Source: The Rust Reference, "Inline assembly", rules for inline assembly.
//!
//! Words that must not be torn (watermarks, counts) are not read here, but in `protocol`.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

#[cfg(all(target_arch = "x86_64", not(miri), not(tsan)))]
use super::WORD_BYTES;

/// The bytes copied by one iteration of the assembly loop.
#[cfg(all(target_arch = "x86_64", not(miri), not(tsan)))]
const STEP_BYTES: usize = 128;

/// Fills `to` with the words at `from`. Sound even if another process writes at the same time.
///
/// # Safety
/// `from` is aligned to 8, and `words` words from there on are mapped, readable memory. Only other
/// processes write it, or this one does so atomically. `to` may be uninitialized. It is private
/// memory, valid for writes of `words` words, and nobody else accesses it during the call.
#[inline]
pub(crate) unsafe fn copy(from: NonNull<u8>, to: *mut u64, words: usize) {
    // SAFETY: the caller guarantees the same.
    let done = unsafe { copy_steps(from, to, words) };
    for index in done..words {
        // SAFETY: word `index` is among those that the caller guarantees on both sides.
        unsafe { to.add(index).write(load(from, index)) };
    }
}

/// Loads word `index` from `start` on. Sound even if another process writes it.
///
/// # Safety
/// As for [`copy`], for this word.
#[inline]
unsafe fn load(start: NonNull<u8>, index: usize) -> u64 {
    // SAFETY: guaranteed by the caller; a relaxed load is allowed on read-only memory.
    unsafe { start.cast::<AtomicU64>().add(index).as_ref() }.load(Relaxed) // ordered by `take`
}

/// Copies whole steps of [`STEP_BYTES`]. Returns the number of words copied.
///
/// # Safety
/// As for [`copy`].
#[cfg(all(target_arch = "x86_64", not(miri), not(tsan)))]
#[inline]
unsafe fn copy_steps(from: NonNull<u8>, to: *mut u64, words: usize) -> usize {
    let steps = words * WORD_BYTES / STEP_BYTES;
    if steps > 0 {
        // SAFETY: the caller guarantees `steps * STEP_BYTES` bytes, which are at most `words`
        // words. Every x86-64 processor has SSE2, and movups requires no alignment. It is a relaxed
        // load of each byte, as said above.
        unsafe {
            std::arch::asm!(
                "2:",
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                "movups {a}, [{from} + 64]",
                "movups {b}, [{from} + 80]",
                "movups {c}, [{from} + 96]",
                "movups {d}, [{from} + 112]",
                "movups [{to} + 64], {a}",
                "movups [{to} + 80], {b}",
                "movups [{to} + 96], {c}",
                "movups [{to} + 112], {d}",
                "sub {from}, -128", // one byte shorter, as an instruction, than adding 128
                "sub {to}, -128",
                "dec {steps}",
                "jnz 2b",
                from = inout(reg) from.as_ptr() => _,
                to = inout(reg) to => _,
                steps = inout(reg) steps => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
    }
    steps * (STEP_BYTES / WORD_BYTES)
}

/// On other targets every word is loaded separately.
///
/// # Safety
/// None: the function copies nothing.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(tsan))))]
#[inline]
unsafe fn copy_steps(_: NonNull<u8>, _: *mut u64, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_words_is_copied_exactly() {
        let source: Vec<AtomicU64> = (1..=80).map(AtomicU64::new).collect();
        let most = if cfg!(miri) { 20 } else { 70 };
        for (start, words) in [0, 1, 9].into_iter().flat_map(|at| (0..most).map(move |n| (at, n))) {
            let mut target = vec![u64::MAX; words + 1];
            let from = NonNull::from(&source[start..]).cast();
            // SAFETY: `start + words` is less than 80, and the target has more than `words`.
            unsafe { copy(from, target.as_mut_ptr(), words) };
            let wanted: Vec<u64> = (start..start + words).map(|at| at as u64 + 1).collect();
            assert_eq!(target[..words], wanted, "{words} words from {start}");
            assert_eq!(target[words], u64::MAX, "wrote past {words} words");
        }
    }
}
