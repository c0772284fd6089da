//! Packets of capture files as they once came, or at another pace: a source for sinks.
//!
//! ```text
//!  file:a, file:b --lend--> rewrite --copy--> batch, a due time each --lend what is due--> burst
//!     ^-- again, for each loop                   '- interface --> which of the sinks
//! ```
//!
//! One batch of packets is taken out of the file at a time, so that the time of the next is known;
//! what is due of it is lent. A packet that is lent has the time at which it is due; at top
//! speed they stay as they are in the file. Files are played one after the other, and
//! the first packet of each is due with the last of the one before.
//!
//! Which sink a packet goes to is decided where its interface appears: [`Routes`] tells it by the
//! packet's port number to the owner of the sinks.
//!
//! Invariants:
//! - P1: offered = lent + lost + in flight, where offered is the files' own count of what was
//!   decoded, and in flight what is in the batch.
//! - P2: packets are lent in the file's order, and due times never decrease: one that the file has
//!   before an earlier one is due at once.

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
