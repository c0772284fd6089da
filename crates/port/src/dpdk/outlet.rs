//! Accounts for packets that a device was given to send.
//!
//! ```text
//!   accepted | untaken | missing                | sent
//!            |         | refused | in flight    |
//!            | ring    | errors  |              | opackets
//! ```
//!
//! Drivers of shared rings count a packet as sent when it is in the ring. If we can read that ring,
//! packets in it are in flight, and lost when the device is closed.

use burstline_dpdk::Exit;

use crate::Loss;
use crate::live::Wait;

/// How long a device may stall at the end, in ns, before packets that it has not taken are lost.
/// Longer than an emulated or overloaded machine sleeps.
const LAST_NS: u64 = 1_000_000_000;

/// Counts of one send queue.
#[derive(Default)]
pub(super) struct Given {
    /// Packets accepted by the driver.
    pub(super) accepted: u64,
    /// Accepted packets given up at the end.
    given_up: u64,
    /// Packets confirmed at the last reading, and before counters were reset: some drivers restart
    /// at 0 when a peer disconnects.
    confirmed: u64,
    forgotten: u64,
}

/// The state of the accepted packets.
pub(super) struct Fate {
    pub(super) sent: u64,
    refused: u64,
    /// In the ring; in flight, unless given up.
    untaken: u64,
    pub(super) in_flight: u64,
}

impl Given {
    /// Computes the state from the device's counts and its ring.
    pub(super) fn fate(&self, exit: &Exit) -> Fate {
        let counts = exit.device().statistics();
        self.fate_by(exit.confirmed(&counts), counts.send_errors, exit.untaken())
    }

    /// Keeps the device's confirmed count, in case the device resets it. To be called periodically:
    /// packets confirmed between the last call and a reset are never known.
    pub(super) fn remember(&mut self, exit: &Exit) {
        if let Some(confirmed) = exit.confirmed(&exit.device().statistics()) {
            self.remember_count(confirmed);
        }
    }

    fn remember_count(&mut self, confirmed: u64) {
        if confirmed < self.confirmed {
            self.forgotten += self.confirmed;
        }
        self.confirmed = confirmed;
    }

    /// Returns the total confirmed, given the driver's present count.
    fn all_confirmed(&self, confirmed: u64) -> u64 {
        let is_forgotten = confirmed < self.confirmed;
        self.forgotten + if is_forgotten { self.confirmed + confirmed } else { confirmed }
    }

    /// Computes the state; `confirmed` is the count of this queue. Drivers include packets that
    /// they did not accept in their errors, so errors count only up to the number of missing
    /// packets.
    fn fate_by(&self, confirmed: Option<u64>, errors: u64, untaken: u64) -> Fate {
        let untaken = untaken.min(self.accepted);
        let taken = self.accepted - untaken;
        let sent = confirmed.map_or(taken, |count| self.all_confirmed(count)).min(taken);
        let missing = taken - sent;
        let refused = errors.min(missing);
        let in_flight = (missing - refused + untaken).saturating_sub(self.given_up);
        Fate { sent, refused, untaken, in_flight }
    }

    /// Gives up packets in flight: the device did not take them, or never confirmed them.
    pub(super) fn give_up(&mut self, fate: &Fate) {
        self.given_up += fate.in_flight;
    }

    /// Returns the losses among accepted packets: refused, never taken, unconfirmed. `is_up` is the
    /// link state of the device.
    pub(super) fn losses(&self, fate: &Fate, is_up: bool) -> [(Loss, u64); 3] {
        let given_up = self.accepted - fate.sent - fate.refused - fate.in_flight;
        let untaken = fate.untaken.min(given_up);
        [
            (Loss::TxRefused, fate.refused),
            (held_up_by(is_up), untaken),
            (Loss::Unconfirmed, given_up - untaken),
        ]
    }
}

/// Returns the cause of loss for packets that a device had no room for, or never took.
pub(super) fn held_up_by(is_up: bool) -> Loss {
    if is_up { Loss::TxRingFull } else { Loss::LinkDown }
}

/// Returns the address's wait, at least [`LAST_NS`]; but 0 means no wait.
pub(super) fn last_wait(wait_ns: u64) -> Wait {
    Wait::new(if wait_ns == 0 { 0 } else { wait_ns.max(LAST_NS) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the packets that are refused, never taken, unconfirmed, in flight.
    fn account(given: &Given, fate: &Fate) -> [u64; 4] {
        let losses = given.losses(fate, true);
        let causes = [Loss::TxRefused, Loss::TxRingFull, Loss::Unconfirmed];
        assert_eq!(losses.map(|(cause, _)| cause), causes);
        let [refused, untaken, unconfirmed] = losses.map(|(_, packets)| packets);
        let lost = refused + untaken + unconfirmed;
        assert_eq!(given.accepted, fate.sent + lost + fate.in_flight);
        [refused, untaken, unconfirmed, fate.in_flight]
    }

    #[test]
    fn what_lies_in_the_ring_is_in_flight_and_never_sent() {
        let mut given = Given { accepted: 100, ..Given::default() };
        // The driver counts all of it as sent, or has no separate count.
        for confirmed in [Some(100), None] {
            let fate = given.fate_by(confirmed, 7, 40);
            assert_eq!((fate.sent, account(&given, &fate)), (60, [0, 0, 0, 40]));
        }
        // A device with its own counts: 10 are missing, and it reports 4 as failed.
        let fate = given.fate_by(Some(50), 4, 40);
        assert_eq!((fate.sent, account(&given, &fate)), (50, [4, 0, 0, 46]));
        given.give_up(&fate);
        let fate = given.fate_by(Some(50), 4, 40);
        assert_eq!((fate.sent, account(&given, &fate)), (50, [4, 40, 6, 0]));
        // Some packets were taken after all.
        let fate = given.fate_by(Some(85), 4, 15);
        assert_eq!((fate.sent, account(&given, &fate)), (85, [0, 15, 0, 0]));
        // Packets that others put there before do not exceed ours.
        assert_eq!(given.fate_by(None, 0, 300).sent, 0);
    }
    #[test]
    fn what_was_confirmed_stays_so_when_the_driver_counts_from_0_again() {
        let mut given = Given { accepted: 100, ..Given::default() };
        given.remember_count(40);
        // Two peers have disconnected; the second one between two readings.
        assert_eq!(given.fate_by(Some(10), 0, 0).sent, 50);
        given.remember_count(10);
        assert_eq!(given.fate_by(Some(0), 0, 0).sent, 50);
        given.remember_count(0);
        let fate = given.fate_by(Some(20), 0, 0);
        assert_eq!((fate.sent, account(&given, &fate)), (70, [0, 0, 0, 30]));
    }
}
