//! Looks for a time in a recording, without reading its trailers one by one.
//!
//! ```text
//!  | header | ... surely earlier ... | looked at one by one | ... surely later ... | last |
//!             passed by a few looks                           passed at once
//! ```
//!
//! A trailer bounds how far times are out of order, D, in all segments up to its own. Where a
//! segment begins more than D before the first time that is wanted, no segment in front of it has a
//! time that is. The last such segment is looked for by halves; each step stands by itself. Where a
//! segment ends D or more behind the last time that is wanted, no segment behind it has one.
//!
//! The last segment is read in any case, and does not say D, so D is that of the one in front of
//! it. Recordings of earlier versions do not say D either, and all their trailers are looked at.

use burstline_wire::files::{SegmentAhead, Trailer};

use super::CaptureReader;

/// Which times are wanted, and what is known of the times of the recording.
#[derive(Default)]
pub(super) struct Times {
    /// The earliest, and the first behind them that is not wanted, until they are looked for.
    wanted: Option<(Option<u64>, Option<u64>)>,
    end: Option<End>,
}

/// What is needed to stop before the end.
struct End {
    to_ns: u64,
    /// That of the segment in front of the last.
    trailer: Trailer,
    disorder_ns: u64,
}

impl CaptureReader {
    /// Packets of times outside `from_ns..to_ns` may be passed.
    pub(in super::super) fn want_times(&mut self, from_ns: Option<u64>, to_ns: Option<u64>) {
        let is_any = from_ns.is_none() && to_ns.is_none();
        self.times.wanted = (!is_any).then_some((from_ns, to_ns));
    }

    /// Passes segments that are surely too early, once. Returns how many, and their packets.
    pub(super) fn pass_early(&mut self) -> Option<(u64, u64)> {
        let ahead = self.decoder.segment_ahead()?;
        let (from_ns, to_ns) = self.times.wanted.take()?;
        let [first, last] = self.numbers(&ahead)?;
        let mut tail = [0; SegmentAhead::TAIL_BYTES];
        let trailer = self.look_at(last.checked_sub(1)?, &mut tail)?;
        let disorder_ns = Trailer::disorder_ns(&tail)?;
        self.times.end = to_ns.map(|to_ns| End { to_ns, trailer, disorder_ns });
        let from_ns = from_ns?;
        let (mut low, mut high, mut found) = (first, last, None);
        while high - low > 1 {
            let middle = low.midpoint(high);
            match self.look_at(middle, &mut tail) {
                Some(trailer) if trailer.earliest_ns.saturating_add(disorder_ns) < from_ns => {
                    (low, found) = (middle, Some(trailer));
                }
                _ => high = middle,
            }
        }
        self.decoder.pass_to(&found?)
    }

    /// Where a segment ahead is surely too late, passes all that are in front of the last but one.
    /// Returns how many, and their packets.
    pub(super) fn pass_late(&mut self, trailer: &Trailer) -> Option<(u64, u64)> {
        let is_over =
            |end: &mut End| trailer.latest_ns.saturating_sub(end.disorder_ns) >= end.to_ns;
        let end = self.times.end.take_if(is_over)?;
        self.decoder.pass_to(&end.trailer)
    }

    /// The numbers of the segment ahead and of the last.
    fn numbers(&self, ahead: &SegmentAhead) -> Option<[u64; 2]> {
        let (start, bytes) = (self.decoder.landmark().section_start, ahead.bytes as u64);
        let section_bytes = self.input.capture_bytes()?.checked_sub(start)?;
        let first = ahead.offset.checked_sub(start)? / bytes;
        let last = section_bytes.div_ceil(bytes).checked_sub(1)?;
        (first < last).then_some([first, last])
    }

    /// The trailer of a segment; `None`: it is not to be believed.
    fn look_at(&self, number: u64, tail: &mut [u8; SegmentAhead::TAIL_BYTES]) -> Option<Trailer> {
        let place = self.decoder.segment_numbered(number)?.tail_offset();
        let is_read = self.input.read_at(place, tail);
        is_read.then(|| self.decoder.trailer_farther(number, tail)).flatten()
    }
}
