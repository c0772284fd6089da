//! Receives from scattered buffers.
//!
//! ```text
//!  write-back   ring: | d | d | d |   a taken buffer is held, and another from the pool takes its
//!               pool: b b b b         place; its descriptor is written again, because the device
//!                                     has overwritten it
//!  inline       ring: | d | d | d |   a descriptor keeps its buffer; when the buffer is returned,
//!                                     its length word is cleared and the tail moves on: the
//!                                     descriptor is unchanged
//! ```
//!
//! The two differ as the paper says: a descriptor that is not overwritten need not be written
//! again. A kept buffer leaves its place in inline mode too, and the descriptor is written for
//! another.
//!
//! Invariants:
//! - S1. A buffer is in one place: posted (the device's), lent, handed on (a [`Part`]), kept (a
//!   [`Kept`](super::Kept)), or in the pool. A lent burst stays lent until all of it is returned.
//!   Its buffers that were kept and let go are lent again until then.
//! - S2. In inline mode at most half of the ring is lent; the device has the rest.
//! - S3. Packets are lent or handed on, not both. Lent packets are returned before a part is handed
//!   on; in inline mode nothing is lent while parts are out.
//! - S4. What `own` and `chosen` describe is lent, or in the joining area below `joined`.

mod lend;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use burstline_log::Scratch;

use super::{Part, SharedRing};
use crate::Mode;
use crate::descriptor::{DONE, END_OF_PACKET, Metadata, receive_read};
use crate::device::Control;
use crate::memory::{HostMemory, unique};
use crate::pcie::DESCRIPTOR_BYTES;
use crate::ring::Ring;
use crate::trace::Trace;

/// Bytes of the metadata before a packet.
const FRONT: u32 = DESCRIPTOR_BYTES as u32;

/// Bytes of the area where packets from several buffers are joined: eight of the longest.
const JOINING_BYTES: u32 = 128 << 10;

/// Fewest descriptors posted at a time while packets arrive.
const POSTED: u32 = 32;

/// Marks the absence of a buffer.
const NONE: u32 = u32::MAX;

/// The driver's side of a receive ring.
pub struct Scattered {
    mode: Mode,
    ring: Arc<Ring>,
    memory: Arc<HostMemory>,
    control: Arc<Control>,
    buffer_bytes: u32,
    /// Start of the joining area, and the end of its used part.
    joining: u32,
    joined: u32,
    /// The buffer of each descriptor.
    buffers: Box<[u32]>,
    /// The pool.
    free: Vec<u32>,
    /// Lent buffers that are not in the ring: in write-back mode all, in inline mode those that
    /// were kept and let go. [`NONE`] replaces a kept one.
    held: Vec<u32>,
    /// Whether the ring's packets that were taken and not returned are lent, not handed on.
    is_lent: bool,
    has_kept: bool,
    /// Descriptions of the lent packets, and of those chosen from them, if any.
    own: Scratch,
    chosen: Scratch,
    is_chosen: bool,
    /// Inline: descriptors `[given_back, next)` are taken.
    given_back: u32,
    /// Position of the next packet, and the end of the posted descriptors.
    next: u32,
    tail: u32,
    /// Inline: bytes of the packet before `next` that are still to be taken.
    left: u32,
    epoch: u32,
    /// Number of this driver.
    number: u32,
    /// Bytes copied to join packets.
    bytes_joined: u64,
    trace: Option<Trace>,
}

/// A driver's part of the memory.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    /// Its start: a multiple of `buffer_bytes`.
    pub(crate) start: u32,
    pub(crate) buffer_bytes: u32,
    /// Buffers in addition to those of the ring.
    pub(crate) spare: u32,
}

impl Scattered {
    /// Returns the bytes of memory for a ring of this many descriptors and `spare` pool buffers.
    pub(crate) fn area_bytes(ring: u32, spare: u32, buffer_bytes: u32) -> u64 {
        (u64::from(ring) + u64::from(spare)) * u64::from(buffer_bytes) + u64::from(JOINING_BYTES)
    }

