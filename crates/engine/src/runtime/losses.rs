//! When losses are looked at, and how many there were in the first second.

/// How often losses are looked at while a job runs, in ns: an account costs an allocation, and
/// some ports system calls.
pub(super) const LOSSES_EVERY_NS: u64 = 100_000_000;

/// One second: what `lost_first_second` is about.
const SECOND_NS: u64 = 1_000_000_000;

/// One stage's watch over its losses.
pub(super) struct LossWatch {
    start_ns: u64,
    shown_ns: u64,
    first_second: Option<u64>,
}

impl LossWatch {
    /// For a job that began at `start_ns`.
    pub(super) fn new(start_ns: u64) -> Self {
        Self { start_ns, shown_ns: start_ns, first_second: None }
    }

    /// Whether it is time to look again; true once for each time.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.shown_ns) >= LOSSES_EVERY_NS;
        if is_due {
            self.shown_ns = now_ns;
        }
        is_due
    }

    /// This many were `lost` by now.
    pub(super) fn saw(&mut self, lost: u64, now_ns: u64) {
        if self.first_second.is_none() && now_ns - self.start_ns >= SECOND_NS {
            self.first_second = Some(lost);
        }
    }

    /// Lost in the first second: of a job that did not last as long, all that were `lost`.
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
