//! How many packets came by a queue: what the program has counted there, and what of it is known
//! to have arrived.
//!
//! While packets arrive, some are on their way from the program to the ring: the last few that it
//! has seen. Its count ran through all values since the look before last. So if the accounted
//! number is one of them, it was exact at that moment.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use burstline_sys::clock;

use burstline_xdp::{QueueCounts, Redirect, SocketStatistics};

/// How long packets may take from the program to the ring, in ns: the rest of a softirq.
const ARRIVAL_NS: u64 = 10_000_000;

/// How long after the end packets may still be on their way, in ns.
const SETTLING_NS: u64 = 1_000_000_000;

/// The kernel's word on a socket, as it was when it could be read last: what is lost stays lost.
#[derive(Default)]
pub(super) struct KernelWord(Cell<SocketStatistics>);

impl KernelWord {
    /// Takes a reading, and returns what is known.
    pub(super) fn see(&self, reading: io::Result<SocketStatistics>) -> SocketStatistics {
        if let Ok(now) = reading {
            self.0.set(now);
        }
        self.0.get()
    }
}

/// The program's word on one queue.
pub(super) struct QueueLedger {
    attached: Arc<Redirect>,
    queue: u32,
    /// When it was asked to finish, in ns of the monotonic clock.
    stopped_ns: Option<u64>,
    /// Packets that the program had seen by the last look but one, or when it was asked to finish:
    /// they have arrived.
    arrived: u64,
    seen_at_last_look: u64,
    /// What the program has counted, once that is over.
    at_end: Option<QueueCounts>,
}

impl QueueLedger {
    pub(super) fn new(attached: Arc<Redirect>, queue: u32) -> Self {
        let (arrived, seen_at_last_look) = (0, 0);
        Self { attached, queue, stopped_ns: None, arrived, seen_at_last_look, at_end: None }
    }

    pub(super) fn attached(&self) -> &Redirect {
        &self.attached
    }

    /// What the program has counted. Cost: two loads a core.
    pub(super) fn counts(&self) -> QueueCounts {
        self.at_end.unwrap_or_else(|| self.attached.counts(self.queue))
    }

    /// To be called at each look at the interface.
    pub(super) fn look(&mut self) {
        self.arrived = self.seen_at_last_look;
        self.seen_at_last_look = self.counts().seen;
    }

    /// How many were offered, when `accounted` packets are.
    pub(super) fn offered(&self, accounted: u64) -> u64 {
        let seen = self.counts().seen;
        let arrived = if self.at_end.is_some() { seen } else { self.arrived };
        accounted.clamp(arrived, seen)
    }

    /// Leaves what comes from now on to the host. Waits until everything that the program has seen
    /// so far is accounted for, or never will be. From then on that is `offered`, even if no one
    /// polls to the end. `accounted`: what is, but for packets that were passed to the host.
    pub(super) fn leave(&mut self, accounted: impl Fn() -> u64) {
        self.stopped_ns.get_or_insert_with(clock::monotonic_ns);
        self.attached.leave(self.queue);
        let (seen, start_ns) = (self.counts().seen, clock::monotonic_ns());
        let is_missing = || accounted() + self.counts().passed < seen;
        while is_missing() && clock::monotonic_ns() - start_ns < ARRIVAL_NS {
            std::thread::yield_now();
        }
        (self.arrived, self.seen_at_last_look) = (seen, seen);
    }

    /// The program's last counts, once it was asked to finish and everything it took is accounted
    /// for. These are the counts of that moment: if other queues need the program, it goes on
    /// counting. What the program has sent on its way arrives within the same softirq; what has not
    /// after [`SETTLING_NS`] never will, and remains unaccounted for.
    pub(super) fn settled(
        &self,
        accounted: impl Fn() -> (u64, QueueCounts),
    ) -> Option<QueueCounts> {
        let stopped_ns = self.stopped_ns?;
        let (accounted, counts) = accounted();
        let is_over = accounted == counts.seen || clock::monotonic_ns() - stopped_ns > SETTLING_NS;
        is_over.then_some(counts)
    }

    /// It is over: these counts are the last.
    pub(super) fn end(&mut self, counts: QueueCounts) {
        self.at_end.get_or_insert(counts);
    }

    pub(super) fn is_over(&self) -> bool {
        self.at_end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_fails_takes_no_loss_back() {
        let word = KernelWord::default();
        let failed = || Err(io::ErrorKind::Other.into());
        assert_eq!(word.see(failed()), SocketStatistics::default());
        let lost = SocketStatistics { dropped: 9, ring_full: 4, ..SocketStatistics::default() };
        assert_eq!((word.see(Ok(lost)), word.see(failed())), (lost, lost));
    }
}
