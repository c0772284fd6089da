//! Buckets divide one log among several readers: each takes the packets of its buckets.
//!
//! ```text
//! segment   | packet | packet | ...  free  ... | desc 2 | desc 1 | desc 0 | 7 | 3 | 7 | ...
//!                                                               column: ^-- bucket of packet 0
//! segment        n             n + 1          n + 2         the writer counts the packets of each
//! bucket 7       40            52             61            bucket, and says at the start of each
//!                |<- read ->|<--- lapped --->| read         segment how many there were before
//! ```
//!
//! A packet's bucket is derived from its hash. The writer stores a bucket byte beside the desc of
//! each packet it publishes. With them, a reader finds its own among 64 packets with one cache line
//! and some ten instructions; see `select`, and Decision 0015. If packets are so short that a
//! segment holds more of them than the column has bytes, the hash in the desc decides.
//!
//! A lapped reader goes on at the start of a segment. It has missed the packets of its buckets that
//! came before and that it has not read: 61 less the number read.
//!
//! Invariants:
//! - B1: byte `i` of the column is the bucket of packet `i`, for each published `i` below its
//!   length. It is written before the packet is published, and constant afterwards.
//! - B2: the counts of a segment are written while the writer owns it and before it is opened. So
//!   they are ordered like its base time (`protocol`, E1).
//! - B3: the counts so far never include an unpublished packet: after the writer is killed, no
//!   reader waits for one. Once the log is closed they include every packet.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::control::{BUCKETS, BucketLine, ControlView};
use crate::desc::Desc;
use crate::reader::Reader;
use crate::writer::Writer;

/// 2^32 divided by the golden ratio, made odd: for hashes whose top bits vary little. A network
/// card's (Toeplitz) hash is linear, so with few addresses some of its bits never change. Source:
/// Knuth, The Art of Computer Programming, volume 3, 6.4, "multiplicative hashing".
const MIX: u32 = 0x9e37_79b1;

/// A bucket is the top eight bits of the mixed hash.
const BUCKET_SHIFT: u32 = 24;

/// Marks a code that stands for buckets.
const IS_PART: u32 = 1 << 16;

/// Returns the bucket of a flow hash. Cost: a multiplication.
#[inline]
pub fn bucket_of(hash: u32) -> u8 {
    (hash.wrapping_mul(MIX) >> BUCKET_SHIFT) as u8
}

/// A range of adjacent buckets, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    first: u8,
    last: u8,
}

impl Buckets {
    /// Returns the buckets of a worker in `[0, workers)`, of 1 to 256 workers. Shares are equal, to
    /// within one bucket: bucket `bucket` belongs to worker `bucket * workers / 256`.
    pub fn of_worker(worker: usize, workers: usize) -> Self {
        assert!(worker < workers && workers <= BUCKETS, "worker {worker} of {workers}");
        let (start, end) = (worker * BUCKETS, (worker + 1) * BUCKETS);
        let (start, end) = (start.div_ceil(workers), end.div_ceil(workers));
        Self { first: start as u8, last: (end - 1) as u8 }
    }

    /// Returns whether `bucket` is in the range.
    #[inline]
    pub fn holds(self, bucket: u8) -> bool {
        bucket.wrapping_sub(self.first()) <= self.span()
    }

    /// Returns the buckets as a half-open range.
    pub fn range(self) -> Range<usize> {
        self.first.into()..usize::from(self.last) + 1
    }

    /// Encodes the buckets as a number for messages; not 0.
    pub fn code(self) -> u32 {
        IS_PART | u32::from(self.last) << 8 | u32::from(self.first)
    }

    /// Decodes a number made by [`code`](Self::code); `None` for any other number.
    pub fn from_code(code: u32) -> Option<Self> {
        let [first, last, ..] = code.to_le_bytes();
        let buckets = Self { first, last };
        (first <= last && buckets.code() == code).then_some(buckets)
    }

    #[inline]
    pub(crate) fn first(self) -> u8 {
        self.first
    }

    /// Returns the distance from the first bucket to the last.
    #[inline]
    pub(crate) fn span(self) -> u8 {
        self.last.wrapping_sub(self.first)
    }
}

