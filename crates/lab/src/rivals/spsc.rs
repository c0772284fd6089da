//! A ring for one producer and one consumer, without compare and swap. Each side reads the other's
//! index only when its cached copy is used up.
//!
//! Invariants (indices wrap at 2^32, the capacity `N` is a power of two):
//! - I1: cells in `[consumed, produced)` hold values that were pushed.
//! - I2: the producer alone writes cells in `[produced, consumed + N)`, the consumer alone reads
//!   cells in `[consumed, produced)`. There is one of each, and neither can be copied.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::{Index, Pull, Push};
use crate::arena::{Arena, Plain};

/// State shared by the two ends.
pub struct Spsc<'a, T> {
    produced: Index,
    consumed: Index,
    cells: &'a [UnsafeCell<T>],
}

// SAFETY: values pass from thread to thread, which `T: Send` allows, and I2 keeps every access to
// a cell exclusive.
unsafe impl<T: Send> Sync for Spsc<'_, T> {}

impl<'a, T: Plain> Spsc<'a, T> {
    /// Creates an empty ring for `capacity` values, a power of two in `[1, 2^31]`.
    pub fn new(arena: &'a Arena, capacity: usize) -> Self {
        assert!(capacity.is_power_of_two() && capacity <= 1 << 31, "capacity {capacity}");
        Self {
            produced: Index::default(),
            consumed: Index::default(),
            cells: arena.cells(capacity),
        }
    }

    /// Returns its two ends. The exclusive borrow ensures that there are no others.
    pub fn split(&mut self) -> (Producer<'_, T>, Consumer<'_, T>) {
        let (produced, consumed) = (*self.produced.0.get_mut(), *self.consumed.0.get_mut());
        let ring = Ends {
            produced: &self.produced,
            consumed: &self.consumed,
            cells: self.cells,
            mask: self.cells.len() as u32 - 1,
        };
        let end = consumed.wrapping_add(ring.mask + 1);
        (Producer { ring, next: produced, end }, Consumer { ring, next: consumed, end: produced })
    }
}

#[derive(Clone, Copy)]
struct Ends<'r, T> {
    produced: &'r Index,
    consumed: &'r Index,
    cells: &'r [UnsafeCell<T>],
    mask: u32,
}

// SAFETY: each end belongs to one thread, and only the end that owns a cell accesses it.
unsafe impl<T: Send> Send for Ends<'_, T> {}

impl<T> Ends<'_, T> {
    #[inline]
    fn cell(&self, index: u32) -> *mut T {
        self.cells[(index & self.mask) as usize].get()
    }
}

/// The end that pushes.
pub struct Producer<'r, T> {
    ring: Ends<'r, T>,
    next: u32,
    /// End of the free cells, as of the last check.
    end: u32,
}

/// The end that pulls.
pub struct Consumer<'r, T> {
    ring: Ends<'r, T>,
    next: u32,
    /// End of the full cells, as of the last check.
    end: u32,
}

impl<T: Plain> Push<T> for Producer<'_, T> {
    #[inline]
    fn push(&mut self, values: &[T]) -> bool {
        let count = values.len() as u32;
        if self.end.wrapping_sub(self.next) < count {
            // Pairs with the Release in `pull`: cells before it have been read.
            let consumed = self.ring.consumed.0.load(Acquire);
            self.end = consumed.wrapping_add(self.ring.mask + 1);
            if self.end.wrapping_sub(self.next) < count {
                return false;
            }
        }
        for (index, &value) in values.iter().enumerate() {
            // SAFETY: I2, the cell is free and ours.
            unsafe { self.ring.cell(self.next.wrapping_add(index as u32)).write(value) };
        }
        self.next = self.next.wrapping_add(count);
        self.ring.produced.0.store(self.next, Release); // pairs with the Acquire in `pull`
        true
    }
}

impl<T: Plain> Pull<T> for Consumer<'_, T> {
    #[inline]
    fn pull(&mut self, values: &mut [T]) -> bool {
        let count = values.len() as u32;
        if self.end.wrapping_sub(self.next) < count {
            // Pairs with the Release in `push`: cells before it have been written.
            self.end = self.ring.produced.0.load(Acquire);
            if self.end.wrapping_sub(self.next) < count {
                return false;
            }
        }
        for (index, value) in values.iter_mut().enumerate() {
            // SAFETY: I1 and I2, the cell is full and ours.
            *value = unsafe { self.ring.cell(self.next.wrapping_add(index as u32)).read() };
        }
        self.next = self.next.wrapping_add(count);
        self.ring.consumed.0.store(self.next, Release); // pairs with the Acquire in `push`
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use burstline_sys::memory::PageChoice;

    use super::*;

    #[test]
    fn values_arrive_once_and_in_order_across_the_wrap_of_indices() {
        let arena = Arena::create(4096, PageChoice::Size4K).unwrap();
        let mut ring = Spsc::<u64>::new(&arena, 16);
        ring.produced.0.store(u32::MAX - 20, Relaxed);
        ring.consumed.0.store(u32::MAX - 20, Relaxed);
        let (mut producer, mut consumer) = ring.split();
        thread::scope(|scope| {
            scope.spawn(move || {
                for first in (0..60_000).step_by(3) {
                    while !producer.push(&[first, first + 1, first + 2]) {
                        thread::yield_now();
                    }
                }
            });
            let mut values = [0; 5];
            for first in (0..60_000).step_by(5) {
                while !consumer.pull(&mut values) {
                    thread::yield_now();
                }
                assert_eq!(values, [first, first + 1, first + 2, first + 3, first + 4]);
            }
            assert!(!consumer.pull(&mut values[..1]));
        });
    }

    #[test]
    fn a_full_ring_takes_nothing_and_keeps_its_state_between_splits() {
        let arena = Arena::create(4096, PageChoice::Size4K).unwrap();
        let mut ring = Spsc::<u64>::new(&arena, 4);
        let mut out = [0; 2];
        {
            let (mut producer, _) = ring.split();
            assert!(producer.push(&[1, 2, 3]) && !producer.push(&[4, 5]) && producer.push(&[4]));
        }
        let (mut producer, mut consumer) = ring.split();
        assert!(!producer.push(&[5]));
        assert!(consumer.pull(&mut out) && out == [1, 2]);
        assert!(producer.push(&[5, 6]));
    }
}
