//! Sending: packets copied into buffers of the driver's own, or posted where they lie.
//!
//! ```text
//!   ring:  | . . | d d d d | . . |    [done, tail) is the device's; DD in each descriptor, or the
//!                ^ done    ^ tail     head register, says how far it is
//! ```

use std::sync::Arc;

use crate::Mode;
use crate::descriptor::{Outgoing, is_sent};
use crate::device::Control;
use crate::memory::HostMemory;
use crate::ring::Ring;
use crate::trace::{Trace, Who};

/// The driver's side of a transmit ring.
pub struct Transmitter {
    mode: Mode,
    ring: Arc<Ring>,
    memory: Arc<HostMemory>,
    control: Arc<Control>,
    /// Buffers of its own, one a descriptor; `None` where packets lie elsewhere.
    own: Option<(u32, u32)>,
    /// Which descriptors are a packet's last, and how many packets were written and passed.
    lasts: Box<[bool]>,
    written: u64,
    passed: u64,
    /// Descriptors that the device has passed.
    done: u32,
    /// Of those, told of by `reap`.
    reaped: u32,
    /// Descriptors written.
    next: u32,
    /// Of those, told of.
    tail: u32,
    trace: Option<Trace>,
}

impl Transmitter {
    /// Sends what lies in `memory`; with `own`, the start and the size of buffers, also copies.
    pub(crate) fn new(
        mode: Mode,
        (ring, memory): (Arc<Ring>, Arc<HostMemory>),
        own: Option<(u32, u32)>,
        control: Arc<Control>,
        trace: Option<Trace>,
    ) -> Self {
        let lasts = vec![false; ring.len() as usize].into();
        Self {
            mode,
            ring,
            memory,
            control,
            own,
            lasts,
            written: 0,
            passed: 0,
            done: 0,
            reaped: 0,
            next: 0,
            tail: 0,
            trace,
        }
    }

    /// Descriptors that are free. Cost: where the last look says that there are `wanted`, nothing;
    /// else a look at descriptors, or at the head register.
    pub fn room(&mut self, wanted: u32) -> u32 {
        let free = |this: &Self| this.ring.len() - this.next.wrapping_sub(this.done);
        if free(self) < wanted {
            self.look();
        }
        free(self)
    }

    /// Looks how far the device is. Returns how many descriptors it has passed since the last call
    /// of this, whatever [`room`](Self::room) has seen meanwhile.
    pub fn reap(&mut self) -> u32 {
        self.look();
        let before = std::mem::replace(&mut self.reaped, self.done);
        self.done.wrapping_sub(before)
    }

    fn look(&mut self) {
        let before = self.done;
        match self.mode {
            Mode::Writeback => {
                // E2: the device has read the packet before it set DD.
                while self.done != self.tail && is_sent(self.ring.slot(self.done).second()) {
                    self.done = self.done.wrapping_add(1);
                }
            }
            Mode::Inline | Mode::Contiguous if self.done != self.tail => {
                self.done = self.ring.head.read(); // E3: it has read the packets before
                self.control.count_head_read();
            }
            Mode::Inline | Mode::Contiguous => {}
        }
        for more in 0..self.done.wrapping_sub(before) {
            self.passed += u64::from(self.lasts[self.place(before.wrapping_add(more))]);
        }
    }

    /// Packets that the device had yet to send when it was looked at last.
    pub fn packets_in_flight(&self) -> u64 {
        self.written - self.passed
    }

    /// The longest packet that can be copied, in bytes.
    pub fn longest(&self) -> usize {
        let room = self.own.map_or(0, |(_, buffer)| buffer as usize * self.ring.len() as usize);
        room.min(usize::from(u16::MAX))
    }

    fn place(&self, position: u32) -> usize {
        position as usize & (self.lasts.len() - 1)
    }

    /// Descriptors that the device has yet to pass.
    pub fn in_flight(&self) -> u32 {
        self.next.wrapping_sub(self.done)
    }

    /// Descriptors that a packet of so many bytes takes when it is copied; `None` for one that is
    /// longer than all of them.
    pub fn descriptors(&self, length: usize) -> Option<u32> {
        let (_, buffer) = self.own?;
        let wanted = length.div_ceil(buffer as usize).max(1) as u32;
        (wanted <= self.ring.len() && length <= usize::from(u16::MAX)).then_some(wanted)
    }

    /// Copies a packet and writes its descriptors, for which there is room.
    pub fn copy(&mut self, packet: &[u8]) {
        let Some((start, buffer)) = self.own else { return };
        let pieces = packet.len().div_ceil(buffer as usize).max(1);
        for number in 0..pieces {
            let from = number * buffer as usize;
            let piece = &packet[from..packet.len().min(from + buffer as usize)];
            let place = self.next & (self.ring.len() - 1);
            let address = u64::from(start) + u64::from(place) * u64::from(buffer);
            // SAFETY: D1: the buffer goes with the descriptor, which the device has passed.
            unsafe { self.memory.write(address, piece) };
            let total = packet.len() as u32;
            self.put(address as u32, piece.len() as u16, (number + 1 == pieces, total));
        }
    }

    /// Writes a descriptor for bytes where they lie; there is room. They are the device's from
    /// [`ring`](Self::ring) until it has passed the descriptor.
    #[inline]
    pub fn put(&mut self, at: u32, length: u16, (is_last, packet_bytes): (bool, u32)) {
        let reports = self.mode == Mode::Writeback;
        let piece = Outgoing { address: at.into(), length, is_last, reports };
        self.ring.slot(self.next).store(piece.words(packet_bytes));
        if let Some(trace) = self.trace.take_if(|_| is_last) {
            let position = self.next;
            let what = format_args!("{length} bytes at {at:#x}, descriptor at position {position}");
            trace.step("4.2.1", Who::Driver, what);
        }
        let place = self.place(self.next);
        self.lasts[place] = is_last;
        self.written += u64::from(is_last);
        self.next = self.next.wrapping_add(1);
    }

    /// Rings the doorbell, if there is something new.
    #[inline]
    pub fn ring(&mut self) {
        if self.tail != self.next {
            self.tail = self.next;
            self.ring.tail.write(self.tail); // E1
            self.control.ring_doorbell();
        }
    }
}
