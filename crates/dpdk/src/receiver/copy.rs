//! Copies whole bursts elsewhere: into a log.

use burstline_log::Scratch;
use burstline_sys::prefetch;

use super::{Plain, Receiver};

/// Prefetch distance of the copy in packets: as in DPDK's examples.
const AHEAD: usize = 4;

impl Receiver {
    /// Passes each packet of a fresh burst of up to `most` to `copy`, which takes it or returns
    /// false if it has no room. That packet and later ones stay undelivered. Returns how many
    /// `copy` took. `None` if not all are plain, as in [`lend`](Self::lend): then inspect each.
    ///
    /// Cost: some 20 instructions a packet, plus the copy. First lines are prefetched four packets
    /// ahead.
    #[inline]
    pub fn copy_plain(
        &mut self,
        scratch: &mut Scratch,
        most: usize,
        plain: Plain,
        mut copy: impl FnMut(&[u8]) -> bool,
    ) -> Option<usize> {
        let held = &mut self.held;
        if !held.describe(scratch, most, plain) {
            return None;
        }
        let (base, extent) = held.lent();
        // SAFETY: H1: each desc is of a held packet, and nothing writes it; the burst ends before
        // the mbufs are touched.
        let burst = unsafe { scratch.burst_in_memory(base, extent, 0) };
        let descs = burst.worklist();
        let mut taken = 0;
        for packet in burst.plain_packets() {
            if let Some(later) = descs.len().checked_sub(taken + AHEAD + 1) {
                let offset = descs[later].offset() as usize;
                prefetch::to_read(base.as_ptr().wrapping_add(offset));
            }
            if !copy(packet.bytes) {
                break;
            }
            taken += 1;
        }
        // No packet is lent.
        (held.next, held.lent.first) = (taken, taken);
        Some(taken)
    }
}
