//! Receives contiguous packets: the driver only writes a worklist and copies no packet.
//!
//! ```text
//!  ring:     | d | d |          two large buffers posted: segments of a log, one ahead
//!  segment:  | head | packet | head | packet | ...  free  ...  | desc 2 | desc 1 |
//!             '-- the device's ----------------->             <-- the driver's --'
//! ```
//!
//! The driver polls the pointer and makes a desc from each head below it. It publishes the descs
//! like any writer of a log, and lends them through its own reader. So other readers can follow,
//! and a second card can send from the same segment.
//!
//! Invariants:
//! - C1. A segment is posted once, when it is taken from the log. The device has finished it when
//!   it has written the head that ends it, or has restarted.
//! - C2. The writer appends nothing: everything in a segment was written by the device.

use std::sync::Arc;

use burstline_log::{
    Adopted, Burst, HEAD_BYTES, HeldBurst, Meta, Packet, Reader, SCRATCH_PACKETS, Scratch, Writer,
};

use crate::descriptor::receive_read;
use crate::device::Control;
use crate::ring::Ring;
use crate::trace::{Trace, Who};

/// Most posted buffers: the open one and the next.
pub(crate) const BUFFERS: u32 = 2;

/// The driver's side of a queue whose packets are delivered into a log.
pub(crate) struct Contiguous {
    ring: Arc<Ring>,
    control: Arc<Control>,
    writer: Writer,
    reader: Reader,
    port: u8,
    /// Starts of the open segment and of the next one.
    open: Option<usize>,
    ahead: Option<usize>,
    /// Offset of the next head in the open segment.
    low: usize,
    /// Units of 16 bytes processed, out of those that the device counts.
    looked_at: u32,
    tail: u32,
    /// The restart that the device may continue after, and the one that the ring was laid out for.
    /// The second is ahead while no segment is free.
    epoch: u32,
    laid_out: u32,
    chosen: Scratch,
    is_chosen: bool,
    trace: Option<Trace>,
}

impl Contiguous {
    pub(crate) fn new(
        ring: Arc<Ring>,
        writer: Writer,
        reader: Reader,
        control: Arc<Control>,
        port: u8,
        trace: Option<Trace>,
    ) -> Self {
        let mut this = Self {
            ring,
            control,
            writer,
            reader,
            port,
            open: None,
            ahead: None,
            low: 0,
            looked_at: 0,
            tail: 0,
            epoch: 0,
            laid_out: 0,
            chosen: Scratch::new(),
            is_chosen: false,
            trace,
        };
        this.post();
        this
    }

    /// Takes up to `budget` packets that have arrived, and returns how many. [`lent`](Self::lent)
    /// lends them.
    #[inline]
    pub(super) fn receive(&mut self, budget: u64) -> u64 {
        self.is_chosen = false;
        let most = budget.min(SCRATCH_PACKETS as u64);
        let adopted = self.adopt(most);
        let packets = self.reader.take_up_to(most);
        if let Some(trace) = self.trace.take_if(|_| packets > 0) {
            tell(adopted, packets, &trace);
        }
        packets
    }

    /// Like [`receive`](Self::receive), but keeps the packets and their segment until the result is
    /// dropped.
    pub(super) fn hold(&mut self) -> Option<HeldBurst> {
        self.is_chosen = false;
        self.adopt(SCRATCH_PACKETS as u64);
        self.reader.hold_burst()
    }

    pub(super) fn can_hold(&self) -> bool {
        !self.reader.is_window_full()
    }

    /// Returns the packets taken last, or those chosen from them.
    #[inline]
    pub(super) fn lent(&self) -> Burst<'_> {
        match self.reader.taken() {
            Some(burst) if self.is_chosen => self.chosen.selected(&burst),
            Some(burst) => burst,
            None => self.chosen.burst(&[], 0).split_at(0).0,
        }
    }

    /// Lends only those packets for which `pick` returns a description.
    pub(super) fn choose(&mut self, pick: impl FnMut(&Packet<'_>) -> Option<(u32, Meta)>) {
        if let Some(burst) = self.reader.taken() {
            self.chosen.select(&burst, 0, pick);
            self.is_chosen = true;
        }
    }

    /// Makes descs of up to `most` packets that have arrived, and publishes them. Returns how many.
    #[inline]
    fn adopt(&mut self, most: u64) -> u64 {
        let mut adopted = 0;
        if self.ahead.is_none() || self.open.is_none() {
            self.post();
        }
        loop {
            let written = self.ring.head.read(); // E5
            if written == self.looked_at {
                self.look(written);
                break;
            }
            let Some(run) = self.adopt_run(written, most - adopted) else { break };
            adopted += run.packets;
            if !run.is_over {
                break;
            }
            self.open = None;
            self.post();
        }
        self.writer.publish();
        adopted
    }

    /// Adopts packets of the open segment, up to the pointer.
    #[inline]
    fn adopt_run(&mut self, written: u32, most: u64) -> Option<Adopted> {
        self.open?;
        let ready = written.wrapping_sub(self.looked_at) as usize * HEAD_BYTES;
        // The pointer may be in the next segment: a head that ends this one comes first.
        let limit = self.low + ready;
        // SAFETY: below the pointer heads and packets are written, back to back, and the device
        // continues after them (D6); at the segment's end it leaves 16 bytes for each packet. No
        // reader has seen them yet.
        let adopted = unsafe { self.writer.adopt(self.low, limit, most, self.port) };
        let passed = (adopted.end - self.low) / HEAD_BYTES;
        self.looked_at = self.looked_at.wrapping_add(passed as u32);
        self.low = adopted.end;
        Some(adopted)
    }

    /// Opens the next segment if none is open, and posts others while there are any.
    #[cold]
    fn post(&mut self) {
        let tail = self.tail;
        for _ in 0..BUFFERS {
            if self.ahead.is_none() {
                self.ahead = self.writer.hand_out().map(|place| place.at);
                if let Some(at) = self.ahead {
                    self.describe(at);
                }
            }
            if self.open.is_none() && self.writer.turn() {
                (self.open, self.low) = (self.ahead.take(), 0);
            }
        }
        if self.tail != tail {
            self.ring.tail.write(self.tail); // E1
            self.control.ring_doorbell();
        }
    }

    fn describe(&mut self, at: usize) {
        self.ring.slot(self.tail).store(receive_read(at as u64));
        self.tail = self.tail.wrapping_add(1);
    }

    /// Starts again in another segment if the device has restarted and nothing is ready: the device
    /// has forgotten this one.
    fn look(&mut self, written: u32) {
        let epoch = self.ring.epoch.read(); // E4: everything delivered before is visible
        if epoch == self.epoch || self.ring.head.read() != written {
            return;
        }
        if epoch != self.laid_out {
            self.laid_out = epoch;
            (self.open, self.tail) = (None, 0);
            if let Some(at) = self.ahead {
                self.describe(at);
            }
        }
        self.post();
        if self.open.is_some() {
            self.epoch = epoch;
            self.ring.tail.write(self.tail); // E1, as far as `post` has not
            self.ring.acknowledged.write(epoch); // E4: the ring is laid out
        }
    }
}

#[cold]
fn tell(adopted: u64, packets: u64, trace: &Trace) {
    let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Driver, what);
    step("4.1.5", format_args!("the pointer is read in memory: it has moved, no register is read"));
    step("4.1.6", format_args!("length > 0: {adopted} descs are written, and no packet is copied"));
    step("4.1.6", format_args!("{packets} packets are lent in place"));
    step(
        "4.1.6",
        format_args!("the segment goes back as a whole, when all readers have passed it"),
    );
}
