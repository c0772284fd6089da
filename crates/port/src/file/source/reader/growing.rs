//! Reads a file while it grows: only what its writer does not change any more.
//!
//! ```text
//!  segments     | header | 1 | 2 | 3 | open |     read to the end of 3, from segment 2 on
//!  in a row     | packet | packet | pac           read to the last byte
//!  compressed                                     read once nobody writes it
//! ```
//!
//! A recorder writes its open segment in place, again and again. It leaves a segment for good when
//! the next one goes on with its numbers. A recording that ends in its first segment is written
//! again as plain pcapng: such a file is read when it is closed. Our recorder locks what it writes.
//! A file of another program has no lock. It may grow until the caller says that the next one of
//! its run is there ([`CaptureReader::is_not_last`]). If it is silent, the caller may put it aside.

use std::io;

use burstline_wire::files::{Decoder, FileKind, SegmentAhead, Step, Trailer};

use super::super::super::input::Pulled;
use super::{CaptureReader, size_of};
use crate::PortError;

/// Segments that are looked at in a row: what is known to be safe is read first.
const LOOKED_AT: u32 = 256;

/// What is known of a file that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Growth {
    /// Bytes of a segment; `None` if packets are written in a row.
    segment_bytes: Option<u64>,
    /// The first bytes of segments, which do not change any more.
    safe_bytes: u64,
    /// Whether it may grow without a lock: its writer is another program.
    needs_no_lock: bool,
    /// Whether a whole record at its end is read, though none follows it.
    is_still: bool,
}

/// Whether an unread file can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Begin {
    /// Nobody writes it.
    Whole,
    /// It grows, and can be followed.
    Growing(Growth),
    /// Not yet: what is there may still change.
    Later,
}

impl Growth {
    /// What another program writes in a row.
    pub(in super::super) fn without_lock() -> Self {
        Self { segment_bytes: None, safe_bytes: 0, needs_no_lock: true, is_still: false }
    }

    /// The same if the next file of its run is there: without a lock it grows no more.
    pub(in super::super) fn behind_another(self) -> Self {
        Self { needs_no_lock: false, ..self }
    }
}

impl CaptureReader {
    /// Returns whether an unread regular file can be read. `is_finished`: without a lock it grows
    /// no more. `is_still`: it has not changed for a while.
    pub(in super::super) fn begin(
        &mut self,
        is_finished: bool,
        is_still: bool,
    ) -> Result<Begin, PortError> {
        let is_locked = self.input.is_locked();
        let Some(file_bytes) = size_of(&self.input).filter(|_| is_locked || !is_finished) else {
            return Ok(Begin::Whole);
        };
        let is_plain = matches!(self.kind, Some(FileKind::Pcapng | FileKind::Pcap { .. }));
        let at_once = if is_still && !is_locked { Begin::Whole } else { Begin::Later };
        if !is_plain || self.container.is_some() {
            return Ok(at_once);
        }
        let segment_bytes = self.segment_bytes()?;
        Ok(match segment_bytes {
            Some(_) if !is_locked => at_once,
            Some(bytes) if self.trailer_at(2, bytes).is_none() => Begin::Later,
            // Plain pcapng is being written over segments.
            None if is_locked && self.ends_with_segment(file_bytes) => Begin::Later,
            _ => Begin::Growing(Growth {
                segment_bytes,
                safe_bytes: segment_bytes.unwrap_or(0),
                needs_no_lock: !is_locked,
                is_still: false,
            }),
        })
    }

    /// Returns the bytes of a segment of an unread file; `None` if it has none. Reads as far as the
    /// first one.
    fn segment_bytes(&mut self) -> Result<Option<u64>, PortError> {
        loop {
            let mut decoder = Decoder::new();
            let step = decoder.next(self.window.rest(), &mut 0, self.is_read);
            let found = decoder.segment_bytes().map(|bytes| bytes as u64);
            match step {
                Step::NeedMore { bytes } if found.is_none() && !self.is_read => {
                    self.needed = bytes;
                    self.refill()?;
                }
                _ => return Ok(found),
            }
        }
    }

    /// Whether more may come behind what the file has now.
    pub(in super::super) fn is_growing(&self) -> bool {
        self.growth.is_some()
    }

    /// The next file of its run is there.
    pub(in super::super) fn is_not_last(&mut self) {
        self.growth = self.growth.map(Growth::behind_another);
    }

    /// Whether it may grow without a lock, and has none.
    pub(in super::super) fn is_of_another_program(&self) -> bool {
        self.growth.is_some_and(|growth| growth.needs_no_lock) && !self.input.is_locked()
    }

    /// Reads, or no longer reads, a whole record at the end though none follows it. False if that
    /// changes nothing.
    pub(in super::super) fn be_still(&mut self, is_still: bool) -> bool {
        let growth = self.growth.as_mut();
        growth.is_some_and(|growth| std::mem::replace(&mut growth.is_still, is_still) != is_still)
    }

