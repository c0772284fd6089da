//! Detects whether a section is segmented, the length of its segments, and where another one may
//! follow.

use std::ops::Range;

use super::block_type::{
    CUSTOM, CUSTOM_NO_COPY, ENHANCED_PACKET, INTERFACE, NAME_RESOLUTION, OBSOLETE_PACKET, SECTION,
    SIMPLE_PACKET, STATISTICS,
};
use super::blocks::MIN_BLOCK;
use super::decoder::SectionInterface;
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

/// The interfaces of a segmented section, while they do not count.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) own: Vec<SectionInterface>,
    /// Where the next description of the other recording starts: elsewhere its number is unknown.
    described_to: u64,
}

impl Decoder {
    /// Begins the section at the current offset, unless it has begun: its interfaces are others.
    /// A segmented section describes its own, so no packet behind it takes one of them.
    pub(super) fn enter_section(&mut self) {
        if self.section_start != self.offset {
            self.section_start = self.offset;
            self.before = std::mem::take(&mut self.section);
            if self.slots.is_some() {
                self.before.clear();
            }
        }
    }

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

    /// Sets the section's interfaces aside, because another recording may have begun inside a slot
    /// without a trailer. Interfaces count that are described from file offset `described_to` on,
    /// one behind the other.
    pub(super) fn set_aside(&mut self, described_to: u64) {
        let Some(slots) = &mut self.slots else { return };
        if slots.may_hold_another() {
            let section = std::mem::take(&mut self.section);
            let own = slots.aside.take().map_or(section, |aside| aside.own);
            slots.aside = Some(Aside { own, described_to });
        }
    }

    /// Sets the section's interfaces aside if the file ends with the trailer of another recording.
    /// `rest` is the rest of a slot that is cut. While blocks lead on from its start, they are this
    /// section's, and that trailer may be part of a packet.
    pub(super) fn heed_end(&mut self, rest: &[u8]) {
        let slots = self.slots.as_ref().filter(|slots| slots.aside.is_none());
        if slots.is_some_and(|slots| slots.ends_in_another(rest)) {
            self.set_aside(u64::MAX);
        }
    }

    /// Returns whether a description at the current offset has the number after those before it.
    pub(super) fn may_describe(&self) -> bool {
        let aside = self.slots.as_ref().and_then(|slots| slots.aside.as_ref());
        aside.is_none_or(|aside| aside.described_to == self.offset)
    }

    /// Notes that a block of `bytes` bytes has described an interface.
    pub(super) fn note_description(&mut self, bytes: u64) {
        if let Some(aside) = self.slots.as_mut().and_then(|slots| slots.aside.as_mut()) {
            aside.described_to = aside.described_to.saturating_add(bytes);
        }
    }
}

fn is_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && SIZES.contains(&bytes.trailing_zeros())
}

/// Returns whether a slot is a recording's first one, by its trailer: no packet's bytes are there.
pub(super) fn is_first(slot: &[u8]) -> bool {
    let trailer = SegmentIndex::doubtful(slot).map(|index| *index.trailer());
    // In version 1 a damaged trailer is not told from a sound one.
    trailer.is_some_and(|trailer| trailer.version > 1 && trailer.sequence == 0)
}
