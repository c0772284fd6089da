//! For how long a device that stands still is waited for.

use std::thread;
use std::time::Duration;

/// Between two tries. A sleep takes longer than it says, so this is about 100 us.
const PAUSE: Duration = Duration::from_micros(50);

/// Remembers since when nothing was done.
pub(crate) struct Wait {
    most_ns: u64,
    /// What was done when the device began to stand still, and when that was.
    still: Option<(u64, u64)>,
}

impl Wait {
    pub(crate) fn new(most_ns: u64) -> Self {
        Self { most_ns, still: None }
    }

    /// To be called when there is no room, with how many packets were done so far. Returns at once
    /// where that is more than the last time, else after a pause. False, at once: the device has
    /// stood still for as long as it may.
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