impl Writer {
    /// Returns the number of packets published in each bucket; `None` in a log without buckets.
    pub fn bucket_counts(&self) -> Option<[u64; BUCKETS]> {
        let totals = self.shared.memory.control.bucket_totals()?;
        Some(totals.each_ref().map(|word| word.load(Relaxed))) // the writer's own words
    }

    /// Writes the counts before `segment`, which is about to be opened.
    pub(crate) fn tell_buckets(&self, segment: u32) {
        let control = &self.shared.memory.control;
        let (line, totals) = (control.buckets(segment), control.bucket_totals());
        for (word, total) in line.into_iter().flatten().zip(totals.into_iter().flatten()) {
            word.store(total.load(Relaxed), Relaxed); // ordered by the open that follows (E1)
        }
    }

    /// Writes the buckets of packets `news` of the open segment, which are about to be published,
    /// into the column, as far as its length allows.
    pub(crate) fn write_column(&mut self, news: Range<usize>) {
        let column_bytes = self.segment_bytes - self.top;
        for index in news.start..news.end.min(column_bytes) {
            let bucket = bucket_of(self.desc(index).hash());
            // SAFETY: the column is inside the segment, above the descs. Byte `index` belongs to an
            // unpublished packet, so nobody else accesses it (W2).
            unsafe { self.edge.base().add(self.top + index).write(bucket) };
        }
    }

    /// Counts packets `news` of the open segment, which were just published.
    pub(crate) fn count_buckets(&self, news: Range<usize>) {
        let Some(totals) = self.shared.memory.control.bucket_totals() else { return };
        for index in news {
            let total = &totals[usize::from(bucket_of(self.desc(index).hash()))];
            // Only this writer stores it. Release pairs with the Acquire of `sum`: a reader that
            // sees a packet counted sees it published (B3).
            total.store(total.load(Relaxed) + 1, Release);
        }
    }

    /// Returns the desc of packet `index` of the open segment.
    #[inline]
    fn desc(&self, index: usize) -> Desc {
        let at = self.top - (index + 1) * size_of::<Desc>();
        debug_assert!(at >= self.edge.high(), "packet {index} is not there");
        // SAFETY: `at >= high`, so this writer has written a desc there, which is aligned.
        unsafe { self.edge.base().add(at).cast::<Desc>().read() }
    }
}

impl Reader {
    /// Returns the number of packets of `buckets` before the current segment; `None` in a log
    /// without buckets, and between segments. Cost: a load for each bucket.
    pub(crate) fn counted_before(&self, buckets: Buckets) -> Option<u64> {
        let line = self.memory.control.buckets(self.current_segment()?)?; // under the pin (R1)
        Some(sum(line, buckets))
    }
}

impl ControlView {
    /// Returns the number of packets of `buckets` published so far; 0 in a log without buckets.
    /// Cost: a load for each bucket.
    pub(crate) fn counted(&self, buckets: Buckets) -> u64 {
        self.bucket_totals().map_or(0, |totals| sum(totals, buckets))
    }
}

/// Sums the counts. Those of a hostile writer may wrap.
fn sum(line: &BucketLine, buckets: Buckets) -> u64 {
    // Acquire pairs with the Release of `count_buckets`.
    let counts = line[buckets.range()].iter().map(|word| word.load(Acquire));
    counts.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(miri, ignore = "it would take minutes")]
    #[test]
    fn each_bucket_is_one_workers() {
        for workers in [1, 2, 3, 7, 64, 255, 256] {
            let parts: Vec<_> = (0..workers).map(|own| Buckets::of_worker(own, workers)).collect();
            for bucket in 0..=u8::MAX {
                let holders: Vec<_> =
                    (0..workers).filter(|&own| parts[own].holds(bucket)).collect();
                assert_eq!(holders, [(usize::from(bucket) * workers) >> 8], "{workers} workers");
            }
            for part in parts {
                assert!(part.range().all(|bucket| part.holds(bucket as u8)));
                assert_eq!(Buckets::from_code(part.code()), Some(part));
            }
        }
        for wrong in [0, 0xff, 1 << 16 | 3, 3 << 16 | 0x0500, u32::MAX] {
            assert_eq!(Buckets::from_code(wrong), None, "{wrong:#x}");
        }
    }
}
