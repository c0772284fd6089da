//! Counts the packets of a queue: those that the program has seen, and those known to have arrived.
//!
//! While packets arrive, the last few that the program has seen are still on their way to the ring.
//! The program's count passed through all values since the check before last. So if the accounted
//! number is one of these values, it was exact at that moment.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use burstline_sys::clock;
use burstline_sys::rising::Rising;

use burstline_xdp::{Redirect, SocketStatistics};

/// How long packets may take from the program to the ring, in ns: the rest of a softirq.
const ARRIVAL_NS: u64 = 10_000_000;

/// How long after the end packets may still arrive, in ns.
const SETTLING_NS: u64 = 1_000_000_000;

/// The counts of a socket: they keep their values when the socket is lost, or counts from 0 again.
#[derive(Default)]
pub(super) struct KernelWord(Cell<[Rising; 4]>);

impl KernelWord {
    /// Takes a reading, and returns the counts so far.
    pub(super) fn see(&self, reading: io::Result<SocketStatistics>) -> SocketStatistics {
        let mut words = self.0.get();
        if let Ok(now) = reading {
            let SocketStatistics { dropped, ring_full, fill_empty, invalid } = now;
            for (word, count) in words.iter_mut().zip([dropped, ring_full, fill_empty, invalid]) {
                word.see(count);
            }
            self.0.set(words);
        }
        let [dropped, ring_full, fill_empty, invalid] = words.map(|word| word.sum());
        SocketStatistics { dropped, ring_full, fill_empty, invalid }
    }
}

/// Who accounts for packets on queues that the interface gets while the program is attached. They
/// have no socket, so their packets go to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// This port: it is the first of all queues. Such packets were requested, and are lost.
    Here,
    /// The first port of the interface.
    ByFirst,
    /// Nobody: the address names a queue, and packets on others were not requested.
    NotWanted,
}

impl Added {
    /// Returns who accounts for them, if `is_whole` says that the job takes all queues.
    pub(super) fn of(is_whole: bool) -> Self {
        if is_whole { Self::Here } else { Self::NotWanted }
    }

    /// Returns who accounts for them, as the next port of the interface sees it: only the first
    /// one can be `Here`.
    pub(super) fn next(&mut self) -> Self {
        let next = *self;
        if next == Self::Here {
            *self = Self::ByFirst;
        }
        next
    }
}

/// The program's counts for one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets that the program saw.
    pub(super) seen: u64,
    /// Packets of `seen` that it passed to the host by request.
    pub(super) passed: u64,
    /// Packets of `seen` that it passed to the host because their queue is new.
    pub(super) added: u64,
}

impl Counts {
    /// Returns the packets that went to the host.
    pub(super) fn to_host(self) -> u64 {
        self.passed + self.added
    }
}

/// The program's counts of one queue. For the first queue of all, they include queues that are
/// added later.
pub(super) struct QueueLedger {
    attached: Arc<Redirect>,
    queue: u32,
    added: Added,
    /// Packets on added queues that were lost by the request to finish. Later ones are only passed.
    added_at_stop: Option<u64>,
    /// When it was asked to finish, in ns of the monotonic clock.
    stopped_ns: Option<u64>,
    /// Packets that the program had seen by the last check but one, or at the request to finish:
    /// these have arrived.
    arrived: u64,
    seen_at_last_look: u64,
    /// The program's final counts, after the end.
    at_end: Option<Counts>,
}

impl QueueLedger {
    pub(super) fn new(attached: Arc<Redirect>, queue: u32, added: Added) -> Self {
        Self {
            attached,
            queue,
            added,
            added_at_stop: None,
            stopped_ns: None,
            arrived: 0,
            seen_at_last_look: 0,
            at_end: None,
        }
    }

    pub(super) fn attached(&self) -> &Redirect {
        &self.attached
    }

    /// Returns the packets that went to the host on queues that were not requested.
    pub(super) fn elsewhere(&self) -> u64 {
        let elsewhere = self.attached.seen_elsewhere();
        if self.added != Added::NotWanted {
            return elsewhere;
        }
        let later = self.attached.added();
        elsewhere + later.passed + later.unplaced
    }

    /// Returns the program's counts. Cost: at most four loads per core.
    pub(super) fn counts(&self) -> Counts {
        self.at_end.unwrap_or_else(|| self.counts_now())
    }

