//! An exact limit on packets, shared by the workers of a job.
//!
//! ```text
//! limit = free + granted to workers + used       a worker takes a grant before each poll and
//!                                                settles it after: the unused part is free again
//! ```

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Packets that may still be delivered.
pub(crate) struct Budget {
    limit: Option<u64>,
    free: AtomicU64,
    used: AtomicU64,
}

/// The answer to a worker that asks for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Up to this number of packets, at least one.
    Packets(u64),
    /// All packets are granted but not all used: some may be returned.
    Wait,
    /// The limit is reached.
    Reached,
}

impl Budget {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        let free = AtomicU64::new(limit.unwrap_or(u64::MAX));
        Self { limit, free, used: AtomicU64::new(0) }
    }

    /// Returns the limit, if any.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Takes up to `wanted` packets. Cost: none without a limit, else one compare-and-exchange.
    pub(crate) fn take(&self, wanted: u64) -> Grant {
        let Some(limit) = self.limit else { return Grant::Packets(wanted) };
        // Relaxed: these are only counts, no memory depends on them, and each exchange is atomic.
        let granted = self.free.fetch_update(Relaxed, Relaxed, |free| {
            if free == 0 { None } else { Some(free.saturating_sub(wanted)) }
        });
        match granted {
            Ok(free) => Grant::Packets(free.min(wanted)),
            Err(_) if self.used.load(Relaxed) >= limit => Grant::Reached,
            Err(_) => Grant::Wait,
        }
    }

    /// Returns the unused part of a grant to the budget; `used` is in `[0, granted]`.
    pub(crate) fn settle(&self, granted: u64, used: u64) {
        debug_assert!(used <= granted, "{used} packets of {granted} granted");
        if self.limit.is_some() {
            self.used.fetch_add(used, Relaxed); // as in `take`
            self.free.fetch_add(granted.saturating_sub(used), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_only_when_all_is_used() {
        let budget = Budget::new(Some(10));
        assert_eq!(budget.take(8), Grant::Packets(8));
        assert_eq!(budget.take(8), Grant::Packets(2));
        assert_eq!(budget.take(8), Grant::Wait);
        budget.settle(8, 3);
        assert_eq!(budget.take(8), Grant::Packets(5));
        budget.settle(2, 2);
        budget.settle(5, 5);
        assert_eq!(budget.take(1), Grant::Reached);
    }

    #[test]
    fn threads_together_use_exactly_the_limit() {
        let (budget, limit) = (Budget::new(Some(100_003)), 100_003);
        let work = |step: u64| {
            let mut used = 0;
            loop {
                match budget.take(step) {
                    Grant::Packets(granted) => {
                        let kept = granted.div_ceil(2);
                        budget.settle(granted, kept);
                        used += kept;
                    }
                    Grant::Wait => std::thread::yield_now(),
                    Grant::Reached => return used,
                }
            }
        };
        let total: u64 = std::thread::scope(|scope| {
            let threads = [7, 64, 1024].map(|step| scope.spawn(move || work(step)));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, limit);
    }

    #[test]
    fn without_a_limit_everything_is_granted() {
        let budget = Budget::new(None);
        assert_eq!(budget.take(1024), Grant::Packets(1024));
        budget.settle(1024, 0);
        assert_eq!(budget.take(1024), Grant::Packets(1024));
    }
}
