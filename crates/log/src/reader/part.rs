//! A part of a log: the packets of some buckets, and what of them was missed.
//!
//! ```text
//! column      | 3 | 7 | 3 | 9 | 7 | ...      worklist of buckets 6 to 8, the reader's own
//! segment     | p0| p1| p2| p3| p4| ...  ->  | desc 4 | desc 1 |   first packet: how many of its
//!                                                                  own came before
//! ```
//!
//! The packets stay where they are; their descs are copied into a small worklist. So a burst of a
//! part is a burst as any other. Packets of others are passed over, and cost a bit each.
//!
//! Invariant P1: `next` is the writer's count of this part's packets up to where the reader is. So
//! delivered + missed = `next` - `first`, unless a torn burst has put that in doubt.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_sys::prefetch;

use super::{Current, Found, Reader, ReaderStatistics, lend};
use crate::buckets::{Buckets, bucket_of};
use crate::burst::{Burst, FactsAt};
use crate::desc::Desc;
use crate::log::Memory;
use crate::select::{self, WINDOW};

/// The most packets of a part that are lent together: 16 KiB of descs.
const PART_PACKETS: usize = 1024;

/// Bursts without a packet of the part that one look passes over.
const OTHERS_TRIES: u32 = 16;

/// What a reader of a part knows.
pub(crate) struct Part {
    pub(crate) buckets: Buckets,
    /// Filled from the end towards the start, as in a segment.
    worklist: Box<[Desc; PART_PACKETS]>,
    /// Packets in it.
    len: usize,
    /// Of the segment's packets, the first that was looked at for those in the worklist.
    from: u32,
    /// The number of the next packet of the part.
    next: u64,
    /// The number of the first that was this reader's.
    first: u64,
    delivered: u64,
    missed: u64,
    /// Whether packets of unknown parts were thrown away.
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

    /// Some of what comes next is lost, of an unknown part; the next count will tell.
    pub(super) fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// The number of the first packet of the part that was this reader's.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next packet of the part.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A copy of the worklist's first `count` packets, and the number of the first.
    pub(super) fn keep(&self, count: u32) -> (Box<[Desc]>, u64) {
        (self.worklist(count).into(), self.next - u64::from(count))
    }

    fn worklist(&self, count: u32) -> &[Desc] {
        &self.worklist[PART_PACKETS - self.len.min(count as usize)..]
    }

    /// Puts the descs of this part's packets of a burst, which begins with packet `from` of its
    /// segment, into the worklist, up to `most`. Returns how many of all were looked at. Asks for
    /// the packets' first lines: they are read soon.
    #[inline]
    fn pick(&mut self, burst: &Burst<'_>, column: &[u8], from: usize, most: usize) -> usize {
        let (descs, start) = (burst.worklist(), burst.start().as_ptr());
        let (count, most) = (descs.len(), most.min(PART_PACKETS));
        (self.len, self.from) = (0, from as u32);
        // Numbers below count from the burst's first packet, whose desc is the last.
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
    /// As [`next_burst`](Self::next_burst), of a part.
    pub(super) fn next_part(&mut self) -> Option<Burst<'_>> {
        self.find_part(u64::MAX)?;
        let count = std::mem::take(&mut self.last);
        self.lend_part(count)
    }