    /// Creates the driver of a ring with its area of the memory.
    ///
    /// # Panics
    /// If the area is out of bounds, or does not start at a multiple of a buffer.
    pub(crate) fn new(
        mode: Mode,
        SharedRing { ring, memory }: SharedRing,
        Area { start, buffer_bytes, spare }: Area,
        control: Arc<Control>,
        trace: Option<Trace>,
    ) -> Self {
        let descriptors = ring.len();
        let bytes = Self::area_bytes(descriptors, spare, buffer_bytes);
        assert!(buffer_bytes.is_multiple_of(256) && start.is_multiple_of(buffer_bytes)); // D5
        assert!(memory.has(start.into(), bytes as usize), "{bytes} bytes at {start}");
        let buffers = descriptors + spare;
        let at = |number: u32| start + number * buffer_bytes;
        let joining = at(buffers);
        let mut this = Self {
            mode,
            ring,
            memory,
            control,
            buffer_bytes,
            joining,
            joined: joining,
            buffers: (0..descriptors).map(at).collect(),
            free: (descriptors..buffers).rev().map(at).collect(),
            held: Vec::with_capacity(buffers as usize),
            is_lent: false,
            has_kept: false,
            own: Scratch::new(),
            chosen: Scratch::new(),
            is_chosen: false,
            given_back: 0,
            next: 0,
            tail: 0,
            left: 0,
            epoch: 0,
            number: unique(),
            bytes_joined: 0,
            trace,
        };
        this.post_all();
        this
    }

    /// Returns the memory with the packets.
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Returns the bytes copied to join packets from several buffers.
    pub fn bytes_joined(&self) -> u64 {
        self.bytes_joined
    }

    /// Returns the next part of a packet, if one has arrived, to be handed on. Lent packets are
    /// returned first. Parts go back through [`return_part`](Self::return_part), in the same order.
    #[inline]
    pub fn next_part(&mut self) -> Option<Part> {
        if self.is_lent {
            self.give_back();
        }
        match self.mode {
            Mode::Writeback => self.take::<false>(),
            Mode::Inline | Mode::Contiguous => self.take::<true>(),
        }
    }

