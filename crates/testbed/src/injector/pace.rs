//! When the next frames are due.

use std::time::Duration;
use std::{hint, thread};

use super::{CALL_FRAMES, now};

/// Calls a second at a given rate, so that frames come evenly. Each costs about 10 us.
const CALLS_PER_SECOND: u64 = 4000;

/// What a sleep may take longer than asked for; the rest of a wait is spun.
const SLEEP_SLACK: Duration = Duration::from_micros(100);

pub(super) struct Pace {
    start: Duration,
    rate_pps: Option<u64>,
}

impl Pace {
    /// Begins now.
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

    /// How many frames to inject by one call, in `[1, CALL_FRAMES]`.
    pub(super) fn frames_at_once(&self) -> u64 {
        let even = |rate_pps: u64| (rate_pps / CALLS_PER_SECOND).clamp(1, CALL_FRAMES);
        self.rate_pps.map_or(CALL_FRAMES, even)
    }

    /// Returns when the frame after the first `done` ones is due.
    pub(super) fn wait_for(&self, done: u64) {
        let Some(rate_pps) = self.rate_pps else { return };
        // No run lasts the 500 years that do not fit.
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
