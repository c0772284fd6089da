//! Carries out the fate of decided packets: forwards them to the sink, or counts them lost by name.

use std::ops::Range;

use burstline_log::{Burst, Meta, Replacement, Ruling, Scratch, VerdictTaker};
use burstline_port::{Loss, Losses, PortError};

use super::answers::Answers;
use super::report::InlineWorker;

/// Why a packet has no valid verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Late,
    NoVerdict,
    NoRoom,
    Invalid,
}

/// The decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    /// Pass the packet and its whole flow.
    PassFlow,
    Drop,
    Replace(Replacement),
    Reject,
    Fail(Cause),
}

impl From<Ruling> for Fate {
    fn from(ruling: Ruling) -> Self {
        match ruling {
            Ruling::Pass => Self::Pass,
            Ruling::Drop => Self::Drop,
            Ruling::Replace(replacement) => Self::Replace(replacement),
            Ruling::Reject => Self::Reject,
            Ruling::PassFlow => Self::PassFlow,
            Ruling::Invalid => Self::Fail(Cause::Invalid),
        }
    }
}

/// Packets that were not forwarded, by cause; and the way for answers.
pub(super) struct Ends {
    /// Whether a packet without a verdict is forwarded.
    pub(super) is_open: bool,
    pub(super) lost: Losses,
    pub(super) answers: Answers,
    /// A replacement, and its desc.
    bytes: Vec<u8>,
    scratch: Scratch,
    /// Bytes copied for replacements.
    pub(super) bytes_copied: u64,
}

impl Ends {
    pub(super) fn new(is_open: bool, answers: Answers) -> Self {
        let (lost, bytes, scratch) = (Losses::default(), Vec::new(), Scratch::new());
        Self { is_open, lost, answers, bytes, scratch, bytes_copied: 0 }
    }
}

/// The destination of forwarded packets: the sink of a bounce, or a switch.
pub(crate) trait Onward {
    /// Forwards packets, in their order.
    fn pass(&mut self, burst: &Burst<'_>) -> Result<(), PortError>;

    /// Sends an answer to the port that packets come from. Returns how many were taken.
    fn answer(&mut self, _answer: &Burst<'_>) -> Result<u64, PortError> {
        Ok(0)
    }

    /// Flushes the forwarded packets.
    fn flush(&mut self) -> Result<(), PortError>;
}

/// The way out of a lane while it is processed.
pub(super) struct Outlet<'a> {
    pub(super) onward: &'a mut dyn Onward,
    pub(super) ends: &'a mut Ends,
}

impl Outlet<'_> {
    /// Returns whether a packet of this fate is forwarded unchanged, so it can join a run.
    #[inline]
    pub(super) fn goes_on(&self, fate: Fate) -> bool {
        match fate {
            Fate::Pass | Fate::PassFlow => true,
            Fate::Fail(_) => self.ends.is_open,
            Fate::Drop | Fate::Replace(_) | Fate::Reject => false,
        }
    }

    /// Sends some packets of a burst.
    #[inline]
    pub(super) fn send(&mut self, burst: &Burst<'_>, run: Range<usize>) -> Result<(), PortError> {
        if run.is_empty() {
            return Ok(());
        }
        let (upto, _) = burst.split_at(run.end);
        let (_, run) = upto.split_at(run.start);
        self.onward.pass(&run)
    }

    /// Carries out the fate of packet `at` of a burst, if it is not forwarded unchanged.
    pub(super) fn end(
        &mut self,
        fate: Fate,
        burst: &Burst<'_>,
        at: usize,
        taker: &VerdictTaker,
    ) -> Result<(), PortError> {
        let cause = match fate {
            Fate::Pass | Fate::PassFlow => return Ok(()),
            Fate::Drop => Loss::DroppedByVerdict,
            Fate::Reject => {
                self.ends.answers.tell(burst.packet(at).bytes(), self.onward);
                Loss::RejectedByVerdict
            }
            Fate::Replace(replacement) => {
                return self.replace(&burst.packet(at).meta(), replacement, taker);
            }
            Fate::Fail(_) if self.ends.is_open => return Ok(()),
            Fate::Fail(Cause::Late) => Loss::VerdictLate,
            Fate::Fail(Cause::NoVerdict) => Loss::NoVerdict,
            Fate::Fail(Cause::NoRoom) => Loss::VerdictNoRoom,
            Fate::Fail(Cause::Invalid) => Loss::VerdictInvalid,
        };
        self.ends.lost.add(cause, 1);
        Ok(())
    }

    fn replace(
        &mut self,
        meta: &Meta,
        replacement: Replacement,
        taker: &VerdictTaker,
    ) -> Result<(), PortError> {
        let Ends { bytes, scratch, bytes_copied, .. } = &mut *self.ends;
        bytes.clear();
        scratch.clear();
        taker.replacement(replacement, bytes);
        let length = bytes.len() as u32;
        *bytes_copied += u64::from(length);
        // Offload marks and the truncated length belong to the old bytes.
        let new = Meta::new(meta.time_ns, length, meta.port);
        scratch.push(0, length, &Meta { hash: meta.hash, drops_before: meta.drops_before, ..new });
        self.onward.pass(&scratch.burst(bytes, 0))
    }
}

/// Counts a packet of this fate.
#[inline]
pub(super) fn count(worker: &mut InlineWorker, fate: Fate) {
    *match fate {
        Fate::Pass | Fate::PassFlow => &mut worker.passed,
        Fate::Drop => &mut worker.dropped,
        Fate::Replace(_) => &mut worker.replaced,
        Fate::Reject => &mut worker.rejected,
        Fate::Fail(Cause::Late) => &mut worker.late,
        Fate::Fail(Cause::NoVerdict) => &mut worker.no_verdict,
        Fate::Fail(Cause::NoRoom) => &mut worker.no_room,
        Fate::Fail(Cause::Invalid) => &mut worker.invalid,
    } += 1;
}
