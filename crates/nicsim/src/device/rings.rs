//! Into scattered buffers, by descriptors: as the 82599 does, or with the metadata in front.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::Frame;
use crate::Mode;
use crate::descriptor::{Metadata, Words, buffer_of};
use crate::memory::HostMemory;
use crate::meter::Meter;
use crate::pcie::DESCRIPTOR_BYTES;
use crate::ring::Ring;
use crate::trace::{Trace, Who};

/// Descriptors that are fetched at a time.
const FETCHED: u32 = 32;
/// Descriptors that the chip holds: those of the longest frame, in the smallest buffers.
const ON_CHIP: u32 = 64;
/// Bytes of the metadata in front of a packet.
const FRONT: usize = DESCRIPTOR_BYTES as usize;

/// The device's side of a receive ring.
pub(crate) struct Rings {
    mode: Mode,
    ring: Arc<Ring>,
    memory: Arc<HostMemory>,
    buffer: usize,
    /// Buffer addresses of descriptors `[next, fetched)`.
    addresses: [u64; ON_CHIP as usize],
    next: u32,
    fetched: u32,
    epoch: u32,
    pub(super) is_restarting: bool,
}

impl Rings {
    pub(crate) fn new(mode: Mode, ring: Arc<Ring>, memory: Arc<HostMemory>, buffer: u32) -> Self {
        let (next, fetched, epoch, is_restarting) = (0, 0, 0, false);
        let (addresses, buffer) = ([0; ON_CHIP as usize], buffer as usize);
        Self { mode, ring, memory, buffer, addresses, next, fetched, epoch, is_restarting }
    }

    #[inline]
    pub(super) fn can_take(&self, length: usize) -> bool {
        self.buffers(length) <= self.ring.len().min(ON_CHIP)
    }

    /// Forgets its descriptors, until the driver has begun anew.
    pub(super) fn restart(&mut self) {
        self.epoch += 1;
        self.is_restarting = true;
        self.ring.epoch.write(self.epoch); // E4: what was delivered before is there
    }

    pub(super) fn look(&mut self) {
        // E4: the ring is as the driver has laid it out anew, from position 0.
        if self.is_restarting && self.ring.acknowledged.read() == self.epoch {
            (self.next, self.fetched, self.is_restarting) = (0, 0, false);
        }
    }