    /// Returns the bytes of a part, mutable.
    ///
    /// # Panics
    /// If it belongs to another memory.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, part: &'a mut Part) -> &'a mut [u8] {
        assert_eq!(part.memory, self.memory.number(), "a part of another memory");
        // SAFETY: D1: the part was taken, so the device does not touch it; it is the only part of
        // its buffer (S1), borrowed for as long as the reference lives.
        unsafe { self.memory.bytes_mut(part.at.into(), part.length.into()) }
    }

    /// Returns a part's buffer: the device can have it after [`post`](Self::post).
    ///
    /// # Panics
    /// If it belongs to another memory, or, in inline mode, is not the oldest part still out.
    #[inline]
    pub fn return_part(&mut self, part: Part) {
        assert_eq!(part.memory, self.memory.number(), "a part of another memory");
        if self.mode == Mode::Writeback {
            return self.free.push(part.buffer);
        }
        let is_next =
            self.given_back != self.next && self.buffer_of(self.given_back) == part.buffer;
        assert!(is_next && !self.is_lent, "the buffer at {} is not the next one", part.buffer);
        self.clear_next();
    }

    /// Posts returned buffers, if there are at least this many descriptors.
    #[inline]
    pub fn post(&mut self, at_least: u32) {
        match self.mode {
            Mode::Writeback => self.refill(at_least),
            Mode::Inline | Mode::Contiguous => {
                let tail = self.given_back.wrapping_add(self.ring.len());
                if tail.wrapping_sub(self.tail) >= at_least.max(1) {
                    self.move_tail(tail);
                }
            }
        }
    }

    /// Lays the ring out again if the device has restarted. Call it only if no packet has arrived
    /// and none is taken. Returns whether it did.
    pub fn look(&mut self) -> bool {
        let epoch = self.ring.epoch.read(); // E4: everything delivered before is visible
        if epoch == self.epoch || self.is_there() {
            return false;
        }
        // Inline: lent or handed-on buffers are in the ring, and have to be returned first.
        if self.mode != Mode::Writeback && self.given_back != self.next {
            return false;
        }
        self.epoch = epoch;
        if self.mode == Mode::Writeback {
            // Posted buffers come back; taken or kept ones are not in the ring.
            while self.next != self.tail {
                self.free.push(self.buffer_of(self.next));
                self.next = self.next.wrapping_add(1);
            }
            (self.next, self.tail) = (0, 0);
            self.refill(1);
            if self.tail == 0 {
                // No buffer is free: the device must not read the old tail.
                self.move_tail(0);
            }
        } else {
            self.post_all();
        }
        self.ring.acknowledged.write(epoch); // E4: the ring is laid out
        true
    }

    /// Takes the next part. The rest of the packet may not have arrived yet.
    #[inline(always)]
    fn take<const INLINE: bool>(&mut self) -> Option<Part> {
        if self.next == self.tail {
            return None;
        }
        let buffer = self.buffer_of(self.next);
        let part = if INLINE { self.look_in_front(buffer)? } else { self.look_at_slot(buffer)? };
        self.next = self.next.wrapping_add(1);
        Some(part)
    }

    /// Write-back: reads the descriptor.
    #[inline(always)]
    fn look_at_slot(&self, buffer: u32) -> Option<Part> {
        let slot = self.ring.slot(self.next);
        let second = slot.second(); // E2
        if second & DONE == 0 {
            return None;
        }
        let metadata = Metadata::read([slot.words()[0], second]);
        Some(Part {
            at: buffer,
            length: metadata.length.min(self.buffer_bytes as u16),
            is_last: second & END_OF_PACKET != 0,
            hash: metadata.hash,
            is_damaged: metadata.is_damaged(),
            buffer,
            memory: self.memory.number(),
        })
    }

    /// Inline: reads the words before the packet.
    #[inline(always)]
    fn look_in_front(&mut self, buffer: u32) -> Option<Part> {
        if self.left > 0 {
            return Some(self.go_on(buffer));
        }
        // SAFETY: D4: both sides access these words as atomics while the device has the buffer; D5:
        // `buffers` are in this driver's area, at multiples of their size.
        let [low, high] = unsafe { self.memory.front(buffer.into()) };
        let second = high.load(Acquire); // E2
        if second == 0 {
            return None;
        }
        let metadata = Metadata::read([low.load(Relaxed), second]);
        let room = self.buffer_bytes - FRONT;
        let length = u32::from(metadata.length);
        let here = length.min(room);
        self.left = length - here;
        Some(Part {
            at: buffer + FRONT,
            length: here as u16,
            is_last: self.left == 0,
            hash: metadata.hash,
            is_damaged: metadata.is_damaged(),
            buffer,
            memory: self.memory.number(),
        })
    }

    /// Inline: continues the packet in this buffer.
    #[cold]
    fn go_on(&mut self, buffer: u32) -> Part {
        let length = self.left.min(self.buffer_bytes);
        self.left -= length;
        let (hash, is_damaged, is_last) = (0, false, self.left == 0);
        let (length, memory) = (length as u16, self.memory.number());
        Part { at: buffer, length, is_last, is_damaged, hash, buffer, memory }
    }

    /// Returns whether the next packet's first part has arrived.
    fn is_there(&mut self) -> bool {
        let part = match self.mode {
            Mode::Writeback => self.take::<false>(),
            Mode::Inline | Mode::Contiguous => self.take::<true>(),
        };
        if part.is_some() {
            self.untake(1);
        }
        part.is_some()
    }

    /// Puts back the last parts, whose packet is not taken now.
    fn untake(&mut self, parts: u32) {
        self.next = self.next.wrapping_sub(parts);
        self.left = 0;
    }

    #[inline(always)]
    fn buffer_of(&self, position: u32) -> u32 {
        self.buffers[position as usize & (self.buffers.len() - 1)]
    }

    /// Write-back: fills the ring from the pool.
    #[inline]
    fn refill(&mut self, at_least: u32) {
        let room = self.ring.len() - self.tail.wrapping_sub(self.next);
        let count = room.min(self.free.len() as u32);
        if count < at_least.max(1) {
            return;
        }
        let first = self.free.len() - count as usize;
        let mut tail = self.tail;
        for &buffer in &self.free[first..] {
            let place = tail as usize & (self.buffers.len() - 1);
            self.buffers[place] = buffer;
            self.ring.slot(tail).store(receive_read(buffer.into()));
            tail = tail.wrapping_add(1);
        }
        self.free.truncate(first);
        self.move_tail(tail);
    }

    /// Inline: frees the oldest taken descriptor.
    #[inline(always)]
    fn clear_next(&mut self) {
        let buffer = self.buffer_of(self.given_back);
        // SAFETY: D4, as in `look_in_front`; and the driver still owns it (D1).
        unsafe { &self.memory.front(buffer.into())[1] }.store(0, Relaxed); // before the tail (E1)
        self.given_back = self.given_back.wrapping_add(1);
    }

    /// Posts all buffers of the ring, from position 0.
    fn post_all(&mut self) {
        for position in 0..self.ring.len() {
            let buffer = self.buffers[position as usize];
            // SAFETY: D4; no device knows the buffer, or it has forgotten it.
            unsafe { &self.memory.front(buffer.into())[1] }.store(0, Relaxed); // as above
            self.ring.slot(position).store(receive_read(buffer.into()));
        }
        (self.given_back, self.next, self.left) = (0, 0, 0);
        self.move_tail(self.ring.len());
    }

    /// Rings the doorbell.
    #[inline]
    fn move_tail(&mut self, tail: u32) {
        self.tail = tail;
        self.ring.tail.write(tail); // E1
        self.control.ring_doorbell();
    }
}
