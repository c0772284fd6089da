//! Records which packets a sink has lost: their interface, cause, number and size.
//!
//! ```text
//! given to the sink ──► in hand (a ring, a buffer) ──► delivered
//!        │                     │
//!        └── LostPackets ◄─────┘       by interface and cause
//! ```
//!
//! A sink knows a packet that it refuses immediately. Packets lost later were in its hands. A
//! ring's packets are in [`InHand`], oldest first. A file's are the difference of two tallies: all
//! packets given, and those up to the last safe mark.
//!
//! Invariant W1: the sums of a sink's [`LostPackets`] are the losses in its account.

use std::collections::VecDeque;

use burstline_log::{Burst, Packet};

use crate::{Loss, Losses};

/// Counts of a set of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of packets.
    pub packets: u64,
    /// Their captured bytes, without FCS.
    pub bytes: u64,
    /// Their bytes on the wire, without FCS: more if packets were truncated.
    pub wire_bytes: u64,
}

impl Tally {
    /// Counts one packet.
    pub fn one(packet: &Packet<'_>) -> Self {
        let (bytes, wire_bytes) = (packet.length() as u64, packet.original_length() as u64);
        Self { packets: 1, bytes, wire_bytes }
    }

    /// Counts untruncated packets.
    #[inline]
    pub fn whole(packets: u64, bytes: u64) -> Self {
        Self { packets, bytes, wire_bytes: bytes }
    }

    /// Adds other packets.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.wire_bytes += other.wire_bytes;
    }

    /// Subtracts the packets of `other`, a subset of these.
    pub fn without(&self, other: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
            wire_bytes: self.wire_bytes.saturating_sub(other.wire_bytes),
        }
    }
}

/// Packets of one interface that were lost to one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostOf {
    /// The interface's number in the [`PortTable`](crate::PortTable).
    pub port: u8,
    /// The cause.
    pub cause: Loss,
    /// Number and size of the packets.
    pub tally: Tally,
}

/// The packets that a sink has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostPackets {
    rows: Vec<LostOf>,
}

impl LostPackets {
    /// Returns the counts of each interface and cause, in the order of their first loss.
    pub fn rows(&self) -> &[LostOf] {
        &self.rows
    }

    /// Whether nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds packets of an interface, if there are any. Cost: a linear search of the rows.
    pub fn add(&mut self, port: u8, cause: Loss, tally: &Tally) {
        if tally.packets == 0 {
            return;
        }
        match self.rows.iter_mut().find(|row| (row.port, row.cause) == (port, cause)) {
            Some(row) => row.tally.add(tally),
            None => self.rows.push(LostOf { port, cause, tally: *tally }),
        }
    }

    /// Adds a packet.
    pub fn add_packet(&mut self, cause: Loss, packet: &Packet<'_>) {
        self.add(packet.port(), cause, &Tally::one(packet));
    }

    /// Adds all packets of a burst.
    pub fn add_burst(&mut self, cause: Loss, burst: &Burst<'_>) {
        burst.packets().for_each(|packet| self.add_packet(cause, &packet));
    }

    /// Adds the losses of another sink, or of a part of this one.
    pub fn merge(&mut self, other: &Self) {
        other.rows.iter().for_each(|row| self.add(row.port, row.cause, &row.tally));
    }

    /// Returns the losses by cause, over all interfaces.
    pub fn losses(&self) -> Losses {
        sum(self.rows.iter())
    }

    /// Returns the losses by cause of one interface.
    pub fn losses_of(&self, port: u8) -> Losses {
        sum(self.rows.iter().filter(|row| row.port == port))
    }

    /// Returns the total of all losses.
    pub fn total(&self) -> Tally {
        tally(self.rows.iter())
    }

    /// Returns the total losses of one interface.
    pub fn tally_of(&self, port: u8) -> Tally {
        tally(self.rows.iter().filter(|row| row.port == port))
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a LostOf>) -> Losses {
    let mut losses = Losses::default();
    rows.for_each(|row| losses.add(row.cause, row.tally.packets));
    losses
}

fn tally<'a>(rows: impl Iterator<Item = &'a LostOf>) -> Tally {
    let mut sum = Tally::default();
    rows.for_each(|row| sum.add(&row.tally));
    sum
}

const PORT_BITS: u32 = 8;
const LENGTH_BITS: u32 = 20;

/// Port, captured length and wire length of a packet, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held(u64);

impl Held {
    fn new(packet: &Packet<'_>) -> Self {
        let wire = (packet.original_length() as u64) << (PORT_BITS + LENGTH_BITS);
        Self(wire | (packet.length() as u64) << PORT_BITS | u64::from(packet.port()))
    }

    fn port(self) -> u8 {
        self.0 as u8
    }

