//! Crossings: packets that come in by one port leave by another.
//!
//! ```text
//!   xdp: to xdp:      rx ring -> treatment -> tx ring            the frame stays where it is
//!   dpdk: to dpdk:    rx burst -> treatment -> tx burst          the mbuf is passed on
//!   other ports       lend -> treatment -> transmit              copied by the sink (see engine)
//! ```
//!
//! A [`Crossing`] is a pair, both ends of one direction, and a [`Port`] with one account. An
//! offered packet has been handed on at the far end, is in flight, or is lost to a named cause at
//! either end. A [`Treatment`] says how to process each packet on the way, and counts.
//!
//! Invariants:
//! - X1: packets leave in the order in which they came, once each.
//! - X2: offered = [`Crossing::carried`] + every named loss + in flight, at any time, by the counts
//!   of kernel and program. Nothing is in flight after [`Port::finish`].

mod treatment;

pub use burstline_xdp::Census;

use crate::{Port, PortError, Received};
pub use treatment::{Rewrite, Touch, Touched, Treatment};

/// Packets handed on at the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

/// One direction between two ports.
pub trait Crossing: Port {
    /// Takes up to `budget` packets and hands them on. Returns how many it took, and whether to
    /// call again: [`Blocked`](crate::PortState::Blocked) if the output has no room and packets can
    /// wait.
    fn pass(&mut self, budget: u64) -> Result<Received, PortError>;

    /// Closes the crossing: hands on what it holds, as far as possible within a moment. Packets
    /// then still in flight are lost by name. Call it once, after [`Port::finish`] and the last
    /// `pass`.
    fn close(&mut self) -> Result<(), PortError>;

    /// Returns the packets handed on so far.
    fn carried(&self) -> Carried;

    /// Returns how packets are processed, and what was found.
    fn treatment(&self) -> Treatment;

    /// Returns where its frames are, if packets stay in their frames.
    fn census(&self) -> Option<Census> {
        None
    }
}
