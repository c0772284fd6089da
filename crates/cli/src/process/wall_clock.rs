//! Detects jumps of the realtime clock, which packet timestamps come from, while a job runs.
//!
//! Timestamps before and after a jump do not compare: rates, the order of merges and file names
//! become wrong. The thread that shows the job compares realtime with the monotonic clock, and
//! reports the first jump. A service that slews the clock stays below [`JUMP_NS`] between two
//! checks.

use burstline_sys::clock;

/// The smallest change between two checks that counts as a jump.
const JUMP_NS: i128 = 250_000_000;

/// A check is discarded if its two readings of the monotonic clock are at least this far apart.
const READING_NS: u64 = 10_000_000;

/// The difference between the two clocks at the last check.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    offset_ns: Option<i128>,
    was_said: bool,
}

impl WallClock {
    /// Returns a warning at the first jump. Cost: three clock readings.
    pub(crate) fn look(&mut self) -> Option<String> {
        let before_ns = clock::monotonic_ns();
        let day_ns = clock::realtime_ns();
        let is_close = clock::monotonic_ns() - before_ns < READING_NS;
        if is_close { self.compare(day_ns, before_ns) } else { None }
    }

    fn compare(&mut self, day_ns: u64, monotonic_ns: u64) -> Option<String> {
        let offset_ns = i128::from(day_ns) - i128::from(monotonic_ns);
        let jump_ns = offset_ns - self.offset_ns.replace(offset_ns)?;
        if jump_ns.abs() < JUMP_NS || self.was_said {
            return None;
        }
        self.was_said = true;
        let seconds = jump_ns as f64 / 1e9;
        let note = format!(
            "warning: the clock was set by {seconds:+.1} s: times of packets before and after \
             cannot be compared; see chronyc tracking"
        );
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_jump_is_said_once_and_a_slow_correction_never() {
        let mut clock = WallClock::default();
        assert_eq!(clock.compare(100 * SECOND_NS, SECOND_NS), None);
        // A clock that runs a tenth too fast.
        for second in 2..20 {
            let day_ns = 100 * SECOND_NS + (second - 1) * SECOND_NS * 11 / 10;
            assert_eq!(clock.compare(day_ns, second * SECOND_NS), None);
        }
        let said = clock.compare(50 * SECOND_NS, 20 * SECOND_NS).unwrap();
        assert!(said.contains("the clock was set by -70.8 s"), "{said}");
        assert_eq!(clock.compare(500 * SECOND_NS, 21 * SECOND_NS), None);
    }

    #[test]
    fn a_clock_that_nobody_sets_is_not_spoken_of() {
        let mut clock = WallClock::default();
        assert_eq!((clock.look(), clock.look()), (None, None));
    }
}
