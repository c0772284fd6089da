//! Maps a file of the peer into both processes, and gives out checked windows into it.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};

use burstline_sys::prefetch;
use rustix::fs::{FileType, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::guard::Guard;

/// Packets up to this length are copied in line, in pieces of 16 bytes: a call costs more.
const SHORT_BYTES: usize = 128;
type Piece = [u8; 16];
const PIECE: usize = size_of::<Piece>();
/// The header before a guest's packet. Source: `virtio_net_hdr_mrg_rxbuf`.
type Header = [u8; 12];

/// The reason why memory of a peer could not be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMemoryError {
    /// The descriptor is a pipe or a device instead of a file.
    #[error("descriptor for memory is not a regular file (mode {mode:#o})")]
    NotAFile {
        /// The type and mode of the file.
        mode: u32,
    },
    /// The file is smaller than announced.
    #[error("memory of {wanted} bytes in a file of {there} bytes")]
    TooShort {
        /// The announced size.
        wanted: u64,
        /// The size of the file.
        there: u64,
    },
    /// The table of mappings is full.
    #[error("{0} mappings of peers are open: that is the limit")]
    TooMany(usize),
    /// The kernel refused the mapping.
    #[error("map memory of the peer: {0}")]
    System(#[from] io::Error),
}

/// A mapped file of the peer. Unmapped when dropped.
///
/// # Invariants
/// - M1. `[start, start + bytes)` is mapped for reading and writing while this value lives, and
///   belongs to it alone. The guard replaces pages that the file loses.
#[derive(Debug)]
pub struct PeerMemory {
    start: NonNull<u8>,
    bytes: usize,
    mapped: usize,
    guard: Guard,
}

// SAFETY: it is an address range of the process; all access is by copies and atomics (P1).
unsafe impl Send for PeerMemory {}
// SAFETY: threads that copy at the same time are like the peer, which writes at any time: P1 covers
// both.
unsafe impl Sync for PeerMemory {}

impl PeerMemory {
    /// Maps the first `bytes` bytes of a file.
    ///
    /// # Errors
    /// [`PeerMemoryError`], as each variant says.
    pub fn map(file: BorrowedFd<'_>, bytes: u64) -> Result<Self, PeerMemoryError> {
        let stat = fstat(file).map_err(io::Error::from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(PeerMemoryError::NotAFile { mode: stat.st_mode });
        }
        let there = u64::try_from(stat.st_size).unwrap_or(0);
        let page =
            u64::try_from(stat.st_blksize).unwrap_or(0).clamp(4096, 1 << 30).next_power_of_two();
        let mapped = bytes.checked_next_multiple_of(page);
        let mapped = mapped.and_then(|mapped| usize::try_from(mapped).ok());
        let (Some(mapped), true) = (mapped, bytes > 0 && bytes <= there) else {
            return Err(PeerMemoryError::TooShort { wanted: bytes, there });
        };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
        let start = unsafe { mmap(ptr::null_mut(), mapped, protection, MapFlags::SHARED, file, 0) };
        let start = start.map_err(io::Error::from)?.cast::<u8>();
        let start =
            NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory).map_err(io::Error::from)?;
        match Guard::watch(start.as_ptr() as usize, mapped, page as usize) {
            Ok(guard) => Ok(Self { start, bytes: bytes as usize, mapped, guard }),
            Err(most) => {
                // SAFETY: mapped above, and not shared with anyone yet.
                let _ = unsafe { munmap(start.as_ptr().cast(), mapped) };
                Err(PeerMemoryError::TooMany(most))
            }
        }
    }

    /// Returns the number of usable bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the peer truncated the file, so that the mapping is zeros now.
    pub fn is_lost(&self) -> bool {
        self.guard.has_fired()
    }

    #[inline]
    fn place(&self, at: usize, bytes: usize) -> Option<*mut u8> {
        let end = at.checked_add(bytes)?;
        (end <= self.bytes).then(|| self.start.as_ptr().wrapping_add(at))
    }

    /// Copies bytes out. Returns false if they are not all inside.
    #[inline]
    #[must_use]
    pub fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.place(at, into.len()) else { return false };
        // SAFETY: M1 and the check above for `from`; `into` is private, so they do not overlap.
        unsafe { copy(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies bytes in. Returns false, and copies nothing, if they are not all inside.
    #[inline]
    #[must_use]
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        let Some(to) = self.place(at, from.len()) else { return false };
        // SAFETY: M1 and the check above for `to`; `from` is private, so they do not overlap.
        unsafe { copy(from.as_ptr(), to, from.len()) };
        true
    }

    /// Prefetches the first and the last line of bytes to be read, or with `WRITE` written. Does
    /// nothing if they are not inside.
    #[inline]
    pub fn prefetch<const WRITE: bool>(&self, at: usize, bytes: usize) {
        let Some(first) = self.place(at, bytes) else { return };
        let last = first.wrapping_add(bytes.saturating_sub(1));
        if WRITE {
            prefetch::to_write(first)
        } else {
            prefetch::to_read(first)
        }
        if (first as usize ^ last as usize) >= prefetch::LINE_BYTES {
            if WRITE { prefetch::to_write(last) } else { prefetch::to_read(last) }
        }
    }

    /// Returns a part of it; `None` if that is not all inside, or not aligned to `align` bytes.
    pub fn window(self: &Arc<Self>, at: usize, bytes: usize, align: usize) -> Option<Window> {
        let start = NonNull::new(self.place(at, bytes)?)?;
        let is_aligned = (start.as_ptr() as usize).is_multiple_of(align);
        is_aligned.then(|| Window { start, bytes, memory: Arc::clone(self) })
    }
}

impl Drop for PeerMemory {
    fn drop(&mut self) {
        self.guard.end();
        // SAFETY: by M1 the mapping belongs to this value, and windows keep it alive.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// A part of a peer's memory, such as a ring: words are loaded and stored atomically.
///
/// # Invariants
/// - M2. `[start, start + bytes)` is inside `memory`, which it keeps mapped.
#[derive(Debug)]
pub struct Window {
    start: NonNull<u8>,
    bytes: usize,
    memory: Arc<PeerMemory>,
}

// SAFETY: it is an address range of `PeerMemory`, which may be sent to other threads (P1).
unsafe impl Send for Window {}

macro_rules! word {
    ($self:ident, $kind:ty, $at:ident) => {{
        let size = size_of::<$kind>();
        assert!(
            $at.is_multiple_of(size) && $at + size <= $self.bytes,
            "word at {} of {}",
            $at,
            $self.bytes
        );
        // SAFETY: M2 and the check above. Windows of words are aligned to 8 bytes, or to the size
        // of their words. The peer's accesses are those of another process (P1).
        unsafe { <$kind>::from_ptr($self.start.as_ptr().add($at).cast()) }
    }};
}

impl Window {
    /// Loads a word and orders all later reads after it: pairs with the peer's release.
    #[inline]
    pub fn acquire_u16(&self, at: usize) -> u16 {
        u16::from_le(word!(self, AtomicU16, at).load(Acquire))
    }

    /// Stores a word after everything written before: pairs with the peer's acquire.
    #[inline]
    pub fn release_u16(&self, at: usize, value: u16) {
        word!(self, AtomicU16, at).store(value.to_le(), Release);
    }

    /// Loads a word; the caller ensures its order.
    #[inline]
    pub fn load_u16(&self, at: usize) -> u16 {
        u16::from_le(word!(self, AtomicU16, at).load(Relaxed))
    }

    /// Stores a word; the caller ensures its order.
    #[inline]
    pub fn store_u16(&self, at: usize, value: u16) {
        word!(self, AtomicU16, at).store(value.to_le(), Relaxed);
    }

    /// Like [`load_u16`](Self::load_u16).
    #[inline]
    pub fn load_u32(&self, at: usize) -> u32 {
        u32::from_le(word!(self, AtomicU32, at).load(Relaxed))
    }

    /// Like [`store_u16`](Self::store_u16).
    #[inline]
    pub fn store_u32(&self, at: usize, value: u32) {
        word!(self, AtomicU32, at).store(value.to_le(), Relaxed);
    }

    /// Like [`load_u16`](Self::load_u16).
    #[inline]
    pub fn load_u64(&self, at: usize) -> u64 {
        u64::from_le(word!(self, AtomicU64, at).load(Relaxed))
    }

    /// Like [`store_u16`](Self::store_u16).
    #[inline]
    pub fn store_u64(&self, at: usize, value: u64) {
        word!(self, AtomicU64, at).store(value.to_le(), Relaxed);
    }

    /// Prefetches the line of a word to be read, or with `WRITE` written.
    #[inline]
    pub fn prefetch<const WRITE: bool>(&self, at: usize) {
        if at < self.bytes {
            let word = self.start.as_ptr().wrapping_add(at);
            if WRITE { prefetch::to_write(word) } else { prefetch::to_read(word) }
        }
    }

    /// Returns whether the peer has truncated the memory.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }
}

/// Orders our stores before our loads. For two sides that each store a word and then load the
/// other's, so that no wake-up is lost. The caller names the edge.
#[inline]
pub fn store_then_load() {
    fence(SeqCst);
}

/// # Safety
/// `from` must be valid for reads and `to` for writes of `bytes` bytes, and they must not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes == size_of::<Header>() {
        // SAFETY: guaranteed by the caller; unaligned accesses are allowed here.
        unsafe { to.cast::<Header>().write_unaligned(from.cast::<Header>().read_unaligned()) };
        return;
    }
    if !(PIECE..=SHORT_BYTES).contains(&bytes) {
        // SAFETY: guaranteed by the caller.
        unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
        return;
    }
    let mut at = 0;
    // The last piece overlaps the previous one.
    let last = bytes - PIECE;
    while at < last {
        // SAFETY: `at + PIECE <= bytes` because of the bound; the caller guarantees the rest.
        unsafe { piece(from.add(at), to.add(at)) };
        at += PIECE;
    }
    // SAFETY: `last + PIECE == bytes`.
    unsafe { piece(from.add(last), to.add(last)) };
}

/// # Safety
/// As for `copy` of 16 bytes.
#[inline]
unsafe fn piece(from: *const u8, to: *mut u8) {
    // SAFETY: guaranteed by the caller; unaligned accesses are allowed here.
    unsafe { to.cast::<Piece>().write_unaligned(from.cast::<Piece>().read_unaligned()) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn file(bytes: u64) -> OwnedFd {
        let file = memfd_create("peer-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes).unwrap();
        file
    }

    #[test]
    fn nothing_outside_is_read_or_written() {
        let file = file(8192);
        let memory = Arc::new(PeerMemory::map(file.as_fd(), 5000).unwrap());
        for length in [0, 1, size_of::<Header>(), 15, 16, 17, 31, 32, 60, 64, 127, 128, 129, 1514] {
            let from: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let mut into = vec![0xff; length];
            assert!(memory.write(5000 - length, &from) && memory.read(5000 - length, &mut into));
            assert_eq!(from, into, "{length}");
            assert!(!memory.write(5001 - length, &from) && !memory.read(5001 - length, &mut into));
        }
        assert!(!memory.read(usize::MAX, &mut [0]) && !memory.read(usize::MAX - 1, &mut [0; 4]));
        assert!(memory.window(4096, 904, 8).is_some());
        assert!(memory.window(4096, 905, 8).is_none() && memory.window(4, 8, 8).is_none());
    }

    #[test]
    fn a_file_that_is_cut_reads_as_zeros_and_says_so() {
        let file = file(1 << 20);
        let other = PeerMemory::map(file.as_fd(), 4096).unwrap();
        let memory = Arc::new(PeerMemory::map(file.as_fd(), 1 << 20).unwrap());
        let window = memory.window(1 << 19, 4096, 8).unwrap();
        assert!(memory.write(1 << 19, &[7; 8]));
        assert_eq!((window.load_u16(0), memory.is_lost()), (0x0707, false));
        ftruncate(&file, 4096).unwrap();
        assert_eq!((window.load_u64(0), window.is_lost(), other.is_lost()), (0, true, false));
        window.store_u32(8, 5);
        assert!(memory.read(1 << 19, &mut [0; 64]) && memory.write(0, &[9; 100]));
        let mut into = [0; 1];
        assert!(other.read(0, &mut into));
        assert_eq!(into, [0], "what is written later does not reach the peer");
    }

    /// Larger than memory and swap: the zeros that replace it must reserve nothing.
    #[test]
    fn a_sparse_file_of_a_terabyte_that_is_cut_reads_as_zeros() {
        let file = file(1 << 40);
        let memory = PeerMemory::map(file.as_fd(), 1 << 40).unwrap();
        assert!(memory.write(1 << 39, &[7; 8]) && !memory.is_lost());
        ftruncate(&file, 0).unwrap();
        let mut into = [7; 8];
        for at in [1 << 39, 0, (1 << 40) - 8] {
            assert!(memory.read(at, &mut into) && into == [0; 8] && memory.is_lost(), "{at}");
            into = [7; 8];
        }
    }

    #[test]
    fn files_that_are_none_or_too_small_are_refused_with_numbers() {
        let error = PeerMemory::map(file(4096).as_fd(), 4097).unwrap_err().to_string();
        assert_eq!(error, "memory of 4097 bytes in a file of 4096 bytes");
        let error = PeerMemory::map(file(4096).as_fd(), u64::MAX).unwrap_err().to_string();
        assert!(error.contains("18446744073709551615 bytes in a file of 4096"), "{error}");
        let pipe = std::io::pipe().unwrap().0;
        let error = PeerMemory::map(pipe.as_fd(), 1).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
