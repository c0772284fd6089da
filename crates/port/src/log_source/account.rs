//! The port's ledger, over all the writers that it has read.

use burstline_log::ReaderStatistics;
use burstline_share::Feed;

/// More packets than any writer publishes: false counts are clamped, so sums do not overflow.
const MOST: u64 = 1 << 52;

/// Sums over the writers read before the present one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    offered: u64,
    consumed: u64,
    missed: u64,
    torn: u64,
}

/// Packet counts over all writers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) offered: u64,
    /// Packets that the readers took or missed.
    pub(super) consumed: u64,
    pub(super) missed: u64,
    /// Consumed packets that an untrusting reader found inconsistent.
    pub(super) torn: u64,
}

impl Past {
    /// Adds the present writer: its packets since the reader's start, at most up to `stop` if set.
    pub(super) fn with(&self, feed: &Feed, stop: Option<u64>) -> Sums {
        let ReaderStatistics { missed, torn, .. } = feed.statistics();
        let consumed = consumed(feed);
        // Read after the consumed count, so at least equal to it if the writer is trusted.
        let offered = match stop {
            Some(stop) => stop.max(consumed),
            None => feed.offered(),
        };
        Sums {
            offered: self.offered + offered.min(MOST),
            consumed: self.consumed + consumed,
            missed: self.missed + missed.min(MOST),
            torn: self.torn + torn.min(MOST),
        }
    }

    /// Moves the present writer to the past.
    pub(super) fn add(&mut self, feed: &Feed) {
        let Sums { offered, consumed, missed, torn } = self.with(feed, None);
        *self = Self { offered, consumed, missed, torn };
    }
}

/// Returns the number of packets that a reader took or missed.
pub(super) fn consumed(feed: &Feed) -> u64 {
    let ReaderStatistics { delivered, missed, .. } = feed.statistics();
    delivered.saturating_add(missed).min(MOST)
}
