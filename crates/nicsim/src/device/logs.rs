//! Contiguous delivery into a large buffer, with a head before each packet: the article's card.
//!
//! ```text
//!   buffer:  | head | packet | head | packet | head | packet | end |  free  |  descs to be  |
//!            16 bytes                                              ^ low    ^ top
//! ```
//!
//! The buffer is a segment of a log, which the driver posts as a whole. The 16 bytes before a
//! packet hold its metadata. The driver turns them into a desc at the segment's other end, where
//! the device leaves 16 bytes per packet. Once per batch it writes its position: a pointer in units
//! of 16 bytes that continues from buffer to buffer.

use std::sync::Arc;

use burstline_log::{Burst, FACTS_BYTES, HEAD_BYTES, Head};

use crate::descriptor::buffer_of;
use crate::fifo::Frame;
use crate::memory::{HostMemory, LINE_BYTES};
use crate::meter::Meter;
use crate::ring::Ring;
use crate::trace::{Trace, Who};

/// Free room that a packet needs in addition to its bytes: two heads (its own and the buffer's
/// last), its desc, and the driver's facts.
const BESIDE: usize = 3 * HEAD_BYTES + FACTS_BYTES;

/// How far ahead the device prefetches cache lines, in bytes.
const ASKED_AHEAD: usize = 1024;

/// Prefetches the lines before `low` plus the distance, and returns the end of them.
#[inline(always)]
fn ask_ahead(memory: &HostMemory, buffer: u64, low: usize, mut asked: usize) -> usize {
    while asked < low + ASKED_AHEAD {
        memory.ask(buffer + asked as u64, LINE_BYTES);
        asked += LINE_BYTES;
    }
    asked
}

/// The device's side of one queue.
pub(crate) struct Logs {
    ring: Arc<Ring>,
    memory: Arc<HostMemory>,
    buffer_bytes: usize,
    /// Descriptors consumed.
    next: u32,
    /// Start of the buffer; its free part is `[low, top)`.
    buffer: Option<u64>,
    low: usize,
    top: usize,
    /// End of the prefetched lines.
    asked: usize,
    /// Time of the buffer's first packet.
    base_time_ns: u64,
    /// Units of 16 bytes written since the start.
    written: u32,
    /// Packets and bytes not yet in the account.
    packets: u64,
    bytes: u64,
    epoch: u32,
    pub(super) is_restarting: bool,
}

impl Logs {
    pub(crate) fn new(ring: Arc<Ring>, memory: Arc<HostMemory>, buffer_bytes: usize) -> Self {
        Self {
            ring,
            memory,
            buffer_bytes,
            next: 0,
            buffer: None,
            low: 0,
            top: 0,
            asked: 0,
            base_time_ns: 0,
            written: 0,
            packets: 0,
            bytes: 0,
            epoch: 0,
            is_restarting: false,
        }
    }

    #[inline]
    pub(super) fn can_take(&self, length: usize) -> bool {
        length.next_multiple_of(16) + BESIDE <= self.buffer_bytes
    }

    /// Forgets its buffers until the driver has started again.
    pub(super) fn restart(&mut self) {
        self.ring.head.write(self.written); // E5
        self.buffer = None;
        self.epoch += 1;
        self.is_restarting = true;
        self.ring.epoch.write(self.epoch); // E4: everything delivered before is visible
    }

    pub(super) fn look(&mut self) {
        // E4: the driver has laid out the ring again, from position 0.
        if self.is_restarting && self.ring.acknowledged.read() == self.epoch {
            (self.next, self.is_restarting) = (0, false);
        }
    }