    fn counts_now(&self) -> Counts {
        let own = self.attached.counts(self.queue);
        let counts = Counts { seen: own.seen, passed: own.passed, added: 0 };
        if self.added != Added::Here {
            return counts;
        }
        let later = self.attached.added();
        let added = later.unplaced.min(self.added_at_stop.unwrap_or(u64::MAX));
        Counts {
            // None of those on added queues is on its way to a ring.
            seen: own.seen + later.passed + later.unplaced,
            passed: own.passed + later.passed + (later.unplaced - added),
            added,
        }
    }

    /// To be called at each check of the interface.
    pub(super) fn look(&mut self) {
        self.arrived = self.seen_at_last_look;
        self.seen_at_last_look = self.counts().seen;
    }

    /// Returns the number offered, given `accounted` packets.
    pub(super) fn offered(&self, accounted: u64) -> u64 {
        let seen = self.counts().seen;
        let arrived = if self.at_end.is_some() { seen } else { self.arrived };
        accounted.clamp(arrived, seen)
    }

    /// Leaves later packets to the host. Waits until everything that the program has seen so far is
    /// accounted for, or never will be. From then on that is `offered`, even if no one polls to the
    /// end. `accounted` excludes packets that went to the host.
    pub(super) fn leave(&mut self, accounted: impl Fn() -> u64) {
        self.stopped_ns.get_or_insert_with(clock::monotonic_ns);
        let added = self.counts().added;
        self.added_at_stop.get_or_insert(added);
        self.attached.leave(self.queue);
        let (seen, start_ns) = (self.counts().seen, clock::monotonic_ns());
        let is_missing = || accounted() + self.counts().to_host() < seen;
        while is_missing() && clock::monotonic_ns() - start_ns < ARRIVAL_NS {
            std::thread::yield_now();
        }
        (self.arrived, self.seen_at_last_look) = (seen, seen);
    }

    /// Returns the program's final counts, after a request to finish, once everything it took is
    /// accounted for. These are the counts of that moment: if other queues need the program, it
    /// continues counting. Packets redirected by the program arrive within the same softirq.
    /// Packets that have not arrived after [`SETTLING_NS`] never will, and remain unaccounted for.
    pub(super) fn settled(&self, accounted: impl Fn() -> (u64, Counts)) -> Option<Counts> {
        let stopped_ns = self.stopped_ns?;
        let (accounted, counts) = accounted();
        let is_over = accounted == counts.seen || clock::monotonic_ns() - stopped_ns > SETTLING_NS;
        is_over.then_some(counts)
    }

    /// Fixes the final counts.
    pub(super) fn end(&mut self, counts: Counts) {
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
    fn one_port_of_an_interface_accounts_for_queues_that_are_added() {
        for (is_whole, expected) in
            [(true, [Added::Here, Added::ByFirst, Added::ByFirst]), (false, [Added::NotWanted; 3])]
        {
            let mut added = Added::of(is_whole);
            assert_eq!([added.next(), added.next(), added.next()], expected);
        }
    }

    #[test]
    fn a_reading_that_fails_takes_no_loss_back() {
        let word = KernelWord::default();
        let failed = || Err(io::ErrorKind::Other.into());
        assert_eq!(word.see(failed()), SocketStatistics::default());
        let lost = SocketStatistics { dropped: 9, ring_full: 4, ..SocketStatistics::default() };
        assert_eq!((word.see(Ok(lost)), word.see(failed())), (lost, lost));
    }

    #[test]
    fn counts_that_wrap_or_begin_anew_take_no_loss_back() {
        const WRAP: u64 = 1 << 32;
        let word = KernelWord::default();
        for (dropped, ring_full, lost) in [
            (9, 4, [9, 4]),
            (WRAP - 5, WRAP + 4, [WRAP - 5, WRAP + 4]),
            // One of 32 bits goes on; one of 64 bits was reset.
            (2, 1, [WRAP + 2, WRAP + 5]),
            (3, 1, [WRAP + 3, WRAP + 5]),
        ] {
            let now = SocketStatistics { dropped, ring_full, ..SocketStatistics::default() };
            let sums = word.see(Ok(now));
            assert_eq!([sums.dropped, sums.ring_full], lost, "{now:?}");
        }
    }
}
