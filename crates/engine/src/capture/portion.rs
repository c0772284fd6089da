//! A part of a log's packets: those whose bucket is this worker's, and what of them was missed.
//!
//! Invariant: taken + missed = what the writer counted for these buckets, up to where the reader
//! is.

use std::ops::Range;

use burstline_log::{Burst, Reader, SCRATCH_PACKETS, Scratch};

/// One reader's part.
pub(crate) struct Portion {
    buckets: Range<usize>,
    bucket_of: fn(u32) -> u8,
    scratch: Scratch,
    /// Packets that were this reader's, and that it had.
    taken: u64,
    /// Those that the log took back before.
    missed: u64,
    /// What the reader had missed of all packets when it was asked last.
    seen_missed: u64,
}

impl Portion {
    /// The packets of the buckets `[start, end)`; `bucket_of` says which a hash has. The reader has
    /// to be there before the writer begins.
    pub(crate) fn new(buckets: Range<usize>, bucket_of: fn(u32) -> u8) -> Self {
        let (taken, missed, seen_missed) = Default::default();
        Self { buckets, bucket_of, scratch: Scratch::new(), taken, missed, seen_missed }
    }

    /// Takes the next packets, of which this part is lent; `None` if there are none now. Cost: a
    /// load and a multiplication for those of others.
    pub(crate) fn next_burst<'a>(&'a mut self, reader: &'a mut Reader) -> Option<Burst<'a>> {
        if reader.take_up_to(SCRATCH_PACKETS as u64) == 0 {
            return None;
        }
        let missed = reader.statistics().missed;
        if std::mem::replace(&mut self.seen_missed, missed) != missed
            && let Some(before) = reader.counted_before(self.buckets.clone())
        {
            self.missed = before.saturating_sub(self.taken);
        }
        let burst = reader.taken()?;
        let (buckets, bucket_of) = (&self.buckets, self.bucket_of);
        let own = self.scratch.select(&burst, burst.first_packet(), |packet| {
            let is_own = buckets.contains(&usize::from(bucket_of(packet.desc().hash())));
            is_own.then(|| (u32::MAX, packet.meta()))
        });
        self.taken += own.len() as u64;
        Some(own)
    }

    /// Packets of this part that it has not had.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }
}
