//! What became of packets that a device was given to send.

use burstline_dpdk::Statistics;

use crate::{Loss, PortAccount};

/// Counts of one send queue.
#[derive(Default)]
pub(super) struct Given {
    /// The device has them.
    pub(super) accepted: u64,
    /// Of them, given up at the end.
    given_up: u64,
}

/// Where the accepted packets are.
pub(super) struct Fate {
    pub(super) sent: u64,
    refused: u64,
    pub(super) in_flight: u64,
}

impl Given {
    /// By the device's counts; `confirmed` is of this queue. Drivers count among their errors also
    /// what they did not accept, so that only those can be believed that are missing.
    pub(super) fn fate(&self, confirmed: Option<u64>, counts: &Statistics) -> Fate {
        let sent = confirmed.unwrap_or(self.accepted).min(self.accepted);
        let missing = self.accepted - sent;
        let refused = counts.send_errors.min(missing);
        Fate { sent, refused, in_flight: (missing - refused).saturating_sub(self.given_up) }
    }

    /// Gives up what is in flight: the device took it and never said that it was sent.
    pub(super) fn give_up(&mut self, fate: &Fate) {
        self.given_up += fate.in_flight;
    }

    pub(super) fn enter_into(&self, fate: &Fate, account: &mut PortAccount) {
        let unconfirmed = self.accepted - fate.sent - fate.refused - fate.in_flight;
        for (cause, packets) in [(Loss::TxRefused, fate.refused), (Loss::Unconfirmed, unconfirmed)]
        {
            if packets > 0 {
                account.lost.add(cause, packets);
            }
        }
        account.in_flight += fate.in_flight;
    }
}

/// What packets are lost to that a device had no room for.
pub(super) fn held_up_by(is_up: bool) -> Loss {
    if is_up { Loss::TxRingFull } else { Loss::LinkDown }
}
