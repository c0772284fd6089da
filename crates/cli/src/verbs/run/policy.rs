//! The restart policy of jobs.

use std::time::Duration;

/// After running this long a job has recovered, and earlier failures no longer count.
const CALM: Duration = Duration::from_secs(60);

/// Maximum delay between two starts.
const DELAY_MOST: Duration = Duration::from_secs(60);

/// The kinds of ends after which a job is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    Never,
    OnFailure,
    Always,
}

/// What to do with a job whose port is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Start it and let it fail.
    Fail,
    /// Start it when the port appears.
    Wait,
}

/// The policy of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) restart: Restart,
    /// Delay before the first restart.
    pub(super) delay: Duration,
    /// Maximum number of restarts in a row; 0 for no limit.
    pub(super) limit: u32,
    pub(super) missing: Missing,
    /// How long a job may take to end.
    pub(super) stop_timeout: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            restart: Restart::OnFailure,
            delay: Duration::from_secs(1),
            limit: 10,
            missing: Missing::Fail,
            stop_timeout: Duration::from_secs(30),
        }
    }
}

/// The next step after the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// No restart.
    Rest,
    /// Restart after a delay.
    After(Duration),
    /// Give up after too many failures.
    GiveUp,
}

/// Number of failures in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures(u32);

impl Failures {
    /// Returns the next step for a job that ended after running for `ran`.
    pub(super) fn next(&mut self, policy: &Policy, is_success: bool, ran: Duration) -> Next {
        if is_success || ran >= CALM {
            self.0 = 0;
        }
        match (policy.restart, is_success) {
            (Restart::Never, _) | (Restart::OnFailure, true) => return Next::Rest,
            (Restart::Always, true) => return Next::After(policy.delay),
            (_, false) => self.0 += 1,
        }
        if policy.limit > 0 && self.0 > policy.limit {
            return Next::GiveUp;
        }
        let doublings = (self.0 - 1).min(16);
        Next::After((policy.delay * (1 << doublings)).min(DELAY_MOST.max(policy.delay)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_a_minute_and_end_at_the_limit() {
        let policy = Policy::default();
        let mut failures = Failures::default();
        let seconds = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60];
        for wait in seconds {
            assert_eq!(failures.next(&policy, false, SECOND), Next::After(SECOND * wait));
        }
        assert_eq!(failures.next(&policy, false, SECOND), Next::GiveUp);
        assert_eq!(failures.next(&policy, false, CALM), Next::After(SECOND), "it had recovered");
        let endless = Policy { limit: 0, ..policy };
        for _ in 0..1000 {
            assert_ne!(failures.next(&endless, false, SECOND), Next::GiveUp);
        }
    }

    #[test]
    fn each_policy_after_each_end() {
        for (restart, after_success, after_failure) in [
            (Restart::Never, Next::Rest, Next::Rest),
            (Restart::OnFailure, Next::Rest, Next::After(SECOND)),
            (Restart::Always, Next::After(SECOND), Next::After(SECOND)),
        ] {
            let policy = Policy { restart, ..Policy::default() };
            let mut failures = Failures::default();
            assert_eq!(failures.next(&policy, true, SECOND), after_success, "{restart:?}");
            assert_eq!(failures.next(&policy, false, SECOND), after_failure, "{restart:?}");
        }
    }
}
