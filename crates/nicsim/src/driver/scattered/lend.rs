//! Lends packets that have arrived, and keeps some of them.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use burstline_log::{Burst, Flags, Meta, Packet, SCRATCH_PACKETS, Scratch};

use super::super::{Kept, Stamp};
use super::{FRONT, JOINING_BYTES, NONE, POSTED, Scattered};
use crate::Mode;
use crate::descriptor::{DONE, END_OF_PACKET, receive_read};
use crate::trace::{Trace, Who};

impl Scattered {
    /// Returns the lent buffers, and takes up to `budget` packets that have arrived. All get the
    /// same time and port. Returns how many: [`lent`](Self::lent) lends them. Takes none in inline
    /// mode while parts are out.
    ///
    /// Cost: no system call; instructions are the figure `nicsim-rx-64`.
    pub(in crate::driver) fn receive(&mut self, budget: u64, stamp: Stamp) -> u64 {
        self.give_back();
        if self.mode != Mode::Writeback && self.given_back != self.next {
            return 0;
        }
        let most = budget.min(SCRATCH_PACKETS as u64) as u32;
        self.is_lent = true;
        match self.mode {
            Mode::Writeback => self.take_all::<false>(most, stamp),
            Mode::Inline | Mode::Contiguous => self.take_all::<true>(most, stamp),
        }
        let packets = self.own.len();
        if packets == 0 && most > 0 {
            self.post(1);
            self.look();
        } else if let Some(trace) = self.trace.take_if(|_| packets > 0) {
            tell(self.mode, packets, &trace);
        }
        packets as u64
    }

