//! Where a writer's next packet goes, and what a packet changes there.

use std::ptr::NonNull;

use burstline_sys::prefetch;

use super::{DESC_BYTES, Meta};
use crate::desc::{Desc, FACTS_BYTES, Flags, MAX_PACKET_BYTES, align_up};

/// How far ahead of the packets, and of the worklist, lines are asked for: 32 packets of 64 bytes,
/// and 32 descs. Most of a writer's time goes into waiting for lines that the reader's core has
/// read last; asking ahead was worth 40% to 120% in hand-offs between two cores (Decision 0005),
/// and asking this far ahead 15% more where readers do not hold the writer up (Decision 0019).
const PREFETCH_BYTES: usize = 2048;
const LINE_BYTES: usize = 64;
const PREFETCH_DESC_BYTES: usize = 512;

/// The ends of what is written in the open segment, as in the [writer's](super) picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// First byte of the open segment; dangling while none is open.
    pub(crate) base: NonNull<u8>,
    /// Both are `top` while no segment is open, so that nothing fits.
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(super) base_time_ns: u64,
    /// Bytes of all packets so far.
    pub(super) bytes: u64,
}

impl Edge {
    /// Without a segment.
    pub(super) fn none(top: usize) -> Self {
        Self { base: NonNull::dangling(), low: top, high: top, base_time_ns: 0, bytes: 0 }
    }

    /// The next packet's first byte.
    #[inline]
    pub(super) fn at(&self) -> NonNull<u8> {
        // SAFETY: W2, `low` is inside the segment.
        unsafe { self.base.add(self.low) }
    }

    #[inline]
    pub(super) fn has_room(&self, length: usize) -> bool {
        // Room for facts is always kept, so that `commit` cannot fail.
        let fits = self.low + align_up(length) + FACTS_BYTES + DESC_BYTES <= self.high;
        fits && length <= MAX_PACKET_BYTES
    }

    /// Ends the packet whose `length` bytes stand at `low`, if a desc says it all.
    /// `has_room(length)` was true.
    #[inline]
    #[must_use]
    pub(super) fn commit(&mut self, length: usize, meta: &Meta) -> bool {
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
            return false;
        }
        let end = self.low + align_up(length);
        self.push_desc(length, meta, meta.flags.without(Flags::FACTS), delta as u32, end);
        self.prefetch(length);
        true
    }

    #[inline]
    pub(super) fn push_desc(
        &mut self,
        length: usize,
        meta: &Meta,
        flags: Flags,
        delta: u32,
        end: usize,
    ) {
        let desc = Desc::new(self.low as u32, length as u32, meta.port, flags);
        self.high -= DESC_BYTES;
        // SAFETY: W2, `has_room` kept these 16 bytes below the old `high` free; `base` is aligned
        // to a segment and `high` to 16.
        unsafe {
            let at = self.base.add(self.high).cast::<Desc>();
            at.write(desc.with(meta.hash, delta));
        }
        self.low = end;
        self.bytes += length as u64;
    }

    /// Asks for as many lines ahead as a packet of `length` bytes has just used up.
    #[inline]
    fn prefetch(&self, length: usize) {
        let base = self.base.as_ptr();
        prefetch::to_write(base.wrapping_add(self.high).wrapping_sub(PREFETCH_DESC_BYTES));
        let ahead = base.wrapping_add(self.low + PREFETCH_BYTES);
        prefetch::to_write(ahead);
        // `step_by` would cost a dozen instructions a packet, most of which have one line.
        let mut at = LINE_BYTES;
        while at < length {
            prefetch::to_write(ahead.wrapping_add(at));
            at += LINE_BYTES;
        }
    }
}
