//! Figures of packets in memory.

pub(crate) mod hash;
pub(crate) mod latency;
pub(crate) mod nicsim;
pub(crate) mod sharing;
pub(crate) mod stalled;
