//! Detects whether a section is segmented, and the length of its segments.

use std::ops::Range;

use super::block_type::{
    CUSTOM, CUSTOM_NO_COPY, ENHANCED_PACKET, INTERFACE, NAME_RESOLUTION, OBSOLETE_PACKET, SECTION,
    SIMPLE_PACKET, STATISTICS,
};
use super::blocks::MIN_BLOCK;
use super::segment::SegmentIndex;
use super::{BYTE_ORDER_MAGIC, CLOSING_BLOCK, Decoder, MAX_CONTIGUOUS, MAX_NEED, USUAL_NEED, word};

/// All segment sizes, as powers of two: from 4 KiB to [`MAX_NEED`].
const SIZES: Range<u32> = 12..25;

/// Sections that are probed regardless of their offset.
const FREE_PROBES: u64 = 16;

/// The layout of a section.
pub(super) enum Layout {
    Plain,
    Segments(usize),
    /// Undecided with fewer contiguous bytes than this.
    Need(usize),
}

impl Decoder {
    /// Returns whether the section that starts here is segmented. Segment 0 has no packet, so no
    /// packet's bytes can influence the result.
    pub(super) fn layout(&mut self, here: &[u8], at_end: bool) -> Layout {
        let cut = |bytes| if at_end { Layout::Plain } else { Layout::Need(bytes) };
        if word(here, 8, false) != BYTE_ORDER_MAGIC {
            return Layout::Plain;
        }
        let mut at = 0;
        while at < USUAL_NEED - MAX_CONTIGUOUS as usize {
            if here.len() < at + 8 {
                return cut(at + 8);
            }
            let (block_type, length) = (word(here, at, false), word(here, at + 4, false));
            let bytes = length as usize;
            match block_type {
                CLOSING_BLOCK if is_size(at + bytes) => return Layout::Segments(at + bytes),
                SECTION if at > 0 => return Layout::Plain,
                ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET => return Layout::Plain,
                NAME_RESOLUTION | CUSTOM | CUSTOM_NO_COPY => return Layout::Plain,
                SECTION | INTERFACE | STATISTICS => {}
                _ => return self.probe(here, at_end),
            }
            if length < MIN_BLOCK || !length.is_multiple_of(4) || length > MAX_CONTIGUOUS {
                return self.probe(here, at_end);
            }
            if here.len() < at + bytes {
                return cut(at + bytes);
            }
            if word(here, at + bytes - 4, false) != length {
                return self.probe(here, at_end);
            }
            at += bytes;
        }
        Layout::Plain
    }

    /// Looks for the trailer of segment 0, or for any sound segment if descriptions are malformed.
    /// Longer segments come first: a segment forged inside a packet is shorter than the real one
    /// around it. So if all bytes are here, the real one is found first.
    ///
    /// A probe takes up to [`MAX_NEED`] bytes, and a section may have 40. So the file may have one
    /// probe per `MAX_NEED` bytes and a few more: short recordings may follow each other.
    pub(super) fn probe(&mut self, here: &[u8], at_end: bool) -> Layout {
        if self.probes > FREE_PROBES + self.offset / MAX_NEED as u64 {
            return Layout::Plain;
        }
        let is_all = at_end || here.len() >= MAX_NEED;
        self.probes += u64::from(is_all);
        for size in SIZES.rev().map(|shift| 1_usize << shift) {
            let Some(slot) = here.get(..size) else { continue };
            if SegmentIndex::doubtful(slot).is_some_and(|index| index.trailer().sequence == 0) {
                return Layout::Segments(size);
            }
            let mut slots = here.chunks_exact(size).skip(1);
            if is_all && slots.any(|slot| SegmentIndex::parse(slot).is_ok()) {
                return Layout::Segments(size);
            }
        }
        // A pipe may stay silent for a long time.
        if is_all || self.live {
            return Layout::Plain;
        }
        Layout::Need((2 * here.len()).clamp(64 << 10, MAX_NEED))
    }
}

fn is_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && SIZES.contains(&bytes.trailing_zeros())
}
