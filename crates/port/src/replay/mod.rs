//! Replays packets of capture files at their original pace or another one: a source for sinks.
//!
//! ```text
//!  file:a, file:b --lend--> rewrite --copy--> batch, a due time each --lend what is due--> burst
//!     ^-- again, for each loop                   '- interface --> which of the sinks
//! ```
//!
//! The replayer takes one batch of packets from the file at a time, so it knows the time of the
//! next one. It lends the packets of the batch that are due. A lent packet's timestamp is its due
//! time; at top speed timestamps stay as in the file. Files are played in sequence, and the first
//! packet of each is due with the last of the previous one.
//!
//! The sink of a packet is decided when its interface appears. [`Routes`] maps port numbers of
//! packets to sinks, for the owner of the sinks.
//!
//! Invariants:
//! - P1: offered = lent + lost + in flight. Offered is the files' own count of decoded packets, and
//!   in flight is the content of the batch.
//! - P2: packets are lent in the file's order, and due times never decrease. A packet that is older
//!   than its predecessor in the file is due immediately.

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
    /// How often all files are played; `None` for no limit.
    pub passes: Option<u64>,
    /// Changes to each packet.
    pub rewrite: Rewrite,
    /// The sink of each interface.
    pub routes: Routes,
}

/// Opens files for replay, in sequence. Each is reopened for every further pass.
///
/// # Errors
/// As [`open_source`](crate::open_source); [`PortError::CannotReceive`] if one is not a file.
pub fn open_replay(
    files: &[Address],
    replay: ReplayOptions,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    Ok(Box::new(source::Replayer::open(files, replay, options)?))
}
