//! Reads a part of a log: takes the packets of some buckets, and counts which of them were missed.
//!
//! ```text
//! column      | 3 | 7 | 3 | 9 | 7 | ...      worklist of buckets 6 to 8, the reader's own
//! segment     | p0| p1| p2| p3| p4| ...  ->  | desc 4 | desc 1 |   first packet: the number of own
//!                                                                  packets before
//! ```
//!
//! The packets are not moved; their descs are copied into a small worklist. So a burst of a part is
//! like any other burst. Packets of other parts are skipped, at the cost of a bit each.
//!
//! Invariant P1: `next` is the writer's count of this part's packets up to the reader's position.
//! So delivered + missed = `next` - `first`, unless a torn burst has put that in doubt.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_sys::prefetch;

use super::{Current, Found, Reader, ReaderStatistics, lend};
use crate::buckets::{Buckets, bucket_of};
use crate::burst::{Burst, FactsAt};
use crate::desc::Desc;
use crate::log::Memory;
use crate::select::{self, WINDOW};

/// The most packets of a part in one burst: 16 KiB of descs.
const PART_PACKETS: usize = 1024;

/// Bursts without a packet of the part that one call skips.
const OTHERS_TRIES: u32 = 16;

/// State of the reader of a part.
pub(crate) struct Part {
    pub(crate) buckets: Buckets,
    /// Filled from the end to the start, as in a segment.
    worklist: Box<[Desc; PART_PACKETS]>,
    /// Number of packets in the worklist.
    len: usize,
    /// The first packet of the segment that was examined for this worklist.
    from: u32,
    /// The number of the next packet of the part.
    next: u64,
    /// The number of this reader's first packet.
    first: u64,
    delivered: u64,
    missed: u64,
    /// Whether packets of unknown parts were discarded.
    is_in_doubt: bool,
}

impl Part {
    pub(super) fn new(buckets: Buckets) -> Self {
        let worklist = Box::new([Desc::default(); PART_PACKETS]);
        let (len, from, next, first, delivered, missed) = Default::default();
        let is_in_doubt = false;
        Self { buckets, worklist, len, from, next, first, delivered, missed, is_in_doubt }
    }

    pub(super) fn statistics(&self, all: &ReaderStatistics) -> ReaderStatistics {
        ReaderStatistics { delivered: self.delivered, missed: self.missed, ..*all }
    }

    /// Records that some packets, of unknown parts, are lost; the next count corrects the numbers.
    pub(super) fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// Returns the number of this reader's first packet in the part.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next packet of the part.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Copies the worklist's first `count` packets, and returns the number of the first.
    pub(super) fn keep(&self, count: u32) -> (Box<[Desc]>, u64) {
        (self.worklist(count).into(), self.next - u64::from(count))
    }

    fn worklist(&self, count: u32) -> &[Desc] {
        &self.worklist[PART_PACKETS - self.len.min(count as usize)..]
    }

    /// Copies the descs of this part's packets from `burst`, up to `most`, into the worklist. The
    /// burst begins with packet `from` of its segment. Returns the number of packets examined.
    /// Prefetches the first lines of the packets taken, which are read soon.
    #[inline]
    fn pick(&mut self, burst: &Burst<'_>, column: &[u8], from: usize, most: usize) -> usize {
        let (descs, start) = (burst.worklist(), burst.start().as_ptr());
        let (count, most) = (descs.len(), most.min(PART_PACKETS));
        (self.len, self.from) = (0, from as u32);
        // Indices below count from the burst's first packet, whose desc is the last.
        let (mut len, mut at) = (0, 0);
        while at < count {
            let end = count.min(at + WINDOW);
            let bucket_at = |index: usize| bucket_of(descs[count + from - 1 - index].hash());
            let window = from + at..from + end;
            let mut own = select::own(column, window, self.buckets, bucket_at);
            while own != 0 {
                let index = at + own.trailing_zeros() as usize;
                if len >= most {
                    self.len = len;
                    return index;
                }
                let desc = descs[count - 1 - index];
                prefetch::to_read(start.wrapping_add(desc.offset() as usize));
                len += 1;
                self.worklist[PART_PACKETS - len] = desc;
                own &= own - 1;
            }
            at = end;
        }
        self.len = len;
        count
    }
}

