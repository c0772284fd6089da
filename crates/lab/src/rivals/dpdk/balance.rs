//! The balancer of `../../../rivals-dpdk/balance.c`.

use std::ptr::NonNull;

use super::{Raw, Shape, whole};
use crate::rivals::Run;
use crate::threads::{Cores, run_together};
use crate::traffic::Traffic;

unsafe extern "C" {
    fn rival_balance_create(shape: *const Shape, workers: u32, is_huge: *mut bool) -> *mut Raw;
    fn rival_balance_destroy(balance: *mut Raw) -> u32;
    fn rival_balance_spread(
        balance: *mut Raw,
        packet: *const u8,
        length: u32,
        packets: u64,
        interleaving: u32,
    );
    fn rival_balance_work(balance: *mut Raw, packets: u64) -> u64;
    fn rival_balance_turns(
        balance: *mut Raw,
        packet: *const u8,
        length: u32,
        packets: u64,
        turn: u32,
    ) -> u64;
}

/// A pool of mbufs and a pointer ring for each worker.
#[derive(Debug)]
pub struct Balance {
    raw: NonNull<Raw>,
    is_huge: bool,
}

// SAFETY: one thread spreads and one plays all workers, as pool and rings are designed for; both
// are registered with EAL while they do.
unsafe impl Sync for Balance {}

impl Balance {
    /// Creates them, for up to eight workers. EAL must run.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(shape: Shape, workers: u32) -> Result<Self, String> {
        let mut is_huge = false;
        // SAFETY: EAL runs; both pointers are valid for reads and writes during the call.
        let raw = unsafe { rival_balance_create(&shape, workers, &mut is_huge) };
        let raw = NonNull::new(raw).ok_or_else(|| format!("DPDK has no memory for {shape:?}"))?;
        Ok(Self { raw, is_huge })
    }

    /// Returns whether its pool is in huge pages.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Spreads `packets` packets, a multiple of [`BURST`](crate::rivals::BURST), with this
    /// interleaving of flows: see `rivals.h`.
    pub fn balance(&self, cores: Cores, traffic: &Traffic, packets: u64, interleaving: u32) -> Run {
        let (packet, length) = (traffic.template(), traffic.length() as u32);
        let raw = || self.raw.as_ptr();
        let done = run_together(
            cores,
            // SAFETY: the template has `length` bytes, and this is the only thread that spreads.
            || unsafe {
                rival_balance_spread(raw(), packet.as_ptr(), length, packets, interleaving);
            },
            // SAFETY: this is the only thread that reads.
            || unsafe { rival_balance_work(raw(), packets) },
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }

    /// Like [`balance`](Self::balance) with uniform flows, on this thread: spreads `turn` packets,
    /// then works on them. `packets` is a multiple of `turn`. Returns the sum.
    pub fn take_turns(&mut self, traffic: &Traffic, packets: u64, turn: usize) -> u64 {
        let (packet, length) = (traffic.template().as_ptr(), traffic.length() as u32);
        // SAFETY: the template has `length` bytes; no other thread spreads or works.
        unsafe { rival_balance_turns(self.raw.as_ptr(), packet, length, packets, turn as u32) }
    }

    /// Destroys it.
    ///
    /// # Errors
    /// If mbufs are missing.
    pub fn end(self) -> Result<(), String> {
        let raw = self.raw;
        std::mem::forget(self);
        // SAFETY: the last use.
        whole(unsafe { rival_balance_destroy(raw.as_ptr()) })
    }
}

impl Drop for Balance {
    fn drop(&mut self) {
        // SAFETY: the last use.
        unsafe { rival_balance_destroy(self.raw.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them together, of some 38 MB each, would not fit into EAL's memory, which is a fixed
    /// 512 MiB without huge pages.
    #[test]
    fn one_that_is_dropped_leaves_its_memory_to_the_next() {
        super::super::start().unwrap();
        let traffic = Traffic::new(60);
        let shape = Shape { objects: 16_383, ..Shape::COUNTED };
        for _ in 0..30 {
            let mut balance = Balance::new(shape, 2).unwrap();
            assert_ne!(balance.take_turns(&traffic, 256, 128), 0);
        }
    }
}
