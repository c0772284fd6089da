//! Limits how long to wait for a stalled device.

use std::thread;
use std::time::Duration;

/// Time between two tries. A sleep takes longer than requested, so this is about 100 us.
const PAUSE: Duration = Duration::from_micros(50);

/// Remembers since when there was no progress.
pub(crate) struct Wait {
    most_ns: u64,
    /// The progress count when the device stalled, and the time of that.
    still: Option<(u64, u64)>,
}

impl Wait {
    pub(crate) fn new(most_ns: u64) -> Self {
        Self { most_ns, still: None }
    }

    /// Waits for room; `done` is the number of packets completed so far. Returns immediately if it
    /// has grown since the last call, otherwise after a pause. Returns false, without a pause, if
    /// the device has stalled up to the limit.
    pub(crate) fn pause(&mut self, done: u64, now_ns: u64) -> bool {
        match self.still {
            Some((before, since_ns)) if before == done => {
                if now_ns - since_ns >= self.most_ns {
                    return false;
                }
                thread::sleep(PAUSE);
            }
            _ => self.still = Some((done, now_ns)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_device_that_stands_still_is_given_up_and_only_until_it_moves() {
        let mut wait = Wait::new(100);
        assert!(wait.pause(7, 1_000) && wait.pause(7, 1_099));
        assert!(!wait.pause(7, 1_100) && !wait.pause(7, 5_000));
        assert!(wait.pause(8, 5_001), "it moved");
        assert!(wait.pause(8, 5_100) && !wait.pause(8, 5_101));
        assert!(Wait::new(0).pause(0, 9), "one try without a pause");
    }
}