    /// Returns what `receive` has taken, or the packets chosen from it.
    #[inline]
    pub(in crate::driver) fn lent(&self) -> Burst<'_> {
        let scratch = if self.is_chosen { &self.chosen } else { &self.own };
        // SAFETY: S4, D1: it describes only taken buffers and the joining area, none before
        // `receive`. They are returned by methods that take `&mut self`, and clear this.
        unsafe { self.memory.burst(scratch, 0) }
    }

    /// Lends only those packets for which `pick` returns how many bytes to lend and a description.
    pub(in crate::driver) fn choose(
        &mut self,
        pick: impl FnMut(&Packet<'_>) -> Option<(u32, Meta)>,
    ) {
        // SAFETY: S4, D1: `own` describes only taken buffers and the joining area, none returned
        // before `receive`; chosen packets have the same description, or a shorter one.
        let burst = unsafe { self.memory.burst(&self.own, 0) };
        self.chosen.select(&burst, 0, pick);
        self.is_chosen = true;
    }

    /// Gives the caller the buffer of lent packet `index` until [`let_go`](Self::let_go). `None` if
    /// it was kept already; or joined from several buffers; or, in inline mode, if no buffer is
    /// free to replace it. Cost: a search if packets were joined or chosen.
    pub fn keep(&mut self, index: usize) -> Option<Kept> {
        let burst = self.lent();
        let desc = (index < burst.len()).then(|| burst.packet(index).desc())?;
        let (at, length) = (desc.offset(), desc.length());
        let buffer = (at < self.joining).then_some(at & !(self.buffer_bytes - 1))?;
        if self.mode == Mode::Writeback {
            // Each packet has at least one buffer, so its own is not before its index.
            let place = (index..self.held.len()).find(|&place| self.held[place] == buffer)?;
            self.held[place] = NONE;
            self.has_kept = true;
        } else {
            let taken = self.next.wrapping_sub(self.given_back);
            let mut positions =
                (index as u32..taken).map(|more| self.given_back.wrapping_add(more));
            let position = positions.find(|&position| self.buffer_of(position) == buffer)?;
            let other = self.free.pop()?;
            let place = position as usize & (self.buffers.len() - 1);
            self.buffers[place] = other;
            // SAFETY: D4: it is from the pool, and the device does not know it; D5.
            unsafe { &self.memory.front(other.into())[1] }.store(0, Relaxed); // before the tail
            self.ring.slot(position).store(receive_read(other.into()));
        }
        Some(Kept { at, length, buffer, owner: self.number })
    }

    /// Returns the bytes of a kept packet.
    ///
    /// # Panics
    /// If another driver lent it.
    pub fn kept<'a>(&'a self, kept: &'a Kept) -> &'a [u8] {
        assert_eq!(kept.owner, self.number, "another driver's buffer");
        // SAFETY: S1: a kept buffer is in no ring, and nobody writes it.
        unsafe { self.memory.bytes(kept.at.into(), kept.length as usize) }
    }

    /// Returns a kept buffer.
    ///
    /// # Panics
    /// If another driver lent it.
    pub fn let_go(&mut self, kept: Kept) {
        assert_eq!(kept.owner, self.number, "another driver's buffer");
        // It may belong to a burst that is still lent (S1).
        let to = if self.is_lent { &mut self.held } else { &mut self.free };
        to.push(kept.buffer);
    }

    /// Returns all lent buffers, and clears their description.
    #[inline]
    pub(super) fn give_back(&mut self) {
        self.own.clear();
        self.is_chosen = false;
        self.joined = self.joining;
        if self.has_kept {
            self.held.retain(|&buffer| buffer != NONE);
            self.has_kept = false;
        }
        self.free.append(&mut self.held);
        if self.is_lent && self.mode != Mode::Writeback {
            while self.given_back != self.next {
                self.clear_next();
            }
        }
        self.is_lent = false;
        self.post(POSTED.min(self.ring.len() / 4));
    }

    /// The loop over arrived packets: for a packet in one buffer, two words are enough.
    #[inline(always)]
    fn take_all<const INLINE: bool>(&mut self, most: u32, stamp: Stamp) {
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
                let Some(parts) = self.join::<INLINE>(stamp) else { break };
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
            push(&mut self.own, Found { at, length, hash, is_damaged }, stamp);
        }
    }

    /// Joins a packet of several parts, and returns how many. `None` if it is incomplete or there
    /// is no room to join it; then it is not taken.
    #[cold]
    fn join<const INLINE: bool>(&mut self, stamp: Stamp) -> Option<u32> {
        let mut part = self.take::<INLINE>()?;
        let (hash, is_damaged) = (part.hash, part.is_damaged);
        let (at, mut end, mut parts) = (self.joined, self.joined, 0);
        loop {
            parts += 1;
            let length = u32::from(part.length);
            if end + length > self.joining + JOINING_BYTES {
                self.untake(parts);
                return None;
            }
            // SAFETY: D1: the part was taken; the joining area belongs to the driver, and this part
            // of it is after all that is lent.
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
        push(&mut self.own, Found { at, length: end - at, hash, is_damaged }, stamp);
        Some(parts)
    }
}

#[cold]
fn tell(mode: Mode, packets: usize, trace: &Trace) {
    let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Driver, what);
    let place = match mode {
        Mode::Writeback => "DD in the descriptor is read",
        Mode::Inline | Mode::Contiguous => "the length word in front of the packet is read",
    };
    step("4.1.5", format_args!("{place}: it is set; no register is read"));
    step("4.1.6", format_args!("length > 0: {packets} packets are lent in place"));
    step("4.1.6", format_args!("at the next call their descriptors go back, by one doorbell"));
}

/// A packet as the device reports it.
struct Found {
    at: u32,
    length: u32,
    hash: u32,
    is_damaged: bool,
}

/// Describes a packet.
#[inline(always)]
fn push(scratch: &mut Scratch, found: Found, stamp: Stamp) {
    let mut meta = Meta::new(stamp.time_ns, found.length, stamp.port);
    meta.hash = found.hash;
    if found.is_damaged {
        meta.flags = Flags::DAMAGED;
    }
    scratch.push(found.at, found.length, &meta);
}
