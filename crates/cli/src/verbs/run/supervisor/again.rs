//! When a process of the service itself starts again.
//!
//! Others may end it: any process of its user can. Delays double up to [`DELAY_MOST`], so a process
//! that always ends costs little.

use std::time::{Duration, Instant};

/// The delay before the first restart, and the longest one.
const DELAY_LEAST: Duration = Duration::from_millis(250);
const DELAY_MOST: Duration = Duration::from_secs(4);
/// A process that ran this long gets the first delay again.
const CALM: Duration = Duration::from_secs(10);

/// The time of the next start.
#[derive(Debug)]
pub(super) struct Again {
    due: Instant,
    delay: Duration,
}

impl Again {
    /// Begins with a start that is due.
    pub(super) fn new() -> Self {
        Self { due: Instant::now(), delay: DELAY_LEAST }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Notes an end after this time, and returns the delay before the next start.
    pub(super) fn rest(&mut self, ran: Duration) -> Duration {
        let delay = if ran >= CALM { DELAY_LEAST } else { self.delay };
        self.delay = (delay * 2).min(DELAY_MOST);
        self.due = Instant::now() + delay;
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_always_ends_starts_ever_more_seldom() {
        let (mut again, soon) = (Again::new(), Duration::from_secs(1));
        let delays: Vec<_> = (0..6).map(|_| again.rest(soon).as_millis()).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 4000]);
        assert!(again.due() > Instant::now());
        assert_eq!(again.rest(CALM), DELAY_LEAST);
        assert_eq!(again.rest(soon), DELAY_LEAST * 2);
    }
}
