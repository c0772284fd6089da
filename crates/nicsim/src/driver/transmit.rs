//! Sends packets: copied into the driver's own buffers, or posted in place.
//!
//! ```text
//!   ring:  | . . | d d d d | . . |    the device owns [done, tail); DD in each descriptor, or the
//!                ^ done    ^ tail     head register, shows its progress
//! ```
//!
//! Parts of another card's packets belong to this driver from [`put`](Transmitter::put) until they
//! are [taken back](Transmitter::take_back). So nobody overwrites what the device has yet to read.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Part, SharedRing};
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
    /// Its own buffers, one for each descriptor; `None` if packets are elsewhere.
    own: Option<OwnBuffers>,
    /// Parts in other memory, oldest first, and how many of their descriptors came back.
    parts: VecDeque<Waiting>,
    taken_back: u32,
    /// Which descriptors are a packet's last, and how many packets were written and completed.
    lasts: Box<[bool]>,
    written: u64,
    passed: u64,
    /// Descriptors that the device has passed.
    done: u32,
    /// Descriptors written so far.
    next: u32,
    /// Descriptors that the device knows of.
    tail: u32,
    trace: Option<Trace>,
}

/// A part that is returned in order.
struct Waiting {
    part: Part,
    /// Whether it has a descriptor.
    is_sent: bool,
}

/// Buffers for copies, one for each descriptor.
#[derive(Clone, Copy)]
pub(crate) struct OwnBuffers {
    /// Start of the first one in the memory.
    pub(crate) start: u32,
    /// Bytes of each.
    pub(crate) bytes: u32,
}

impl Transmitter {
    /// Creates a driver that sends packets in `memory`; with `own`, also copies.
    pub(crate) fn new(
        mode: Mode,
        SharedRing { ring, memory }: SharedRing,
        own: Option<OwnBuffers>,
        control: Arc<Control>,
        trace: Option<Trace>,
    ) -> Self {
        Self {
            mode,
            lasts: vec![false; ring.len() as usize].into(),
            ring,
            memory,
            control,
            own,
            parts: VecDeque::new(),
            taken_back: 0,
            written: 0,
            passed: 0,
            done: 0,
            next: 0,
            tail: 0,
            trace,
        }
    }

    /// Returns the number of free descriptors. Cost: nothing if the last check found `wanted`; else
    /// a check of descriptors or of the head register.
    pub fn room(&mut self, wanted: u32) -> u32 {
        let free = |this: &Self| this.ring.len() - this.next.wrapping_sub(this.done);
        if free(self) < wanted {
            self.reap();
        }
        free(self)
    }

    /// Checks the device's progress.
    pub fn reap(&mut self) {
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
        let done = self.done.wrapping_sub(before);
        for more in 0..done {
            self.passed += u64::from(self.lasts[self.place(before.wrapping_add(more))]);
        }
    }

    /// Returns the oldest part that the device has passed, by the last check, and whether it was
    /// sent.
    #[inline]
    pub fn take_back(&mut self) -> Option<(Part, bool)> {
        if self.parts.front()?.is_sent {
            if self.taken_back == self.done {
                return None;
            }
            self.taken_back = self.taken_back.wrapping_add(1);
        }
        self.parts.pop_front().map(|waiting| (waiting.part, waiting.is_sent))
    }

    /// Returns the packets that the device had not sent at the last check.
    pub fn packets_in_flight(&self) -> u64 {
        self.written - self.passed
    }

    /// Returns the length in bytes of the longest packet that can be copied.
    pub fn longest(&self) -> usize {
        let room = self.own.map_or(0, |own| own.bytes as usize * self.ring.len() as usize);
        room.min(usize::from(u16::MAX))
    }

    fn place(&self, position: u32) -> usize {
        position as usize & (self.lasts.len() - 1)
    }

    /// Returns the descriptors that the device has not passed.
    pub fn in_flight(&self) -> u32 {
        self.next.wrapping_sub(self.done)
    }

    /// Returns the descriptors that a copied packet of this many bytes takes; `None` if it is
    /// longer than all of them.
    pub fn descriptors(&self, length: usize) -> Option<u32> {
        let OwnBuffers { bytes: buffer, .. } = self.own?;
        let wanted = length.div_ceil(buffer as usize).max(1) as u32;
        (wanted <= self.ring.len() && length <= usize::from(u16::MAX)).then_some(wanted)
    }

    /// Copies a packet and writes its descriptors.
    ///
    /// # Panics
    /// If there is no [room](Self::room) for them, or the driver has no buffers.
    pub fn copy(&mut self, packet: &[u8]) {
        let wanted = self.descriptors(packet.len()).unwrap_or(u32::MAX);
        assert!(self.room(wanted) >= wanted, "no room for {} bytes", packet.len());
        let Some(OwnBuffers { start, bytes: buffer }) = self.own else { return };
        let pieces = packet.len().div_ceil(buffer as usize).max(1);
        for number in 0..pieces {
            let from = number * buffer as usize;
            let piece = &packet[from..packet.len().min(from + buffer as usize)];
            let place = self.next & (self.ring.len() - 1);
            let address = u64::from(start) + u64::from(place) * u64::from(buffer);
            // SAFETY: D1: the buffer belongs to the descriptor, which the device has passed.
            unsafe { self.memory.write(address, piece) };
            let total = packet.len() as u32;
            self.write(address as u32, piece.len() as u16, number + 1 == pieces, total);
        }
    }

    /// Writes a descriptor for a part in place, of a packet of this many bytes. It belongs to the
    /// device from [`ring`](Self::ring) on.
    ///
    /// # Panics
    /// If there is no [room](Self::room), or the part belongs to another memory.
    #[inline]
    pub fn put(&mut self, part: Part, packet_bytes: u32) {
        assert!(self.own.is_none() && part.memory == self.memory.number(), "of another memory");
        assert!(self.in_flight() < self.ring.len(), "no room in a ring of {}", self.ring.len());
        self.write(part.at, part.length, part.is_last, packet_bytes);
        self.parts.push_back(Waiting { part, is_sent: true });
    }

    /// Takes a part that must not be sent, so that it is returned in order.
    pub fn pass_over(&mut self, part: Part) {
        self.parts.push_back(Waiting { part, is_sent: false });
    }

    #[inline]
    fn write(&mut self, at: u32, length: u16, is_last: bool, packet_bytes: u32) {
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

    /// Rings the doorbell, if there are new descriptors.
    #[inline]
    pub fn ring(&mut self) {
        if self.tail != self.next {
            self.tail = self.next;
            self.ring.tail.write(self.tail); // E1
            self.control.ring_doorbell();
        }
    }
}
