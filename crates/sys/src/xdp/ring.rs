//! One ring that the kernel and this process share: a producer, a consumer, entries.
//!
//! ```text
//!   | . . . | e e e e e | . . . . |        entries [consumer, producer), both count up forever
//!           ^ consumer  ^ producer
//! ```
//!
//! One side only produces and the other only consumes. Each keeps a copy of the other's position,
//! and looks again only when by that copy there is nothing left for it.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libc::xdp_ring_offset;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The mapping of a ring.
///
/// # Invariants
/// R1. `[start, start + bytes)` is mapped until drop and holds, at the offsets the kernel gave, the
/// two positions, the flags and `entries` entries of type `T`.
/// R2. `T` is plain integers.
pub(super) struct Ring<T> {
    start: NonNull<u8>,
    bytes: usize,
    offsets: xdp_ring_offset,
    entries: u32,
    /// Our own position, ahead of what was published.
    ours: u32,
    /// The other side's position when last looked at.
    theirs: u32,
    kind: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only this value has its address.
unsafe impl<T: Send> Send for Ring<T> {}

/// Entries of a ring: what the kernel writes or reads there.
pub(super) trait Entry: Copy + Send {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

impl<T: Entry> Ring<T> {
    /// Maps the ring at page offset `place` of a socket that has one of just so many entries.
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
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, socket, place) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, offsets, entries, ours: 0, theirs: 0, kind: PhantomData })
    }

    /// For a producer: how many entries may be written now, up to `wanted`.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        if self.free() >= wanted {
            return wanted;
        }
        // Acquire pairs with the kernel's release of its position: it has read those entries.
        self.theirs = self.consumer().load(Acquire);
        wanted.min(self.free())
    }

    /// Entries that the other side has read. A position that cannot be leaves no room.
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

    /// For a producer: lets the kernel see what was pushed.
    #[inline]
    pub(super) fn publish(&mut self) {
        // Release pairs with the kernel's acquire: the entries come before.
        self.producer().store(self.ours, Release);
    }

    /// For a consumer: how many entries may be read now, up to `wanted`.
    #[inline]
    pub(super) fn filled(&mut self, wanted: u32) -> u32 {
        let filled = self.theirs.wrapping_sub(self.ours);
        if filled >= wanted {
            return wanted;
        }
        // Acquire pairs with the kernel's release of its position: it has written those entries,
        // and the packets that they are about.
        self.theirs = self.producer().load(Acquire);
        // A position that cannot be is taken for none: nothing is read beyond the ring.
        match self.theirs.wrapping_sub(self.ours) {
            filled if filled <= self.entries => filled.min(wanted),
            _ => 0,
        }
    }

    /// For a consumer with something to read: takes the next entry.
    #[inline]
    pub(super) fn pop(&mut self) -> T {
        let place = self.entry(self.ours);
        // SAFETY: R1 and R2; the kernel writes no entry again before it is given back.
        let entry = unsafe { place.read() };
        self.ours = self.ours.wrapping_add(1);
        entry
    }

    /// For a consumer: gives what was taken back.
    #[inline]
    pub(super) fn give_back(&mut self) {
        // Release pairs with the kernel's acquire: our reads come before.
        self.consumer().store(self.ours, Release);
    }

    /// For a consumer: looks at what it has not taken yet, entry by entry.
    pub(super) fn peek(&self) -> impl Iterator<Item = T> + '_ {
        // Acquire as in `filled`.
        let filled = self.producer().load(Acquire).wrapping_sub(self.ours);
        let filled = if filled <= self.entries { filled } else { 0 };
        (0..filled).map(|ahead| {
            // SAFETY: as in `pop`.
            unsafe { self.entry(self.ours.wrapping_add(ahead)).read() }
        })
    }

    /// Whether the kernel asks for a system call.
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
        // SAFETY: R1: the kernel places its words inside of the mapping, aligned; both sides
        // access them whole.
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
        // leave it mapped, which harms nobody.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
