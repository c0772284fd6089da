//! A device's own counters, in total and per queue.

use burstline_sys::rising::Rising;

use crate::ffi;

/// Queues that a driver can count separately. Source: `RTE_ETHDEV_QUEUE_STAT_CNTRS`, rte_config.h.
const COUNTED_QUEUES: usize = 16;

/// Counters of a device: the totals, and two for each queue.
const COUNTERS: usize = 6 + 2 * COUNTED_QUEUES;

/// A device's own counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// `ipackets`.
    pub received: u64,
    /// `opackets`.
    pub sent: u64,
    /// `imissed`: the device had no room for them.
    pub missed: u64,
    /// `ierrors`.
    pub errors: u64,
    /// `rx_nombuf`: no mbuf was free. The driver decides what happens to the packet:
    /// [`loses_without_mbuf`](crate::DeviceFacts::loses_without_mbuf).
    pub no_mbuf: u64,
    /// `oerrors`.
    pub send_errors: u64,
    received_by_queue: [u64; COUNTED_QUEUES],
    sent_by_queue: [u64; COUNTED_QUEUES],
    pub(crate) apart: Apart,
}

/// Whether the driver counts queues separately: yes, once any queue has a count. The counters of
/// one reading are not simultaneous, so their sum proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Apart {
    received: bool,
    sent: bool,
}

impl Apart {
    /// Learns from counts; it never unlearns.
    pub(crate) fn learn(&mut self, counts: &Statistics) {
        let has_counted = |by_queue: &[u64]| by_queue.iter().any(|&packets| packets > 0);
        self.received |= has_counted(&counts.received_by_queue);
        self.sent |= has_counted(&counts.sent_by_queue);
    }
}

impl Statistics {
    /// Packets received on one of `queues` queues. `None` if they are not counted separately.
    pub fn received_by(&self, queue: u16, queues: u16) -> Option<u64> {
        let known = self.apart.received.then_some(&self.received_by_queue);
        of_queue(self.received, known, queue, queues)
    }

    /// Like [`received_by`](Self::received_by), for sent packets.
    pub fn sent_by(&self, queue: u16, queues: u16) -> Option<u64> {
        let known = self.apart.sent.then_some(&self.sent_by_queue);
        of_queue(self.sent, known, queue, queues)
    }

    /// Reads the counters. `None` if they cannot be read now.
    pub(crate) fn read(port: u16) -> Option<Self> {
        let mut counts = ffi::Counts::default();
        // SAFETY: `counts` is written only during the call.
        let is_read = unsafe { ffi::shim_counts(port, &mut counts) } == 0;
        is_read.then_some(Self {
            received: counts.ipackets,
            sent: counts.opackets,
            missed: counts.imissed,
            errors: counts.ierrors,
            no_mbuf: counts.rx_nombuf,
            send_errors: counts.oerrors,
            received_by_queue: counts.q_ipackets,
            sent_by_queue: counts.q_opackets,
            apart: Apart::default(),
        })
    }

    /// Returns all counters, always in the same order.
    fn counters(&mut self) -> impl Iterator<Item = &mut u64> {
        let all = [
            &mut self.received,
            &mut self.sent,
            &mut self.missed,
            &mut self.errors,
            &mut self.no_mbuf,
            &mut self.send_errors,
        ];
        all.into_iter().chain(&mut self.received_by_queue).chain(&mut self.sent_by_queue)
    }
}

/// A device's counts since it was opened, even if its driver resets or cannot read them.
#[derive(Debug)]
pub(crate) struct Counted {
    counters: [Rising; COUNTERS],
    apart: Apart,
    last: Statistics,
}

impl Counted {
    /// Starts with the counters at opening.
    pub(crate) fn new(mut before: Statistics) -> Self {
        let mut counters = [Rising::default(); COUNTERS];
        counters.iter_mut().zip(before.counters()).for_each(|(counter, count)| {
            *counter = Rising::from(*count);
        });
        Self { counters, apart: Apart::default(), last: Statistics::default() }
    }

    /// Takes the current counters, if available, and returns the counts.
    pub(crate) fn see(&mut self, now: Option<Statistics>) -> Statistics {
        let Some(mut now) = now else { return self.last };
        for (counter, count) in self.counters.iter_mut().zip(now.counters()) {
            // Counters that cannot be read now are 0, in drivers and in our shim.
            if *count > 0 {
                counter.see(*count);
            }
            *count = counter.sum();
        }
        self.apart.learn(&now);
        self.last = Statistics { apart: self.apart, ..now };
        self.last
    }
}

/// Returns a queue's packets out of `all`; `by_queue` has the separate counts, if any.
fn of_queue(
    all: u64,
    by_queue: Option<&[u64; COUNTED_QUEUES]>,
    queue: u16,
    queues: u16,
) -> Option<u64> {
    match by_queue {
        _ if queues == 1 => Some(all),
        Some(counts) if usize::from(queues) <= COUNTED_QUEUES => {
            counts.get(usize::from(queue)).copied()
        }
        _ => (all == 0).then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(apart: &mut Apart, all: u64, by_queue: [u64; 2]) -> Statistics {
        let mut counts = Statistics { received: all, ..Statistics::default() };
        counts.received_by_queue[..2].copy_from_slice(&by_queue);
        apart.learn(&counts);
        Statistics { apart: *apart, ..counts }
    }

    #[test]
    fn queues_that_were_once_counted_apart_stay_so_whatever_the_sum_is() {
        let mut apart = Apart::default();
        assert_eq!(counts(&mut apart, 0, [0, 0]).received_by(1, 2), Some(0));
        assert_eq!(counts(&mut apart, 9, [0, 0]).received_by(1, 2), None);
        let apart = &mut apart;
        assert_eq!(counts(apart, 10, [3, 7]).received_by(1, 2), Some(7));
        // Readings while packets arrive: first a larger total, then larger queue counts.
        assert_eq!(counts(apart, 15, [3, 8]).received_by(1, 2), Some(8));
        assert_eq!(counts(apart, 15, [9, 9]).received_by(0, 2), Some(9));
        // There are fewer counters than queues, and nothing is known about sent packets.
        let last = Statistics { sent: 5, ..counts(apart, 15, [9, 9]) };
        assert_eq!((last.received_by(0, 17), last.received_by(0, 1)), (None, Some(15)));
        assert_eq!(last.sent_by(0, 2), None);
    }

    #[test]
    fn counters_that_a_driver_sets_back_or_cannot_read_hide_and_invent_nothing() {
        let reading = |missed, first_queue| {
            let mut counts = Statistics { missed, received: 7, ..Statistics::default() };
            counts.received_by_queue[0] = first_queue;
            counts
        };
        let mut counted = Counted::new(reading(100, 40));
        for (now, missed, first_queue) in [
            (Some(reading(130, 45)), 30, 5),
            (None, 30, 5),
            (Some(reading(0, 0)), 30, 5),
            (Some(reading(4, 50)), 34, 10),
            (Some(reading((1 << 32) - 1, 50)), (1 << 32) + 29, 10),
            (Some(reading(6, 50)), (1 << 32) + 36, 10),
        ] {
            let sums = counted.see(now);
            assert_eq!((sums.missed, sums.received_by_queue[0]), (missed, first_queue), "{now:?}");
            assert_eq!((sums.received, sums.apart.received), (0, true));
        }
    }
}
