//! Whole bursts copied elsewhere: into a log.

use burstline_log::Scratch;
use burstline_sys::prefetch;

use super::{Plain, Receiver};

/// How many packets before it is copied a packet's first line is asked for: as in DPDK's examples.
const AHEAD: usize = 4;

impl Receiver {
    /// Shows each packet of a fresh burst of up to `most` to `copy`, which takes it or has no room
    /// for it. From that packet on, they are still to be delivered. Returns how many it took;
    /// `None`: not all are plain, as in [`lend`](Self::lend), and each is to be looked at.
    ///
    /// Cost: some 20 instructions a packet, the copy aside; a packet's first line is asked for four
    /// packets before.
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
        // SAFETY: H1: each desc is of a packet that is held, and nobody writes it; the burst ends
        // before the mbufs are touched.
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
        // Nothing of it is lent.
        (held.next, held.lent.first) = (taken, taken);
        Some(taken)
    }
}