    /// Writes a frame to memory, if there is a buffer for it.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        frame: &Frame<'_>,
        meter: &mut Meter,
        trace: &mut Option<Trace>,
    ) -> bool {
        let length = frame.bytes.len();
        let aligned = (length + 15) & !15;
        let is_there = self.buffer.is_some() && self.low + aligned + BESIDE <= self.top;
        if !is_there && !self.turn(meter) {
            return false;
        }
        let Some(buffer) = self.buffer else { return false };
        if self.low == 0 {
            self.base_time_ns = frame.time_ns;
        }
        let is_far = frame.time_ns.wrapping_sub(self.base_time_ns) > u64::from(u32::MAX);
        let (hash, time_ns, length) = (frame.metadata.hash, frame.time_ns, length as u16);
        let words = Head { time_ns, hash, length, is_far }.words();
        self.asked = ask_ahead(&self.memory, buffer, self.low, self.asked);
        // SAFETY: the device owns the buffer since `turn` saw the tail, in `[low, top)` (D6); the
        // pointer that hands it to the driver is written later.
        unsafe { self.memory.write_behind(buffer + self.low as u64, words, frame.bytes) };
        let taken = HEAD_BYTES + aligned + if is_far { FACTS_BYTES } else { 0 };
        if let Some(trace) = trace.take() {
            self.tell(frame, buffer, &trace);
        }
        self.advance(taken);
        self.top -= HEAD_BYTES;
        self.packets += 1;
        true
    }

    /// Writes frames of up to `longest` bytes without a hash or special treatment. They follow the
    /// first one in the open buffer, up to its end. Returns how many, and their bytes.
    #[inline]
    pub(super) fn deliver_run(&mut self, frames: &Burst<'_>, longest: usize) -> (usize, u64) {
        let Some(buffer) = self.buffer.filter(|_| self.low > 0) else { return (0, 0) };
        // In registers: the compiler must assume that the writes may alias `self`.
        let (memory, base_time_ns) = (&*self.memory, self.base_time_ns);
        let (mut low, mut top, mut asked) = (self.low, self.top, self.asked);
        let mut all_bytes = 0;
        for frame in frames.plain_packets() {
            let (bytes, time_ns) = (frame.bytes, frame.time_ns);
            let aligned = (bytes.len() + 15) & !15;
            let is_far = time_ns.wrapping_sub(base_time_ns) > u64::from(u32::MAX);
            if is_far || bytes.len() > longest || low + aligned + BESIDE > top {
                break;
            }
            asked = ask_ahead(memory, buffer, low, asked);
            let length = bytes.len() as u16;
            let words = Head { time_ns, hash: 0, length, is_far: false }.words();
            // SAFETY: the device owns the buffer since `turn` saw the tail, in `[low, top)` (D6);
            // the pointer that hands it to the driver is written later.
            unsafe { memory.write_behind(buffer + low as u64, words, bytes) };
            low += HEAD_BYTES + aligned;
            top -= HEAD_BYTES;
            all_bytes += bytes.len() as u64;
        }
        let packets = (self.top - top) / HEAD_BYTES;
        self.advance(low - self.low);
        self.packets += packets as u64;
        (self.top, self.asked) = (top, asked);
        (packets, all_bytes)
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.low += bytes;
        self.bytes += bytes as u64;
        self.written = self.written.wrapping_add((bytes / HEAD_BYTES) as u32);
    }

    /// Ends the buffer and continues in the next one. Returns false if there is none.
    #[cold]
    fn turn(&mut self, meter: &mut Meter) -> bool {
        if let Some(buffer) = self.buffer.take() {
            // SAFETY: the device owns the buffer since `turn` saw the tail (D6), and `deliver`
            // always leaves room for this.
            unsafe { self.memory.write_behind(buffer + self.low as u64, Head::END, &[]) };
            self.advance(HEAD_BYTES);
        }
        // E1: descriptors below the tail are written, and the device owns their buffers.
        if self.is_restarting || self.ring.tail.read() == self.next {
            return false;
        }
        let address = buffer_of(self.ring.slot(self.next).words());
        self.next = self.next.wrapping_add(1);
        meter.fetched(1);
        self.buffer = Some(address);
        (self.low, self.top, self.asked) = (0, self.buffer_bytes, 0);
        true
    }

    /// Publishes its position.
    pub(super) fn publish(&mut self, meter: &mut Meter) {
        if self.bytes > 0 {
            self.ring.head.write(self.written); // E5
            meter.run_up(self.packets, self.bytes);
            (self.packets, self.bytes) = (0, 0);
        }
    }

    #[cold]
    fn tell(&self, frame: &Frame<'_>, buffer: u64, trace: &Trace) {
        let (length, hash, time_ns) = (frame.bytes.len(), frame.metadata.hash, frame.time_ns);
        let (low, bytes) = (self.low, self.buffer_bytes);
        let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Device, what);
        step("4.1.1", format_args!("a frame of {length} bytes arrived"));
        step(
            "4.1.2",
            format_args!("a buffer of {bytes} bytes at {buffer:#x} was fetched: one descriptor"),
        );
        step("4.1.3", format_args!("head: length {length}, hash {hash:08x}, time {time_ns} ns"));
        step(
            "4.1.4",
            format_args!("head and packet go up behind the previous ones, {low} bytes into it"),
        );
        step("4.1.4", format_args!("a pointer of 8 bytes goes up, once for a batch"));
    }
}
