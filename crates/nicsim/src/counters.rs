//! The counts of a device's queue, which another thread can read as a consistent snapshot.
//!
//! A sequence lock: the device makes the version odd, stores, makes it even. A reader retries while
//! it is odd or has changed. Source: Boehm, "Can seqlocks get along with programming language
//! memory models?", MSPC 2012, section 4.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

/// The counts of one receive queue. Each arrived packet is in exactly one of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Frames that arrived on the wire for this queue, counted by the MAC first of all.
    pub arrived: u64,
    /// Frames that the FIFO had no room for.
    pub overflowed: u64,
    /// Frames in the FIFO when the device restarted, or arrived before it was ready.
    pub reset: u64,
    /// Frames that arrived while the link was down.
    pub link_down: u64,
    /// Frames longer than the device accepts.
    pub too_long: u64,
    /// Frames in the FIFO now.
    pub in_fifo: u64,
    /// Frames written to memory and reported.
    pub delivered: u64,
    /// 1 once no more will arrive: the wire has ended or was stopped, and the FIFO is empty.
    pub is_over: u64,
}

const WORDS: usize = 8;

impl ReceiveCounts {
    fn words(&self) -> [u64; WORDS] {
        let Self { arrived, overflowed, reset, link_down, too_long, in_fifo, delivered, is_over } =
            *self;
        [arrived, overflowed, reset, link_down, too_long, in_fifo, delivered, is_over]
    }

    fn of(words: [u64; WORDS]) -> Self {
        let [arrived, overflowed, reset, link_down, too_long, in_fifo, delivered, is_over] = words;
        Self { arrived, overflowed, reset, link_down, too_long, in_fifo, delivered, is_over }
    }
}

/// Counts with one writer and any number of readers.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Shown {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Shown {
    /// Publishes the counts; only for the device. Cost: ten stores.
    pub(crate) fn show(&self, counts: &ReceiveCounts) {
        let version = self.version.load(Relaxed); // the only writer
        self.version.store(version + 1, Relaxed);
        fence(Release); // odd before the words, for a reader that has seen one of them
        for (place, word) in self.words.iter().zip(counts.words()) {
            place.store(word, Relaxed);
        }
        self.version.store(version + 2, Release); // the words before even
    }

    /// Returns a consistent snapshot of all counts.
    pub(crate) fn read(&self) -> ReceiveCounts {
        loop {
            let before = self.version.load(Acquire);
            let words = std::array::from_fn(|at| self.words[at].load(Relaxed));
            fence(Acquire); // the words before the second load
            if before.is_multiple_of(2) && self.version.load(Relaxed) == before {
                return ReceiveCounts::of(words);
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn counts_are_of_one_moment() {
        let (shown, is_over) = (Shown::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                for packets in 1..=20_000 {
                    let (in_fifo, delivered) = (packets % 7, packets - packets % 7);
                    let counts = ReceiveCounts {
                        arrived: packets,
                        in_fifo,
                        delivered,
                        ..ReceiveCounts::default()
                    };
                    shown.show(&counts);
                }
                is_over.store(true, Release);
            });
            while !is_over.load(Acquire) {
                let counts = shown.read();
                assert_eq!(counts.arrived, counts.in_fifo + counts.delivered);
            }
        });
        assert_eq!(shown.read().arrived, 20_000);
    }
}
