//! Delivery into scattered buffers through descriptors: like the 82599, or with metadata in front.
//!
//! ```text
//!   positions:   | ... given over | written | on the chip | ...  posted  ... |
//!                                 ^ shown   ^ next        ^ fetched          ^ tail
//! ```
//!
//! Packets are written immediately. The device shows packets in groups, and all of them at the end
//! of a step. A driver that polls the next word takes the cache line that the device writes, once
//! per group. Real cards also gather descriptors, until they fill a line or a timer expires. The
//! account counts each as written separately, as the paper does. Source: Intel 82598EB Datasheet,
//! 3.5.2.7 (Receive Descriptor Write-Back).

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use burstline_log::Burst;
use burstline_sys::prefetch;

use crate::Mode;
use crate::descriptor::{Metadata, Words, buffer_of};
use crate::fifo::Frame;
use crate::memory::HostMemory;
use crate::meter::Meter;
use crate::pcie::DESCRIPTOR_BYTES;
use crate::ring::Ring;
use crate::rss::unhashed;
use crate::trace::{Trace, Who};

/// Descriptors per fetch.
const FETCHED: u32 = 32;
/// Descriptors that fit on the chip: those of the longest frame, in the smallest buffers.
const ON_CHIP: u32 = 64;
/// Most packets shown together: two lines of descriptors.
const TOGETHER: u32 = 8;
/// How many buffers ahead the device prefetches, and how many bytes of each: the processor's own
/// prefetcher does the rest.
const ASKED_AHEAD: u32 = 8;
const ASKED_BYTES: usize = 256;
/// Bytes of the metadata before a packet.
const FRONT: usize = DESCRIPTOR_BYTES as usize;

/// The device's side of a receive ring.
pub(crate) struct Rings {
    mode: Mode,
    ring: Arc<Ring>,
    memory: Arc<HostMemory>,
    buffer: usize,
    /// Buffer addresses of descriptors `[next, fetched)`.
    addresses: [u64; ON_CHIP as usize],
    /// Words to show for descriptors `[shown, next)`, each a packet in one buffer.
    told: [Words; ON_CHIP as usize],
    shown: u32,
    next: u32,
    fetched: u32,
    /// Bytes of the last packet in its first buffer: the next ones are expected to be as long.
    length: usize,
    epoch: u32,
    pub(super) is_restarting: bool,
}

impl Rings {
    pub(crate) fn new(mode: Mode, ring: Arc<Ring>, memory: Arc<HostMemory>, buffer: u32) -> Self {
        Self {
            mode,
            ring,
            memory,
            buffer: buffer as usize,
            addresses: [0; ON_CHIP as usize],
            told: [[0; 2]; ON_CHIP as usize],
            shown: 0,
            next: 0,
            fetched: 0,
            length: 0,
            epoch: 0,
            is_restarting: false,
        }
    }

    #[inline]
    pub(super) fn can_take(&self, length: usize) -> bool {
        self.buffers(length) <= self.ring.len().min(ON_CHIP)
    }

    /// Forgets its descriptors until the driver has started again.
    pub(super) fn restart(&mut self) {
        self.show();
        self.epoch += 1;
        self.is_restarting = true;
        self.ring.epoch.write(self.epoch); // E4: everything delivered before is visible
    }

    pub(super) fn look(&mut self) {
        // E4: the driver has laid out the ring again, from position 0.
        if self.is_restarting && self.ring.acknowledged.read() == self.epoch {
            (self.shown, self.next, self.fetched) = (0, 0, 0);
            self.is_restarting = false;
        }
    }

