//! Two running cards. Each device has its own thread, and packets received by one card are sent by
//! the other from the buffers they were received in.
//!
//! ```text
//!  rings   device A -> buffer -> lane: descriptor of A's ring to B's -> device B -> buffer back
//!  log     device A -> segment -- lane: "up to packet n" ----------> device B reads the log
//! ```

use std::thread;
use std::time::{Duration, Instant};

use super::{carousel, forward_part, sending_of};
use crate::{
    Assembly, Card, CardError, ReceiveCounts, Receiver, Room, Sending, Settings, Transmit,
};

/// How long to wait at the end for an exit without progress: its thread may have no core.
const WAIT: Duration = Duration::from_secs(10);

/// Steps without a packet before a lane sleeps, and for how long. Both devices and both lanes may
/// share two cores, or fewer on a busy host: spinning or yielding alone would starve the others.
const SPINS: u32 = 64;
const SLEEP: Duration = Duration::from_micros(50);

/// Both cards; they run until this is dropped.
pub struct Pair {
    _cards: [Card; 2],
    /// From the first card to the second, and the reverse if there are two directions.
    pub lanes: Vec<Lane>,
}

/// One direction: a driver that receives from one card, and one that sends through the other.
pub struct Lane {
    receiver: Receiver,
    exit: Transmit,
    given: u64,
}

/// Result of a lane. `arrived` is `sent` + `lost` + `unaccounted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that the card counted on its wire.
    pub arrived: u64,
    /// Frames that the other card sent.
    pub sent: u64,
    /// Frames that the card lost, by its own counts.
    pub lost: u64,
    /// Missing frames.
    pub unaccounted: i64,
}

impl Pair {
    /// Creates two cards with the same settings; `frames` repeat on the first wire, and with
    /// `is_both` also on the second. Threads of devices inherit the caller's cores.
    ///
    /// # Errors
    /// The cards cannot be created.
    pub fn start(
        settings: &Settings,
        frames: &[Vec<u8>],
        is_both: bool,
    ) -> Result<Self, CardError> {
        let rooms = [Room::create(settings, true, false)?, Room::create(settings, is_both, false)?];
        // The first card sends what the second receives, and vice versa.
        let back = if is_both { sending_of(&rooms[1])? } else { Sending::Nothing };
        let sendings = [back, sending_of(&rooms[0])?];
        let wires = [carousel(frames), carousel(if is_both { frames } else { &[] })];
        let mut ends = rooms
            .into_iter()
            .zip(wires)
            .zip(sendings)
            .map(|((room, wire), sending)| Assembly::new(room, wire, sending, 0, None).start());
        let mut end = || ends.next().unwrap_or_else(|| unreachable!("there are two rooms"));
        let ((near, near_receivers, near_exit), (far, far_receivers, far_exit)) = (end()?, end()?);
        let ways = [(near_receivers, far_exit), (far_receivers, near_exit)];
        let lane = |(receivers, exit): (Vec<Receiver>, _)| {
            let receiver = receivers.into_iter().next()?;
            Some(Lane { receiver, exit, given: 0 })
        };
        Ok(Self { _cards: [near, far], lanes: ways.into_iter().filter_map(lane).collect() })
    }
}

impl Lane {
    /// Forwards the packets that have arrived, and returns how many.
    #[inline]
    pub fn step(&mut self) -> u64 {
        let packets = forward_part(&mut self.receiver, &mut self.exit);
        self.given += packets;
        packets
    }

    /// Forwards packets while `goes_on` returns true; it is called once per step.
    pub fn drive(&mut self, mut goes_on: impl FnMut(&mut Self) -> bool) {
        let mut idle = 0;
        while goes_on(self) {
            idle = if self.step() > 0 { 0 } else { idle + 1 };
            if idle > SPINS {
                thread::sleep(SLEEP);
            }
        }
    }

    /// Returns the counts of the receiving card.
    #[must_use]
    pub fn counts(&self) -> ReceiveCounts {
        self.receiver.counts()
    }

    /// Returns the packets that the other card has sent.
    pub fn sent(&mut self) -> u64 {
        let in_exit = match &mut self.exit {
            Transmit::Nothing => 0,
            Transmit::Ring(ring) => {
                ring.reap();
                ring.packets_in_flight()
            }
            Transmit::Log(log) => log.in_flight(),
        };
        self.given - in_exit
    }

    /// Takes no more frames from the wire, and forwards the remaining ones. An exit without
    /// progress for ten seconds is given up: its packets are unaccounted for.
    pub fn finish(&mut self) -> Passed {
        self.receiver.stop();
        let (mut sent, mut since) = (self.sent(), Instant::now());
        self.drive(|lane| {
            if let Some(entry) = lane.receiver.scattered() {
                entry.post(1);
                entry.look();
            }
            let now = lane.sent();
            if now != sent {
                (sent, since) = (now, Instant::now());
            }
            let is_done = now == lane.given && lane.receiver.is_over();
            !is_done && since.elapsed() < WAIT
        });
        let counts = self.counts();
        let lost = counts.overflowed + counts.reset + counts.link_down + counts.too_long;
        let unaccounted = counts.arrived as i64 - sent as i64 - lost as i64;
        Passed { arrived: counts.arrived, sent, lost, unaccounted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::pcie::Bus;

    #[test]
    fn what_comes_in_by_one_card_leaves_by_the_other_and_all_is_accounted_for() {
        let bus = Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap();
        let frames: Vec<Vec<u8>> = (0..64).map(|number| vec![number; 60]).collect();
        for (mode, is_both) in Mode::ALL.into_iter().flat_map(|mode| [(mode, true), (mode, false)])
        {
            let mut pair = Pair::start(&Settings::new(mode, bus), &frames, is_both).unwrap();
            assert_eq!(pair.lanes.len(), 1 + usize::from(is_both));
            let passed: Vec<Passed> = thread::scope(|scope| {
                let drive = |lane: &mut Lane| {
                    lane.drive(|lane| lane.sent() < 10_000);
                    lane.finish()
                };
                let lanes = pair.lanes.iter_mut().map(|lane| scope.spawn(move || drive(lane)));
                let lanes: Vec<_> = lanes.collect();
                lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
            });
            for passed in passed {
                assert!(passed.sent >= 10_000, "{mode}: {passed:?}");
                assert_eq!((passed.lost, passed.unaccounted), (0, 0), "{mode}: {passed:?}");
            }
        }
    }
}
