//! The interface to the other end of the cable.

use burstline_log::Burst;

/// Whether more frames will arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireState {
    /// More may be available immediately.
    Busy,
    /// None now.
    Idle,
    /// Never again.
    Ended,
}

/// Frames that have arrived.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The frames as on the wire, without FCS.
    pub frames: Burst<'a>,
    /// Whether to poll again.
    pub state: WireState,
}

/// The other end of a card's cable.
pub trait Wire: Send {
    /// Returns up to `budget` frames, and takes no more from its source.
    fn arrive(&mut self, budget: u64) -> Arrived<'_>;

    /// Returns whether frames wait at their source until they are taken, so that none is lost.
    fn can_wait(&self) -> bool;

    /// Announces that no more frames will be requested; some may still be sent. Called before the
    /// device reports that its queues are over.
    fn close(&mut self) {}

    /// Takes a frame that the card sends.
    fn depart(&mut self, frame: &[u8]);
}
