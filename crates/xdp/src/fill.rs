//! Fill levels of a receive queue's rings, for people to read.

use libc::xdp_desc;

use super::ring::Ring;

/// Fill levels of both rings at one moment. Cost of a reading: two loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingsNow {
    /// Entries of the rx ring that are not taken yet. When it is full, packets are lost.
    pub rx: u32,
    /// Size of the rx ring, in entries.
    pub rx_entries: u32,
    /// Frames in the fill ring, for the kernel to take. When it is empty, packets are lost.
    pub fill: u32,
    /// All frames.
    pub frames: u32,
}

impl RingsNow {
    pub(super) fn of(rx: &Ring<xdp_desc>, fill: &Ring<u64>, frames: u32) -> Self {
        Self { rx: rx.untaken(), rx_entries: rx.entries(), fill: fill.unread(), frames }
    }
}
