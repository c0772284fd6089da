//! The merge of `../../../rivals-dpdk/merge.c` with devices instead of lines in memory.

use std::ffi::{CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::{
    Lane, Manner, Output, RawMerge, Shape, output_arena, rival_merge_create, rival_merge_destroy,
};
use crate::arena::Arena;
use crate::lines::{self, LINES};

unsafe extern "C" {
    fn rival_merge_open(merge: *mut RawMerge, line: u32, devargs: *const c_char) -> c_int;
    fn rival_merge_live(
        merge: *mut RawMerge,
        manner: *const Manner,
        is_over: *const AtomicU32,
        violations: *mut u64,
    ) -> u64;
}

/// A pool, rings and output, for as many devices as there are lines.
pub struct MergeLive {
    raw: NonNull<RawMerge>,
    /// The destination of packets, dropped after the rival.
    _output: Arena,
    is_huge: bool,
    opened: u32,
}

// SAFETY: it has no thread-local state; the merging thread is registered with EAL.
unsafe impl Send for MergeLive {}

impl MergeLive {
    /// Creates it for packets of this shape. EAL must run.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(shape: Shape, packets: lines::Shape) -> Result<Self, String> {
        let arena = output_arena()?;
        let output = Output::new(&arena);
        let idle = [const { Lane { bytes: std::ptr::null(), times_ns: std::ptr::null() } }; LINES];
        let mut is_huge = false;
        // SAFETY: EAL runs; no line has memory; output and worklist live as long as this, in a
        // region that does not move.
        let raw = unsafe {
            rival_merge_create(&shape, &packets, idle.as_ptr(), 0, &output, &mut is_huge)
        };
        let raw = NonNull::new(raw).ok_or_else(|| format!("DPDK has no memory for {shape:?}"))?;
        Ok(Self { raw, _output: arena, is_huge, opened: 0 })
    }

    /// Returns whether its pool is in huge pages.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Opens the next device; at most one per line.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn open(&mut self, devargs: &str) -> Result<(), String> {
        assert!((self.opened as usize) < LINES, "more devices than {LINES}");
        let text = CString::new(devargs).map_err(|error| error.to_string())?;
        // SAFETY: the string ends with a 0; the line exists, and no thread merges.
        match unsafe { rival_merge_open(self.raw.as_ptr(), self.opened, text.as_ptr()) } {
            0 => self.opened += 1,
            code => return Err(format!("DPDK does not open {devargs}: {code}")),
        }
        Ok(())
    }

    /// Receives, merges and copies on this thread until `is_over` is not 0 and no more packets
    /// arrive. Returns the number of packets copied, and of those received after one sent later, if
    /// checked.
    ///
    /// # Panics
    /// If not all devices are open.
    pub fn take_turns(&mut self, manner: Manner, is_over: &AtomicU32) -> (u64, u64) {
        assert_eq!(self.opened as usize, LINES, "devices");
        let mut violations = 0;
        // SAFETY: all devices are open, and no other thread uses them. The arguments are valid
        // during the call, and C reads the flag by an atomic load.
        let copied =
            unsafe { rival_merge_live(self.raw.as_ptr(), &manner, is_over, &mut violations) };
        (copied, violations)
    }
}

impl Drop for MergeLive {
    fn drop(&mut self) {
        // SAFETY: the last use. Drivers keep mbufs of their fill rings, so none are counted.
        unsafe { rival_merge_destroy(self.raw.as_ptr()) };
    }
}
