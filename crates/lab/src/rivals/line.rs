//! One cache line passed to and fro between two cores: the least that a hand-off can cost.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A word on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Line(AtomicU64);

impl Line {
    /// Writes `value` for the other core to see.
    #[inline]
    pub fn send(&self, value: u64) {
        self.0.store(value, Release); // pairs with the load in `await_value`
    }

    /// Spins until `value` is there.
    #[inline]
    pub fn await_value(&self, value: u64) {
        while self.0.load(Acquire) != value {
            spin_loop();
        }
    }
}