    fn tally(self) -> Tally {
        let bytes = self.0 >> PORT_BITS & ((1 << LENGTH_BITS) - 1);
        Tally { packets: 1, bytes, wire_bytes: self.0 >> (PORT_BITS + LENGTH_BITS) }
    }
}

/// The packets held by a sink that sends them in order, oldest first. At most a ring's worth, at 8
/// bytes per packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct InHand {
    held: VecDeque<Held>,
    /// The last packet that left, for a loss that is detected later.
    last: Option<Held>,
}

impl InHand {
    /// Returns the number of packets held.
    #[cfg(any(feature = "dpdk", test))]
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Adds a packet. Cost: one store.
    #[inline]
    pub(crate) fn push(&mut self, packet: &Packet<'_>) {
        self.held.push_back(Held::new(packet));
    }

    /// Keeps only the newest `left` packets: the others were delivered.
    #[inline]
    pub(crate) fn keep_newest(&mut self, left: u64) {
        let gone = self.held.len().saturating_sub(left as usize);
        if gone > 0 {
            self.last = self.held.get(gone - 1).copied();
            self.held.drain(..gone);
        }
    }

    /// Records the oldest `packets` as lost.
    #[cold]
    pub(crate) fn lose_oldest(&mut self, packets: u64, cause: Loss, lost: &mut LostPackets) {
        for _ in 0..packets {
            let Some(held) = self.held.pop_front().or(self.last) else { return };
            lost.add(held.port(), cause, &held.tally());
        }
    }

    /// Records the newest `packets` as lost.
    #[cold]
    pub(crate) fn lose_newest(&mut self, packets: u64, cause: Loss, lost: &mut LostPackets) {
        for _ in 0..packets {
            let Some(held) = self.held.pop_back().or(self.last) else { return };
            lost.add(held.port(), cause, &held.tally());
        }
    }
}

#[cfg(test)]
mod tests {
    use burstline_log::{Meta, Scratch};

    use super::*;

    /// Five packets of 10 to 14 bytes, of interfaces 3, 4, 3, 4, 3; the last was cut by one byte.
    fn with_burst(test: impl FnOnce(&Burst<'_>)) {
        let (bytes, mut scratch) = ([0; 16], Scratch::new());
        for number in 0..5 {
            let original = 10 + number + number / 4;
            let meta = Meta { port: 3 + number as u8 % 2, ..Meta::new(0, original, 0) };
            scratch.push(0, 10 + number, &meta);
        }
        test(&scratch.burst(&bytes, 0));
    }

    #[test]
    fn losses_are_kept_by_interface_and_cause() {
        with_burst(|burst| {
            let mut lost = LostPackets::default();
            assert!(lost.is_empty());
            lost.add_burst(Loss::TooLong, burst);
            lost.add_packet(Loss::LinkDown, &burst.packet(4));
            lost.add(9, Loss::LinkDown, &Tally::default());
            let three = Tally { packets: 4, bytes: 10 + 12 + 14 + 14, wire_bytes: 52 };
            assert_eq!((lost.tally_of(3), lost.tally_of(9)), (three, Tally::default()));
            let (of_three, all) = (lost.losses_of(3), lost.losses());
            assert_eq!((of_three.of(Loss::TooLong), of_three.of(Loss::LinkDown)), (3, 1));
            assert_eq!((all.of(Loss::TooLong), all.total(), lost.total().packets), (5, 6, 6));
            let mut both = lost.clone();
            both.merge(&lost);
            assert_eq!((both.rows().len(), both.total().packets), (3, 12));
        });
    }

    #[test]
    fn what_is_in_hand_is_lost_from_either_end_to_the_packet() {
        with_burst(|burst| {
            let (mut hand, mut lost) = (InHand::default(), LostPackets::default());
            burst.packets().for_each(|packet| hand.push(&packet));
            hand.keep_newest(4);
            hand.lose_newest(1, Loss::Unconfirmed, &mut lost);
            hand.lose_oldest(1, Loss::TxRefused, &mut lost);
            assert_eq!(hand.len(), 2);
            let [newest, oldest] = [lost.rows()[0], lost.rows()[1]];
            assert_eq!((newest.port, newest.tally.bytes, newest.tally.wire_bytes), (3, 14, 15));
            assert_eq!((oldest.port, oldest.tally.bytes), (4, 11));
            // A loss detected after its packet left counts for the last one that did.
            hand.keep_newest(0);
            hand.lose_oldest(1, Loss::TxRefused, &mut lost);
            assert_eq!((lost.tally_of(4).bytes, lost.total().packets), (11 + 13, 3));
            InHand::default().lose_oldest(1, Loss::TxRefused, &mut lost);
            assert_eq!(lost.total().packets, 3);
        });
    }
}
