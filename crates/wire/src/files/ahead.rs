//! Skips parts of a file that cannot hold an answer, without reading them.
//!
//! The trailer of a segment says what the segment holds, and its sketch says which flows. A caller
//! can read only these and skip the segment ([`Decoder::pass_segment`]). A plain file may have an
//! index of where its blocks start, and the caller jumps there ([`Decoder::jump`]).
//!
//! Skipped bytes are not checked: their checksum covers bytes that are not read. So a trailer is
//! accepted only if it is the next one: size, sequence and first packet continue the previous ones,
//! and the skipped bytes describe no interface.
//!
//! A search by time can skip several segments in one step ([`Decoder::pass_to`]) if trailers bound
//! how far times are out of order ([`Trailer::disorder_ns`]). Then the target's trailer is the one
//! that is accepted, and the numbers of segments and packets continue there.

use std::ops::Range;

use super::chains::DeadEnds;
use super::decoder::Mode;
use super::segment::{MOST_PACKETS, TAIL_BYTES, Trailer, list_bytes, may_hold, used_bytes};
use super::slots::State;
use super::{Decoder, word};

/// Location of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentAhead {
    /// Absolute file offset of its first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: usize,
}

impl SegmentAhead {
    /// Bytes at the segment's end that [`Decoder::trailer_ahead`] reads.
    pub const TAIL_BYTES: usize = TAIL_BYTES;

    /// Returns the file offset of the tail.
    pub fn tail_offset(&self) -> u64 {
        self.offset + (self.bytes - TAIL_BYTES) as u64
    }

    /// Returns the file range of the summary of its flows: the sketch, or in version 1 the
    /// worklist. Empty if the segment has no summary.
    pub fn summary(&self, trailer: &Trailer) -> Range<u64> {
        let list = self.tail_offset() - list_bytes(trailer.version, trailer.packets) as u64;
        match trailer.version {
            1 => list..self.tail_offset(),
            _ => list - u64::from(trailer.sketch_bytes)..list,
        }
    }

    /// Returns whether a packet of the segment may have this flow hash, by its summary.
    pub fn may_hold(trailer: &Trailer, summary: &[u8], hash: u32) -> bool {
        may_hold(trailer, summary, hash)
    }
}

/// A decoder's position in a file, by the descriptions that it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Landmark {
    /// Absolute file offset at which the section starts.
    pub section_start: u64,
    /// How many interfaces are known.
    pub interfaces: usize,
}

impl Decoder {
    /// Returns the segment whose first byte is the next to decode, if a segment starts there.
    pub fn segment_ahead(&self) -> Option<SegmentAhead> {
        let slots = self.slots.as_ref().filter(|_| self.mode == Mode::Slot)?;
        Some(SegmentAhead { offset: self.offset, bytes: slots.segment_bytes })
    }

    /// Returns the bytes of each segment of the current section. `None` if it is not segmented.
    pub fn segment_bytes(&self) -> Option<usize> {
        self.slots.as_ref().map(|slots| slots.segment_bytes)
    }

    /// Returns the segment that is being decoded, if it is sound.
    pub fn segment_here(&self) -> Option<SegmentAhead> {
        let slots = self.slots.as_ref().filter(|slots| slots.state == State::Sound)?;
        let offset = slots.end.checked_sub(slots.segment_bytes as u64)?;
        (offset <= self.offset).then_some(SegmentAhead { offset, bytes: slots.segment_bytes })
    }

    /// Returns the number of the segment that is being decoded, as in its trailer. `None` if the
    /// section is not segmented.
    pub fn segment_number(&self) -> Option<u64> {
        let slots = self.slots.as_ref()?;
        let end = slots.end.checked_sub(self.section_start)?;
        (end / slots.segment_bytes as u64).checked_sub(1)
    }

    /// Returns the segment with this number, in the section whose segment is ahead.
    pub fn segment_numbered(&self, number: u64) -> Option<SegmentAhead> {
        let bytes = self.segment_ahead()?.bytes;
        let offset = number.checked_mul(bytes as u64)?.checked_add(self.section_start)?;
        Some(SegmentAhead { offset, bytes })
    }

