//! Live state of a running job, which its threads update a few times a second: costs, packet ages,
//! and the standings of ports.

use burstline_log::{Log, OwnReader};
use burstline_port::{Losses, PortAccount, RingFill};

use crate::ThreadPlace;
use crate::ledger::remainder;
use crate::runtime::StageCost;

/// A thread of a running job, as of its last update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNow {
    /// Where it runs; its stack and privileges are checked when it ends.
    pub place: ThreadPlace,
    /// Processor time so far, in ns.
    pub cpu_ns: u64,
    /// Wall time of polls that found packets, in ns.
    pub busy_ns: u64,
    /// Wall time of polls that found nothing, in ns; exceeds processor time if preempted.
    pub empty_ns: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// Sleeps that ended because there was work.
    pub wakes: u64,
    /// Ages of its newest packet.
    pub ages: AgesNow,
}

impl StageNow {
    pub(super) fn new(place: ThreadPlace) -> Self {
        let (cpu_ns, busy_ns, empty_ns, sleeps, wakes) = (0, 0, 0, 0, 0);
        let ages = AgesNow::default();
        Self { place, cpu_ns, busy_ns, empty_ns, sleeps, wakes, ages }
    }

    pub(super) fn cost(&mut self, cost: &StageCost) {
        (self.cpu_ns, self.busy_ns, self.empty_ns) = (cost.cpu_ns, cost.busy_ns, cost.empty_ns);
        (self.sleeps, self.wakes) = (cost.sleeps.sleeps, cost.sleeps.wakes);
    }
}

/// Number of bounds in a histogram of ages: the first is 1 us, each next is four times larger.
pub const AGE_BOUNDS: usize = 13;

/// Packets this old are not live: they come from a file or from another machine's clock.
const AGE_MOST_NS: u64 = 60_000_000_000;

/// A histogram of packet ages: from the time stamp until a thread has passed the packet on.
///
/// It samples the newest packet of a thread, ten times a second while packets arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgesNow {
    /// Number of ages between the previous [bound](Self::bound_ns) and this one; the last entry
    /// counts ages above all bounds.
    pub counts: [u64; AGE_BOUNDS + 1],
    /// Sum of the ages, in ns.
    pub sum_ns: u64,
    /// The last age, in ns.
    pub last_ns: u64,
}

impl AgesNow {
    /// Returns bound number `index`, in ns.
    pub fn bound_ns(index: usize) -> u64 {
        1000 << (2 * index)
    }

    /// Counts an age, unless the packet is not live.
    pub(super) fn see(&mut self, age_ns: u64) {
        if age_ns >= AGE_MOST_NS {
            return;
        }
        let bucket = (0..AGE_BOUNDS).position(|index| age_ns < Self::bound_ns(index));
        self.counts[bucket.unwrap_or(AGE_BOUNDS)] += 1;
        self.sum_ns += age_ns;
        self.last_ns = age_ns;
    }

    /// Returns the number of ages.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A log of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNow {
    /// Packets published.
    pub packets: u64,
    /// Segments begun.
    pub segments: u64,
    /// How many of them bypassed the caches.
    pub far_segments: u64,
    /// Size of its packet memory, in bytes.
    pub bytes: usize,
    /// Size of a segment, in bytes.
    pub segment_bytes: usize,
    /// Number of segments in the pool.
    pub pool_segments: usize,
    /// How many of them can be read: a reader has yet to pass them, or they are kept as history.
    pub held_segments: u64,
    /// Seats taken, those of the job's own threads included.
    pub readers: usize,
    /// Positions of the job's own threads.
    pub own: Vec<OwnReader>,
    /// How far back it can be read, in ns, if it has a history.
    pub kept_ns: Option<u64>,
}

impl LogNow {
    pub(super) fn of(log: &Log) -> Self {
        let (config, standing) = (log.config(), log.standing());
        Self {
            packets: log.published(),
            segments: log.segments(),
            far_segments: log.far_segments(),
            bytes: config.bytes,
            segment_bytes: config.segment_bytes,
            pool_segments: config.bytes / config.segment_bytes,
            held_segments: standing.segments,
            readers: standing.readers,
            own: standing.own,
            kept_ns: log.history().map(|past| past.kept_ns.min(past.asked_ns)),
        }
    }
}

/// The standing of a port, as reported by its own thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Packets that reached the port, including those it lost.
    pub offered: u64,
    /// Packets that the port holds: neither delivered nor lost.
    pub in_flight: u64,
    /// Bytes of the queue in front of it, 0 without one.
    pub ring_bytes: u64,
    /// Fill levels of the rings in front of it, if known.
    pub rings: Vec<RingFill>,
    /// For a source: offered minus delivered, lost and in flight. 0 unless something is wrong.
    pub unaccounted: i64,
    /// The file that it is writing.
    pub file: Option<String>,
}

impl Standing {
    pub(crate) fn of(account: &PortAccount) -> Self {
        Self {
            offered: account.offered,
            in_flight: account.in_flight,
            ring_bytes: account.ring_bytes,
            rings: account.rings.clone(),
            unaccounted: 0,
            file: account.file.clone(),
        }
    }

    /// Returns the standing of a source that has delivered `packets` and lost `lost`.
    pub(crate) fn having_delivered(self, packets: u64, lost: &Losses) -> Self {
        let unaccounted = remainder(self.offered, packets, lost.total(), self.in_flight);
        Self { unaccounted, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_the_bucket_below_its_bound_and_a_files_packet_in_none() {
        let mut ages = AgesNow::default();
        for age_ns in [0, 999, 1000, 3999, 4000, AGE_MOST_NS - 1, AGE_MOST_NS, u64::MAX] {
            ages.see(age_ns);
        }
        assert_eq!(ages.counts[..3], [2, 2, 1]);
        assert_eq!((ages.counts[AGE_BOUNDS], ages.total()), (1, 6));
        assert_eq!(
            (AgesNow::bound_ns(0), AgesNow::bound_ns(AGE_BOUNDS - 1)),
            (1000, 16_777_216_000)
        );
        assert_eq!(ages.last_ns, AGE_MOST_NS - 1);
    }
}
