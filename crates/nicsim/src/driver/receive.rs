//! A receive queue, whatever its mode.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{Burst, Reader, SCRATCH_PACKETS, Scratch};
use burstline_sys::clock;

use super::Scattered;
use crate::counters::{ReceiveCounts, Shown};
use crate::device::{Control, raise};
use crate::trace::{Trace, Who};

/// The driver's end of one receive queue.
pub struct Receiver {
    way: Way,
    shown: Arc<Shown>,
    control: Arc<Control>,
    port: u8,
    taken: u64,
    trace: Option<Trace>,
}

pub(crate) enum Way {
    Scattered(Scattered),
    Log(Box<Reader>),
}

impl Receiver {
    pub(crate) fn new(
        way: Way,
        shown: Arc<Shown>,
        control: Arc<Control>,
        port: u8,
        trace: Option<Trace>,
    ) -> Self {
        Self { way, shown, control, port, taken: 0, trace }
    }

    /// Gives back what was lent, and lends up to `budget` packets that have arrived.
    ///
    /// Cost: no system call. Scattered packets cost instructions each; contiguous ones a load and
    /// some tens of instructions together.
    #[inline]
    pub fn lend<'a>(&'a mut self, scratch: &'a mut Scratch, budget: u64) -> Burst<'a> {
        let first_packet = self.taken;
        match &mut self.way {
            Way::Scattered(driver) => {
                driver.receive(scratch, budget, (clock::realtime_ns(), self.port));
                self.taken += scratch.len() as u64;
                driver.lent(scratch, first_packet)
            }
            Way::Log(reader) => {
                scratch.clear();
                let packets = reader.take_up_to(budget.min(SCRATCH_PACKETS as u64));
                self.taken += packets;
                if let Some(trace) = self.trace.take_if(|_| packets > 0) {
                    tell(packets, &trace);
                }
                reader.taken().unwrap_or_else(|| scratch.burst(&[], first_packet))
            }
        }
    }

    /// The burst that `lend` has lent, once more.
    pub fn lent<'a>(&'a self, scratch: &'a Scratch) -> Burst<'a> {
        match &self.way {
            Way::Scattered(driver) => driver.lent(scratch, 0),
            Way::Log(reader) => reader.taken().unwrap_or_else(|| scratch.burst(&[], 0)),
        }
    }

    /// What the device has counted.
    pub fn counts(&self) -> ReceiveCounts {
        self.shown.read()
    }

    /// Packets that the device has, or has delivered and nobody taken, by its own counts. It shows
    /// those a moment after its packets, so that some may be taken that are in the FIFO by them.
    pub fn in_flight(&self, counts: &ReceiveCounts) -> u64 {
        (counts.in_fifo + counts.delivered).saturating_sub(self.taken)
    }

    /// Whether there will be no more packets.
    pub fn is_over(&self) -> bool {
        let counts = self.counts();
        counts.is_over == 1 && counts.delivered == self.taken
    }

    /// Packets lent so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes copied to join packets that lay in several buffers.
    pub fn bytes_joined(&self) -> u64 {
        match &self.way {
            Way::Scattered(driver) => driver.bytes_joined(),
            Way::Log(_) => 0,
        }
    }

    /// The driver of scattered buffers, to hand packets on where they lie; what is taken by it has
    /// to be [`counted`](Self::count).
    pub fn scattered(&mut self) -> Option<&mut Scattered> {
        match &mut self.way {
            Way::Scattered(driver) => Some(driver),
            Way::Log(_) => None,
        }
    }

    /// So many packets were taken by [`scattered`](Self::scattered).
    pub fn count(&mut self, packets: u64) {
        self.taken += packets;
    }

    /// No more frames shall be taken from the wire; those that the device has will come.
    pub fn stop(&self) {
        raise(&self.control.is_stopped);
    }

    /// Whether the device takes no more frames.
    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped.load(Relaxed) // our own flag
    }
}

#[cold]
fn tell(packets: u64, trace: &Trace) {
    let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Driver, what);
    step("4.1.5", format_args!("the segment's count is read: no descriptor, no packet is touched"));
    step(
        "4.1.6",
        format_args!("{packets} packets are lent with the worklist as the device wrote it"),
    );
    step("4.1.6", format_args!("the segment goes back as a whole, when all of it was lent"));
}
