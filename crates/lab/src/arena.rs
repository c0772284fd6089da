//! Memory for the rivals: one region, cut into pieces from its start.
//!
//! The rivals get pages of the same kind as the log. A piece borrows the arena, so all pieces of a
//! rival are gone before the next one starts from the first byte again.

use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;

use burstline_sys::memory::{MemoryError, PageChoice, PageKind, Region, RegionRequest};

use crate::pages;

/// A region and the number of bytes handed out.
pub struct Arena {
    region: Region,
    used: Cell<usize>,
}

/// Types for which any bytes are a value.
///
/// # Safety
/// Every bit pattern must be valid, and the type must need no drop.
pub unsafe trait Plain: Copy {}
// SAFETY: any address is a raw pointer.
unsafe impl<T> Plain for *mut T {}
// SAFETY: any bits are a number.
unsafe impl Plain for u64 {}
// SAFETY: any bits are numbers.
unsafe impl<const N: usize> Plain for [u64; N] {}

impl Arena {
    /// Creates an arena of at least `bytes` bytes.
    ///
    /// # Errors
    /// As [`Region::create`].
    pub fn create(bytes: usize, pages: PageChoice) -> Result<Self, MemoryError> {
        let request =
            RegionRequest { name: "burstline-rival".to_owned(), bytes, pages, node: None };
        Ok(Self { region: Region::create(&request)?, used: Cell::new(0) })
    }

    /// Creates an arena of at least `bytes` bytes in the best pages available.
    ///
    /// # Errors
    /// If there is not enough memory, as a sentence.
    pub fn in_best_pages(bytes: usize) -> Result<Self, String> {
        let made = pages::with_best(bytes, |pages| Self::create(bytes, pages));
        made.map_err(|error| error.to_string())
    }

    /// Returns the page kind of the region.
    pub fn page(&self) -> PageKind {
        self.region.placement().page
    }

    /// Takes back all pieces.
    pub fn clear(&mut self) {
        self.used.set(0);
    }

    /// Returns a piece of `bytes` bytes that starts on a cache line and is valid while the arena is
    /// borrowed. Its contents are left over from earlier use.
    ///
    /// # Panics
    /// If the arena is too small: the figures know what they need.
    pub fn piece(&self, bytes: usize) -> NonNull<u8> {
        let start = self.used.get();
        let end = start + bytes.next_multiple_of(64);
        assert!(end <= self.region.bytes(), "{end} bytes of {} asked for", self.region.bytes());
        self.used.set(end);
        // SAFETY: `start` is inside the region.
        unsafe { self.region.as_ptr().add(start) }
    }

    /// Returns a piece as `count` cells with arbitrary contents.
    pub fn cells<T: Plain>(&self, count: usize) -> &[UnsafeCell<T>] {
        let piece = self.piece(count * size_of::<T>()).cast::<UnsafeCell<T>>();
        // SAFETY: the piece is aligned to 64 and that large. No other piece overlaps it while the
        // arena is borrowed. The kernel has initialised it, and any bits are a `T`.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_apart_until_cleared() {
        let mut arena = Arena::create(8192, PageChoice::Size4K).unwrap();
        let (first, second) = (arena.piece(65), arena.piece(1));
        assert_eq!(first.as_ptr() as usize % 64, 0);
        assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 128);
        assert_eq!(arena.cells::<u64>(8).len(), 8);
        arena.clear();
        assert_eq!(arena.piece(1), first);
    }
}
