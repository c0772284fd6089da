//! The driver: what the host's core does, in each mode.
//!
//! Receiving is [`Receiver`]: one for each queue, of one thread. Sending is [`Transmitter`].

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

/// What a driver of descriptors shares with the device.
pub(crate) struct SharedRing {
    /// Descriptors and registers.
    pub(crate) ring: Arc<Ring>,
    /// Where packets lie.
    pub(crate) memory: Arc<HostMemory>,
}

/// What is true of all packets that a call receives.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    /// When that was, in ns since 1970.
    pub(crate) time_ns: u64,
    /// The interface that they are of.
    pub(crate) port: u8,
}
