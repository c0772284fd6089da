//! Decides when no more packets of a trial are to come.
//!
//! Packets count as lost if none has come for a while. In that time each of the receiver's threads
//! must have polled, too. A thread that got no processor time says nothing about the device.

use std::time::{Duration, Instant};

/// Time to wait for more packets after the last one: this part of the trial, within these bounds.
/// Source of the upper one: RFC 2544, section 23.
const PART: u32 = 5;
const LEAST: Duration = Duration::from_millis(200);
const MOST: Duration = Duration::from_secs(2);

/// The longest wait for a thread that does not poll, and for a device that goes on sending.
const LONGEST: Duration = Duration::from_secs(10);

/// How often each thread shows its work before it has surely polled since the last packet: the poll
/// before the first time may have begun earlier.
const SHOWN: u32 = 2;

/// Watches a receiver after the last packet was sent.
#[derive(Debug)]
pub(super) struct Quiet<T> {
    patience: Duration,
    begun: Instant,
    received: u64,
    since: Instant,
    /// What each thread showed when all had changed it.
    shown: Vec<T>,
    changes: u32,
}

impl<T: PartialEq> Quiet<T> {
    /// Begins to wait. `shown`: as for [`is_over`](Self::is_over).
    pub(super) fn new(trial: Duration, shown: Vec<T>, now: Instant) -> Self {
        let patience = (trial / PART).clamp(LEAST, MOST);
        Self { patience, begun: now, received: 0, since: now, shown, changes: 0 }
    }

    /// Returns whether no more packets are to come. `received`: the packets so far. `shown`: what
    /// each thread shows of its work, which changes a few times a second while it runs.
    /// `is_stopped`: the threads are ending.
    pub(super) fn is_over(
        &mut self,
        received: u64,
        shown: Vec<T>,
        is_stopped: bool,
        now: Instant,
    ) -> bool {
        // A device that goes on sending packets of others would otherwise never be quiet.
        let is_bounded = is_stopped || now.saturating_duration_since(self.begun) >= LONGEST;
        if received != self.received {
            (self.received, self.since, self.shown, self.changes) = (received, now, shown, 0);
            return is_bounded && now.saturating_duration_since(self.begun) >= self.patience;
        }
        if self.shown.iter().zip(&shown).all(|(before, after)| before != after) {
            (self.shown, self.changes) = (shown, self.changes + 1);
        }
        let waited = now.saturating_duration_since(self.since);
        let have_polled = self.changes >= SHOWN || is_bounded;
        waited >= self.patience && have_polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial so short that the lower bound counts.
    const TRIAL: Duration = Duration::from_millis(100);

    #[test]
    fn packets_are_waited_for_until_each_thread_has_polled() {
        let begun = Instant::now();
        let after = |ms: u64| begun + Duration::from_millis(ms);
        let mut quiet = Quiet::new(TRIAL, vec![1, 1], begun);
        assert!(!quiet.is_over(0, vec![2, 1], false, after(250)), "the second has not");
        assert!(!quiet.is_over(0, vec![3, 2], false, after(300)), "the second has once");
        assert!(!quiet.is_over(7, vec![4, 3], false, after(310)), "a packet came");
        assert!(!quiet.is_over(7, vec![5, 4], false, after(400)));
        assert!(!quiet.is_over(7, vec![6, 5], false, after(500)), "it is too early");
        assert!(quiet.is_over(7, vec![6, 5], false, after(510)));
    }

    #[test]
    fn a_thread_that_never_polls_is_not_waited_for_forever() {
        let begun = Instant::now();
        let mut quiet = Quiet::new(TRIAL, vec![1], begun);
        assert!(!quiet.is_over(0, vec![1], false, begun + LONGEST / 2));
        assert!(quiet.is_over(0, vec![1], false, begun + LONGEST));
        let mut quiet = Quiet::new(TRIAL, vec![1], begun);
        assert!(!quiet.is_over(0, vec![1], true, begun + LEAST / 2));
        assert!(quiet.is_over(0, vec![1], true, begun + LEAST), "it is ending");
    }
}
