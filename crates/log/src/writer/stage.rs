//! The memory where packets are filled in before they are streamed past the caches.
//!
//! ```text
//!   stage    | packet | packet | ...        ... | desc | desc |     in this core's first cache
//!                 |                                 |
//!   segment  | ...| packet | packet |  free  | desc | desc | ... |  whole lines, streamed
//! ```
//!
//! A caller fills in packets with ordinary stores. So for a few packets at a time the writer's edge
//! moves to private memory, and the result is streamed to the segment. The loop over packets is the
//! same: it does not know where it writes.

use burstline_sys::prefetch::LINE_BYTES;

use super::{DESC_BYTES, Edge, Writer};
use crate::copy::stream;
use crate::desc::{Desc, align_up};

/// Bytes of packets that are staged at a time. A longer packet is filled in directly.
const STAGE_BYTES: usize = 16 << 10;

const STAGE_DESCS: usize = 256;

/// Memory for some packets and their descs.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Stage {
    packets: [u8; STAGE_BYTES + LINE_BYTES],
    descs: [Desc; STAGE_DESCS],
}

/// An edge on the stage, and the writer's own.
#[derive(Clone, Copy)]
pub(super) struct Staged {
    own: Edge,
    at: *mut u8,
    descs: *mut Desc,
}

impl Writer {
    /// Returns how many packets of `length` bytes are staged at a time, at most `most`; 0 if
    /// packets go through the caches.
    #[inline(always)]
    pub(super) fn staged_most(&self, length: usize, most: usize) -> usize {
        match self.way.goes_far() {
            true => most.min(STAGE_DESCS).min(STAGE_BYTES / align_up(length).max(1)),
            false => 0,
        }
    }

    /// Moves the edge to the stage, for as many packets as fit there.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_stage(&mut self, own: Edge) -> (Staged, Edge) {
        let empty = || {
            let packets = [0; STAGE_BYTES + LINE_BYTES];
            Box::new(Stage { packets, descs: [Desc::default(); STAGE_DESCS] })
        };
        let stage = self.stage.get_or_insert_with(empty);
        // Packets on the stage have the same offset in a line as in the segment.
        let at = stage.packets.as_mut_ptr().wrapping_add(own.low() % LINE_BYTES);
        let descs = stage.descs.as_mut_ptr_range().end;
        (Staged { own, at, descs }, own.moved_to(at, descs))
    }

    /// Streams the staged packets, and `rest` more bytes of a packet that is not committed yet.
    /// Returns the new position of the writer's own edge.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_stage(&mut self, staged: Staged, edge: Edge, rest: usize) -> Edge {
        let Staged { own, at, descs } = staged;
        let (bytes, count) = edge.since(at, descs);
        let own = own.moved_on(edge, bytes, count);
        // SAFETY: on the stage, `bytes` and `rest` bytes of packets were written at `at`, and
        // `count` descs below `descs`. The segment has room for them (E1), which belongs to the
        // writer alone (W2) and is not part of the stage. All begin and end at multiples of 16.
        unsafe {
            stream(at, own.at().wrapping_sub(bytes), bytes + align_up(rest));
            stream(edge.descs().cast(), own.descs().cast(), count * DESC_BYTES);
        }
        self.has_streamed = true;
        own
    }
}
