//! Where a writer's next packet goes, and what a packet changes there.

use std::hint::black_box;
use std::ptr::NonNull;

use burstline_sys::prefetch::{self, LINE_BYTES};

use super::{DESC_BYTES, Meta, Room};
use crate::copy::stream_desc;
use crate::desc::{Desc, FACTS_BYTES, Flags, MAX_PACKET_BYTES, PACKET_ALIGNMENT, align_up};

/// How far ahead of the packets, and of the worklist, lines are prefetched: 32 packets of 64 bytes,
/// and 128 descs. A reader's processor may have prefetched some dozens of lines of the worklist by
/// itself (Decisions 0005, 0019, 0026 and 0027).
const PREFETCH_BYTES: isize = 2048;
const PREFETCH_DESC_BYTES: isize = 2048;

/// The longest packet that is taken: what fits in it after rounding up fits a desc, too.
pub(super) const LONGEST: usize = MAX_PACKET_BYTES / PACKET_ALIGNMENT * PACKET_ALIGNMENT;

/// The most room that is offered at once: for one of the longest packets and its desc.
const ROOM_MOST: usize = LONGEST + DESC_BYTES;

/// No packet is longer than this, so that sums of a length and some hundred bytes do not overflow.
const LENGTH_MOST: usize = 1 << 40;

/// The room that a packet and its desc take.
#[inline(always)]
fn taken(length: usize) -> usize {
    align_up(length.min(LENGTH_MOST)) + DESC_BYTES
}

/// The ends of what is written in the open segment, as in the [writer's](super) picture.
///
/// ```text
/// base             at           at + room            descs     base + top
/// | packet | packet |     room     | 32 bytes for facts | desc | desc |
/// ```
///
/// They are pointers, and `room` is a separate number, so a loop over packets has little to compute
/// and to keep: every register counts (Decision 0026).
///
/// # Invariants
/// E1. `room` is 0, or `room + FACTS_BYTES <= descs - at`. Room for facts is always
/// kept, so every packet that was filled in has a place for its facts. And `room <= ROOM_MOST`, so
/// that what fits is never too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// First byte of the open segment; while none was ever open, of nothing.
    base: *mut u8,
    /// Where the next packet begins.
    at: *mut u8,
    /// The newest desc. Both are at the segment's top while none is open, so that nothing fits.
    descs: *mut Desc,
    /// Bytes for a packet and its desc: the one number that a packet is compared with.
    room: usize,
    pub(super) base_time_ns: u64,
    /// Bytes of all packets so far.
    pub(super) bytes: u64,
}

impl Edge {
    /// Without a segment.
    pub(super) fn none(top: usize) -> Self {
        let base = NonNull::<Desc>::dangling().as_ptr().cast::<u8>();
        let at = base.wrapping_add(top);
        Self { base, at, descs: at.cast(), room: 0, base_time_ns: 0, bytes: 0 }
    }

    /// The first byte of the segment that is open, or was.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Where the next packet's bytes begin, from the base.
    #[inline]
    pub(crate) fn low(&self) -> usize {
        self.at.addr() - self.base.addr()
    }

    /// Where the newest desc begins.
    #[inline]
    pub(crate) fn high(&self) -> usize {
        self.descs.addr() - self.base.addr()
    }

    /// A segment of `top` bytes for packets and descs begins at `base`, an address of descs.
    pub(super) fn open(&mut self, base: NonNull<u8>, top: usize) {
        self.base = base.as_ptr();
        self.set(0, top);
    }

    /// Both ends anew: `low <= high`, both in the segment and multiples of 16.
    #[inline]
    pub(super) fn set(&mut self, low: usize, high: usize) {
        debug_assert!(low <= high && (low | high).is_multiple_of(PACKET_ALIGNMENT));
        self.at = self.base.wrapping_add(low);
        self.descs = self.base.wrapping_add(high).cast();
        self.room = (high - low).saturating_sub(FACTS_BYTES).min(ROOM_MOST);
    }

    /// The next packet's first byte.
    #[inline(always)]
    pub(super) fn at(&self) -> *mut u8 {
        self.at
    }

    /// What is left of the room after a packet of `length` bytes and its desc. `None` if they do
    /// not fit, or the room has to be [measured](Self::measure) again.
    #[inline(always)]
    pub(super) fn room_after(&self, length: usize) -> Option<usize> {
        self.room.checked_sub(taken(length))
    }

    /// How many packets of `length` bytes there is room for now, `most` at most.
    #[inline(always)]
    pub(super) fn fits(&self, length: usize, most: usize) -> usize {
        let taken = taken(length);
        match taken.checked_mul(most).is_some_and(|taken| taken <= self.room) {
            true => most,
            false => self.room / taken,
        }
    }

    /// The newest desc.
    pub(super) fn descs(&self) -> *mut Desc {
        self.descs
    }

    /// The same place in the segment, but in other memory: the next packet at `at`, the newest desc
    /// at `descs`.
    pub(super) fn moved_to(&self, at: *mut u8, descs: *mut Desc) -> Self {
        Self { base: at.wrapping_sub(self.low()), at, descs, ..*self }
    }

    /// Bytes of packets and number of descs since the edge was at `at` and `descs`.
    pub(super) fn since(&self, at: *mut u8, descs: *mut Desc) -> (usize, usize) {
        (self.at.addr() - at.addr(), (descs.addr() - self.descs.addr()) / DESC_BYTES)
    }

