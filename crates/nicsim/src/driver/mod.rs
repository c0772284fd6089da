//! The driver: what the host's core does, in each mode.
//!
//! Receiving is [`Receiver`]: one for each queue, of one thread. Sending is [`Transmitter`].

mod log;
mod receive;
mod scattered;
mod transmit;

pub use log::LogTransmitter;
pub use receive::Receiver;
pub(crate) use receive::Way;
pub use scattered::{Part, Scattered};
pub use transmit::Transmitter;
