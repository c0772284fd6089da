//! Packets of capture files as they once came, or at another pace: a source for sinks.
//!
//! ```text
//!  file:a, file:b --lend--> rewrite --copy--> batch, a due time each --lend what is due--> burst
//!     ^-- again, for each loop                   '- interface --> which of the sinks
//! ```
//!
//! It takes one batch of packets out of the file at a time, so it knows the time of the next one.
//! It lends what is due of the batch. A packet that is lent has the time at which it is due; at top
//! speed they stay as they are in the file. Files are played one after the other, and the first
//! packet of each is due with the last of the one before.
//!
//! A packet's sink is decided where its interface appears. [`Routes`] gives it, by the packet's
//! port number, to the owner of the sinks.
//!
//! Invariants:
//! - P1: offered = lent + lost + in flight. Offered is the files' own count of decoded packets, and
//!   in flight what is in the batch.
//! - P2: packets are lent in the file's order, and due times never decrease. A packet that is older
//!   than the one before it in the file is due at once.

mod routes;
mod source;
mod timing;

#[cfg(test)]
mod tests;

pub use routes::{InterfaceKey, Routes};
pub use timing::Timing;

use burstline_wire::rewrite::Rewrite;

use crate::{Address, OpenOptions, PortError, Source};

/// How files are replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// When packets are due.
    pub timing: Timing,
    /// How often all files are played; `None`: without end.
    pub passes: Option<u64>,
    /// What is changed in each packet.
    pub rewrite: Rewrite,
    /// Which sink each interface goes to.
    pub routes: Routes,
}

/// Opens files to be replayed, one after the other. Each is opened again for each further pass.
///
/// # Errors
/// As [`open_source`](crate::open_source); [`PortError::CannotReceive`] for what is no file.
pub fn open_replay(
    files: &[Address],
    replay: ReplayOptions,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    Ok(Box::new(source::Replayer::open(files, replay, options)?))
}
