//! Measures the offset between two machines' clocks.
//!
//! ```text
//!   here    before ------.              .------ after      before <= the moment <= after
//!   there                 '--> there --'                   offset = there - the moment
//! ```
//!
//! The other side reads its clock at some moment between two readings of ours. So the offset is
//! between `there - after` and `there - before`, however long the request and the reply took. The
//! narrowest of many exchanges counts: its middle is the offset, half its width the uncertainty.
//!
//! Invariant C1: as long as neither clock steps, the true offset at that moment is within the
//! uncertainty. An exchange in which our own clock went back is discarded.

use burstline_sys::clock;
use serde::{Deserialize, Serialize};

use crate::record::Clock;

/// Both clocks of a machine, read one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Now {
    pub(super) realtime_ns: u64,
    pub(super) monotonic_ns: u64,
}

impl Now {
    pub(super) fn read() -> Self {
        Self { realtime_ns: clock::realtime_ns(), monotonic_ns: clock::monotonic_ns() }
    }
}

/// One exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) before: Now,
    pub(super) there: Now,
    pub(super) after: Now,
}

/// A clock's name and how to read it.
type Kind = (&'static str, fn(&Now) -> u64);

const KINDS: [Kind; 2] =
    [("realtime", |now| now.realtime_ns), ("monotonic", |now| now.monotonic_ns)];

/// Returns the offset of each clock that has a reading.
pub(super) fn compare(readings: &[Reading], at: &str) -> Vec<Clock> {
    let of = |(name, read): Kind| {
        let spans = readings.iter().map(|reading| {
            let there = i128::from(read(&reading.there));
            (there - i128::from(read(&reading.after)), there - i128::from(read(&reading.before)))
        });
        let spans: Vec<_> = spans.filter(|(least, most)| least <= most).collect();
        let &(least, most) = spans.iter().min_by_key(|(least, most)| most - least)?;
        let width = most - least;
        Some(Clock {
            clock: name.to_owned(),
            at: at.to_owned(),
            offset_ns: i64::try_from(least + width / 2).ok()?,
            uncertainty_ns: u64::try_from((width + 1) / 2).ok()?,
            exchanges: spans.len(),
        })
    };
    KINDS.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(ns: u64) -> Now {
        Now { realtime_ns: ns, monotonic_ns: 7 }
    }

    fn reading(before: u64, there: u64, after: u64) -> Reading {
        Reading { before: now(before), there: now(there), after: now(after) }
    }

    #[test]
    fn the_narrowest_exchange_counts_and_holds_the_true_offset() {
        // The true offset is 1,000, however asymmetric the delays.
        let readings =
            [reading(100, 1_190, 200), reading(300, 1_301, 311), reading(400, 1_450, 500)];
        let clocks = compare(&readings, "before");
        let realtime = &clocks[0];
        assert_eq!((realtime.clock.as_str(), realtime.exchanges), ("realtime", 3));
        assert_eq!((realtime.offset_ns, realtime.uncertainty_ns), (995, 6));
        assert!(realtime.offset_ns.abs_diff(1_000) <= realtime.uncertainty_ns);
        assert_eq!((clocks[1].offset_ns, clocks[1].uncertainty_ns), (0, 0));
    }

    #[test]
    fn a_clock_that_was_set_back_meanwhile_is_no_reading() {
        let clocks = compare(&[reading(500, 90, 100), reading(100, 50, 110)], "after");
        assert_eq!((clocks[0].offset_ns, clocks[0].uncertainty_ns), (-55, 5));
        assert_eq!(clocks[0].exchanges, 1);
        assert!(compare(&[reading(500, 90, 100)], "after").iter().all(|c| c.clock != "realtime"));
    }
}
