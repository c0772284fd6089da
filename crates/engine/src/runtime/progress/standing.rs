//! What the threads of a running job say of themselves some times a second: what each costs, how
//! old its packets are, and how its port stands.

use burstline_log::{Log, OwnReader};
use burstline_port::{Losses, PortAccount, RingFill};

use crate::ThreadPlace;
use crate::ledger::remainder;
use crate::runtime::StageCost;

/// A thread of a running job, as of its last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNow {
    /// Where it runs; its stack and rights are looked at when it ends.
    pub place: ThreadPlace,
    /// Processor time so far, in ns.
    pub cpu_ns: u64,
    /// Wall time of polls that found packets, in ns.
    pub busy_ns: u64,
    /// Wall time of polls that found nothing, in ns; more than it cost, where it was preempted.
    pub empty_ns: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// Sleeps that ended because there was something to do.
    pub wakes: u64,
    /// How old its newest packet was.
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

/// How many bounds a histogram of ages has: the first is 1 us, each is four times the one before.
pub const AGE_BOUNDS: usize = 13;

/// Older packets are not live: they are a file's, or of a clock that is not this machine's.
const AGE_MOST_NS: u64 = 60_000_000_000;

/// A histogram of ages of packets: from their time stamp until a thread has handed them on.
///
/// The newest packet of a thread, ten times a second while there are packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgesNow {
    /// Ages below each of the [bounds](Self::bound_ns), and not below the one before; the last are
    /// those above all bounds.
    pub counts: [u64; AGE_BOUNDS + 1],
    /// Their sum, in ns.
    pub sum_ns: u64,
    /// The last of them, in ns.
    pub last_ns: u64,
}

impl AgesNow {
    /// Bound number `index`, in ns.
    pub fn bound_ns(index: usize) -> u64 {
        1000 << (2 * index)
    }

    /// Counts an age, unless it is not one of a live packet.
    pub(super) fn see(&mut self, age_ns: u64) {
        if age_ns >= AGE_MOST_NS {
            return;
        }
        let bucket = (0..AGE_BOUNDS).position(|index| age_ns < Self::bound_ns(index));
        self.counts[bucket.unwrap_or(AGE_BOUNDS)] += 1;
        self.sum_ns += age_ns;
        self.last_ns = age_ns;
    }

    /// How many there are.
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
    /// Of them, those whose packets went past the caches.
    pub far_segments: u64,
    /// Its packet memory, in bytes.
    pub bytes: usize,
    /// One segment of it, in bytes.
    pub segment_bytes: usize,
    /// Segments that it has.
    pub pool_segments: usize,
    /// Of them, those that can be read: some reader has yet to pass them, or they are kept.
    pub held_segments: u64,
    /// Seats taken, those of the job's own threads included.
    pub readers: usize,
    /// How far the job's own threads are.
    pub own: Vec<OwnReader>,
    /// How far back it can be read, in ns, if it keeps its past.
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

/// How a port stands, as its own thread says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Packets that reached it, those that it lost included.
    pub offered: u64,
    /// Packets in its own hands: neither delivered nor lost.
    pub in_flight: u64,
    /// Bytes of the queue in front of it, 0 if there is none.
    pub ring_bytes: u64,
    /// How full the rings in front of it are, where it can tell.
    pub rings: Vec<RingFill>,
    /// Of a source: offered less delivered, lost and in flight. 0, or something is wrong.
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

    /// The standing of a source that has delivered `packets` and lost `lost`.
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
