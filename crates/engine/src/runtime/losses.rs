//! When to read losses, and the losses of the first second.

/// Interval between two reads of the losses in a running job, in ns. An account costs an
/// allocation, and system calls for some ports.
pub(super) const LOSSES_EVERY_NS: u64 = 100_000_000;

/// One second, the period of `lost_first_second`.
const SECOND_NS: u64 = 1_000_000_000;

/// One stage's loss watch.
pub(super) struct LossWatch {
    start_ns: u64,
    shown_ns: u64,
    first_second: Option<u64>,
}

impl LossWatch {
    /// Starts the watch of a job that began at `start_ns`.
    pub(super) fn new(start_ns: u64) -> Self {
        Self { start_ns, shown_ns: start_ns, first_second: None }
    }

    /// Returns whether the next read is due; true once for each interval.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.shown_ns) >= LOSSES_EVERY_NS;
        if is_due {
            self.shown_ns = now_ns;
        }
        is_due
    }

    /// Notes that `lost` packets were lost by now.
    pub(super) fn saw(&mut self, lost: u64, now_ns: u64) {
        if self.first_second.is_none() && now_ns - self.start_ns >= SECOND_NS {
            self.first_second = Some(lost);
        }
    }

    /// Returns the losses of the first second, or `lost` if the job was shorter.
    pub(super) fn first_second_or(&self, lost: u64) -> u64 {
        self.first_second.unwrap_or(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_after_a_second_counts_and_none_later() {
        let mut watch = LossWatch::new(5);
        assert!(!watch.is_due(5 + LOSSES_EVERY_NS - 1));
        assert!(watch.is_due(5 + LOSSES_EVERY_NS));
        assert!(!watch.is_due(5 + LOSSES_EVERY_NS));
        watch.saw(3, 5 + SECOND_NS - 1);
        assert_eq!(watch.first_second_or(4), 4, "the job was shorter than a second");
        watch.saw(5, 5 + SECOND_NS);
        watch.saw(9, 5 + 2 * SECOND_NS);
        assert_eq!(watch.first_second_or(10), 5);
    }
}
