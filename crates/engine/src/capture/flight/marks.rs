//! Marks the arrival times of packets, so that a file begins where the requested history does.
//!
//! ```text
//!   marks        m0        m1        m2        m3        now
//!   -------------|---------|---------|---------|---------|---> time
//!                               |<---- keep_ns --------->|
//!                          m1: packets before its number are too old
//! ```
//!
//! A mark has the monotonic time at which a packet was in the log, as for the ages of segments.
//! Packets' own times may come from a file or another machine. A mark also has the losses of the
//! sources at that time: those before a file begins are not in it.
//!
//! Invariants:
//! - M1: of two marks the later one has the later time, and no smaller number.
//! - M2: after a look, only the first mark may be older than `keep_ns`.

use std::collections::VecDeque;

/// A file begins at most `keep_ns / PARTS` earlier than requested.
const PARTS: u64 = 128;

/// What a mark notes.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    /// The number of the next packet.
    pub(super) packet: u64,
    /// The losses of each source so far.
    pub(super) lost: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Mark {
    at_ns: u64,
    noted: Noted,
}

/// The marks of one log.
#[derive(Debug)]
pub(super) struct Marks {
    keep_ns: u64,
    marks: VecDeque<Mark>,
}

impl Marks {
    /// Creates the marks of a log whose last `keep_ns` are requested.
    pub(super) fn new(keep_ns: u64) -> Self {
        Self { keep_ns, marks: VecDeque::with_capacity(PARTS as usize + 2) }
    }

    /// Makes a mark if one is due. `note` returns what it notes.
    pub(super) fn look(&mut self, now_ns: u64, note: impl FnOnce() -> Noted) {
        let is_due =
            |last: &Mark| now_ns.saturating_sub(last.at_ns).saturating_mul(PARTS) >= self.keep_ns;
        if self.marks.back().is_none_or(is_due) {
            self.marks.push_back(Mark { at_ns: now_ns, noted: note() });
        }
        while self.marks.get(1).is_some_and(|second| self.is_old(second, now_ns)) {
            self.marks.pop_front();
        }
    }

    /// Returns the number of the first packet that is not too old, according to the marks.
    pub(super) fn cut(&self, now_ns: u64) -> u64 {
        let old = self.marks.iter().take_while(|mark| self.is_old(mark, now_ns));
        old.last().map_or(0, |mark| mark.noted.packet)
    }

    /// Returns the losses of each source before packet number `packet` came, according to the
    /// marks; `None` if it came before all of them.
    pub(super) fn lost_before(&self, packet: u64) -> Option<&[u64]> {
        let before = self.marks.iter().rev().find(|mark| mark.noted.packet <= packet);
        before.map(|mark| &mark.noted.lost[..])
    }

    /// Returns whether packets before a mark are older than requested.
    fn is_old(&self, mark: &Mark, now_ns: u64) -> bool {
        now_ns.saturating_sub(mark.at_ns) >= self.keep_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_no_younger_than_asked_and_not_much_older() {
        let keep_ns = 128_000;
        let mut marks = Marks::new(keep_ns);
        assert_eq!(marks.cut(u64::MAX), 0);
        // A packet every 10 ns, with a look every 300.
        for now_ns in (0..1_000_000).step_by(300) {
            marks.look(now_ns, || Noted { packet: now_ns / 10, lost: vec![now_ns] });
            let came_ns = marks.cut(now_ns) * 10;
            let age_ns = now_ns - came_ns;
            assert!(age_ns >= keep_ns.min(now_ns), "{age_ns} at {now_ns}");
            assert!(age_ns <= keep_ns + keep_ns / PARTS + 600, "{age_ns} at {now_ns}");
            assert!(marks.marks.len() <= PARTS as usize + 2);
            if now_ns >= keep_ns {
                assert_eq!(marks.lost_before(marks.cut(now_ns)), Some(&[came_ns][..]));
            }
        }
        assert_eq!(marks.cut(2_000_000) * 10, marks.marks.back().unwrap().at_ns);
    }

    #[test]
    fn nothing_is_too_old_before_that_time_has_passed() {
        let mut marks = Marks::new(u64::MAX);
        for now_ns in 0..9 {
            marks.look(now_ns, || Noted { packet: 5, lost: vec![now_ns] });
        }
        assert_eq!((marks.cut(9), marks.marks.len()), (0, 1));
        assert_eq!((marks.lost_before(4), marks.lost_before(5)), (None, Some(&[0][..])));
    }
}
