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
//! - D1. A buffer is the device's from the doorbell (or tail) that covers its descriptor, a Release
//!   store that the device loads with Acquire, until the device says that it is done: the
//!   descriptor's DD bit, the length word in front of the packet, or the head register, each a
//!   Release store that the driver loads with Acquire. Otherwise it is the driver's.
//! - D2. The device writes only buffers of receive descriptors and reads only those of transmit
//!   descriptors; it checks that they lie inside of the memory.
//! - D3. The driver writes, and makes references to, only buffers that are its own, and none of its
//!   references outlives its ownership.
//! - D4. The two words in front of a packet in inline mode are accessed as atomics while the
//!   buffer is the device's.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use burstline_log::{Burst, Scratch};
use burstline_sys::memory::{MemoryError, PageChoice, Placement, Region, RegionRequest};

/// Memory that devices reach.
pub struct HostMemory {
    region: Region,
}

impl HostMemory {
    /// So many bytes, below 4 GiB, zeroed.
    ///
    /// # Errors
    /// As [`Region::create`].
    pub fn create(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        if bytes > u32::MAX as usize {
            return Err(MemoryError::BadSize { bytes });
        }
        let name = format!("burstline-nicsim-{name}");
        let request = RegionRequest { name, bytes, pages: PageChoice::Auto, node: None };
        Ok(Self { region: Region::create(&request)? })
    }

    /// Where its pages are.
    pub fn placement(&self) -> &Placement {
        self.region.placement()
    }

    /// Whether `[at, at + length)` lies inside.
    #[inline]
    pub(crate) fn has(&self, at: u64, length: usize) -> bool {
        at.checked_add(length as u64).is_some_and(|end| end <= self.region.bytes() as u64)
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
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
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
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// The word at `at`, which is a multiple of 8.
    ///
    /// # Safety
    /// While the reference lives, it is accessed as an atomic only (D4).
    #[inline]
    pub(crate) unsafe fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "{at}");
        let word = self.at(at, 8).cast::<u64>();
        // SAFETY: inside and aligned, as just checked; the caller's word.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    /// The burst of what `scratch` describes, by offsets from the start of this memory.
    ///
    /// # Safety
    /// The described buffers are the driver's while `'a` lasts (D1).
    pub(crate) unsafe fn burst<'a>(&'a self, scratch: &'a Scratch, first_packet: u64) -> Burst<'a> {
        let (start, extent) = (self.region.as_ptr(), self.region.bytes());
        // SAFETY: mapped as long as `self`; the caller's word.
        unsafe { scratch.burst_in_memory(start, extent, first_packet) }
    }

    #[inline]
    fn at(&self, at: u64, length: usize) -> NonNull<u8> {
        assert!(self.has(at, length), "{length} bytes at {at}");
        // SAFETY: just checked.
        unsafe { self.region.as_ptr().add(at as usize) }
    }
}
