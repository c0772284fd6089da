//! One ring shared by the kernel and this process: a producer, a consumer, entries.
//!
//! ```text
//!   | . . . | e e e e e | . . . . |        entries [consumer, producer), both count up forever
//!           ^ consumer  ^ producer
//! ```
//!
//! One side only produces and the other only consumes. Each keeps a copy of the other's position,
//! and reloads it only when the copy leaves it nothing to do.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libc::xdp_ring_offset;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use burstline_sys::prefetch::{self, LINE_BYTES};

/// The maximum number of entries to prefetch at a time: what a driver hands over in a poll.
const ASKED_ENTRIES: u32 = 64;

/// The mapping of a ring.
///
/// # Invariants
/// R1. `[start, start + bytes)` is mapped until drop. At the offsets the kernel gave, it holds the
/// two positions, the flags and `entries` entries of type `T`.
/// R2. `T` is plain integers.
pub(super) struct Ring<T> {
    start: NonNull<u8>,
    bytes: usize,
    offsets: xdp_ring_offset,
    entries: u32,
    /// Our own position, ahead of the published one.
    ours: u32,
    /// The other side's position at the last reload.
    theirs: u32,
    kind: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only this value has its address.
unsafe impl<T: Send> Send for Ring<T> {}

/// Entries of a ring, which the kernel writes or reads.
pub(super) trait Entry: Copy + Send {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

impl<T: Entry> Ring<T> {
    /// Maps the ring at page offset `place` of a socket. `entries` must be the ring's exact size.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        place: u64,
        offsets: xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        assert!(entries.is_power_of_two(), "{entries} entries");
        let bytes = offsets.desc as usize + entries as usize * size_of::<T>();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let flags = flags | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other mapping.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, socket, place) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, offsets, entries, ours: 0, theirs: 0, kind: PhantomData })
    }

    /// For a producer: returns how many entries may be written now, up to `wanted`.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        if self.free() >= wanted {
            return wanted;
        }
        // Acquire pairs with the kernel's release of its position: it has read those entries.
        self.theirs = self.consumer().load(Acquire);
        wanted.min(self.free())
    }

    /// Entries that the other side has read. An impossible position leaves no room.
    #[inline]
    fn free(&self) -> u32 {
        self.entries.saturating_sub(self.ours.wrapping_sub(self.theirs))
    }

    /// For a producer with room: writes the next entry.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        debug_assert!(self.ours.wrapping_sub(self.theirs) < self.entries, "no room");
        let place = self.entry(self.ours);
        // SAFETY: R1; the kernel reads no entry before it is published.
        unsafe { place.write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// For a producer: publishes the pushed entries.
    #[inline]
    pub(super) fn publish(&mut self) {
        // Release pairs with the kernel's acquire: the entries come before.
        self.producer().store(self.ours, Release);
    }

    /// For a producer: entries that the other side has not read yet, including unpublished ones. An
    /// impossible position counts as none read.
    pub(super) fn unread(&self) -> u32 {
        // Acquire as in `room`.
        self.ours.wrapping_sub(self.consumer().load(Acquire)).min(self.entries)
    }

    /// For a producer: the entry that the other side read last, or `None` if it has read none.
    pub(super) fn last_read(&self) -> Option<T> {
        let unread = self.unread();
        self.newest(self.entries).nth(unread as usize)
    }

    /// For a producer: the entries pushed last, newest first, up to `count`.
    pub(super) fn newest(&self, count: u32) -> impl Iterator<Item = T> + '_ {
        (0..count.min(self.entries)).map(|back| {
            // SAFETY: R1 and R2; only we write entries.
            unsafe { self.entry(self.ours.wrapping_sub(1 + back)).read() }
        })
    }

    /// For a consumer: returns how many entries may be read now, up to `wanted`.
    #[inline]
    pub(super) fn filled(&mut self, wanted: u32) -> u32 {
        let filled = self.theirs.wrapping_sub(self.ours);
        if filled >= wanted {
            return wanted;
        }
        // Acquire pairs with the kernel's release of its position: it has written those entries,
        // and their packets.
        let theirs = self.producer().load(Acquire);
        // An impossible position counts as none, now and the next time.
        let filled = theirs.wrapping_sub(self.ours);
        if filled > self.entries {
            return 0;
        }
        self.theirs = theirs;
        self.ask_for(filled.min(ASKED_ENTRIES));
        filled.min(wanted)
    }

    /// For a consumer: entries that it has not taken yet. An impossible position counts as none.
    pub(super) fn untaken(&self) -> u32 {
        // Acquire as in `filled`.
        let filled = self.producer().load(Acquire).wrapping_sub(self.ours);
        if filled <= self.entries { filled } else { 0 }
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// For a consumer: returns how many entries may be read by the last reload; reloads if none.
    #[inline]
    pub(super) fn known(&mut self) -> u32 {
        match self.theirs.wrapping_sub(self.ours) {
            0 => self.filled(u32::MAX),
            known => known,
        }
    }

    /// For a consumer with entries to read: the next entry, without taking it.
    #[inline]
    pub(super) fn next(&self) -> T {
        // SAFETY: R1 and R2; the kernel writes no entry again before it is given back.
        unsafe { self.entry(self.ours).read() }
    }

    /// For a consumer: takes the next entry, which it has already read.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.ours = self.ours.wrapping_add(1);
    }

    /// Prefetches the lines of the next `entries` entries together. Another core has just written
    /// them, and reading them one by one would wait for each.
    #[inline]
    fn ask_for(&self, entries: u32) {
        let each = LINE_BYTES / size_of::<T>();
        for ahead in (0..entries).step_by(each) {
            prefetch::to_read(self.entry(self.ours.wrapping_add(ahead)));
        }
    }

    /// For a consumer with entries to read: takes the next entry.
    #[inline]
    pub(super) fn pop(&mut self) -> T {
        let entry = self.next();
        self.skip();
        entry
    }

    /// For a consumer: gives the taken entries back.
    #[inline]
    pub(super) fn give_back(&mut self) {
        // Release pairs with the kernel's acquire: our reads come before.
        self.consumer().store(self.ours, Release);
    }

    /// For a consumer: iterates over the entries that it has not taken yet.
    pub(super) fn peek(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.untaken()).map(|ahead| {
            // SAFETY: R1, R2: the kernel has published this entry, and we have not given it back.
            unsafe { self.entry(self.ours.wrapping_add(ahead)).read() }
        })
    }

    /// Whether the kernel requests a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    #[inline]
    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: R1: the kernel places its words inside the mapping, aligned; both sides access
        // them as atomics (K1 of `burstline_sys`).
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset as usize).cast()) }
    }

    #[inline]
    fn entry(&self, position: u32) -> *mut T {
        let index = (position & (self.entries - 1)) as usize;
        // SAFETY: R1: `index` is below `entries`.
        unsafe { self.start.as_ptr().add(self.offsets.desc as usize).cast::<T>().add(index) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every reference into it borrowed `self`. An error would
        // leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// Both ends of a ring of 8 entries after `position` entries, in ordinary memory that stands in
    /// for a socket's.
    fn ends(position: u32) -> (Ring<u64>, Ring<u64>) {
        let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(4096).unwrap();
        let offsets = xdp_ring_offset { producer: 0, consumer: 64, desc: 192, flags: 128 };
        let end = || {
            let mut ring = Ring::map(file.as_fd(), 0, offsets, 8).unwrap();
            (ring.ours, ring.theirs) = (position, position);
            ring.publish();
            ring.give_back();
            ring
        };
        (end(), end())
    }

    #[test]
    fn positions_wrap_around_and_nothing_is_lost_or_doubled() {
        let first = u32::MAX - 20;
        let (mut producer, mut consumer) = ends(first);
        let (mut pushed, mut popped) = (0_u64, 0_u64);
        for round in 0..20 {
            let room = producer.room(5);
            assert_eq!(u64::from(room), 5.min(8 - (pushed - popped)), "round {round}");
            (0..room).for_each(|_| {
                producer.push(pushed);
                pushed += 1;
            });
            assert_eq!(u64::from(consumer.filled(8)), pushed - popped - u64::from(room));
            producer.publish();
            assert!(consumer.peek().eq(popped..pushed));
            let filled = consumer.filled(3);
            assert_eq!(u64::from(filled), 3.min(pushed - popped));
            for _ in 0..filled {
                assert_eq!(consumer.pop(), popped);
                popped += 1;
            }
            consumer.give_back();
        }
        assert!(pushed > 60 && producer.ours < 100, "{pushed} from {first}: it has wrapped");
    }

    #[test]
    fn what_was_taken_and_not_given_back_leaves_no_room() {
        let (mut producer, mut consumer) = ends(u32::MAX - 3);
        (0..producer.room(u32::MAX)).for_each(|number| producer.push(number.into()));
        producer.publish();
        assert_eq!((producer.room(1), consumer.filled(u32::MAX)), (0, 8));
        (0..8).for_each(|number| assert_eq!(consumer.pop(), number));
        assert_eq!((producer.room(1), consumer.filled(1)), (0, 0));
        consumer.give_back();
        assert_eq!(producer.room(u32::MAX), 8);
    }

    #[test]
    fn positions_that_cannot_be_are_taken_for_nothing() {
        for position in [0, 5, u32::MAX - 3] {
            let (mut producer, mut consumer) = ends(position);
            let word = |offset| producer.word(offset);
            word(0).store(position.wrapping_add(9), Relaxed);
            word(64).store(position.wrapping_add(1), Relaxed);
            assert_eq!((consumer.filled(8), consumer.peek().count()), (0, 0));
            assert_eq!(consumer.filled(8), 0, "nor is it remembered");
            producer.theirs = position.wrapping_sub(8);
            assert_eq!(producer.room(8), 0, "more read than was written");
        }
    }

    #[test]
    fn the_flag_is_the_kernels() {
        let (producer, _) = ends(0);
        assert!(!producer.needs_wakeup());
        producer.word(128).store(libc::XDP_RING_NEED_WAKEUP, Relaxed);
        assert!(producer.needs_wakeup());
    }
}
