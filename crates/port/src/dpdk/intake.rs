//! Counts the packets of a queue, from the device's counters, and detects the end.

use burstline_dpdk::{Receiver, Statistics};
use burstline_sys::clock;

use crate::{Loss, PortAccount};

/// How long after the end a card's packets may still arrive, in ns.
const SETTLING_NS: u64 = 1_000_000_000;

/// Words in the names of driver counters that users should see.
const TROUBLE: [&str; 6] = ["err", "drop", "miss", "discard", "full", "nombuf"];

/// Takes packets from a queue, up to an end.
pub(super) struct TakenQueue {
    pub(super) receiver: Receiver,
    queue: u16,
    ending: Option<Ending>,
}

/// The state after a request to finish.
struct Ending {
    is_hardware: bool,
    /// Packets still to be taken.
    left: u64,
    since_ns: u64,
    /// The device's final counts: a card continues counting.
    last: Option<Statistics>,
    /// The kernel's count before the end, since the kernel continues losing packets.
    kernel_lost: Option<u64>,
    is_over: bool,
    /// The driver's counters that indicate trouble.
    trouble: Option<String>,
}

impl TakenQueue {
    pub(super) fn new(receiver: Receiver, queue: u16) -> Self {
        Self { receiver, queue, ending: None }
    }

    /// As [`Receiver::poll`], but limited at the end. A card's last burst may include later
    /// packets: some drivers return nothing for requests of less than a burst.
    #[inline]
    pub(super) fn poll(&mut self, most: usize) -> usize {
        let Some(ending) = &mut self.ending else { return self.receiver.poll(most) };
        let known = self.receiver.undelivered();
        if known > 0 || ending.left == 0 {
            return known;
        }
        let most = match ending.is_hardware {
            true => most,
            false => most.min(usize::try_from(ending.left).unwrap_or(usize::MAX)),
        };
        let found = self.receiver.poll(most);
        ending.left = ending.left.saturating_sub(found as u64);
        found
    }

    /// Ends reception of new packets.
    pub(super) fn finish(&mut self) {
        let facts = self.receiver.device().facts();
        let (is_hardware, ring) = (facts.is_hardware, u64::from(facts.rx_ring));
        let now = self.receiver.device().statistics();
        let left = match is_hardware {
            true => self.received(&now).saturating_sub(self.receiver.taken()),
            false => ring,
        };
        let last = is_hardware.then_some(now);
        let kernel_lost = self.receiver.device().kernel_lost();
        let since_ns = clock::monotonic_ns();
        let trouble = self.trouble();
        self.ending.get_or_insert(Ending {
            is_hardware,
            left,
            since_ns,
            last,
            kernel_lost,
            is_over: false,
            trouble,
        });
    }

    fn trouble(&self) -> Option<String> {
        let counters = self.receiver.device().extended_statistics();
        let counters = counters.split_whitespace();
        let bad = counters.filter(|counter| TROUBLE.iter().any(|word| counter.contains(word)));
        let bad: Vec<&str> = bad.collect();
        (!bad.is_empty() && self.queue == 0).then(|| bad.join(" "))
    }

    /// To be called when there was nothing to take. Returns whether no more packets will come.
    pub(super) fn is_over(&mut self, is_gone: bool) -> bool {
        if is_gone && self.ending.is_none() {
            self.finish();
        }
        let device = self.receiver.device();
        let Some(ending) = &mut self.ending else { return false };
        if !ending.is_over {
            let has_waited = clock::monotonic_ns() - ending.since_ns > SETTLING_NS;
            ending.is_over = is_gone || !ending.is_hardware || ending.left == 0 || has_waited;
            if ending.is_over {
                ending.left = 0;
                ending.last.get_or_insert_with(|| device.statistics());
            }
        }
        ending.is_over
    }

    /// Adds offered, lost and in flight to an account.
    pub(super) fn enter_into(&self, account: &mut PortAccount) {
        let device = self.receiver.device();
        let last = self.ending.as_ref().and_then(|ending| ending.last);
        let counts = last.unwrap_or_else(|| device.statistics());
        let taken = self.receiver.taken();
        let received = self.received(&counts).max(if last.is_some() { taken } else { 0 });
        let in_ring = match last {
            Some(_) => 0,
            None => self.receiver.waiting().min(received.saturating_sub(taken)),
        };
        if self.queue == 0 {
            account.lost.add(Loss::DeviceMissed, counts.missed);
            account.lost.add(Loss::DeviceErrors, counts.errors);
            account.offered += counts.missed + counts.errors;
            let ending = self.ending.as_ref();
            let lost = ending.map_or_else(|| device.kernel_lost(), |ending| ending.kernel_lost);
            if let Some(lost) = lost {
                account.lost.add(Loss::RxRingFull, lost);
                account.offered += lost;
            }
            self.enter_without_mbuf(&counts, account);
        }
        account.offered += received;
        account.in_flight += self.receiver.undelivered() as u64 + in_ring;
        if let Some(trouble) = self.ending.as_ref().and_then(|ending| ending.trouble.as_ref()) {
            account.note(|| format!("the driver counts {trouble}"));
        }
        if counts.received_by(self.queue, device.queues()).is_none() {
            account.hint(|| {
                "the driver has no counters per queue: offered is Burstline's own count".into()
            });
        }
    }

    fn enter_without_mbuf(&self, counts: &Statistics, account: &mut PortAccount) {
        let facts = self.receiver.device().facts();
        if facts.loses_without_mbuf {
            account.lost.add(Loss::NoMbuf, counts.no_mbuf);
            account.offered += counts.no_mbuf;
        } else if counts.no_mbuf > 0 {
            let (driver, times) = (&facts.driver, counts.no_mbuf);
            account.note(|| {
                format!("{driver} found no free mbuf {times} times; the packets waited: pool=MBUFS")
            });
        }
    }

    /// Returns the packets that the device has received on this queue.
    fn received(&self, counts: &Statistics) -> u64 {
        let queues = self.receiver.device().queues();
        counts.received_by(self.queue, queues).unwrap_or_else(|| self.receiver.taken())
    }
}
