//! Measures the cost of copying a packet, by its length and by where it is stored.

use std::hint::black_box;
use std::sync::{Mutex, OnceLock};

use crate::conditions::cycles_per_second;
use crate::contenders::{Adapter, Job, Sample, timed};
use crate::scenario::Work;

/// Memory that cold packets are spread over, in bytes: larger than most caches.
const COLD_BYTES: usize = 128 << 20;

/// Memory that warm packets are spread over, in bytes: with the copies, smaller than the L1 cache.
const WARM_BYTES: usize = 8 << 10;

/// Copies between two readings of the clock.
const COPIES: usize = 2048;

/// Copies made with the library's routine.
pub(crate) struct Copies {
    name: &'static str,
    bytes: usize,
    about: &'static str,
}

impl Copies {
    /// Copies within the L1 cache.
    pub(crate) const WARM: Self =
        Self { name: "copy-warm", bytes: WARM_BYTES, about: "from and into the first cache" };
    /// Copies from uncached memory.
    pub(crate) const COLD: Self = Self {
        name: "copy-cold",
        bytes: COLD_BYTES,
        about: "from 128 MiB in an order that no prefetcher follows, into the first cache",
    };
}

impl Adapter for Copies {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Copy]
    }

    fn command(&self, _: &Job<'_>) -> String {
        format!("copy_from_slice, {}", self.about)
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        static PACKETS: OnceLock<Mutex<Vec<u8>>> = OnceLock::new();
        timed::pin(job)?;
        // Write everything once, so that each page is mapped to separate memory.
        let packets = PACKETS.get_or_init(|| Mutex::new(vec![1; COLD_BYTES]));
        let packets = packets.lock().map_err(|_| "a copy has failed before")?;
        let length = job.frame_bytes();
        let slot = length.next_multiple_of(64);
        let from = &packets[..self.bytes.max(slot)];
        let mut order = Order::new(from.len() / slot);
        let mut to = vec![0; slot];
        let done = timed::run(job, COPIES, || {
            for _ in 0..COPIES {
                let at = order.next() * slot;
                to[..length].copy_from_slice(&from[at..at + length]);
                black_box(&mut to);
            }
        })?;
        let mut sample = Sample::default();
        sample.set("packets", "packets", done.pieces as f64);
        let each_ns = done.ns_each();
        sample.set("ns", "ns per copy", each_ns);
        sample.set(
            "cycles",
            "cycles of the time stamp counter per copy",
            each_ns * cycles_per_second() / 1e9,
        );
        sample.set("bytes_per_ns", "GB/s", length as f64 / each_ns);
        Ok(sample)
    }
}

/// A repeatable pseudo-random order that reaches every place.
pub(crate) struct Order {
    at: u64,
    places: u64,
}

impl Order {
    /// Creates an order of at least one place.
    pub(crate) fn new(places: usize) -> Self {
        Self { at: 1, places: places.max(1) as u64 }
    }

    /// Returns the next place.
    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        // Source: Knuth's MMIX; the high bits are the random ones.
        self.at = self.at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (((self.at >> 32) * self.places) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_to_every_place_and_no_other() {
        let mut order = Order::new(100);
        let mut seen = vec![0; 100];
        (0..10_000).for_each(|_| seen[order.next()] += 1);
        assert!(seen.iter().all(|&times| times > 50), "{seen:?}");
        assert_eq!(Order::new(1).next(), 0);
    }
}
