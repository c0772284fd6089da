//! The driver: the work of the host's core, in each mode.
//!
//! [`Receiver`] receives: one per queue, on one thread. [`Transmitter`] sends.

mod contiguous;
mod log;
mod part;
mod receive;
mod scattered;
mod transmit;

use std::sync::Arc;

use crate::memory::HostMemory;
use crate::ring::Ring;

pub(crate) use contiguous::{BUFFERS, Contiguous};
pub use log::LogTransmitter;
pub use part::{Kept, Part};
pub use receive::Receiver;
pub(crate) use receive::Way;
pub(crate) use scattered::Area;
pub use scattered::Scattered;
pub(crate) use transmit::OwnBuffers;
pub use transmit::Transmitter;

/// State that a driver of descriptors shares with the device.
pub(crate) struct SharedRing {
    /// Descriptors and registers.
    pub(crate) ring: Arc<Ring>,
    /// The memory with the packets.
    pub(crate) memory: Arc<HostMemory>,
}

/// Fields common to all packets that a call receives.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    /// Time of the call, in ns since 1970.
    pub(crate) time_ns: u64,
    /// The packets' interface.
    pub(crate) port: u8,
}
