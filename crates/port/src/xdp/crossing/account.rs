//! Accounts for the packets of a crossing, by the counts of both ends.

use burstline_xdp::SocketStatistics;

use super::XdpCrossing;
use crate::xdp::intake::Counts;
use crate::{Carried, Loss, PortAccount, RingFill};

/// The state of the packets that the program has seen.
pub(super) struct Reckoning {
    pub(super) counts: Counts,
    kernel: SocketStatistics,
    in_rx: u64,
    /// Taken, in the rx ring, lost before it, or passed to the host.
    pub(super) accounted: u64,
}

impl XdpCrossing {
    pub(super) fn reckon(&self) -> Reckoning {
        let in_rx = u64::from(self.passage.in_rx());
        let kernel = self.kernel.see(self.passage.statistics());
        let counts = self.intake.counts();
        let lost = kernel.dropped + kernel.ring_full + counts.to_host();
        Reckoning { counts, kernel, in_rx, accounted: self.taken + in_rx + lost }
    }

    /// Returns the packets given to the exit that were neither sent nor refused nor given up.
    fn in_exit(&self) -> u64 {
        let counts = self.passage.counts();
        counts.pushed - self.sent() - counts.refused - self.given_up
    }

    /// Returns the packets that the exit has sent. A refusal is known before its frame returns.
    fn sent(&self) -> u64 {
        let counts = self.passage.counts();
        counts.completed.saturating_sub(counts.refused)
    }

    pub(super) fn carried_now(&self) -> Carried {
        let missing = (self.in_exit() + self.given_up) as u32;
        Carried { packets: self.sent(), bytes: self.passage.sent_bytes(missing) }
    }

    /// Gives up packets still at the exit, by name.
    pub(super) fn give_up(&mut self) {
        let waiting = u64::from(self.passage.in_tx()).min(self.in_exit());
        let unconfirmed = self.in_exit() - waiting;
        for (cause, packets) in [(self.held_up_by(), waiting), (Loss::Unconfirmed, unconfirmed)] {
            if packets > 0 {
                self.account.lost.add(cause, packets);
            }
        }
        self.given_up += waiting + unconfirmed;
    }

    pub(super) fn account_now(&self) -> PortAccount {
        let Reckoning { kernel, counts, in_rx, accounted } = self.reckon();
        let offered = self.intake.offered(accounted);
        let in_flight = in_rx + self.in_exit();
        let mut account = PortAccount { offered, in_flight, ..self.account.clone() };
        account.rings = RingFill::of_queue(self.passage.rings());
        let no_frame = kernel.fill_empty.min(kernel.dropped);
        account.lost.add(Loss::RxRingFull, kernel.ring_full);
        account.lost.add(Loss::FillRingEmpty, no_frame);
        account.lost.add(Loss::FrameTooSmall, kernel.dropped - no_frame);
        account.lost.add(Loss::QueueAdded, counts.added);
        account.lost.add(Loss::Passed, counts.passed);
        account.lost.add(Loss::TxRingFull, 0);
        account.lost.add(Loss::TxRefused, self.passage.counts().refused);
        let elsewhere = self.intake.elsewhere();
        if elsewhere > 0 {
            account.hint(|| {
                format!("{elsewhere} packets arrived on its other queues and went to the host")
            });
        }
        account
    }
}
