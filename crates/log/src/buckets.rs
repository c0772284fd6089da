//! Packets by bucket: what a reader that takes a part of a log has missed of that part.
//!
//! ```text
//! segment        n             n + 1          n + 2         the writer counts each packet's
//! bucket 7       40            52             61            bucket, and says at the start of each
//!                |<- read ->|<--- lapped --->| read         segment how many there were before
//! ```
//!
//! A reader that is lapped goes on at the start of a segment. What of its buckets came before that
//! and it has not read, it has missed: 61 less what it read. It is the reader's own sum; so one
//! that came late counts from where it came in.
//!
//! The counts of a segment are written while it is the writer's, and before it is opened, so they
//! are ordered as its base time is (`protocol`, E1). A log that counts nothing pays nothing:
//! packets that are counted have a way of their own.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::control::BUCKETS;
use crate::reader::Reader;
use crate::writer::{Appended, Meta, Writer};

impl Writer {
    /// As [`append`](Self::append), and counts the packet, if it was stored, for `bucket`. In a log
    /// that counts no buckets it only appends.
    ///
    /// Cost: an addition more.
    #[inline]
    pub fn append_counted(&mut self, packet: &[u8], meta: &Meta, bucket: u8) -> Appended {
        let appended = self.append(packet, meta);
        if let Some(buckets) = &mut self.buckets
            && appended != Appended::Full
        {
            buckets[usize::from(bucket)] += 1;
        }
        appended
    }

    /// Packets of each bucket so far; `None` in a log that counts none.
    pub fn bucket_counts(&self) -> Option<&[u64; BUCKETS]> {
        self.buckets.as_deref()
    }

    /// Writes down what there was before `segment`, which is about to be opened.
    pub(crate) fn tell_buckets(&self, segment: u32) {
        let line = self.shared.memory.control.buckets(segment);
        for (word, count) in
            line.into_iter().flatten().zip(self.buckets.iter().flat_map(|all| all.iter()))
        {
            word.store(*count, Relaxed); // ordered by the open that follows (E1)
        }
    }
}

impl Reader {
    /// Packets of the buckets `[start, end)` that came before the segment which it reads now;
    /// `None` in a log that counts none, and between segments. Cost: a load for each bucket.
    pub fn counted_before(&self, buckets: Range<usize>) -> Option<u64> {
        let line = self.memory.control.buckets(self.current_segment()?)?;
        let counts = line.get(buckets)?.iter().map(|word| word.load(Relaxed)); // under the pin (R1)
        Some(counts.fold(0, u64::wrapping_add))
    }
}

#[cfg(test)]
mod tests {
    use burstline_sys::memory::PageChoice;

    use super::*;
    use crate::{Log, LogConfig, ReaderConfig};

    fn config(has_buckets: bool) -> LogConfig {
        let (bytes, segment_bytes, pages) = (6 * 4096, 4096, PageChoice::Size4K);
        LogConfig { bytes, segment_bytes, pages, has_buckets, ..LogConfig::default() }
    }

    #[test]
    fn a_lapped_reader_knows_what_it_missed_of_each_bucket() {
        let (log, mut writer) = Log::create(config(true)).unwrap();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        let (mut read, mut missed, mut number) = ([0_u64; BUCKETS], [0_u64; BUCKETS], 0_u32);
        for round in 0..40 {
            // Every third round is more than the log holds.
            for _ in 0..if round % 3 == 2 { 1000 } else { 10 } {
                let mut meta = Meta::new(1, 60, 0);
                meta.hash = number.wrapping_mul(0x9e37_79b1);
                let bucket = (meta.hash >> 24) as u8;
                assert_eq!(writer.append_counted(&[0; 60], &meta, bucket), Appended::Whole);
                number += 1;
            }
            writer.publish();
            let mut seen = reader.statistics().missed;
            while reader.take_up_to(7) > 0 {
                if std::mem::replace(&mut seen, reader.statistics().missed) != seen {
                    for bucket in 0..BUCKETS {
                        let before = reader.counted_before(bucket..bucket + 1).unwrap();
                        missed[bucket] = before - read[bucket];
                    }
                }
                for packet in reader.taken().unwrap().packets() {
                    read[(packet.desc().hash() >> 24) as usize] += 1;
                }
            }
        }
        let counts = writer.bucket_counts().unwrap();
        assert!((0..BUCKETS).all(|bucket| counts[bucket] == read[bucket] + missed[bucket]));
        assert_eq!(missed.iter().sum::<u64>(), reader.statistics().missed);
        assert!(missed.iter().all(|&packets| packets > 0));
    }

    #[test]
    fn a_log_that_counts_nothing_says_so() {
        let (log, mut writer) = Log::create(config(false)).unwrap();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        let meta = Meta::new(1, 60, 0);
        assert_eq!(writer.append_counted(&[0; 60], &meta, 5), Appended::Whole);
        writer.publish();
        assert_eq!(reader.take_up_to(9), 1);
        assert_eq!((reader.counted_before(0..256), writer.bucket_counts()), (None, None));
    }
}
