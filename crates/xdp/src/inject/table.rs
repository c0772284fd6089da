//! The table of frames to inject: one value of an array map, which this process writes.
//!
//! ```text
//! | entry 0: offset, length | entry 1 | ... | frames, back to back, each at a multiple of 16 .. |
//! ```
//!
//! The program takes frame k from entry k modulo the table size, where k is its own count of
//! frames. So entries are written in rotation. The space for bytes starts over whenever all frames
//! have been taken.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::INJECTED_BYTES_MAX;
use crate::bpf::{BpfError, MAPPABLE, Map, MapKind, MapOptions};

/// The maximum number of frames per call.
pub const FRAMES_AT_ONCE: usize = 4096;

pub(super) const ENTRY_BYTES: usize = 8;

pub(super) const FRAMES_AT: usize = FRAMES_AT_ONCE * ENTRY_BYTES;

/// Upper bound of an offset: a power of two, so that the verifier can check it.
pub(super) const OFFSETS: usize = 1 << 20;

const TABLE_BYTES: usize = FRAMES_AT + OFFSETS + INJECTED_BYTES_MAX.next_multiple_of(16);

/// A map, with its only value mapped for writing.
///
/// # Invariants
/// `start` is the first of [`TABLE_BYTES`] bytes, mapped readable and writable from creation to
/// drop. The kernel reads them only while a program runs, in a call by this thread.
pub(super) struct FrameTable {
    map: Map,
    start: NonNull<u8>,
    /// Bytes of frames so far.
    end: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nothing else here has its
// address.
unsafe impl Send for FrameTable {}

impl FrameTable {
    pub(super) fn create() -> Result<Self, BpfError> {
        let map = Map::create(&MapOptions {
            name: "inject_frames",
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: TABLE_BYTES as u32,
            entries: 1,
            flags: MAPPABLE,
        })?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other mapping.
        let start = unsafe { mmap(ptr::null_mut(), TABLE_BYTES, access, flags, map.as_fd(), 0) };
        let start = start.map_err(|error| BpfError::system("mmap of a BPF map")(error.into()))?;
        let start = NonNull::new(start.cast()).expect("a mapping is not at address 0");
        Ok(Self { map, start, end: 0 })
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// Writes frame number `number`. Returns false if there is no room for its bytes.
    ///
    /// # Panics
    /// If the frame is longer than [`INJECTED_BYTES_MAX`].
    #[inline]
    pub(super) fn write(&mut self, number: u64, frame: &[u8]) -> bool {
        assert!(frame.len() <= INJECTED_BYTES_MAX, "{} bytes", frame.len());
        if self.end >= OFFSETS {
            return false;
        }
        let entry = number as usize % FRAMES_AT_ONCE * ENTRY_BYTES;
        let words = [self.end as u32, frame.len() as u32];
        // SAFETY: an entry is before the frames, and a frame that begins below `OFFSETS` ends
        // inside the mapping. `&mut self` excludes others; no program runs now.
        unsafe {
            self.start.add(entry).cast::<[u32; 2]>().write(words);
            let to = self.start.add(FRAMES_AT + self.end);
            to.copy_from_nonoverlapping(NonNull::from(frame).cast(), frame.len());
        }
        self.end += frame.len().next_multiple_of(16);
        true
    }

    /// Frees the space of all frames, which have been taken.
    pub(super) fn clear(&mut self) {
        self.end = 0;
    }
}

impl Drop for FrameTable {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and there are no references into it. An error would leave it
        // mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), TABLE_BYTES) };
    }
}
