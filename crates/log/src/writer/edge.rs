//! The position of a writer's next packet, and how packets move it.

use std::hint::black_box;
use std::ptr::NonNull;

use burstline_sys::prefetch::{self, LINE_BYTES};

use super::{DESC_BYTES, Meta, Room};
use crate::copy::stream_desc;
use crate::desc::{Desc, FACTS_BYTES, Flags, MAX_PACKET_BYTES, PACKET_ALIGNMENT, align_up};

/// The prefetch distance for packets and for the worklist: 32 packets of 64 bytes, and 128 descs. A
/// reader's processor may have prefetched some dozens of lines of the worklist itself (Decisions
/// 0005, 0019, 0026 and 0027).
const PREFETCH_BYTES: isize = 2048;
const PREFETCH_DESC_BYTES: isize = 2048;

/// The longest packet that is accepted: rounded up, its length still fits a desc.
pub(super) const LONGEST: usize = MAX_PACKET_BYTES / PACKET_ALIGNMENT * PACKET_ALIGNMENT;

/// The most room offered at a time: for one of the longest packets and its desc.
const ROOM_MOST: usize = LONGEST + DESC_BYTES;

/// Lengths are limited to this, so that sums of a length and some hundred bytes do not overflow.
const LENGTH_MOST: usize = 1 << 40;

/// Returns the room that a packet and its desc take.
#[inline(always)]
fn taken(length: usize) -> usize {
    align_up(length.min(LENGTH_MOST)) + DESC_BYTES
}

/// The limits of the written bytes in the open segment, as in the [writer's](super) picture.
///
/// ```text
/// base             at           at + room            descs     base + top
/// | packet | packet |     room     | 32 bytes for facts | desc | desc |
/// ```
///
/// They are pointers, and `room` is a separate number, so that a loop over packets computes little
/// and needs few registers (Decision 0026).
///
/// # Invariants
/// E1. `room` is 0, or `room + FACTS_BYTES <= descs - at`. Room for facts is always kept, so every
/// packet that was filled in has a place for its facts. And `room <= ROOM_MOST`, so that a packet
/// that fits is never too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// The first byte of the open segment; dangling if none was ever open.
    base: *mut u8,
    /// The start of the next packet.
    at: *mut u8,
    /// The newest desc. Without an open segment, both are at its top, so that nothing fits.
    descs: *mut Desc,
    /// Bytes for a packet and its desc: the only number that a packet's length is checked against.
    room: usize,
    pub(super) base_time_ns: u64,
    /// Bytes of all packets so far.
    pub(super) bytes: u64,
}

impl Edge {
    /// Creates an edge without a segment.
    pub(super) fn none(top: usize) -> Self {
        let base = NonNull::<Desc>::dangling().as_ptr().cast::<u8>();
        let at = base.wrapping_add(top);
        Self { base, at, descs: at.cast(), room: 0, base_time_ns: 0, bytes: 0 }
    }

    /// Returns the first byte of the segment that is open, or was last.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the offset of the next packet's bytes from the base.
    #[inline]
    pub(crate) fn low(&self) -> usize {
        self.at.addr() - self.base.addr()
    }

    /// Returns the offset of the newest desc from the base.
    #[inline]
    pub(crate) fn high(&self) -> usize {
        self.descs.addr() - self.base.addr()
    }

    /// Begins a segment of `top` bytes for packets and descs at `base`, which is aligned for descs.
    pub(super) fn open(&mut self, base: NonNull<u8>, top: usize) {
        self.base = base.as_ptr();
        self.set(0, top);
    }

    /// Sets both ends: `low <= high`, both in the segment and multiples of 16.
    #[inline]
    pub(super) fn set(&mut self, low: usize, high: usize) {
        debug_assert!(low <= high && (low | high).is_multiple_of(PACKET_ALIGNMENT));
        self.at = self.base.wrapping_add(low);
        self.descs = self.base.wrapping_add(high).cast();
        self.room = (high - low).saturating_sub(FACTS_BYTES).min(ROOM_MOST);
    }

    /// Returns the next packet's first byte.
    #[inline(always)]
    pub(super) fn at(&self) -> *mut u8 {
        self.at
    }

    /// Returns the room left after a packet of `length` bytes and its desc. `None` if they do not
    /// fit, or the room has to be [measured](Self::measure) again.
    #[inline(always)]
    pub(super) fn room_after(&self, length: usize) -> Option<usize> {
        self.room.checked_sub(taken(length))
    }

