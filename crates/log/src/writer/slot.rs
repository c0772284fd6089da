//! A packet that is filled in where it will lie.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::{Meta, Writer};
use crate::copy::copy_packet;
use crate::desc::align_up;

/// Bytes of a log that are the writer's alone, for one packet.
///
/// # Invariants
/// `[start, start + align_up(length))` is in the open segment, at and above the writer's `low`
/// (W2), for as long as `'w` lasts.
#[derive(Debug)]
pub struct Room<'w> {
    start: *mut u8,
    length: usize,
    lent: PhantomData<&'w mut [u8]>,
}

impl Room<'_> {
    /// `length` bytes from `start` on, for which there is room.
    #[inline]
    pub(super) fn new(start: *mut u8, length: usize) -> Self {
        Self { start, length, lent: PhantomData }
    }

    /// The room's first byte; valid for writes of `length` bytes until the slot is gone.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// The room's size in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Copies `bytes` to `at`; `at + bytes.len()` must be in `[0, length]`.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.length && bytes.len() <= self.length - at, "outside the slot");
        // SAFETY: inside the room, which is the writer's alone; see `append` on overlap.
        unsafe { copy_packet(bytes, self.as_ptr().add(at)) };
    }

    /// Copies `bytes` to `at`, by as few stores as their number, which the compiler knows, takes.
    /// They may go over the slot's end, into what no other packet has: up to the next multiple of
    /// [`PACKET_ALIGNMENT`](crate::PACKET_ALIGNMENT).
    #[inline(always)]
    pub fn write_array<const N: usize>(&mut self, at: usize, bytes: &[u8; N]) {
        let room = align_up(self.length);
        assert!(at <= room && N <= room - at, "outside the slot");
        // SAFETY: `align_up(length)` bytes from `start` on are the writer's alone, so that no slice
        // of `bytes` can be there.
        unsafe { self.as_ptr().add(at).cast::<[u8; N]>().write_unaligned(*bytes) };
    }
}

/// [Room](Room) for one packet in the open segment. Dropping it gives the room back.
#[derive(Debug)]
pub struct Slot<'w> {
    room: Room<'w>,
    /// The room's length. Not read from the room: safe code may have exchanged that for another
    /// slot's.
    length: usize,
    /// What is left of the writer's room behind it.
    left: usize,
    writer: &'w mut Writer,
}

impl<'w> Slot<'w> {
    /// The writer has room for `length` bytes, and `left` is left then.
    #[inline]
    pub(super) fn new(writer: &'w mut Writer, length: usize, left: usize) -> Self {
        Self { room: Room::new(writer.edge.at(), length), length, left, writer }
    }

    /// Makes it a packet of the log. Bytes never written hold what an earlier packet left.
    #[inline]
    pub fn commit(self, meta: &Meta) {
        self.writer.commit(self.length, self.left, meta);
    }
}

impl<'w> Deref for Slot<'w> {
    type Target = Room<'w>;

    #[inline]
    fn deref(&self) -> &Room<'w> {
        &self.room
    }
}

impl DerefMut for Slot<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Log, LogConfig, ReaderConfig};

    #[test]
    fn an_array_may_end_in_the_padding_and_no_further() {
        let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        let mut slot = writer.reserve(60).unwrap();
        slot.write_array(0, &[7; 64]);
        slot.write_array(56, &[1, 2, 3, 4, 5, 6, 7, 8]);
        slot.commit(&Meta::new(1, 60, 0));
        let mut slot = writer.reserve(1).unwrap();
        slot.write_array(0, &[9; 16]);
        slot.commit(&Meta::new(1, 1, 0));
        writer.publish();
        let burst = reader.next_burst().unwrap();
        assert_eq!(burst.packet(0).bytes()[54..], [7, 7, 1, 2, 3, 4]);
        assert_eq!(burst.packet(1).bytes(), [9]);
        let mut outside = |at: usize| {
            let write = || writer.reserve(60).unwrap().write_array(at, &[0; 2]);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err()
        };
        assert!(!outside(62) && outside(63) && outside(64) && outside(usize::MAX));
    }
    #[test]
    fn rooms_may_be_exchanged_and_lengths_stay() {
        let (log, mut one) = Log::create(LogConfig::default()).unwrap();
        let (other_log, mut other) = Log::create(LogConfig::default()).unwrap();
        let [mut reader, mut other_reader] =
            [&log, &other_log].map(|log| log.attach(ReaderConfig::default()).unwrap());
        let (mut short, mut long) = (one.reserve(20).unwrap(), other.reserve(9_000).unwrap());
        std::mem::swap(&mut *short, &mut *long);
        short.write(0, &[1; 9_000]);
        long.write(0, &[2; 20]);
        short.commit(&Meta::new(1, 20, 0));
        long.commit(&Meta::new(1, 9_000, 0));
        one.publish();
        other.publish();
        assert_eq!(reader.next_burst().unwrap().packet(0).bytes(), [2; 20]);
        assert_eq!(other_reader.next_burst().unwrap().packet(0).bytes(), [1; 9_000]);
    }
}