    /// Takes up to `most` packets of its part, at least 1. `last` is then their number; what was
    /// found covers all packets that they lie among.
    pub(super) fn find_part(&mut self, most: u64) -> Option<Found> {
        for _ in 0..OTHERS_TRIES {
            let found = self.advance()?;
            let part = self.part.as_mut()?;
            // SAFETY: `advance` has read `to` from the watermark under the pin (R1), and the
            // segment stays pinned until the next call of it.
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

    /// Of what was found, packets up to `end` were looked at, and `own` of them taken.
    pub(crate) fn pass_part(&mut self, found: &Found, end: u32, own: u32) {
        self.unread(found.to.saturating_sub(end));
        self.last = own;
        if let Some(part) = &mut self.part {
            part.next = part.next.wrapping_add(own.into());
            part.delivered += u64::from(own);
        }
        self.say();
    }

    /// The first `count` packets of the worklist, lent. They were found in the current segment.
    pub(super) fn lend_part(&self, count: u32) -> Option<Burst<'_>> {
        let (current, part) = (self.current?, self.part.as_ref()?);
        if count == 0 || part.from > current.taken {
            return None;
        }
        let found = Found { current, from: part.from, to: current.taken };
        // SAFETY: `taken` never exceeds a count read from the watermark of the segment, which is
        // pinned while it is the current one (R1); the borrow of `self` keeps it so (R2).
        let burst = unsafe { lend(&self.memory, &found) };
        let (worklist, first) = (part.worklist(count), part.next.wrapping_sub(count.into()));
        let facts = FactsAt::Behind { plain: 0 };
        // SAFETY: the place is published and pinned, all of it; no packet is said to be plain.
        Some(unsafe { burst.described_by(worklist, burst.base_time_ns(), first, facts) })
    }

    /// Puts the newest `packets` of those in the worklist back.
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

    /// `packets` of the part, and `all` of all parts, were not taken after all.
    pub(crate) fn return_part(&mut self, packets: u32, all: u32) {
        self.unread(all);
        self.last -= packets;
        if let Some(part) = &mut self.part {
            part.next = part.next.wrapping_sub(packets.into());
            part.delivered = part.delivered.saturating_sub(packets.into());
        }
        self.say();
    }

    /// Packets of the part that were published since the reader's start; no fewer than it has seen.
    pub(super) fn offered_part(&self) -> u64 {
        let Some(part) = &self.part else { return 0 };
        let offered = self.memory.control.counted(part.buckets).saturating_sub(part.first);
        // Packets are published a moment before they are counted.
        offered.max(self.statistics().seen())
    }

    /// Takes note of where the segment that was entered just now lies in the count of the part.
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
    /// There will be nothing more: what was thrown away last is known now by the log's count.
    pub(super) fn settle_part(&mut self) {
        if let Some(part) = self.part.as_mut().filter(|part| part.is_in_doubt) {
            let missed = self.memory.control.counted(part.buckets).saturating_sub(part.next);
            part.missed = part.missed.saturating_add(missed);
            part.next = part.next.wrapping_add(missed);
            part.is_in_doubt = false;
        }
    }
}

/// Packets of `buckets` among those of the segment that the reader has passed.
fn count_part(memory: &Memory, current: &Current, buckets: Buckets) -> u64 {
    let geometry = memory.control.geometry();
    let (top, segment) = (geometry.top(), current.segment as usize);
    let passed = (current.taken as usize).min(top / size_of::<Desc>());
    let own = (0..passed).filter(|index| {
        let at = segment * geometry.segment_bytes + top - (index + 1) * size_of::<Desc>();
        // SAFETY: two words inside the mapping, since the segment's number was checked when it was
        // entered and descs end at `top`. A relaxed load is sound also where the writer is not
        // trusted (`untrusted`, U1).
        let flow =
            unsafe { memory.packets.add(at + size_of::<u64>()).cast::<AtomicU64>().as_ref() };
        buckets.holds(bucket_of(flow.load(Relaxed) as u32))
    });
    own.count() as u64
}

/// What is published of the column of a segment, up to the packets found.
///
/// # Safety
/// As [`lend`].
unsafe fn column<'a>(memory: &'a Memory, found: &Found) -> &'a [u8] {
    let geometry = memory.control.geometry();
    let bytes = geometry.column_bytes().min(found.to as usize);
    let at = found.current.segment as usize * geometry.segment_bytes + geometry.top();
    // SAFETY: the column is the end of the segment, whose number was checked when it was entered;
    // bytes of published packets are constant while the segment is pinned (`buckets`, B1).
    unsafe { std::slice::from_raw_parts(memory.packets.add(at).as_ptr(), bytes) }
}

#[cfg(test)]
mod tests;
