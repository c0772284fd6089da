//! Searches a recording for a time, without reading its trailers one by one.
//!
//! ```text
//!  | header | ... surely earlier ... | checked one by one   | ... surely later ... | last |
//!             skipped by binary search                        skipped together
//! ```
//!
//! A trailer bounds how far times are out of order, D, in all segments up to its own. If a segment
//! begins more than D before the first wanted time, no segment before it has a wanted time. Binary
//! search finds the last such segment; each step is valid on its own. If a segment ends D or more
//! after the last wanted time, no segment after it has a wanted time.
//!
//! The last segment is always read, and does not record D, so D comes from the one before it.
//! Recordings of earlier versions do not record D either, and all their trailers are checked.

use burstline_wire::files::{SegmentAhead, Trailer};

use super::CaptureReader;

/// The wanted times, and what is known of the recording's times.
#[derive(Default)]
pub(super) struct Times {
    /// The first wanted time, and the first one after the wanted range, until the search.
    wanted: Option<(Option<u64>, Option<u64>)>,
    end: Option<End>,
}

/// The data needed to stop before the end.
struct End {
    to_ns: u64,
    /// The trailer of the last but one segment.
    trailer: Trailer,
    disorder_ns: u64,
}

impl CaptureReader {
    /// Allows skipping packets with times outside `from_ns..to_ns`.
    pub(in super::super) fn want_times(&mut self, from_ns: Option<u64>, to_ns: Option<u64>) {
        let is_any = from_ns.is_none() && to_ns.is_none();
        self.times.wanted = (!is_any).then_some((from_ns, to_ns));
    }

    /// Skips segments that are certainly too early, once. Returns their number, and their packets.
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

    /// If the segment ahead is certainly too late, skips all segments up to the last but one.
    /// Returns their number, and their packets.
    pub(super) fn pass_late(&mut self, trailer: &Trailer) -> Option<(u64, u64)> {
        let is_over =
            |end: &mut End| trailer.latest_ns.saturating_sub(end.disorder_ns) >= end.to_ns;
        let end = self.times.end.take_if(is_over)?;
        self.decoder.pass_to(&end.trailer)
    }

    /// Returns the numbers of the segment ahead and of the last segment.
    fn numbers(&self, ahead: &SegmentAhead) -> Option<[u64; 2]> {
        let (start, bytes) = (self.decoder.landmark().section_start, ahead.bytes as u64);
        let section_bytes = self.input.capture_bytes()?.checked_sub(start)?;
        let first = ahead.offset.checked_sub(start)? / bytes;
        let last = section_bytes.div_ceil(bytes).checked_sub(1)?;
        (first < last).then_some([first, last])
    }

    /// Returns the trailer of a segment; `None` if it is invalid.
    fn look_at(&self, number: u64, tail: &mut [u8; SegmentAhead::TAIL_BYTES]) -> Option<Trailer> {
        let place = self.decoder.segment_numbered(number)?.tail_offset();
        let is_read = self.input.read_at(place, tail);
        is_read.then(|| self.decoder.trailer_farther(number, tail)).flatten()
    }
}
