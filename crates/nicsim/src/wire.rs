//! The other end of the cable.

use burstline_log::Burst;

/// Whether frames will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireState {
    /// There may be more at once.
    Busy,
    /// None now.
    Idle,
    /// Never again.
    Ended,
}

/// Frames that have come.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// Where they lie; as they are on the wire, without FCS.
    pub frames: Burst<'a>,
    /// Whether to look again.
    pub state: WireState,
}

/// What a card is plugged into.
pub trait Wire: Send {
    /// Up to `budget` frames, and no more are taken from wherever they come.
    fn arrive(&mut self, budget: u64) -> Arrived<'_>;

    /// Whether frames wait where they are until they are taken, so that none has to be lost.
    fn can_wait(&self) -> bool;

    /// No more frames will be asked for; some may still be sent. Before the device says that its
    /// queues are over.
    fn close(&mut self) {}

    /// Takes a frame that the card sends.
    fn depart(&mut self, frame: &[u8]);
}