    /// This place, after `bytes` of packets and `count` descs, for which room and counts are as
    /// `other` has them.
    pub(super) fn moved_on(&self, other: Self, bytes: usize, count: usize) -> Self {
        let (at, descs) = (self.at.wrapping_add(bytes), self.descs.wrapping_sub(count));
        Self { base: self.base, at, descs, ..other }
    }

    /// `low` bytes of packets and `count` descs were written, of `bytes` bytes in all. There was
    /// room for them.
    pub(super) fn taken(&mut self, low: usize, count: usize, bytes: usize) {
        self.at = self.at.wrapping_add(low);
        self.descs = self.descs.wrapping_sub(count);
        self.room -= low + count * DESC_BYTES;
        self.bytes += bytes as u64;
    }

    /// Makes the room as large as it can be.
    pub(super) fn measure(&mut self) {
        self.set(self.low(), self.high());
    }

    /// Packets of `length` bytes, from number `done` on up to `most` of them, for which there is
    /// room. Returns what is known of the first packet that needs more than a desc; its bytes are
    /// there.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        done: &mut usize,
        most: usize,
        length: usize,
        fill: &mut impl FnMut(usize, &mut Room<'_>) -> Meta,
    ) -> Option<Meta> {
        let (aligned, last) = (align_up(length), *done + most);
        let (mut at, mut descs, mut special) = (self.at, self.descs, None);
        while *done < last {
            let meta = fill(*done, &mut Room::new(at, length));
            let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
            if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
                // Hidden from the compiler that this is the time once more: else it is kept in a
                // register for all packets.
                let time_ns = self.base_time_ns.wrapping_add(black_box(delta));
                special = Some(Meta { time_ns, ..meta });
                break;
            }
            let desc = Desc::new(0, 0, meta.port, meta.flags.without(Flags::FACTS));
            let desc = desc.moved(at.addr() - self.base.addr(), length as u64);
            descs = descs.wrapping_sub(1);
            // SAFETY: W2, these 16 bytes were kept free (E1), as `most` packets fit; the segment's
            // base and `descs` are aligned to 16.
            unsafe { descs.write(desc.with(meta.hash, delta as u32)) };
            at = at.wrapping_add(aligned);
            ask_ahead(at, descs, length);
            *done += 1;
        }
        // Hidden from the compiler, too: else it counts room, bytes and place in the loop.
        let descs = black_box(descs);
        let filled = (self.descs.addr() - descs.addr()) / DESC_BYTES;
        self.at = self.at.wrapping_add(filled * aligned);
        self.descs = self.descs.wrapping_sub(filled);
        self.room -= filled * (aligned + DESC_BYTES);
        self.bytes += (filled * length) as u64;
        special
    }

    /// Ends the packet whose `length` bytes stand at `low`, if a desc says it all. There was
    /// [room](Self::room_after) for it, and `room` is left.
    #[inline(always)]
    #[must_use]
    pub(super) fn commit(&mut self, length: usize, room: usize, meta: &Meta) -> bool {
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
            return false;
        }
        self.write_desc(length, meta, meta.flags.without(Flags::FACTS), delta);
        // In the segment, by `room`.
        self.at = self.at.wrapping_add(align_up(length));
        self.room = room;
        ask_ahead(self.at, self.descs, length);
        true
    }

    /// As `commit`, past the cache. There was room, whatever was offered.
    #[must_use]
    pub(super) fn commit_far(&mut self, length: usize, meta: &Meta) -> bool {
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
            return false;
        }
        let desc = Desc::new(0, 0, meta.port, meta.flags.without(Flags::FACTS));
        let desc = desc.moved(self.low(), length as u64).with(meta.hash, delta as u32);
        self.descs = self.descs.wrapping_sub(1);
        // SAFETY: W2, these 16 bytes were kept free (E1), and `descs` is aligned to 16.
        unsafe { stream_desc(desc, self.descs) };
        self.at = self.at.wrapping_add(align_up(length));
        self.bytes += length as u64;
        true
    }

    /// Offers no room until it is [measured](Self::measure): each packet asks for it anew.
    pub(super) fn offer_none(&mut self) {
        self.room = 0;
    }

    /// As `commit`, of a packet that ends at `end`, from the base, with its facts.
    pub(super) fn push(&mut self, length: usize, meta: &Meta, flags: Flags, end: usize) {
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        self.write_desc(length, meta, flags, delta & u64::from(u32::MAX));
        self.set(end, self.high());
    }

    /// `delta` has 32 bits.
    #[inline(always)]
    fn write_desc(&mut self, length: usize, meta: &Meta, flags: Flags, delta: u64) {
        let desc = Desc::new(0, 0, meta.port, flags).moved(self.low(), length as u64);
        self.descs = self.descs.wrapping_sub(1);
        // SAFETY: W2, these 16 bytes were kept free (E1); the segment's base and `descs` are
        // aligned to 16.
        unsafe { self.descs.write(desc.with(meta.hash, delta as u32)) };
        self.bytes += length as u64;
    }
}

/// Asks for as many lines ahead of `at` and `descs` as a packet of `length` bytes has just used up:
/// one instruction a line.
#[inline(always)]
pub(super) fn ask_ahead(at: *const u8, descs: *const Desc, length: usize) {
    prefetch::to_write_ahead::<{ -PREFETCH_DESC_BYTES }>(descs.cast());
    prefetch::to_write_ahead::<PREFETCH_BYTES>(at);
    // `step_by` would cost a dozen instructions a packet, and most packets have one line.
    let mut line = LINE_BYTES;
    while line < length {
        prefetch::to_write_ahead::<PREFETCH_BYTES>(at.wrapping_add(line));
        line += LINE_BYTES;
    }
}
