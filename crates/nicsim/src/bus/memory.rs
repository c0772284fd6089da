//! The memory shared by device and driver: packet buffers at bus addresses.
//!
//! ```text
//!   0                                                                      bytes
//!   | buffer 0 | buffer 1 | ...            | buffer n - 1 | joining area  |
//!        ^ bus address = offset from the start
//! ```
//!
//! The only module of this crate with `unsafe`. It knows nothing about packets. The rings pass
//! buffers back and forth, and so decide who may touch one:
//!
//! - D1. A buffer belongs to the device from the doorbell (or tail) that covers its descriptor: a
//!   Release store that the device loads with Acquire. It belongs to the driver again when the
//!   device reports completion: by the descriptor's DD bit, the length word before the packet, or
//!   the head register. Each is a Release store that the driver loads with Acquire. Otherwise it
//!   belongs to the driver.
//! - D2. The device writes only buffers of receive descriptors and reads only those of transmit
//!   descriptors; it checks that they are inside the memory.
//! - D3. The driver writes, and creates references to, only buffers that it owns, and none of its
//!   references outlives its ownership.
//! - D4. The two words before a packet in inline mode are accessed as atomics while the device owns
//!   the buffer.
//! - D5. Rings are private to one device and one driver. Only that driver writes addresses into a
//!   receive ring: starts of buffers in its own area, multiples of 256 inside the memory.
//! - D6. In contiguous mode the memory belongs to a log. In the segment that the log's writer has
//!   handed out, the device writes `[low, top)` except the descs of its packets. The part below the
//!   pointer is written, and from then on belongs to the writer alone.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{Burst, Log, Scratch};
use burstline_sys::memory::{MemoryError, PageChoice, Region, RegionRequest};
use burstline_sys::prefetch;
pub(crate) use burstline_sys::prefetch::LINE_BYTES;

/// Memory that devices access.
///
/// # Invariants
/// M1. `[start, start + bytes)` belongs to `keep`, is mapped while `keep` lives, and starts on a
/// page.
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    number: u32,
    _keep: Keep,
}

/// The owner of the mapping.
enum Keep {
    Region(#[allow(dead_code, reason = "it is kept, not looked at")] Region),
    Log(#[allow(dead_code, reason = "it is kept, not looked at")] Log),
}

/// Returns a unique number, for a memory or a driver.
///
/// # Panics
/// After 2^32 calls.
pub(crate) fn unique() -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Relaxed); // a counter, which publishes no memory
    assert!(number <= u32::MAX.into(), "2^32 memories and drivers");
    number as u32
}