    /// Writes a frame to memory, if there are descriptors for it.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        frame: &Frame<'_>,
        meter: &mut Meter,
        trace: &mut Option<Trace>,
    ) -> bool {
        let buffers = self.buffers(frame.bytes.len());
        if self.is_restarting || !self.has_fetched(buffers, meter) {
            return false;
        }
        let at = self.addresses[(self.next % ON_CHIP) as usize];
        let metadata = frame.metadata();
        match self.mode {
            Mode::Writeback => self.write_back(frame.bytes, buffers, metadata),
            Mode::Inline | Mode::Contiguous => self.write_in_front(frame.bytes, buffers, metadata),
        }
        meter.packet_up(self.mode, frame.bytes.len(), buffers.into());
        if let Some(trace) = trace.take() {
            self.tell(frame, (at, buffers), &metadata, &trace);
        }
        self.next = self.next.wrapping_add(buffers);
        true
    }

    /// How many buffers a frame takes.
    #[inline]
    fn buffers(&self, length: usize) -> u32 {
        let front = if self.mode == Mode::Writeback { 0 } else { FRONT };
        match length + front <= self.buffer {
            true => 1,
            false => (length + front).div_ceil(self.buffer) as u32,
        }
    }

    /// Whether so many descriptors are on the chip; asks for more of them at a time.
    #[inline]
    fn has_fetched(&mut self, wanted: u32, meter: &mut Meter) -> bool {
        self.fetched.wrapping_sub(self.next) >= wanted || self.fetch(wanted, meter)
    }

    fn fetch(&mut self, wanted: u32, meter: &mut Meter) -> bool {
        // E1: descriptors below the tail are written, and their buffers the device's.
        let posted = self.ring.tail.read().wrapping_sub(self.fetched).min(self.ring.len());
        let held = self.fetched.wrapping_sub(self.next);
        let fetched = posted.min(FETCHED.max(wanted)).min(ON_CHIP - held);
        if held + fetched < wanted {
            return false;
        }
        for _ in 0..fetched {
            let address = buffer_of(self.ring.slot(self.fetched).words());
            self.addresses[(self.fetched % ON_CHIP) as usize] = address;
            self.fetched = self.fetched.wrapping_add(1);
        }
        meter.fetched(fetched.into());
        true
    }

    /// Packet into buffers, what is known of it into their descriptors.
    #[inline]
    fn write_back(&self, bytes: &[u8], buffers: u32, mut metadata: Metadata) {
        for number in 0..buffers {
            let start = number as usize * self.buffer;
            let piece = &bytes[start..bytes.len().min(start + self.buffer)];
            let position = self.next.wrapping_add(number);
            let address = self.addresses[(position % ON_CHIP) as usize];
            // SAFETY: the buffer is the device's since `fetch` saw the tail (D1), and the driver
            // has no reference to it until DD is set, below.
            unsafe { self.memory.write(address, piece) };
            metadata.length = piece.len() as u16;
            let words = metadata.write_back(number + 1 == buffers);
            self.ring.slot(position).store(words); // E2
        }
    }

    /// What is known of a packet into the first 16 bytes of the first buffer, the packet behind.
    #[inline]
    fn write_in_front(&self, bytes: &[u8], buffers: u32, mut metadata: Metadata) {
        let first = self.addresses[(self.next % ON_CHIP) as usize];
        let (head, mut rest) = bytes.split_at(bytes.len().min(self.buffer - FRONT));
        // SAFETY: as in `write_back`; the word that says so to the driver comes last.
        unsafe { self.memory.write(first + FRONT as u64, head) };
        for number in 1..buffers {
            let (piece, more) = rest.split_at(rest.len().min(self.buffer));
            let position = self.next.wrapping_add(number);
            let address = self.addresses[(position % ON_CHIP) as usize];
            // SAFETY: as above.
            unsafe { self.memory.write(address, piece) };
            rest = more;
        }
        metadata.length = bytes.len() as u16;
        let words: Words = metadata.write_back(true);
        // SAFETY: D4: both sides access these words as atomics while the buffer is the device's;
        // the driver posts buffers of its area only, and `write` has checked the bytes behind.
        let [low, high] = unsafe { self.memory.front(first) };
        low.store(words[0], Relaxed); // before the release below
        high.store(words[1], Release); // E2
    }

    #[cold]
    fn tell(
        &self,
        frame: &Frame<'_>,
        (address, buffers): (u64, u32),
        metadata: &Metadata,
        trace: &Trace,
    ) {
        let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Device, what);
        let (length, position) = (frame.bytes.len(), self.next);
        let fetched = self.fetched.wrapping_sub(position);
        let Metadata { hash, packet_type, rss_type, vlan, .. } = metadata;
        step(
            "4.1.1",
            format_args!("a frame of {length} bytes has come in; it needs {buffers} buffers"),
        );
        step(
            "4.1.2",
            format_args!("{fetched} descriptors were fetched, from position {position} on"),
        );
        step(
            "4.1.3",
            format_args!(
                "hash {hash:08x} of type {rss_type}, packet type {packet_type:#x}, tag {vlan:#x}"
            ),
        );
        match self.mode {
            Mode::Writeback => {
                step("4.1.4", format_args!("{length} bytes go up to {address:#x}"));
                step("4.1.4", format_args!("16 bytes go up to descriptor {position}: DD is set"));
            }
            Mode::Inline | Mode::Contiguous => {
                let bytes = FRONT + length;
                step(
                    "4.1.4",
                    format_args!("{bytes} bytes go up to {address:#x}: metadata in front"),
                );
            }
        }
    }
}
