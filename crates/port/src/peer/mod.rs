//! What ports to other processes have in common that share rings with us: `vhost:` and `memif:`.
//!
//! ```text
//!   rings that the peer fills --> FromPeers --> LiveSource
//!   rings that we fill        <-- ToPeers   <-- LiveSink
//! ```
//!
//! A ring is in its berth, or with one of these for a burst. The control thread of the device puts
//! it there and takes it out, when a peer comes and goes. While there is none the source is idle,
//! and the sink loses what it gets as `link_down`.
//!
//! Invariants:
//! - E1: offered of a source is how far the index went that the peer sees; what is no packet is
//!   lost by name.
//! - E2: a packet is sent when the peer can see it; what a peer does with it is its own.

mod sink;
mod source;

use burstline_peer::{FromPeer, Lanes, ToPeer};

pub(crate) use sink::sink;
pub(crate) use source::FromPeers;

/// A device with rings.
pub(crate) trait Device: Send + Sync + 'static {
    type From: FromPeer;
    type To: ToPeer;
    /// How it was opened.
    type Options: PartialEq + Send + Sync;

    fn lanes(&self) -> &Lanes<Self::From, Self::To>;
}
