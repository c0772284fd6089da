//! The source: takes packets from rings that a peer fills.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};

use burstline_peer::{FromPeer, LONGEST, Lanes, Refusal, Taken};

use super::Device;
use crate::halves::Half;
use crate::live::{Got, Intake};
use crate::{Loss, Losses, PortAccount, RingFill};

/// Maximum refused packets per burst: each may be a walk along a chain as long as the ring. Then
/// other ports get their turn.
const REFUSED_MAX: u8 = 16;

/// The largest ring.
const RING_MOST: u64 = 32_768;

/// Rings that a peer fills; each is held here during a burst, and otherwise in its berth.
pub(super) struct FromPeers<D: Device> {
    half: Half<D, D::Options>,
    passes_offloads: bool,
    /// The queue being polled.
    current: usize,
    /// Its ring, while in use.
    ring: Option<Box<D::From>>,
    /// Consecutive empty queues.
    empty: usize,
    /// Refused packets in this burst.
    refused: u8,
    /// Packets, by the index that the peer sees.
    taken: u64,
    /// Taken entries that were not packets.
    lost: Losses,
    bytes_copied: u64,
    /// Whether the peer was asked to send a notification.
    is_armed: Cell<bool>,
}

impl<D: Device> FromPeers<D> {
    pub(super) fn new(half: Half<D, D::Options>) -> Self {
        Self {
            passes_offloads: D::passes_offloads(half.options()),
            half,
            current: 0,
            ring: None,
            empty: 0,
            refused: 0,
            taken: 0,
            lost: Losses::default(),
            bytes_copied: 0,
            is_armed: Cell::new(false),
        }
    }

    fn lanes(&self) -> &Lanes<D::From, D::To> {
        self.half.device().lanes()
    }

    /// Puts the ring back, and continues with the next one.
    fn next_queue(&mut self) {
        self.leave();
        let next = self.current + 1;
        self.current = if next < self.lanes().queues() { next } else { 0 };
    }

    fn leave(&mut self) {
        if let Some(mut ring) = self.ring.take() {
            self.taken += u64::from(ring.publish());
            self.lanes().lane(self.current).from.give_back(ring);
        }
    }

    /// Returns the fill level, the sum of all queues; empty if the peer has none yet.
    fn rings(&self) -> Vec<RingFill> {
        let lanes = self.lanes();
        // Between two bursts a ring is in its berth.
        let queues =
            (0..lanes.queues()).filter_map(|queue| lanes.lane(queue).from.try_look(FromPeer::fill));
        let (mut filled, mut size) = (0, 0);
        for (waiting, slots) in queues {
            (filled, size) = (filled + u64::from(waiting), size + u64::from(slots));
        }
        let ring = (size > 0).then(|| RingFill::rx("slots", filled, size));
        ring.into_iter().collect()
    }

    #[cold]
    fn disarm(&mut self) {
        self.is_armed.set(false);
        self.lanes().bells().lower();
        for queue in 0..self.lanes().queues() {
            self.lanes().lane(queue).from.try_look(FromPeer::disarm);
        }
    }
}

impl<D: Device> Intake for FromPeers<D> {
    const LONGEST: usize = LONGEST;

    #[inline]
    fn take(&mut self, room: &mut [u8], refused: &mut u64) -> Option<Got> {
        if *self.is_armed.get_mut() {
            self.disarm();
        }
        while self.refused < REFUSED_MAX {
            if self.ring.is_none() {
                self.ring = self.lanes().lane(self.current).from.take();
            }
            let taken = self.ring.as_mut().map_or(Taken::Nothing, |ring| ring.take(room));
            match taken {
                Taken::Packet { bytes, is_partial, is_merged } => {
                    self.empty = 0;
                    // Ignore offload flags from a peer that was not offered offloads.
                    let is_open = self.passes_offloads;
                    self.bytes_copied += bytes as u64;
                    return Some(Got::new(bytes, is_open && is_partial, is_open && is_merged));
                }
                Taken::Refused(fault) => {
                    self.lost.add(cause(fault), 1);
                    (*refused, self.refused) = (*refused + 1, self.refused + 1);
                }
                Taken::Nothing => {
                    self.next_queue();
                    self.empty += 1;
                    if self.empty >= self.lanes().queues() {
                        self.empty = 0;
                        return None;
                    }
                }
            }
        }
        None
    }

    fn give_back(&mut self) {
        self.refused = 0;
        if self.ring.is_some() {
            self.next_queue();
        }
    }

    fn account(&self) -> PortAccount {
        let mut account = PortAccount {
            offered: self.taken,
            lost: self.lost.clone(),
            bytes_copied: self.bytes_copied,
            rings: self.rings(),
            ..PortAccount::default()
        };
        for event in self.lanes().diary().events() {
            account.event(|| event);
        }
        account
    }

    fn capacity(&self) -> u64 {
        RING_MOST * self.lanes().queues() as u64
    }

    fn passes_offloads(&self) -> bool {
        self.passes_offloads
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.is_armed.set(true);
        let lanes = self.lanes();
        for queue in 0..lanes.queues() {
            if lanes.lane(queue).from.try_look(FromPeer::arm) == Some(true) {
                lanes.bells().raise();
            }
        }
        lanes.bells().as_fd()
    }
}

impl<D: Device> Drop for FromPeers<D> {
    fn drop(&mut self) {
        self.leave();
    }
}

fn cause(refusal: Refusal) -> Loss {
    match refusal {
        Refusal::Long => Loss::TooLong,
        Refusal::Short => Loss::TooShort,
        Refusal::Malformed => Loss::BadDescriptor,
    }
}

#[cfg(test)]
mod tests;
