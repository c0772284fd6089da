//! What was read, over all logs and all writers.

use crate::feed::Feed;

/// Counts of packets. What a liar among writers says is cut, so that sums do not overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Published since the reader's start, by the writers' count.
    pub offered: u64,
    /// Lent.
    pub delivered: u64,
    /// Overwritten before they were read.
    pub missed: u64,
    /// How often the writer overtook the reader.
    pub laps: u64,
    /// Overwritten while they were looked at.
    pub torn: u64,
}

impl Sums {
    /// With what one reader has seen.
    pub(crate) fn with(self, feed: &Feed) -> Self {
        let seen = feed.statistics();
        Self {
            // Read after what was consumed, so it is at least that.
            offered: self.offered.saturating_add(feed.offered()),
            delivered: self.delivered.saturating_add(seen.delivered),
            missed: self.missed.saturating_add(seen.missed),
            laps: self.laps.saturating_add(seen.laps),
            torn: self.torn.saturating_add(seen.torn),
        }
    }
}
