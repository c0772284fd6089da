//! The worklist of a segment: it stores where its packets' blocks start.
//!
//! Version 2 has two bytes per packet: the distance from the start of the previous packet block to
//! its own, in units of four bytes. The first packet's distance counts from the segment's start.
//! [`FAR`] means that the distance is larger or the packet's block is long: the packet's block is
//! the next packet block after the previous one. Version 1 has sixteen bytes; the first four are
//! the offset of the packet's bytes.

use super::super::block_type::ENHANCED_PACKET;
use super::super::word;
use super::{OLD_ENTRY_BYTES, TAIL_BYTES, Trailer};

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 2;

/// The entry that refers a reader to the blocks.
const FAR: u16 = u16::MAX;

/// Bytes of a packet block before the packet's bytes.
pub(super) const BEFORE_PACKET: usize = 28;

/// Returns the bytes of the worklist of `packets` packets in a version; a multiple of 4.
pub(in super::super) fn list_bytes(version: u16, packets: u32) -> usize {
    match version {
        1 => packets as usize * OLD_ENTRY_BYTES,
        _ => (packets as usize * ENTRY_BYTES).next_multiple_of(4),
    }
}

/// Writes the entry of packet `number` of a segment, whose block starts at `block`. The previous
/// packet's block starts at `before`.
#[inline]
pub(super) fn put(segment: &mut [u8], number: usize, before: usize, block: usize) {
    entries(segment, number, 1).for_each(|place| *place = entry(before, block));
}

/// Returns the entry of a packet whose block starts at `block`, after one at `before`.
#[inline(always)]
pub(super) fn entry(before: usize, block: usize) -> [u8; ENTRY_BYTES] {
    u16::try_from((block - before) / 4).unwrap_or(FAR).to_le_bytes()
}

/// Returns the places of `count` entries in the end of a segment, those of packet `number` and the
/// ones after it, in this order.
#[inline(always)]
pub(super) fn entries(
    end: &mut [u8],
    number: usize,
    count: usize,
) -> impl Iterator<Item = &mut [u8; ENTRY_BYTES]> {
    let behind = end.len() - TAIL_BYTES - ENTRY_BYTES * number;
    let places = &mut end[behind - ENTRY_BYTES * count..behind];
    places.as_chunks_mut::<ENTRY_BYTES>().0.iter_mut().rev()
}

/// Iterator over the starts of a segment's packet blocks, in worklist order: at most one per
/// packet. The bytes may be damaged; each offset is below the segment's length.
pub(super) struct Starts<'a> {
    segment: &'a [u8],
    version: u16,
    packets: u32,
    next: u32,
    /// Where the previous packet's block starts.
    before: usize,
}

impl<'a> Starts<'a> {
    /// `segment` must have the length that its trailer says.
    pub(super) fn new(segment: &'a [u8], trailer: &Trailer) -> Self {
        let (version, packets) = (trailer.version, trailer.packets);
        Self { segment, version, packets, next: 0, before: 0 }
    }

    /// Returns the next packet block after the one at `before`.
    fn behind(&self) -> Option<usize> {
        let mut at = self.before;
        if self.next > 0 {
            at += word(self.segment, at + 4, false).max(12) as usize;
        }
        while at + BEFORE_PACKET < self.segment.len() {
            if word(self.segment, at, false) == ENHANCED_PACKET {
                return Some(at);
            }
            at += word(self.segment, at + 4, false).max(12) as usize;
        }
        None
    }
}

impl Iterator for Starts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.next >= self.packets {
            return None;
        }
        let bytes = if self.version == 1 { OLD_ENTRY_BYTES } else { ENTRY_BYTES };
        let back = TAIL_BYTES + bytes * (self.next as usize + 1);
        let at = self.segment.len().checked_sub(back)?;
        let entry = *self.segment.get(at..)?.first_chunk()?;
        let block = match (self.version, u16::from_le_bytes(entry)) {
            (1, _) => {
                ((word(self.segment, at, false) & 0xFF_FFFF) as usize).checked_sub(BEFORE_PACKET)?
            }
            (_, FAR) => self.behind()?,
            (_, entry) => self.before + 4 * usize::from(entry),
        };
        if block + BEFORE_PACKET >= self.segment.len() {
            return None;
        }
        self.next += 1;
        self.before = block;
        Some(block)
    }
}
