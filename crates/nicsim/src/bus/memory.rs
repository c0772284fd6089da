//! The memory that device and driver share: packet buffers, at bus addresses.
//!
//! ```text
//!   0                                                                      bytes
//!   | buffer 0 | buffer 1 | ...            | buffer n - 1 | joining area  |
//!        ^ bus address = offset from the start
//! ```
//!
//! The only module of this crate with `unsafe`. It knows nothing of packets; who may touch a buffer
//! is settled by the rings, which hand it to and fro:
//!
//! - D1. A buffer belongs to the device from the doorbell (or tail) that covers its descriptor: a
//!   Release store that the device loads with Acquire. It belongs to the driver again when the
//!   device says that it is done: by the descriptor's DD bit, the length word in front of the
//!   packet, or the head register. Each is a Release store that the driver loads with Acquire.
//!   Otherwise it is the driver's.
//! - D2. The device writes only buffers of receive descriptors and reads only those of transmit
//!   descriptors; it checks that they lie inside of the memory.
//! - D3. The driver writes, and makes references to, only buffers that are its own, and none of its
//!   references outlives its ownership.
//! - D4. The two words in front of a packet in inline mode are accessed as atomics while the
//!   buffer is the device's.
//! - D5. Rings are private to one device and one driver. Addresses come into a receive ring from
//!   that driver only: starts of buffers in its own area, multiples of 256 inside of the memory.
//! - D6. In contiguous mode the memory is a log's. In the segment that the log's writer has handed
//!   out, the device writes `[low, top)` except the descs of its packets. What lies below the
//!   pointer is written, and from then on only the writer's.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{Burst, Log, Scratch};
use burstline_sys::memory::{MemoryError, PageChoice, Region, RegionRequest};
use burstline_sys::prefetch;
pub(crate) use burstline_sys::prefetch::LINE_BYTES;

/// Memory that devices reach.
///
/// # Invariants
/// M1. `[start, start + bytes)` is `keep`'s, mapped as long as that lives, `start` on a page.
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    number: u32,
    _keep: Keep,
}

/// Whose the mapping is.
enum Keep {
    Region(#[allow(dead_code, reason = "it is kept, not looked at")] Region),
    Log(#[allow(dead_code, reason = "it is kept, not looked at")] Log),
}

/// A number that nothing else has: of a memory, or of a driver.
///
/// # Panics
/// After 2^32 of them.
pub(crate) fn unique() -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Relaxed); // a count, which carries no memory
    assert!(number <= u32::MAX.into(), "2^32 memories and drivers");
    number as u32
}

