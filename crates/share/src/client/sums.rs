//! Totals of a reader over all logs and all writers.

use crate::feed::Feed;

/// Counts of packets. Sums saturate, because a writer may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Published since the reader's start, by the writers' count.
    pub offered: u64,
    /// Lent.
    pub delivered: u64,
    /// Overwritten before they were read.
    pub missed: u64,
    /// Number of times that the writer overtook the reader.
    pub laps: u64,
    /// Overwritten while they were read.
    pub torn: u64,
}

impl Sums {
    /// Adds the counts of one reader.
    pub(crate) fn with(self, feed: &Feed) -> Self {
        let seen = feed.statistics();
        Self {
            // Read after the counts of packets read, so it is at least as large.
            offered: self.offered.saturating_add(feed.offered()),
            delivered: self.delivered.saturating_add(seen.delivered),
            missed: self.missed.saturating_add(seen.missed),
            laps: self.laps.saturating_add(seen.laps),
            torn: self.torn.saturating_add(seen.torn),
        }
    }
}