impl Reader {
    /// Like [`next_burst`](Self::next_burst), for a part.
    pub(super) fn next_part(&mut self) -> Option<Burst<'_>> {
        self.find_part(u64::MAX)?;
        let count = std::mem::take(&mut self.last);
        self.lend_part(count)
    }

    /// Takes up to `most` packets of its part, at least 1, and sets `last` to their number. The
    /// result covers all packets examined.
    pub(super) fn find_part(&mut self, most: u64) -> Option<Found> {
        for _ in 0..OTHERS_TRIES {
            let found = self.advance()?;
            let part = self.part.as_mut()?;
            // SAFETY: `advance` read `to` from the watermark under the pin (R1), and the segment
            // stays pinned until `advance` is called again.
            let (burst, column) =
                unsafe { (lend(&self.memory, &found), column(&self.memory, &found)) };
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let looked = part.pick(&burst, column, found.from as usize, most);
            let (own, is_all) = (part.len as u32, looked == burst.len());
            let end = if is_all { found.to } else { found.from + looked as u32 };
            self.pass_part(&found, end, own);
            if own > 0 {
                return Some(Found { to: end, ..found });
            }
        }
        None
    }

    /// Records that packets up to `end` of `found` were examined, and `own` of them taken.
    pub(crate) fn pass_part(&mut self, found: &Found, end: u32, own: u32) {
        self.unread(found.to.saturating_sub(end));
        self.last = own;
        if let Some(part) = &mut self.part {
            part.next = part.next.wrapping_add(own.into());
            part.delivered += u64::from(own);
        }
        self.say();
    }

    /// Lends the first `count` packets of the worklist, which are in the current segment.
    pub(super) fn lend_part(&self, count: u32) -> Option<Burst<'_>> {
        let (current, part) = (self.current?, self.part.as_ref()?);
        if count == 0 || part.from > current.taken {
            return None;
        }
        let found = Found { current, from: part.from, to: current.taken };
        // SAFETY: `taken` never exceeds a count read from the watermark of the segment, which is
        // pinned while it is the current one (R1); the borrow of `self` keeps it current (R2).
        let burst = unsafe { lend(&self.memory, &found) };
        let (worklist, first) = (part.worklist(count), part.next.wrapping_sub(count.into()));
        let facts = FactsAt::Behind { plain: 0 };
        // SAFETY: all of the place is published and pinned; `facts` claims no plain packet.
        Some(unsafe { burst.described_by(worklist, burst.base_time_ns(), first, facts) })
    }

    /// Puts the newest `packets` of the worklist back.
    pub(super) fn put_back_part(&mut self, packets: u32) {
        let kept = (self.last - packets) as usize;
        let (Some(part), Some(current)) = (&self.part, self.current) else { return };
        let found = Found { current, from: part.from, to: current.taken };
        // SAFETY: `taken` never exceeds a count read from the watermark of the segment, which is
        // pinned while it is the current one (R1); the burst ends with this call.
        let burst = unsafe { lend(&self.memory, &found) };
        let is_own = |desc: &Desc| part.buckets.holds(bucket_of(desc.hash()));
        let mut own = burst.packets().enumerate().filter(|(_, packet)| is_own(&packet.desc()));
        let passed = own.nth(kept).map_or(burst.len(), |(index, _)| index);
        self.return_part(packets, (burst.len() - passed) as u32);
    }

    /// Undoes the taking of `packets` of the part, and of `all` packets of all parts.
    pub(crate) fn return_part(&mut self, packets: u32, all: u32) {
        self.unread(all);
        self.last -= packets;
        if let Some(part) = &mut self.part {
            part.next = part.next.wrapping_sub(packets.into());
            part.delivered = part.delivered.saturating_sub(packets.into());
        }
        self.say();
    }

    /// Returns the part's packets published since the reader's start, at least those seen.
    pub(super) fn offered_part(&self) -> u64 {
        let Some(part) = &self.part else { return 0 };
        let offered = self.memory.control.counted(part.buckets).saturating_sub(part.first);
        // Packets are published slightly before they are counted.
        offered.max(self.statistics().seen())
    }

    /// Updates the part's counters for the segment that was just entered.
    #[cold]
    pub(super) fn arrive_part(&mut self, is_first: bool, has_missed: bool) {
        let (Some(part), Some(current)) = (self.part.as_ref(), self.current) else { return };
        if !is_first && !has_missed && !part.is_in_doubt {
            return;
        }
        let buckets = part.buckets;
        let before = self.counted_before(buckets).unwrap_or(0);
        let passed = count_part(&self.memory, &current, buckets);
        let Some(part) = &mut self.part else { return };
        part.is_in_doubt = false;
        if is_first {
            part.next = before.wrapping_add(passed);
            part.first = part.next;
        } else {
            let missed = before.saturating_sub(part.next);
            part.missed = part.missed.saturating_add(missed);
            part.next = part.next.wrapping_add(missed);
        }
    }
}

impl Reader {
    /// Settles the packets in doubt at the end of the log, with the log's final count.
    pub(super) fn settle_part(&mut self) {
        if let Some(part) = self.part.as_mut().filter(|part| part.is_in_doubt) {
            let missed = self.memory.control.counted(part.buckets).saturating_sub(part.next);
            part.missed = part.missed.saturating_add(missed);
            part.next = part.next.wrapping_add(missed);
            part.is_in_doubt = false;
        }
    }
}

/// Counts the packets of `buckets` among those of the segment that the reader has passed.
fn count_part(memory: &Memory, current: &Current, buckets: Buckets) -> u64 {
    let geometry = memory.control.geometry();
    let (top, segment) = (geometry.top(), current.segment as usize);
    let passed = (current.taken as usize).min(top / size_of::<Desc>());
    let own = (0..passed).filter(|index| {
        let at = segment * geometry.segment_bytes + top - (index + 1) * size_of::<Desc>();
        // SAFETY: both words are inside the mapping, because the segment's number was checked on
        // entry and descs end at `top`. A relaxed load is sound even if the writer is not trusted
        // (`untrusted`, U1).
        let flow =
            unsafe { memory.packets.add(at + size_of::<u64>()).cast::<AtomicU64>().as_ref() };
        buckets.holds(bucket_of(flow.load(Relaxed) as u32))
    });
    own.count() as u64
}

/// Returns the published part of a segment's column, up to the packets found.
///
/// # Safety
/// As for [`lend`].
unsafe fn column<'a>(memory: &'a Memory, found: &Found) -> &'a [u8] {
    let geometry = memory.control.geometry();
    let bytes = geometry.column_bytes().min(found.to as usize);
    let at = found.current.segment as usize * geometry.segment_bytes + geometry.top();
    // SAFETY: the column is the end of the segment, whose number was checked on entry; bytes of
    // published packets are constant while the segment is pinned (`buckets`, B1).
    unsafe { std::slice::from_raw_parts(memory.packets.add(at).as_ptr(), bytes) }
}

#[cfg(test)]
mod tests;
