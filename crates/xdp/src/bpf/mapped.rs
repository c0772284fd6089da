//! An array map whose values this process reads through memory, as they change.
//!
//! ```text
//! entry 0                        entry 1
//! | word 0 | word 1 | ... |      | word 0 | word 1 | ... |
//!   u64, written by one core of the program, read here
//! ```
//!
//! Reading takes no system call and no privilege. A value of 64 bytes is a cache line, and the map
//! starts on a page. So cores that write different entries do not disturb each other.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{BpfError, Map, MapKind, MapOptions};

/// The map can be mmapped. Source: BPF_F_MMAPABLE, include/uapi/linux/bpf.h; kernel 5.5.
pub(crate) const MAPPABLE: u32 = 1 << 10;

const WORD_BYTES: usize = size_of::<u64>();

/// An array map of 64-bit words, mapped for reading.
///
/// # Invariants
/// `start` is the first of `bytes` bytes, mapped readable from creation to drop. `bytes` is
/// `entries * words * 8`, and the kernel fills the rest of the last page with zeros.
#[derive(Debug)]
pub struct MappedArray {
    map: Map,
    start: NonNull<u64>,
    words: usize,
    entries: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is read only as atomics.
unsafe impl Send for MappedArray {}
// SAFETY: shared, it is read only as atomics, which several threads may do at the same time.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    /// Creates an array of `entries` values of `words` 64-bit words, all 0. `words` is at least 1,
    /// and 8 makes each entry a cache line.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error.
    ///
    /// # Panics
    /// If there are no entries or words.
    pub fn create(name: &str, words: u32, entries: u32) -> Result<Self, BpfError> {
        assert!(words > 0 && entries > 0, "{entries} entries of {words} words");
        let map = Map::create(&MapOptions {
            name,
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: words * WORD_BYTES as u32,
            entries,
            flags: MAPPABLE,
        })?;
        let (words, entries) = (words as usize, entries as usize);
        let start = map_to_read(&map, entries * words * WORD_BYTES);
        let start = start.map_err(BpfError::system("mmap of a BPF map"))?;
        Ok(Self { map, start, words, entries })
    }

    /// Returns the map, for programs to refer to.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the current value of a word of an entry.
    ///
    /// Cost: one load; the cache line is shared with the core that writes it.
    ///
    /// # Panics
    /// If there is no such entry or word.
    #[inline]
    pub fn word(&self, entry: usize, word: usize) -> u64 {
        let (entries, words) = (self.entries, self.words);
        assert!(entry < entries && word < words, "{entry}, {word} of {entries}, {words}");
        // SAFETY: inside the mapping by the check and the type's invariant.
        let place = unsafe { self.start.add(entry * words + word) };
        // SAFETY: B3; aligned, since a page starts aligned; its writer is a program in the kernel,
        // and both sides access it as an atomic (K1 of `burstline_sys`).
        let word = unsafe { AtomicU64::from_ptr(place.as_ptr()) };
        // Relaxed, without a partner: a counter does not order other memory.
        word.load(Relaxed)
    }

    /// Returns the sum of a word over all entries. Cost: a load for each.
    pub fn sum(&self, word: usize) -> u64 {
        (0..self.entries).map(|entry| self.word(entry, word)).fold(0, u64::wrapping_add)
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        let bytes = self.entries * self.words * WORD_BYTES;
        // SAFETY: the mapping is ours, and `word` returns no reference. An error would leave it
        // mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
    }
}

fn map_to_read(map: &Map, bytes: usize) -> io::Result<NonNull<u64>> {
    let (access, flags, fd) = (ProtFlags::READ, MapFlags::SHARED, map.as_fd());
    // SAFETY: a new mapping at an address of the kernel's choice disturbs no other mapping.
    let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, fd, 0) }?;
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
