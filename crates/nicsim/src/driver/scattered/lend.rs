//! Lending what has arrived, and keeping some of it.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch};

use super::{FRONT, JOINING_BYTES, POSTED, Scattered};
use crate::Mode;
use crate::descriptor::{DONE, END_OF_PACKET, receive_read};
use crate::trace::Who;

impl Scattered {
    /// Gives back what was lent, and takes up to `budget` packets that have arrived: `scratch` is
    /// cleared and describes them. All get the time and the port.
    ///
    /// Cost: no system call; instructions are the figure `nicsim-rx-64`.
    pub fn receive(&mut self, scratch: &mut Scratch, budget: u64, (time_ns, port): (u64, u8)) {
        scratch.clear();
        self.give_back();
        let most = budget.min(SCRATCH_PACKETS as u64) as u32;
        match self.mode {
            Mode::Writeback => self.take_all::<false>(scratch, most, time_ns, port),
            Mode::Inline | Mode::Contiguous => {
                self.take_all::<true>(scratch, most, time_ns, port);
            }
        }
        if scratch.is_empty() && most > 0 {
            self.post(1);
            self.look();
        } else if let Some(trace) = self.trace.take_if(|_| !scratch.is_empty()) {
            let step = |step: &str, what: std::fmt::Arguments<'_>| {
                trace.step(step, Who::Driver, what);
            };
            let place = match self.mode {
                Mode::Writeback => "DD in the descriptor is read",
                Mode::Inline | Mode::Contiguous => "the length word in front of the packet is read",
            };
            let packets = scratch.len();
            step("4.1.5", format_args!("{place}: it is set; no register is read"));
            step("4.1.6", format_args!("length > 0: {packets} packets are lent where they lie"));
            step(
                "4.1.6",
                format_args!("at the next call their descriptors go back, by one doorbell"),
            );
        }
    }

    /// The packets that `receive` has described.
    pub fn lent<'a>(&'a self, scratch: &'a Scratch, first_packet: u64) -> Burst<'a> {
        // SAFETY: D1: `receive` has described taken buffers and the joining area only. They are
        // given back by methods that take `&mut self`, so not while `'a` lasts. (A scratch that
        // somebody else has filled is that one's mistake, and checked against the memory's end.)
        unsafe { self.memory.burst(scratch, first_packet) }
    }

    /// Makes the buffer of a lent packet, which begins at `at`, the caller's until
    /// [`let_go`](Self::let_go), and returns it. `None`: the pool is empty, or the packet lies in
    /// several buffers.
    pub fn keep(&mut self, at: u32) -> Option<u32> {
        if self.mode == Mode::Writeback {
            let place = self.held.iter().position(|&held| held == at)?;
            return Some(self.held.swap_remove(place));
        }
        let taken = self.next.wrapping_sub(self.given_back);
        let mut positions = (0..taken).map(|more| self.given_back.wrapping_add(more));
        let position = positions.find(|&position| {
            let buffer = self.buffer_of(position);
            (buffer..buffer + self.buffer_bytes).contains(&at)
        })?;
        let (kept, other) = (self.buffer_of(position), self.free.pop()?);
        let place = position as usize & (self.buffers.len() - 1);
        self.buffers[place] = other;
        // SAFETY: D4: it comes from the pool, and the device does not know of it.
        unsafe { &self.memory.front(other.into())[1] }.store(0, Relaxed); // before the tail
        self.ring.slot(position).store(receive_read(other.into()));
        Some(kept)
    }

    /// Gives a kept buffer to the pool.
    pub fn let_go(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Gives back all that is lent.
    #[inline]
    fn give_back(&mut self) {
        self.joined = self.joining;
        if self.mode == Mode::Writeback {
            self.free.append(&mut self.held);
        } else {
            while self.given_back != self.next {
                self.clear_next();
            }
        }
        self.post(POSTED.min(self.ring.len() / 4));
    }

    /// The loop over what has arrived: of a packet in one buffer, two words say all.
    #[inline(always)]
    fn take_all<const INLINE: bool>(
        &mut self,
        scratch: &mut Scratch,
        most: u32,
        time_ns: u64,
        port: u8,
    ) {
        let mut left = self.tail.wrapping_sub(self.next).min(most);
        if INLINE {
            let lent = self.next.wrapping_sub(self.given_back);
            left = left.min((self.ring.len() / 2).max(1).saturating_sub(lent));
        }
        let room = self.buffer_bytes - FRONT;
        while left > 0 {
            let buffer = self.buffer_of(self.next);
            let [low, high] = match INLINE {
                // SAFETY: D4, as in `look_in_front`.
                true => unsafe { self.memory.front(buffer.into()) },
                false => self.ring.slot(self.next).atoms(),
            };
            let second = high.load(Acquire); // E2
            if second & DONE == 0 {
                break;
            }
            let length = (second >> 32) as u32 & 0xffff;
            let is_one = if INLINE { length <= room } else { second & END_OF_PACKET != 0 };
            if !is_one {
                let Some(parts) = self.join::<INLINE>(scratch, (time_ns, port)) else { break };
                left = left.saturating_sub(parts);
                continue;
            }
            let hash = (low.load(Relaxed) >> 32) as u32;
            self.next = self.next.wrapping_add(1);
            left -= 1;
            if !INLINE {
                self.held.push(buffer);
            }
            let at = if INLINE { buffer + FRONT } else { buffer };
            let is_damaged = second as u32 >> 20 != 0;
            push(scratch, (at, length), (hash, is_damaged), (time_ns, port));
        }
    }

    /// Joins a packet of several parts, and returns how many. `None`: it is not whole yet, or there
    /// is no room to join it, and it was left.
    #[cold]
    fn join<const INLINE: bool>(
        &mut self,
        scratch: &mut Scratch,
        (time_ns, port): (u64, u8),
    ) -> Option<u32> {
        let first = self.take::<INLINE>()?;
        let (at, mut end, mut parts) = (self.joined, self.joined, 0);
        let mut part = first;
        loop {
            parts += 1;
            let length = u32::from(part.length);
            if end + length > self.joining + JOINING_BYTES {
                self.untake(parts);
                return None;
            }
            // SAFETY: D1: the part was taken; the joining area is the driver's, and behind all that
            // is lent of it.
            unsafe {
                let piece = self.memory.bytes(part.at.into(), length as usize);
                self.memory.write(end.into(), piece);
            }
            end += length;
            if part.is_last {
                break;
            }
            let Some(next) = self.take::<INLINE>() else {
                self.untake(parts);
                return None;
            };
            part = next;
        }
        if !INLINE {
            for number in (1..=parts).rev() {
                self.held.push(self.buffer_of(self.next.wrapping_sub(number)));
            }
        }
        self.joined = end.next_multiple_of(16);
        self.bytes_joined += u64::from(end - at);
        let known = (first.hash, first.is_damaged);
        push(scratch, (at, end - at), known, (time_ns, port));
        Some(parts)
    }
}

/// Describes a packet.
#[inline(always)]
fn push(
    scratch: &mut Scratch,
    (at, length): (u32, u32),
    (hash, is_damaged): (u32, bool),
    (time_ns, port): (u64, u8),
) {
    let mut meta = Meta::new(time_ns, length, port);
    meta.hash = hash;
    if is_damaged {
        meta.flags = Flags::DAMAGED;
    }
    scratch.push(at, length, &meta);
}
