//! A receive queue, in any mode.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use burstline_log::{Burst, HeldBurst, Meta, Packet};
use burstline_sys::clock;

use super::{Contiguous, Kept, Scattered, Stamp};
use crate::counters::{ReceiveCounts, Shown};
use crate::device::{Control, raise};

/// The driver's side of one receive queue.
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

    /// Returns the buffers lent before, and lends up to `budget` packets that have arrived. All
    /// parts that were handed on must be back.
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

    /// Returns the burst lent last, or the packets [chosen](Self::choose) from it, once more; their
    /// numbers are arbitrary. Empty after any other use of the packets.
    #[inline]
    pub fn lent(&self) -> Burst<'_> {
        match &self.way {
            Way::Scattered(driver) => driver.lent(),
            Way::Contiguous(driver) => driver.lent(),
        }
    }

    /// Lends only those packets for which `pick` returns a description and how many of their bytes
    /// to lend. They are from the burst lent last, which must not be narrowed yet.
    pub fn choose(&mut self, pick: impl FnMut(&Packet<'_>) -> Option<(u32, Meta)>) -> Burst<'_> {
        match &mut self.way {
            Way::Scattered(driver) => driver.choose(pick),
            Way::Contiguous(driver) => driver.choose(pick),
        }
        self.lent()
    }

    /// Keeps lent packet `index` in its scattered buffer. `None` if it was kept already or joined
    /// from several buffers, or no other buffer is free to replace it. Also `None` for contiguous
    /// packets ([`hold`](Self::hold)).
    pub fn keep(&mut self, index: usize) -> Option<Kept> {
        match &mut self.way {
            Way::Scattered(driver) => driver.keep(index),
            Way::Contiguous(_) => None,
        }
    }

    /// Returns a kept buffer.
    ///
    /// # Panics
    /// If it belongs to another driver.
    pub fn let_go(&mut self, kept: Kept) {
        match &mut self.way {
            Way::Scattered(driver) => driver.let_go(kept),
            Way::Contiguous(_) => panic!("it keeps no buffers"),
        }
    }

    /// Like [`lend`](Self::lend) for contiguous packets, as many as are in one segment. They are
    /// kept, with their segment, until they are dropped. `None` if no packet has arrived, if the
    /// window's segments are all held, or if packets are scattered ([`keep`](Self::keep)).
    pub fn hold(&mut self) -> Option<HeldBurst> {
        let Way::Contiguous(driver) = &mut self.way else { return None };
        let held = driver.hold()?;
        self.taken += held.burst().len() as u64;
        Some(held)
    }

    /// Returns whether contiguous packets can be [held](Self::hold) now.
    pub fn can_hold(&self) -> bool {
        matches!(&self.way, Way::Contiguous(driver) if driver.can_hold())
    }

    /// Returns the counts of the device.
    pub fn counts(&self) -> ReceiveCounts {
        self.shown.read()
    }

    /// Returns the packets that the device has, or has delivered and the driver has not taken, by
    /// the device's counts. It shows counts a moment after its packets, so the driver may have
    /// taken packets that still count as in the FIFO.
    pub fn in_flight(&self, counts: &ReceiveCounts) -> u64 {
        (counts.in_fifo + counts.delivered).saturating_sub(self.taken)
    }

    /// Returns whether no more packets will come, also because the device has died.
    pub fn is_over(&self) -> bool {
        let is_dead = self.is_dead(); // before the counts, which are then the last ones
        let counts = self.counts();
        (counts.is_over == 1 || is_dead) && counts.delivered <= self.taken
    }

    /// Returns whether the device has died: see [`Card::is_dead`](crate::Card::is_dead).
    pub fn is_dead(&self) -> bool {
        self.control.is_dead.load(Acquire)
    }

    /// Returns the packets lent so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the bytes copied to join packets from several buffers.
    pub fn bytes_joined(&self) -> u64 {
        match &self.way {
            Way::Scattered(driver) => driver.bytes_joined(),
            Way::Contiguous(_) => 0,
        }
    }

    /// Returns the driver of scattered buffers, to hand packets on in place. Packets taken through
    /// it have to be [`counted`](Self::count).
    pub fn scattered(&mut self) -> Option<&mut Scattered> {
        match &mut self.way {
            Way::Scattered(driver) => Some(driver),
            Way::Contiguous(_) => None,
        }
    }

    /// Counts packets that were taken through [`scattered`](Self::scattered).
    pub fn count(&mut self, packets: u64) {
        self.taken += packets;
    }

    /// Stops taking frames from the wire; those in the device still arrive.
    pub fn stop(&self) {
        raise(&self.control.is_stopped);
    }
}
