//! The driver: what the host's core does, in each mode.
//!
//! Receiving is [`Receiver`]: one for each queue, of one thread. Sending is [`Transmitter`].

mod contiguous;
mod log;
mod part;
mod receive;
mod scattered;
mod transmit;

pub(crate) use contiguous::{BUFFERS, Contiguous};
pub use log::LogTransmitter;
pub use part::{Kept, Part};
pub use receive::Receiver;
pub(crate) use receive::Way;
pub use scattered::Scattered;
pub use transmit::Transmitter;
