//! Lending what has arrived, and keeping some of it.

use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch};

use super::{JOINING_BYTES, POSTED, Part, Scattered};
use crate::Mode;
use crate::descriptor::receive_read;
use crate::trace::Who;

impl Scattered {
    /// Gives back what was lent, and takes up to `budget` packets that have arrived: `scratch` is
    /// cleared and describes them. All get the time and the port.
    ///
    /// Cost: no system call; instructions are the figure `nicsim-rx-64`.
    pub fn receive(&mut self, scratch: &mut Scratch, budget: u64, (time_ns, port): (u64, u8)) {
        scratch.clear();
        self.give_back();
        let most = budget.min(SCRATCH_PACKETS as u64) as usize;
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
        unsafe { self.memory.word(u64::from(other) + 8) }.store(0, Relaxed); // before the tail
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

    #[inline(always)]
    fn take_all<const INLINE: bool>(
        &mut self,
        scratch: &mut Scratch,
        most: usize,
        time_ns: u64,
        port: u8,
    ) {
        let half = (self.ring.len() / 2).max(1);
        while scratch.len() < most {
            if INLINE && self.next.wrapping_sub(self.given_back) >= half {
                break;
            }
            let Some(part) = self.take::<INLINE>() else { break };
            if !part.is_last {
                if self.join::<INLINE>(part, scratch, (time_ns, port)) {
                    continue;
                }
                break;
            }
            if !INLINE {
                self.held.push(part.buffer);
            }
            push(scratch, (part.at, part.length.into()), &part, (time_ns, port));
        }
    }

    /// Joins a packet whose first part was just taken. False: it is not whole yet, or there is no
    /// room to join it, and it was put back.
    #[cold]
    fn join<const INLINE: bool>(
        &mut self,
        first: Part,
        scratch: &mut Scratch,
        (time_ns, port): (u64, u8),
    ) -> bool {
        let (at, mut end, mut parts) = (self.joined, self.joined, 0);
        let mut part = first;
        loop {
            parts += 1;
            let length = u32::from(part.length);
            if end + length > self.joining + JOINING_BYTES {
                self.untake(parts);
                return false;
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
                return false;
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
        push(scratch, (at, end - at), &first, (time_ns, port));
        true
    }
}

/// Describes a packet.
#[inline(always)]
fn push(scratch: &mut Scratch, (at, length): (u32, u32), part: &Part, (time_ns, port): (u64, u8)) {
    let mut meta = Meta::new(time_ns, length, port);
    meta.hash = part.hash;
    if part.is_damaged {
        meta.flags = Flags::DAMAGED;
    }
    scratch.push(at, length, &meta);
}