    /// Whether the window has a single record, ends with it, and that is to be read.
    pub(super) fn is_at_last_record(&self) -> bool {
        if !self.growth.is_some_and(|growth| growth.is_still) {
            return false;
        }
        let rest = self.window.rest();
        let (at, others) = match self.kind {
            Some(FileKind::Pcap { .. }) => (8, 16),
            _ => (4, 0),
        };
        let Some(Ok(length)) = rest.get(at..at + 4).map(<[u8; 4]>::try_from) else { return false };
        let ends_at = |length: u32| length as usize + others == rest.len();
        rest.len() >= 12
            && (ends_at(u32::from_le_bytes(length)) || ends_at(u32::from_be_bytes(length)))
    }

    /// Returns how many bytes of a file were read whose packets are in a row; `None` for another.
    pub(in super::super) fn bytes_in_a_row(&self) -> Option<u64> {
        let is_plain = matches!(self.kind, Some(FileKind::Pcapng | FileKind::Pcap { .. }));
        let is_in_a_row = is_plain && self.container.is_none() && !self.decoder.is_segmented();
        let here = self.decoder.file_offset() + self.window.rest().len() as u64;
        is_in_a_row.then(|| here.max(self.input.bytes_read()))
    }

    /// Whether bytes were read that are no whole record yet.
    pub(in super::super) fn has_rest(&self) -> bool {
        !self.window.rest().is_empty()
    }

    /// Passes packets that were read before. False if there are fewer.
    pub(in super::super) fn pass_packets(&mut self, packets: u64) -> Result<bool, PortError> {
        let mut passed = 0;
        while passed < packets {
            match self.step() {
                Step::Packet(_) => passed += 1,
                Step::Damage(_) => {}
                Step::Refused(error) => return Err(self.refused(error)),
                Step::End => return Ok(false),
                Step::NeedMore { .. } => {
                    if self.refill()? == Pulled::Nothing && !self.be_still(true) {
                        return Ok(false);
                    }
                }
            }
        }
        self.be_still(false);
        Ok(true)
    }

    /// Reads on to the end that the file has now, whether or not it grows.
    pub(in super::super) fn read_to_end(&mut self) {
        if self.growth.take().is_some() {
            self.end_bytes = size_of(&self.input);
        }
    }

    /// Returns how many further bytes may be read now; `None` if the file grows no more.
    fn room(&mut self) -> Option<u64> {
        let at = self.decoder.file_offset() + self.window.rest().len() as u64;
        if let Some(end) = self.end_bytes {
            return Some(end.saturating_sub(at));
        }
        let mut growth = self.growth?;
        if at < growth.safe_bytes {
            return Some(growth.safe_bytes - at);
        }
        if !growth.needs_no_lock && !self.input.is_locked() {
            // Nobody writes it now: a missing end is damage.
            (self.growth, self.size) = (None, size_of(&self.input));
            return None;
        }
        let Some(bytes) = growth.segment_bytes else { return Some(u64::MAX) };
        let mut number = growth.safe_bytes / bytes;
        let mut here = self.trailer_at(number, bytes);
        for _ in 0..LOOKED_AT {
            let next = self.trailer_at(number + 1, bytes);
            let (Some(this), Some(that)) = (here, next) else { break };
            if this.first_packet + u64::from(this.packets) != that.first_packet {
                break;
            }
            number += 1;
            here = next;
        }
        growth.safe_bytes = number * bytes;
        self.growth = Some(growth);
        Some(growth.safe_bytes - at)
    }

    /// Reads once, as far as that is safe. At the end of a file that grows, nothing is there now.
    pub(super) fn pull(&mut self) -> io::Result<Pulled> {
        let room = self.room();
        if room == Some(0) && self.end_bytes.is_none() {
            return Ok(Pulled::Nothing);
        }
        let (input, window) = (&mut self.input, &mut self.window);
        let pulled = window.fill(self.needed, |place| {
            let bytes = room.map_or(place.len(), |most| place.len().min(most as usize));
            input.pull(&mut place[..bytes])
        })?;
        let is_end = pulled == Pulled::End && self.growth.is_some();
        Ok(if is_end { Pulled::Nothing } else { pulled })
    }

    /// Returns the trailer of a segment of these bytes, if it is there.
    fn trailer_at(&self, number: u64, bytes: u64) -> Option<Trailer> {
        let segment = SegmentAhead { offset: number.checked_mul(bytes)?, bytes: bytes as usize };
        let mut tail = [0; SegmentAhead::TAIL_BYTES];
        let is_read = self.input.read_at(segment.tail_offset(), &mut tail);
        let trailer = if is_read { Trailer::parse(&tail) } else { None };
        trailer.filter(|trailer| trailer.sequence == number)
    }

    /// Whether the file ends where a segment does.
    fn ends_with_segment(&self, file_bytes: u64) -> bool {
        let mut tail = [0; SegmentAhead::TAIL_BYTES];
        let at = file_bytes.checked_sub(SegmentAhead::TAIL_BYTES as u64);
        let is_read = at.is_some_and(|at| self.input.read_at(at, &mut tail));
        is_read && Trailer::parse(&tail).is_some() && self.kind == Some(FileKind::Pcapng)
    }
}