    /// Reads the trailer of a segment farther ahead with this number, from the last
    /// [`SegmentAhead::TAIL_BYTES`] bytes of the segment. `None` if the decoder cannot skip to it.
    pub fn trailer_farther(&self, number: u64, tail: &[u8]) -> Option<Trailer> {
        let slots = self.slots.as_ref().filter(|_| self.mode == Mode::Slot)?;
        let trailer = Trailer::parse(tail)?;
        let is_farther = slots.is_before(&trailer)
            && trailer.sequence == number
            && trailer.first_packet <= MOST_PACKETS;
        (is_farther && self.is_plausible(&trailer, tail)).then_some(trailer)
    }

    /// Skips everything before the segment whose trailer [`trailer_farther`](Self::trailer_farther)
    /// returned: the next chunk starts there. Returns how many segments and packets were skipped;
    /// `None` if the segment is no longer ahead.
    pub fn pass_to(&mut self, trailer: &Trailer) -> Option<(u64, u64)> {
        let target = self.segment_numbered(trailer.sequence)?;
        let slots = self.slots.as_mut().filter(|slots| slots.is_before(trailer))?;
        self.offset = target.offset;
        (slots.end, slots.state) = (self.offset, State::Sound);
        Some(slots.pass_to(trailer))
    }

    /// Reads the trailer of the segment ahead from the file's [`SegmentAhead::TAIL_BYTES`] bytes at
    /// its [`tail_offset`](SegmentAhead::tail_offset). `None` if the segment has to be read.
    pub fn trailer_ahead(&self, tail: &[u8]) -> Option<Trailer> {
        let slots = self.slots.as_ref().filter(|_| self.mode == Mode::Slot)?;
        let trailer = Trailer::parse(tail)?;
        (slots.is_next(&trailer) && self.is_plausible(&trailer, tail)).then_some(trailer)
    }

    /// Returns whether a trailer belongs to a segment of this section that has packets and
    /// describes no new interface.
    fn is_plausible(&self, trailer: &Trailer, tail: &[u8]) -> bool {
        let bytes = self.slots.as_ref().map_or(0, |slots| slots.segment_bytes);
        trailer.packets > 0
            && trailer.segment_bytes as usize == bytes
            && trailer.interfaces as usize == self.section.len()
            && trailer.earliest_ns <= trailer.latest_ns
            && used_bytes(trailer) <= (bytes - TAIL_BYTES) as u64
            && word(tail, TAIL_BYTES - 4, false) == trailer.segment_bytes - trailer.blocks_end
    }

    /// Skips the segment ahead, whose trailer [`trailer_ahead`](Self::trailer_ahead) returned: the
    /// next chunk starts after it.
    pub fn pass_segment(&mut self, trailer: &Trailer) {
        let Some(slots) = self.slots.as_mut().filter(|_| self.mode == Mode::Slot) else { return };
        self.offset += slots.segment_bytes as u64;
        slots.end = self.offset;
        slots.state = State::Sound;
        slots.pass(trailer);
    }

    /// Continues at another file offset: the next chunk starts there. A record of the same section
    /// must start there, with no interface described in between. Returns false, and stays in place,
    /// if the decoder is not at a record of a plain file.
    pub fn jump(&mut self, offset: u64) -> bool {
        let is_plain = self.slots.is_none() && matches!(self.mode, Mode::Classic | Mode::Blocks);
        if is_plain {
            self.offset = offset;
            self.classic.last_seconds = None;
            (self.dead_ends, self.rival_ends) = (DeadEnds::default(), DeadEnds::default());
            self.doubtful_to = 0;
        }
        is_plain
    }

    /// Returns what must not change over bytes that are skipped by a jump.
    pub fn landmark(&self) -> Landmark {
        Landmark { section_start: self.section_start, interfaces: self.interfaces.len() }
    }
}
