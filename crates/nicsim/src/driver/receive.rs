//! A receive queue, in any mode.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use burstline_log::{Burst, HeldBurst, Meta, Packet};
use burstline_sys::clock;

use super::{Contiguous, Kept, Scattered, Stamp};
use crate::counters::{ReceiveCounts, Shown};
use crate::device::{Control, raise};

/// The driver's end of one receive queue.
pub struct Receiver {
    way: Way,
    shown: Arc<Shown>,
    control: Arc<Control>,
    port: u8,
    taken: u64,
}

pub(crate) enum Way {
    Scattered(Box<Scattered>),
    Contiguous(Box<Contiguous>),
}

impl Receiver {
    pub(crate) fn new(way: Way, shown: Arc<Shown>, control: Arc<Control>, port: u8) -> Self {
        Self { way, shown, control, port, taken: 0 }
    }

    /// Gives back what was lent, and lends up to `budget` packets that have arrived. No part that
    /// was handed on may still be out.
    ///
    /// Cost: no system call; instructions are the figures `nicsim-rx-64` and
    /// `nicsim-rx-contiguous-64`.
    #[inline]
    pub fn lend(&mut self, budget: u64) -> Burst<'_> {
        let first_packet = self.taken;
        self.taken += match &mut self.way {
            Way::Scattered(driver) => {
                driver.receive(budget, Stamp { time_ns: clock::realtime_ns(), port: self.port })
            }
            Way::Contiguous(driver) => driver.receive(budget),
        };
        self.lent().numbered(first_packet)
    }

    /// The burst that was lent last, or what was [chosen](Self::choose) of it, once more; numbered
    /// anyhow. Empty once something else has been done with the packets.
    #[inline]
    pub fn lent(&self) -> Burst<'_> {
        match &self.way {
            Way::Scattered(driver) => driver.lent(),
            Way::Contiguous(driver) => driver.lent(),
        }
    }

    /// Lends only those packets for which `pick` returns a description and how many of their bytes
    /// to lend. They are from the burst lent last, which was not narrowed before.
    pub fn choose(&mut self, pick: impl FnMut(&Packet<'_>) -> Option<(u32, Meta)>) -> Burst<'_> {
        match &mut self.way {
            Way::Scattered(driver) => driver.choose(pick),
            Way::Contiguous(driver) => driver.choose(pick),
        }
        self.lent()
    }

    /// Keeps packet `index` of what is lent, in its scattered buffer. `None`: it was kept already,
    /// or joined from several buffers, or there is no other buffer in its place, or packets are
    /// contiguous ([`hold`](Self::hold)).
    pub fn keep(&mut self, index: usize) -> Option<Kept> {
        match &mut self.way {
            Way::Scattered(driver) => driver.keep(index),
            Way::Contiguous(_) => None,
        }
    }

    /// Gives a kept buffer back.
    ///
    /// # Panics
    /// If it is another driver's.
    pub fn let_go(&mut self, kept: Kept) {
        match &mut self.way {
            Way::Scattered(driver) => driver.let_go(kept),
            Way::Contiguous(_) => panic!("it keeps no buffers"),
        }
    }

    /// As [`lend`](Self::lend) of contiguous packets, as many as have come into one segment. They
    /// are kept, with their segment, until they are dropped. `None`: nothing has come, or as many
    /// segments are held as the window has, or packets are scattered ([`keep`](Self::keep)).
    pub fn hold(&mut self) -> Option<HeldBurst> {
        let Way::Contiguous(driver) = &mut self.way else { return None };
        let held = driver.hold()?;
        self.taken += held.burst().len() as u64;
        Some(held)
    }

    /// Whether contiguous packets can be [held](Self::hold) now.
    pub fn can_hold(&self) -> bool {
        matches!(&self.way, Way::Contiguous(driver) if driver.can_hold())
    }

    /// What the device has counted.
    pub fn counts(&self) -> ReceiveCounts {
        self.shown.read()
    }

    /// Packets that the device has, or has delivered and the driver has not taken, by its own
    /// counts. It shows those a moment after its packets, so that some may be taken that are in the
    /// FIFO by them.
    pub fn in_flight(&self, counts: &ReceiveCounts) -> u64 {
        (counts.in_fifo + counts.delivered).saturating_sub(self.taken)
    }

    /// Whether there will be no more packets: also of a device that has died.
    pub fn is_over(&self) -> bool {
        let is_dead = self.is_dead(); // before the counts, which are the last ones then
        let counts = self.counts();
        (counts.is_over == 1 || is_dead) && counts.delivered <= self.taken
    }

    /// Whether the device has died: see [`Card::is_dead`](crate::Card::is_dead).
    pub fn is_dead(&self) -> bool {
        self.control.is_dead.load(Acquire)
    }

    /// Packets lent so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes copied to join packets that lay in several buffers.
    pub fn bytes_joined(&self) -> u64 {
        match &self.way {
            Way::Scattered(driver) => driver.bytes_joined(),
            Way::Contiguous(_) => 0,
        }
    }

    /// The driver of scattered buffers, to hand packets on where they lie; what is taken by it has
    /// to be [`counted`](Self::count).
    pub fn scattered(&mut self) -> Option<&mut Scattered> {
        match &mut self.way {
            Way::Scattered(driver) => Some(driver),
            Way::Contiguous(_) => None,
        }
    }

    /// This many packets were taken by [`scattered`](Self::scattered).
    pub fn count(&mut self, packets: u64) {
        self.taken += packets;
    }

    /// Take no more frames from the wire; those that the device has will come.
    pub fn stop(&self) {
        raise(&self.control.is_stopped);
    }
}
