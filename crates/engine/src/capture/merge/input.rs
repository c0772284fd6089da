//! A source of the merging thread, with the burst that it has lent.

use burstline_log::{Burst, Flags, SCRATCH_PACKETS, Scratch};
use burstline_port::PortState;

use super::copy::{Counts, Part};
use crate::merge::MergedPort;
use crate::merge::order::{Lane, NEVER_NS};
use crate::{EngineError, Inlet};

/// A source and its lent burst.
pub(super) struct Input<'a> {
    pub(super) source: &'a mut Inlet,
    scratch: Scratch,
    offset_ns: i64,
    pub(super) is_ended: bool,
    /// The merge no longer waits for it.
    pub(super) is_overdue: bool,
    overdue: u64,
    /// When its burst was lent, by the monotonic clock.
    pub(super) lent_ns: u64,
    /// The time of its newest packet.
    last_ns: u64,
}

impl<'a> Input<'a> {
    pub(super) fn new(source: &'a mut Inlet, offset_ns: i64) -> Self {
        Self {
            source,
            scratch: Scratch::new(),
            offset_ns,
            is_ended: false,
            is_overdue: false,
            overdue: 0,
            lent_ns: 0,
            last_ns: 0,
        }
    }

    /// Makes the source lend its next burst; the previous one is used up.
    pub(super) fn poll(&mut self, lane: &mut Lane, now_ns: u64) -> Result<PortState, EngineError> {
        let lent = self.source.port.lend(&mut self.scratch, SCRATCH_PACKETS as u64)?;
        let (burst, state) = (lent.burst, lent.state);
        // This promise holds until the next poll: the source's packets come in order.
        refill(lane, &burst, self.offset_ns, self.last_ns);
        if let Some(last_ns) = lane.last_ns() {
            (self.last_ns, self.lent_ns) = (last_ns, now_ns);
            lane.promise(last_ns);
        }
        Ok(state)
    }

    /// Returns packets `[from, from + count)` of the last lent burst.
    pub(super) fn part(&mut self, from: usize, count: usize) -> Option<Part<'_>> {
        let burst = self.source.port.lent(&mut self.scratch)?;
        Some(Part { burst, from, count, offset_ns: self.offset_ns })
    }

    /// Sets the lane's promise for a source found idle, or with nothing at the moment. The promise
    /// is at least `newest_ns`, since older packets are late in any case. The source is in step if
    /// it is later than `enough_ns`, the time of the oldest packet held. Otherwise, if
    /// `is_too_long`, the merge no longer waits for the source.
    pub(super) fn promise(
        &mut self,
        lane: &mut Lane,
        state: PortState,
        newest_ns: u64,
        enough_ns: u64,
        is_too_long: bool,
    ) {
        let is_empty = matches!(state, PortState::Idle | PortState::Blocked);
        let promised_ns = self.source.port.low_time_ns().filter(|_| is_empty);
        let promised_ns =
            promised_ns.map_or(0, |low_ns| low_ns.saturating_add_signed(self.offset_ns));
        let low_ns = promised_ns.max(self.last_ns).min(NEVER_NS - 1);
        if promised_ns > enough_ns {
            self.is_overdue = false;
        } else if is_too_long && !self.is_overdue {
            self.is_overdue = true;
            self.overdue += 1;
        }
        lane.promise(if self.is_overdue { NEVER_NS } else { low_ns.max(newest_ns) });
    }

    /// Notes a packet of `time_ns`: if that is not before `enough_ns`, the source is in step again.
    pub(super) fn catch_up(&mut self, time_ns: u64, enough_ns: u64) {
        self.is_overdue &= time_ns < enough_ns;
    }

    /// Ends the source: it delivers no packets beyond those held.
    pub(super) fn end(&mut self, lane: &mut Lane) {
        (self.is_ended, self.is_overdue) = (true, false);
        lane.promise(NEVER_NS);
    }

    /// Ends the source because the job is over. A source that still holds packets is stopped and
    /// goes on until those are out. Any other source has delivered its last packet.
    pub(super) fn finish(&mut self, lane: &mut Lane) -> Result<(), EngineError> {
        let is_open = !self.is_ended && self.source.port.info().capabilities.can_drain;
        if !is_open {
            self.end(lane);
            return Ok(());
        }
        let finished = self.source.port.finish().map_err(EngineError::from);
        finished.inspect_err(|_| self.end(lane))
    }

    pub(super) fn report(&self, counts: &Counts) -> MergedPort {
        MergedPort {
            port: self.source.port.info().name.clone(),
            offset_ns: self.offset_ns,
            late: counts.late,
            late_most_ns: counts.late_most_ns,
            overdue: self.overdue,
        }
    }
}

/// Begins a burst; the promise after it is `low_ns`. Cost: some four instructions a packet for its
/// time, if no packet has facts.
fn refill(lane: &mut Lane, burst: &Burst<'_>, offset_ns: i64, low_ns: u64) {
    let descs = burst.worklist();
    let has_facts = descs.iter().fold(false, |any, desc| any | desc.flags().contains(Flags::FACTS));
    let base_ns = burst.base_time_ns().checked_add_signed(offset_ns);
    match base_ns.filter(|base_ns| !has_facts && *base_ns <= NEVER_NS >> 1) {
        Some(base_ns) => {
            let times_ns = descs.iter().rev().map(|desc| base_ns + u64::from(desc.time_delta_ns()));
            lane.refill(times_ns, low_ns);
        }
        None => {
            let times_ns = burst.packets().map(|packet| packet.time_ns());
            lane.refill(times_ns.map(|time_ns| time_ns.saturating_add_signed(offset_ns)), low_ns);
        }
    }
}
