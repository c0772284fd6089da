//! Packets that are filled in place.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::{Meta, Writer};
use crate::copy::copy_packet;
use crate::desc::align_up;

/// Bytes of a log that belong to the writer alone, for one packet.
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
    /// Makes a room of `length` bytes from `start` on, which must be free.
    #[inline]
    pub(super) fn new(start: *mut u8, length: usize) -> Self {
        Self { start, length, lent: PhantomData }
    }

    /// Returns the room's first byte; valid for writes of `length` bytes as long as the slot lives.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Returns the room's size in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Copies `bytes` to `at`; `at + bytes.len()` must be in `[0, length]`.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.length && bytes.len() <= self.length - at, "outside the slot");
        // SAFETY: inside the room, which belongs to the writer alone; see `append` on overlap.
        unsafe { copy_packet(bytes, self.as_ptr().add(at)) };
    }

    /// Copies `bytes` to `at`, with the fewest stores for their constant number. They may extend
    /// beyond the slot's end, up to the next multiple of
    /// [`PACKET_ALIGNMENT`](crate::PACKET_ALIGNMENT), where no other packet is stored.
    #[inline(always)]
    pub fn write_array<const N: usize>(&mut self, at: usize, bytes: &[u8; N]) {
        let room = align_up(self.length);
        assert!(at <= room && N <= room - at, "outside the slot");
        // SAFETY: `align_up(length)` bytes from `start` on belong to the writer alone, so the slice
        // `bytes` is not there.
        unsafe { self.as_ptr().add(at).cast::<[u8; N]>().write_unaligned(*bytes) };
    }
}

/// [Room](Room) for one packet in the open segment. Dropping it gives the room back.
#[derive(Debug)]
pub struct Slot<'w> {
    room: Room<'w>,
    /// The room's length. Not read from the room, because safe code may have swapped that for
    /// another slot's.
    length: usize,
    /// The writer's room left behind it.
    left: usize,
    writer: &'w mut Writer,
}

impl<'w> Slot<'w> {
    /// Makes a slot of `length` bytes, for which the writer has room; `left` is left after it.
    #[inline]
    pub(super) fn new(writer: &'w mut Writer, length: usize, left: usize) -> Self {
        Self { room: Room::new(writer.edge.at(), length), length, left, writer }
    }

    /// Commits the packet to the log. Bytes never written keep the contents of an earlier packet.
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
