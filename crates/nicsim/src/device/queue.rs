//! A receive queue of the device: moves frames from the wire or the FIFO into memory.

use std::sync::Arc;

use burstline_log::Burst;

use super::logs::Logs;
use super::rings::Rings;
use crate::counters::{ReceiveCounts, Shown};
use crate::fifo::Fifo;
use crate::fifo::Frame;
use crate::meter::Meter;
use crate::trace::Trace;

pub(crate) struct ReceiveQueue {
    way: Way,
    fifo: Fifo,
    pub(super) counts: ReceiveCounts,
    shown: Arc<Shown>,
    /// Traces steps until the first packet is in memory.
    trace: Option<Trace>,
}

/// How its packets are delivered.
pub(crate) enum Way {
    /// Into scattered buffers.
    Rings(Box<Rings>),
    /// Contiguous.
    Logs(Box<Logs>),
}

impl ReceiveQueue {
    /// Creates a queue with `fifo` bytes of the FIFO, for frames of up to `longest`, that shows its
    /// counts in `shown`.
    pub(crate) fn new(
        way: Way,
        fifo: usize,
        longest: usize,
        trace: Option<Trace>,
    ) -> (Self, Arc<Shown>) {
        let shown = Arc::new(Shown::default());
        let (fifo, counts) = (Fifo::new(fifo, longest), ReceiveCounts::default());
        (Self { way, fifo, counts, shown: Arc::clone(&shown), trace }, shown)
    }

    /// Returns how many frames of `longest` bytes fit into the FIFO.
    pub(super) fn room(&self, longest: usize) -> u64 {
        (self.fifo.room() / Fifo::takes(longest)) as u64
    }

    /// Returns whether no frame waits.
    pub(super) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Returns whether packets have more metadata than a log's desc.
    pub(super) fn has_metadata(&self) -> bool {
        matches!(self.way, Way::Rings(_))
    }

    /// Takes a frame: straight through if possible, or into the FIFO, or lost.
    #[inline]
    pub(super) fn arrive(&mut self, frame: &Frame<'_>, meter: &mut Meter) {
        if self.is_restarting() {
            self.counts.reset += 1;
        } else if !self.way.can_take(frame.bytes.len()) {
            self.counts.too_long += 1;
        } else if self.fifo.is_empty() && self.way.deliver(frame, meter, &mut self.trace) {
            self.counts.delivered += 1;
        } else if self.fifo.push(frame) {
            self.counts.in_fifo += 1;
        } else {
            self.counts.overflowed += 1;
        }
    }

    /// Takes consecutive unhashed frames that go straight through without special treatment.
    /// Returns how many, and their bytes.
    #[inline]
    pub(super) fn arrive_run(
        &mut self,
        frames: &Burst<'_>,
        longest: usize,
        meter: &mut Meter,
    ) -> (usize, u64) {
        if !self.fifo.is_empty() || self.trace.is_some() {
            return (0, 0);
        }
        let (packets, bytes) = match &mut self.way {
            Way::Rings(rings) => rings.deliver_run(frames, longest, meter),
            Way::Logs(logs) => logs.deliver_run(frames, longest),
        };
        self.counts.arrived += packets as u64;
        self.counts.delivered += packets as u64;
        (packets, bytes)
    }

    /// Moves frames from the FIFO to memory. Returns whether it moved any.
    pub(super) fn drain(&mut self, meter: &mut Meter) -> bool {
        let before = self.counts.delivered;
        while let Some(frame) = self.fifo.front() {
            if !self.way.deliver(&frame, meter, &mut self.trace) {
                break;
            }
            self.fifo.pop();
            self.counts.in_fifo -= 1;
            self.counts.delivered += 1;
        }
        self.counts.delivered > before
    }

    /// Publishes the written packets, and then the counts.
    pub(super) fn publish(&mut self, meter: &mut Meter) {
        match &mut self.way {
            Way::Rings(rings) => rings.show(),
            Way::Logs(logs) => logs.publish(meter),
        }
        self.shown.show(&self.counts);
    }

    /// Loses the packets on the chip. The driver has to start again.
    pub(super) fn restart(&mut self) {
        self.counts.reset += self.fifo.clear();
        self.counts.in_fifo = 0;
        match &mut self.way {
            Way::Rings(rings) => rings.restart(),
            Way::Logs(logs) => logs.restart(),
        }
    }

    /// Gives up after the device has died: its packets and the current frame are lost. `is_over` is
    /// not set here: a driver might see it before it sees that the device is dead.
    pub(super) fn give_up(&mut self, meter: &mut Meter) {
        self.fifo.clear();
        let ReceiveCounts { arrived, overflowed, link_down, too_long, delivered, .. } = self.counts;
        let told = delivered + overflowed + link_down + too_long;
        self.counts.reset = arrived.saturating_sub(told);
        self.counts.in_fifo = 0;
        self.publish(meter);
    }

    /// Checks whether the driver has started again.
    pub(super) fn look(&mut self) {
        match &mut self.way {
            Way::Rings(rings) => rings.look(),
            Way::Logs(logs) => logs.look(),
        }
    }

    /// Returns whether the driver has yet to start again.
    #[inline]
    pub(super) fn is_restarting(&self) -> bool {
        match &self.way {
            Way::Rings(rings) => rings.is_restarting,
            Way::Logs(logs) => logs.is_restarting,
        }
    }
}

impl Way {
    /// Returns whether a frame of this many bytes can ever be written to memory.
    #[inline]
    fn can_take(&self, length: usize) -> bool {
        match self {
            Self::Rings(rings) => rings.can_take(length),
            Self::Logs(logs) => logs.can_take(length),
        }
    }

    #[inline]
    fn deliver(&mut self, frame: &Frame<'_>, meter: &mut Meter, trace: &mut Option<Trace>) -> bool {
        match self {
            Self::Rings(rings) => rings.deliver(frame, meter, trace),
            Self::Logs(logs) => logs.deliver(frame, meter, trace),
        }
    }
}