// SAFETY: by M1 it is an address range of the process; D1 to D4 say who may touch which bytes.
unsafe impl Send for HostMemory {}
// SAFETY: shared, it is still an address range; each access is unsafe and justified by D1 to D4.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates zeroed memory of this size, below 4 GiB.
    ///
    /// # Errors
    /// As [`Region::create`].
    pub fn create(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        if bytes > u32::MAX as usize {
            return Err(MemoryError::BadSize { bytes });
        }
        let name = format!("burstline-nicsim-{name}");
        let request = RegionRequest { name, bytes, pages: PageChoice::Auto, node: None };
        let region = Region::create(&request)?;
        let (start, bytes) = (region.as_ptr(), region.bytes());
        Ok(Self { start, bytes, number: unique(), _keep: Keep::Region(region) })
    }

    pub(crate) fn of_log(log: Log) -> Self {
        let (start, bytes) = log.packet_memory();
        Self { start, bytes, number: unique(), _keep: Keep::Log(log) }
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether `[at, at + length)` is inside.
    #[inline]
    pub(crate) fn has(&self, at: u64, length: usize) -> bool {
        at.checked_add(length as u64).is_some_and(|end| end <= self.bytes as u64)
    }

    /// Copies bytes to `at`.
    ///
    /// # Safety
    /// `[at, at + bytes.len())` belongs to the caller by D1, and there is no reference into it.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline]
    pub(crate) unsafe fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        // SAFETY: in bounds, as just checked; by the caller's contract nobody else touches the
        // range, so `bytes` does not overlap it.
        unsafe { copy(bytes, to) };
    }

    /// Copies two words to `at`, followed by `bytes`.
    ///
    /// # Safety
    /// As for [`write`](Self::write), with 16 bytes more.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline]
    pub(crate) unsafe fn write_behind(&self, at: u64, words: [u64; 2], bytes: &[u8]) {
        let to = self.at(at, 16 + bytes.len());
        // SAFETY: in bounds, as just checked; by the caller's contract nobody else touches the
        // range, so `bytes` does not overlap it. The words need not be aligned.
        unsafe {
            to.cast::<[u64; 2]>().write_unaligned(words);
            copy(bytes, to.add(16));
        }
    }

    /// Prefetches the lines of `[at, at + length)` for writing: the other core has them. It changes
    /// nothing, whatever the address. Source of the gain: decision 0005.
    #[inline]
    pub(crate) fn ask(&self, at: u64, length: usize) {
        let start = self.start.as_ptr().wrapping_add(at as usize);
        let mut line = 0;
        while line < length {
            prefetch::to_write(start.wrapping_add(line));
            line += LINE_BYTES;
        }
    }

    /// Returns the bytes at `[at, at + length)`.
    ///
    /// # Safety
    /// Nobody writes the range while the reference lives (D1).
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: u64, length: usize) -> &[u8] {
        let start = self.at(at, length);
        // SAFETY: in bounds, mapped and initialized with zeros; nobody writes it by the contract.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// Like [`bytes`](Self::bytes), but mutable.
    ///
    /// # Safety
    /// The range belongs to the caller by D1, and there is no other reference into it.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the rings say who may write, not the borrow")]
    pub(crate) unsafe fn bytes_mut(&self, at: u64, length: usize) -> &mut [u8] {
        let start = self.at(at, length);
        // SAFETY: in bounds, mapped and initialized with zeros; the caller has exclusive access.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// Returns the two words at the start of a buffer.
    ///
    /// # Safety
    /// `[at, at + 16)` is inside the memory, `at` is a multiple of 16, and while the reference
    /// lives the words are accessed only as atomics (D4).
    #[inline(always)]
    pub(crate) unsafe fn front(&self, at: u64) -> &[AtomicU64; 2] {
        debug_assert!(at.is_multiple_of(16) && self.has(at, 16), "{at}");
        // SAFETY: the caller's contract, and M1: a page is aligned to more than 16.
        unsafe { self.start.add(at as usize).cast::<[AtomicU64; 2]>().as_ref() }
    }

    /// Returns the burst that `scratch` describes by offsets from the start of this memory.
    ///
    /// # Safety
    /// The described buffers belong to the driver during `'a` (D1).
    pub(crate) unsafe fn burst<'a>(&'a self, scratch: &'a Scratch, first_packet: u64) -> Burst<'a> {
        // SAFETY: M1; the caller's contract.
        unsafe { scratch.burst_in_memory(self.start, self.bytes, first_packet) }
    }

    #[inline]
    fn at(&self, at: u64, length: usize) -> NonNull<u8> {
        assert!(self.has(at, length), "{length} bytes at {at}");
        // SAFETY: just checked.
        unsafe { self.start.add(at as usize) }
    }
}

/// Copies bytes; the shortest frames without a call.
///
/// # Safety
/// `bytes.len()` bytes from `to` on are writable, and `bytes` does not overlap them.
#[inline(always)]
unsafe fn copy(bytes: &[u8], to: NonNull<u8>) {
    const HALF: usize = 32;
    let length = bytes.len();
    if !(HALF..=2 * HALF).contains(&length) {
        // SAFETY: the caller's contract.
        return unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), length) };
    }
    let (from, to, rest) = (bytes.as_ptr(), to.as_ptr(), length - HALF);
    let quarters = [0, HALF / 2, rest, rest + HALF / 2];
    // SAFETY: the first 32 bytes and the last 32 cover all bytes, and are in bounds; neither side
    // needs alignment. As integers they stay in registers, not on the stack.
    unsafe {
        let words = quarters.map(|at| from.add(at).cast::<u128>().read_unaligned());
        for (at, word) in quarters.into_iter().zip(words) {
            to.add(at).cast::<u128>().write_unaligned(word);
        }
    }
}