    /// Returns how many packets of `length` bytes fit now, at most `most`.
    #[inline(always)]
    pub(super) fn fits(&self, length: usize, most: usize) -> usize {
        let taken = taken(length);
        match taken.checked_mul(most).is_some_and(|taken| taken <= self.room) {
            true => most,
            false => self.room / taken,
        }
    }

    /// Returns the newest desc.
    pub(super) fn descs(&self) -> *mut Desc {
        self.descs
    }

    /// Returns the same position in the segment, but in other memory: the next packet at `at`, the
    /// newest desc at `descs`.
    pub(super) fn moved_to(&self, at: *mut u8, descs: *mut Desc) -> Self {
        Self { base: at.wrapping_sub(self.low()), at, descs, ..*self }
    }

    /// Returns the bytes of packets and the number of descs since the edge was at `at` and `descs`.
    pub(super) fn since(&self, at: *mut u8, descs: *mut Desc) -> (usize, usize) {
        (self.at.addr() - at.addr(), (descs.addr() - self.descs.addr()) / DESC_BYTES)
    }

    /// Returns this position after `bytes` of packets and `count` descs, with the room and counts
    /// of `other`.
    pub(super) fn moved_on(&self, other: Self, bytes: usize, count: usize) -> Self {
        let (at, descs) = (self.at.wrapping_add(bytes), self.descs.wrapping_sub(count));
        Self { base: self.base, at, descs, ..other }
    }

    /// Records that `low` bytes of packets and `count` descs were written, with `bytes` bytes in
    /// all. There must be room for them.
    pub(super) fn taken(&mut self, low: usize, count: usize, bytes: usize) {
        self.at = self.at.wrapping_add(low);
        self.descs = self.descs.wrapping_sub(count);
        self.room -= low + count * DESC_BYTES;
        self.bytes += bytes as u64;
    }

    /// Makes the room as large as possible.
    pub(super) fn measure(&mut self) {
        self.set(self.low(), self.high());
    }

    /// Fills in packets of `length` bytes, from number `done` up to `most`, for which there is
    /// room. Returns the metadata of the first packet that needs more than a desc; its bytes are
    /// already written.
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
                // Hides from the compiler that this is the same time: otherwise it is kept in a
                // register for all packets.
                let time_ns = self.base_time_ns.wrapping_add(black_box(delta));
                special = Some(Meta { time_ns, ..meta });
                break;
            }
            let desc = Desc::new(0, 0, meta.port, meta.flags.without(Flags::FACTS));
            let desc = desc.moved(at.addr() - self.base.addr(), length as u64);
            descs = descs.wrapping_sub(1);
            // SAFETY: W2, these 16 bytes were kept free (E1), because `most` packets fit; the
            // segment's base and `descs` are aligned to 16.
            unsafe { descs.write(desc.with(meta.hash, delta as u32)) };
            at = at.wrapping_add(aligned);
            ask_ahead(at, descs, length);
            *done += 1;
        }
        // Also hidden: otherwise the compiler counts room, bytes and position in the loop.
        let descs = black_box(descs);
        let filled = (self.descs.addr() - descs.addr()) / DESC_BYTES;
        self.at = self.at.wrapping_add(filled * aligned);
        self.descs = self.descs.wrapping_sub(filled);
        self.room -= filled * (aligned + DESC_BYTES);
        self.bytes += (filled * length) as u64;
        special
    }

    /// Commits the packet whose `length` bytes are at `low`, if a desc is enough for it. There was
    /// [room](Self::room_after) for it, and `room` is left. Returns false if it needs facts.
    #[inline(always)]
    #[must_use]
    pub(super) fn commit(&mut self, length: usize, room: usize, meta: &Meta) -> bool {
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
            return false;
        }
        self.write_desc(length, meta, meta.flags.without(Flags::FACTS), delta);
        // Inside the segment, because of `room`.
        self.at = self.at.wrapping_add(align_up(length));
        self.room = room;
        ask_ahead(self.at, self.descs, length);
        true
    }

    /// Like `commit`, past the cache. There must be room for it, even if none was offered.
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

    /// Offers no room until it is [measured](Self::measure): each packet asks for it again.
    pub(super) fn offer_none(&mut self) {
        self.room = 0;
    }

    /// Like `commit`, for a packet that ends, with its facts, at offset `end` from the base.
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

/// Prefetches ahead of `at` and `descs` as many lines as a packet of `length` bytes has just used:
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
