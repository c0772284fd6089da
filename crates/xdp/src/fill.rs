//! How full the rings of a queue are that packets come in by: a figure, for people to look at.

use libc::xdp_desc;

use super::ring::Ring;

/// Both rings at some moment. Cost of a look: two loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingsNow {
    /// Entries of the rx ring that were not taken yet. When it is full, packets are lost.
    pub rx: u32,
    /// Entries that the rx ring has.
    pub rx_entries: u32,
    /// Frames in the fill ring, for the kernel to take. When there are none, packets are lost.
    pub fill: u32,
    /// Frames that there are.
    pub frames: u32,
}

impl RingsNow {
    pub(super) fn of(rx: &Ring<xdp_desc>, fill: &Ring<u64>, frames: u32) -> Self {
        Self { rx: rx.untaken(), rx_entries: rx.entries(), fill: fill.unread(), frames }
    }
}
