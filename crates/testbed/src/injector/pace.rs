//! Computes when the next frames are due.

use std::time::Duration;
use std::{hint, thread};

use super::{CALL_FRAMES, now};

/// Calls per second at a given rate, so that frames are evenly spaced. Each costs about 10 us.
const CALLS_PER_SECOND: u64 = 4000;

/// How much a sleep may overshoot; the rest of a wait spins.
const SLEEP_SLACK: Duration = Duration::from_micros(100);

pub(super) struct Pace {
    start: Duration,
    rate_pps: Option<u64>,
}

impl Pace {
    /// Starts now.
    ///
    /// # Panics
    /// If the rate is 0.
    pub(super) fn start(rate_pps: Option<u64>) -> Self {
        assert_ne!(rate_pps, Some(0), "frames a second");
        Self { start: now(), rate_pps }
    }

    pub(super) fn elapsed(&self) -> Duration {
        now() - self.start
    }

    /// Returns the number of frames per call, in `[1, CALL_FRAMES]`.
    pub(super) fn frames_at_once(&self) -> u64 {
        let even = |rate_pps: u64| (rate_pps / CALLS_PER_SECOND).clamp(1, CALL_FRAMES);
        self.rate_pps.map_or(CALL_FRAMES, even)
    }

    /// Returns when the frame after the first `done` ones is due.
    pub(super) fn wait_for(&self, done: u64) {
        let Some(rate_pps) = self.rate_pps else { return };
        // Overflow would take a run of more than 500 years.
        let due_ns = u128::from(done) * 1_000_000_000 / u128::from(rate_pps);
        let due = self.start + Duration::from_nanos(due_ns as u64);
        if let Some(sleep) = due.saturating_sub(now()).checked_sub(SLEEP_SLACK) {
            thread::sleep(sleep);
        }
        while now() < due {
            hint::spin_loop();
        }
    }
}
