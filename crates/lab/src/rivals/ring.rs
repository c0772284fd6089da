//! A ring for many producers and many consumers, with compare and swap, in bulks.
//!
//! ```text
//!   consumers.tail <= consumers.head <= producers.tail <= producers.head <= consumers.tail + N
//!   free           | being read       | full            | being written
//! ```
//!
//! A bulk is claimed by moving a head with compare and swap, copied, and then released by moving
//! the tail, in the order of claims. This is the ring that the DPDK documents describe.
//!
//! Invariants (indices wrap at 2^32, `N` is a power of two):
//! - I1: cells in `[consumers.tail, producers.tail)` hold values that were pushed.
//! - I2: a cell is written only between its claim by a producer and the move of `producers.tail`
//!   past it. It is read only between the same two moves of a consumer.
//!
//! Source: the ring library chapter of the DPDK Programmer's Guide, 22.11.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Index, Pull, Push};
use crate::arena::{Arena, Plain};

/// The ring. Shared by reference; every method may be called from any thread.
pub struct Ring<'a, T> {
    producers: [Index; 2],
    consumers: [Index; 2],
    cells: &'a [UnsafeCell<T>],
    mask: u32,
}

const HEAD: usize = 0;
const TAIL: usize = 1;

// SAFETY: values pass from thread to thread, which `T: Send` allows, and I2 keeps every access to
// a cell exclusive.
unsafe impl<T: Send> Sync for Ring<'_, T> {}

impl<'a, T: Plain> Ring<'a, T> {
    /// Creates an empty ring for `capacity` values, a power of two in `[1, 2^31]`.
    pub fn new(arena: &'a Arena, capacity: usize) -> Self {
        assert!(capacity.is_power_of_two() && capacity <= 1 << 31, "capacity {capacity}");
        let (cells, mask) = (arena.cells(capacity), capacity as u32 - 1);
        Self { producers: Default::default(), consumers: Default::default(), cells, mask }
    }

    /// Pushes all of `values` or nothing. Cost: one compare and swap, two loads of lines that the
    /// other side writes.
    #[inline]
    pub fn enqueue(&self, values: &[T]) -> bool {
        let count = values.len() as u32;
        let mut head = self.producers[HEAD].0.load(Relaxed);
        loop {
            // Pairs with the Release in `dequeue`: cells before it have been read. With a stale
            // head the difference is wrong, and then the exchange fails.
            let end = self.consumers[TAIL].0.load(Acquire).wrapping_add(self.mask + 1);
            if end.wrapping_sub(head) < count || end.wrapping_sub(head) > self.mask + 1 {
                let seen = self.producers[HEAD].0.load(Relaxed);
                if seen == head {
                    return false;
                }
                head = seen;
                continue;
            }
            // Relaxed: this only claims cells. The tails order their contents.
            let next = head.wrapping_add(count);
            match self.producers[HEAD].0.compare_exchange_weak(head, next, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        for (index, &value) in values.iter().enumerate() {
            let cell = &self.cells[(head.wrapping_add(index as u32) & self.mask) as usize];
            // SAFETY: I2, this producer claimed the cell.
            unsafe { cell.get().write(value) };
        }
        release(&self.producers, head, count);
        true
    }

    /// Pulls values to fill all of `values` or nothing. Cost: as [`enqueue`](Self::enqueue).
    #[inline]
    pub fn dequeue(&self, values: &mut [T]) -> bool {
        let count = values.len() as u32;
        let mut head = self.consumers[HEAD].0.load(Relaxed);
        loop {
            // Pairs with the Release in `enqueue`: cells before it have been written.
            let end = self.producers[TAIL].0.load(Acquire);
            if end.wrapping_sub(head) < count || end.wrapping_sub(head) > self.mask + 1 {
                let seen = self.consumers[HEAD].0.load(Relaxed);
                if seen == head {
                    return false;
                }
                head = seen;
                continue;
            }
            let next = head.wrapping_add(count);
            match self.consumers[HEAD].0.compare_exchange_weak(head, next, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        for (index, value) in values.iter_mut().enumerate() {
            let cell = &self.cells[(head.wrapping_add(index as u32) & self.mask) as usize];
            // SAFETY: I2, this consumer claimed the cell; I1, it holds a value.
            *value = unsafe { cell.get().read() };
        }
        release(&self.consumers, head, count);
        true
    }
}

/// Moves the tail past `[head, head + count)`, after all earlier claims.
#[inline]
fn release(side: &[Index; 2], head: u32, count: u32) {
    // Acquire, so that this Release also publishes the work of earlier claimants.
    while side[TAIL].0.load(Acquire) != head {
        spin_loop();
    }
    side[TAIL].0.store(head.wrapping_add(count), Release); // pairs with the other side's Acquire
}

impl<T: Plain> Push<T> for &Ring<'_, T> {
    #[inline]
    fn push(&mut self, values: &[T]) -> bool {
        self.enqueue(values)
    }
}

impl<T: Plain> Pull<T> for &Ring<'_, T> {
    #[inline]
    fn pull(&mut self, values: &mut [T]) -> bool {
        self.dequeue(values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    use burstline_sys::memory::PageChoice;

    use super::*;

    #[test]
    fn all_or_nothing_in_order_and_around_the_end() {
        let arena = Arena::create(4096, PageChoice::Size4K).unwrap();
        let ring = Ring::<u64>::new(&arena, 8);
        for index in ring.producers.iter().chain(&ring.consumers) {
            index.0.store(u32::MAX - 3, Relaxed); // it wraps within the test
        }
        let mut out = [0; 3];
        assert!(!ring.dequeue(&mut out));
        for round in 0..20 {
            assert!(ring.enqueue(&[round, round + 1, round + 2, round + 3, round + 4, round + 5]));
            assert!(!ring.enqueue(&[0; 3]));
            assert!(ring.dequeue(&mut out) && out == [round, round + 1, round + 2]);
            assert!(ring.dequeue(&mut out) && out == [round + 3, round + 4, round + 5]);
            assert!(!ring.dequeue(&mut out[..1]));
        }
    }

    #[test]
    fn nothing_is_lost_or_doubled_between_many_threads() {
        const EACH: u64 = 30_000;
        let arena = Arena::create(4096, PageChoice::Size4K).unwrap();
        let ring = Ring::<u64>::new(&arena, 64);
        let (sum, squares, taken) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for producer in 0..3 {
                let ring = &ring;
                scope.spawn(move || {
                    for first in (producer * EACH..(producer + 1) * EACH).step_by(3) {
                        while !ring.enqueue(&[first, first + 1, first + 2]) {
                            thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut values = [0; 5];
                    while taken.load(Relaxed) < 3 * EACH {
                        if !ring.dequeue(&mut values) {
                            thread::yield_now();
                            continue;
                        }
                        taken.fetch_add(5, Relaxed);
                        sum.fetch_add(values.iter().sum(), Relaxed);
                        squares.fetch_add(values.iter().map(|v| v * v).sum(), Relaxed);
                    }
                });
            }
        });
        let all = 0..3 * EACH;
        assert_eq!(sum.into_inner(), all.clone().sum::<u64>());
        assert_eq!(squares.into_inner(), all.map(|v| v * v).sum::<u64>());
    }
}
