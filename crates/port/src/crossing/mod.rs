//! Crossings: what comes in by one port leaves by another.
//!
//! ```text
//!   xdp: to xdp:      rx ring -> treatment -> tx ring            the frame stays where it is
//!   dpdk: to dpdk:    rx burst -> treatment -> tx burst          the mbuf goes on
//!   other ports       lend -> treatment -> transmit              copied by the sink (see engine)
//! ```
//!
//! A [`Crossing`] is a pair, both ends of one direction, and a [`Port`] with one account. An
//! offered packet has been handed on at the far end or is in flight. Otherwise it is lost to a
//! named cause at either end. A [`Treatment`] says what is done with each packet on the way, and
//! keeps count of it.
//!
//! Invariants:
//! - X1: packets leave in the order they came, once each.
//! - X2: offered = [`Crossing::carried`] + every named loss + in flight, at every moment, by the
//!   counts of kernel and program. Nothing is in flight after [`Port::finish`].

mod treatment;

pub use burstline_xdp::Census;

use crate::{Port, PortError, Received};
pub use treatment::{Rewrite, Touch, Touched, Treatment};

/// Packets that went all the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// How many.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

/// One direction of a bounce.
pub trait Crossing: Port {
    /// Takes up to `budget` packets and hands them on. Returns how many it took, and whether to
    /// come back: [`Blocked`](crate::PortState::Blocked) where the way out has no room and packets
    /// can wait.
    fn pass(&mut self, budget: u64) -> Result<Received, PortError>;

    /// Ends: hands on what it has, as far as that goes within a moment. What is then still in
    /// flight is lost by name. To be called once, after [`Port::finish`] and the last `pass`.
    fn close(&mut self) -> Result<(), PortError>;

    /// What has gone all the way so far.
    fn carried(&self) -> Carried;

    /// What is done with the packets, and what was found.
    fn treatment(&self) -> Treatment;

    /// Where its frames are, if packets stay in theirs.
    fn census(&self) -> Option<Census> {
        None
    }
}