// SAFETY: by M1 it is an address range of the process; who may touch which bytes is D1 to D4.
unsafe impl Send for HostMemory {}
// SAFETY: shared, it is still an address range; each access is unsafe and argues by D1 to D4.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// This many bytes, below 4 GiB, zeroed.
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

    /// The packet memory of a log.
    pub(crate) fn of_log(log: Log) -> Self {
        let (start, bytes) = log.packet_memory();
        Self { start, bytes, number: unique(), _keep: Keep::Log(log) }
    }

    /// Which memory this is.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether `[at, at + length)` lies inside.
    #[inline]
    pub(crate) fn has(&self, at: u64, length: usize) -> bool {
        at.checked_add(length as u64).is_some_and(|end| end <= self.bytes as u64)
    }

    /// Copies bytes to `at`.
    ///
    /// # Safety
    /// `[at, at + bytes.len())` is the caller's by D1, and nobody has a reference into it.
    ///
    /// # Panics
    /// If it lies outside.
    #[inline]
    pub(crate) unsafe fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        // SAFETY: inside of the region, as just checked; by the caller's word nobody else touches
        // it, so `bytes` does not lie there.
        unsafe { copy(bytes, to) };
    }

    /// Copies two words to `at`, and bytes behind them.
    ///
    /// # Safety
    /// As [`write`](Self::write), of 16 bytes more.
    ///
    /// # Panics
    /// If it lies outside.
    #[inline]
    pub(crate) unsafe fn write_behind(&self, at: u64, words: [u64; 2], bytes: &[u8]) {
        let to = self.at(at, 16 + bytes.len());
        // SAFETY: inside of the region, as just checked; by the caller's word nobody else touches
        // it, so `bytes` does not lie there. The words need not be aligned.
        unsafe {
            to.cast::<[u64; 2]>().write_unaligned(words);
            copy(bytes, to.add(16));
        }
    }

    /// Asks for the lines of `[at, at + length)`, to be written soon: the other core has them.
    /// It changes nothing, wherever that is. Source of the gain: decision 0005.
    #[inline]
    pub(crate) fn ask(&self, at: u64, length: usize) {
        let start = self.start.as_ptr().wrapping_add(at as usize);
        let mut line = 0;
        while line < length {
            prefetch::to_write(start.wrapping_add(line));
            line += LINE_BYTES;
        }
    }

    /// The bytes at `[at, at + length)`.
    ///
    /// # Safety
    /// Nobody writes them while the reference lives (D1).
    ///
    /// # Panics
    /// If they lie outside.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: u64, length: usize) -> &[u8] {
        let start = self.at(at, length);
        // SAFETY: inside, mapped and once zeroed; the caller's word.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// As [`bytes`](Self::bytes), to be written.
    ///
    /// # Safety
    /// They are the caller's by D1, and there is no other reference into them.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the rings say who may write, not the borrow")]
    pub(crate) unsafe fn bytes_mut(&self, at: u64, length: usize) -> &mut [u8] {
        let start = self.at(at, length);
        // SAFETY: inside, mapped and once zeroed; by the caller's word they are its alone.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// The two words at the start of a buffer.
    ///
    /// # Safety
    /// `[at, at + 16)` lies inside of the memory, `at` is a multiple of 16, and while the reference
    /// lives the words are accessed as atomics only (D4).
    #[inline(always)]
    pub(crate) unsafe fn front(&self, at: u64) -> &[AtomicU64; 2] {
        debug_assert!(at.is_multiple_of(16) && self.has(at, 16), "{at}");
        // SAFETY: the caller's word, and M1: a page is aligned to more than 16.
        unsafe { self.start.add(at as usize).cast::<[AtomicU64; 2]>().as_ref() }
    }

    /// The burst of what `scratch` describes, by offsets from the start of this memory.
    ///
    /// # Safety
    /// The described buffers are the driver's while `'a` lasts (D1).
    pub(crate) unsafe fn burst<'a>(&'a self, scratch: &'a Scratch, first_packet: u64) -> Burst<'a> {
        // SAFETY: M1; the caller's word.
        unsafe { scratch.burst_in_memory(self.start, self.bytes, first_packet) }
    }

    #[inline]
    fn at(&self, at: u64, length: usize) -> NonNull<u8> {
        assert!(self.has(at, length), "{length} bytes at {at}");
        // SAFETY: just checked.
        unsafe { self.start.add(at as usize) }
    }
}

/// Copies bytes; those of the shortest frames without a call.
///
/// # Safety
/// As many bytes from `to` on can be written, and `bytes` does not lie there.
#[inline(always)]
unsafe fn copy(bytes: &[u8], to: NonNull<u8>) {
    const HALF: usize = 32;
    let length = bytes.len();
    if !(HALF..=2 * HALF).contains(&length) {
        // SAFETY: the caller's word.
        return unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), length) };
    }
    let (from, to, rest) = (bytes.as_ptr(), to.as_ptr(), length - HALF);
    let quarters = [0, HALF / 2, rest, rest + HALF / 2];
    // SAFETY: the first 32 bytes and the last 32 are all of them, and inside; neither side need be
    // aligned. As numbers they are in registers between, and not on the stack.
    unsafe {
        let words = quarters.map(|at| from.add(at).cast::<u128>().read_unaligned());
        for (at, word) in quarters.into_iter().zip(words) {
            to.add(at).cast::<u128>().write_unaligned(word);
        }
    }
}