    /// Writes a frame to memory, if enough descriptors are posted.
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
        meter.packet_up(self.mode, frame.bytes.len(), buffers.into());
        if let Some(trace) = trace.take() {
            self.tell(frame, buffers, &trace);
        }
        match buffers {
            1 if self.mode == Mode::Writeback => {
                self.write_whole::<0>(frame.bytes, frame.metadata);
            }
            1 => self.write_whole::<FRONT>(frame.bytes, frame.metadata),
            _ => self.write_pieces(frame, buffers),
        }
        true
    }

    /// Writes unhashed frames of up to `longest` bytes, in one buffer each, while there are
    /// descriptors and the frames need no special treatment. Returns how many, and their bytes.
    #[inline]
    pub(super) fn deliver_run(
        &mut self,
        frames: &Burst<'_>,
        longest: usize,
        meter: &mut Meter,
    ) -> (usize, u64) {
        match self.mode {
            _ if self.is_restarting => (0, 0),
            Mode::Writeback => self.write_run::<0>(frames, longest, meter),
            Mode::Inline | Mode::Contiguous => self.write_run::<FRONT>(frames, longest, meter),
        }
    }

    #[inline(always)]
    fn write_run<const IN_FRONT: usize>(
        &mut self,
        frames: &Burst<'_>,
        longest: usize,
        meter: &mut Meter,
    ) -> (usize, u64) {
        let longest = longest.min(self.buffer - IN_FRONT);
        let (mut packets, mut bytes) = (0, 0);
        for frame in frames.plain_packets() {
            let length = frame.bytes.len();
            if length > longest || !self.has_fetched(1, meter) {
                break;
            }
            meter.packet_up(self.mode, length, 1);
            self.write_whole::<IN_FRONT>(frame.bytes, unhashed(frame.bytes));
            packets += 1;
            bytes += length as u64;
        }
        (packets, bytes)
    }

    /// Shows all written packets to the driver.
    #[inline]
    pub(super) fn show(&mut self) {
        while self.shown != self.next {
            let place = (self.shown % ON_CHIP) as usize;
            let words = self.told[place];
            match self.mode {
                Mode::Writeback => self.ring.slot(self.shown).store(words), // E2
                // SAFETY: the packet after these words was written, so they are in the memory; and
                // D5.
                Mode::Inline | Mode::Contiguous => unsafe {
                    self.show_in_front(self.addresses[place], words);
                },
            }
            self.shown = self.shown.wrapping_add(1);
        }
    }

    #[inline]
    fn buffers(&self, length: usize) -> u32 {
        let front = if self.mode == Mode::Writeback { 0 } else { FRONT };
        match length + front <= self.buffer {
            true => 1,
            false => (length + front).div_ceil(self.buffer) as u32,
        }
    }

    /// Returns whether this many descriptors are on the chip, after fetching more if needed.
    #[inline]
    fn has_fetched(&mut self, wanted: u32, meter: &mut Meter) -> bool {
        self.fetched.wrapping_sub(self.next) >= wanted || self.fetch(wanted, meter)
    }

    fn fetch(&mut self, wanted: u32, meter: &mut Meter) -> bool {
        // The fetch reuses their places on the chip.
        self.show();
        // E1: descriptors below the tail are written, and the device owns their buffers.
        let posted = self.ring.tail.read().wrapping_sub(self.fetched).min(self.ring.len());
        let held = self.fetched.wrapping_sub(self.next);
        let fetched = posted.min(FETCHED.max(wanted)).min(ON_CHIP - held);
        if held + fetched < wanted {
            return false;
        }
        for number in 0..fetched {
            let slot = self.ring.slot(self.fetched);
            self.addresses[(self.fetched % ON_CHIP) as usize] = buffer_of(slot.words());
            // A line has four descriptors, and the driver wrote them last.
            if self.mode == Mode::Writeback && number.is_multiple_of(4) {
                prefetch::to_write(ptr::from_ref(slot));
            }
            self.fetched = self.fetched.wrapping_add(1);
        }
        for ahead in 0..ASKED_AHEAD.min(held + fetched) {
            self.ask(self.next.wrapping_add(ahead));
        }
        meter.fetched(fetched.into());
        true
    }

    /// Prefetches the lines of a descriptor's buffer that a packet will need.
    #[inline]
    fn ask(&self, position: u32) {
        self.memory.ask(self.addresses[(position % ON_CHIP) as usize], self.length);
    }

    /// Writes a packet into one buffer, leaving this many bytes for the metadata, which is shown
    /// soon.
    #[inline(always)]
    fn write_whole<const IN_FRONT: usize>(&mut self, bytes: &[u8], metadata: Metadata) {
        let place = (self.next % ON_CHIP) as usize;
        // SAFETY: the device owns the buffer since `fetch` saw the tail (D1), and the driver has no
        // reference to it until it is shown, later.
        unsafe { self.memory.write(self.addresses[place] + IN_FRONT as u64, bytes) };
        let length = bytes.len();
        self.told[place] = Metadata { length: length as u16, ..metadata }.write_back(true);
        self.length = (IN_FRONT + length).min(ASKED_BYTES);
        self.next = self.next.wrapping_add(1);
        if self.fetched.wrapping_sub(self.next) >= ASKED_AHEAD {
            self.ask(self.next.wrapping_add(ASKED_AHEAD - 1));
        }
        if self.next.wrapping_sub(self.shown) >= TOGETHER {
            self.show();
        }
    }

    /// Writes a packet into several buffers and shows it immediately.
    #[cold]
    fn write_pieces(&mut self, frame: &Frame<'_>, buffers: u32) {
        self.show();
        match self.mode {
            Mode::Writeback => self.write_back(frame.bytes, buffers, frame.metadata),
            Mode::Inline | Mode::Contiguous => {
                self.write_in_front(frame.bytes, buffers, frame.metadata);
            }
        }
        self.next = self.next.wrapping_add(buffers);
        self.shown = self.next;
    }

    /// Writes a packet into buffers and its metadata into their descriptors.
    fn write_back(&self, bytes: &[u8], buffers: u32, mut metadata: Metadata) {
        for number in 0..buffers {
            let start = number as usize * self.buffer;
            let piece = &bytes[start..bytes.len().min(start + self.buffer)];
            let position = self.next.wrapping_add(number);
            let address = self.addresses[(position % ON_CHIP) as usize];
            // SAFETY: the device owns the buffer since `fetch` saw the tail (D1), and the driver
            // has no reference to it until DD is set, below.
            unsafe { self.memory.write(address, piece) };
            metadata.length = piece.len() as u16;
            let words = metadata.write_back(number + 1 == buffers);
            self.ring.slot(position).store(words); // E2
        }
    }

    /// Writes the metadata into the first 16 bytes of the first buffer, and the packet after it.
    fn write_in_front(&self, bytes: &[u8], buffers: u32, mut metadata: Metadata) {
        let first = self.addresses[(self.next % ON_CHIP) as usize];
        let (head, mut rest) = bytes.split_at(bytes.len().min(self.buffer - FRONT));
        // SAFETY: the device owns the buffer since `fetch` saw the tail (D1). The driver has no
        // reference to it until the word in front is set, which comes last.
        unsafe { self.memory.write(first + FRONT as u64, head) };
        for number in 1..buffers {
            let (piece, more) = rest.split_at(rest.len().min(self.buffer));
            let position = self.next.wrapping_add(number);
            let address = self.addresses[(position % ON_CHIP) as usize];
            // SAFETY: this buffer likewise belongs to the device (D1): the first one's word is set
            // later.
            unsafe { self.memory.write(address, piece) };
            rest = more;
        }
        metadata.length = bytes.len() as u16;
        // SAFETY: `write` has checked the bytes after these words; and D5.
        unsafe { self.show_in_front(first, metadata.write_back(true)) };
    }

    /// Writes the two words before a packet.
    ///
    /// # Safety
    /// `[at, at + 16)` is inside the memory, and `at` is a multiple of 16.
    #[inline]
    unsafe fn show_in_front(&self, at: u64, words: Words) {
        // SAFETY: the caller's contract; D4: both sides access these words as atomics while the
        // device owns the buffer.
        let [low, high] = unsafe { self.memory.front(at) };
        low.store(words[0], Relaxed); // before the release below
        high.store(words[1], Release); // E2
    }

    #[cold]
    fn tell(&self, frame: &Frame<'_>, buffers: u32, trace: &Trace) {
        let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Device, what);
        let (length, position) = (frame.bytes.len(), self.next);
        let fetched = self.fetched.wrapping_sub(position);
        let address = self.addresses[(position % ON_CHIP) as usize];
        let Metadata { hash, packet_type, rss_type, vlan, .. } = frame.metadata;
        step(
            "4.1.1",
            format_args!("a frame of {length} bytes arrived; it needs {buffers} buffers"),
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
