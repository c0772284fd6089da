//! The checkpoint where a source's packets wait for verdicts, with a lane for each worker.

use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};
use burstline_port::{Loss, PortAccount, PortError, PortState, PortTable, Received, Source};
use burstline_sys::clock;

use super::flows::Flows;
use super::lane::{Lane, Moment};
use super::outlet::{Ends, Onward, Outlet};
use super::{LOOK_EVERY_NS, Said, Told};
use crate::balance::links::Links;
use crate::worker_of;

/// Holds packets until their verdicts, then forwards them through an [`Onward`].
pub(crate) struct Checkpoint {
    gate: Gate,
    ends: Ends,
    told: Told,
}

/// The lanes, and the flows that skip them.
struct Gate {
    lanes: Vec<Lane>,
    flows: Flows,
    links: Links,
    /// Packets that skipped the lanes because their flow was passed.
    skipped: u64,
}

/// A source whose packets go through the checkpoint.
pub(crate) struct Entrance<'a> {
    pub(crate) source: &'a mut dyn Source,
    pub(crate) scratch: &'a mut Scratch,
    /// Whether the source has ended.
    pub(crate) is_over: &'a mut bool,
}

impl Checkpoint {
    pub(super) fn new(lanes: Vec<Lane>, ends: Ends, table: &PortTable, told: Told) -> Self {
        let (flows, links) = (Flows::default(), Links::new(table));
        Self { gate: Gate { lanes, flows, links, skipped: 0 }, ends, told }
    }

    /// Returns the number of waiting packets.
    pub(crate) fn waiting(&self) -> u64 {
        self.gate.waiting()
    }

    /// Forwards decided packets and takes in a burst of a source. Reports the source as ended only
    /// when no packet waits.
    pub(crate) fn pass(
        &mut self,
        entrance: Entrance<'_>,
        budget: u64,
        onward: &mut dyn Onward,
    ) -> Result<Received, PortError> {
        let Entrance { source, scratch, is_over } = entrance;
        let now_ns = clock::monotonic_ns();
        let has_moved = self.look(now_ns, onward)?;
        let can_wait = source.info().capabilities.can_wait;
        let is_held_up = can_wait && self.gate.lanes.iter().any(Lane::has_enough);
        let (mut packets, mut state) = (0, PortState::Blocked);
        if !*is_over && !is_held_up {
            let lent = source.lend(scratch, budget.min(SCRATCH_PACKETS as u64))?;
            (packets, state) = (lent.burst.len() as u64, lent.state);
            if packets > 0 {
                let mut outlet = Outlet { onward, ends: &mut self.ends };
                self.gate.spread(&lent.burst, now_ns, &mut outlet)?;
            }
        }
        *is_over |= state == PortState::Ended;
        if has_moved || packets > 0 {
            if state != PortState::Busy {
                onward.flush()?;
            }
            state = PortState::Busy;
        } else if *is_over {
            state = if self.waiting() > 0 { PortState::Idle } else { PortState::Ended };
        }
        Ok(Received { packets, state })
    }

    /// Waits until every waiting packet has a verdict or is late, which takes at most the deadline.
    /// Then stores the results. The caller must not pass more packets. If forwarding fails, the
    /// packets that still wait are counted as in flight.
    pub(crate) fn close(&mut self, onward: &mut dyn Onward) -> Result<(), PortError> {
        let mut outcome = Ok(());
        while self.gate.lanes.iter().any(Lane::has_queue) && outcome.is_ok() {
            match self.look(clock::monotonic_ns(), onward) {
                Ok(true) => {}
                Ok(false) => thread::sleep(Duration::from_nanos(LOOK_EVERY_NS)),
                Err(error) => outcome = Err(error),
            }
        }
        self.ends.answers.finish();
        self.tell();
        outcome
    }

    /// Adds the checkpoint's lost and waiting packets to a source's account.
    pub(crate) fn add_to(&self, account: &mut PortAccount) {
        account.lost.merge(&self.ends.lost);
        account.in_flight += self.waiting();
        let logged: u64 = self.gate.lanes.iter().map(|lane| lane.bytes_copied).sum();
        account.bytes_copied += logged + self.ends.bytes_copied;
        account
            .hint(|| "inline: each packet is copied once more, into its worker's log".to_owned());
        if let Some(fault) = &self.ends.answers.fault {
            account.note(|| fault.clone());
        }
    }

    /// Processes every lane once. Returns whether any packet was decided.
    fn look(&mut self, now_ns: u64, onward: &mut dyn Onward) -> Result<bool, PortError> {
        let mut outlet = Outlet { onward, ends: &mut self.ends };
        self.gate.each(now_ns, |lane, moment| lane.look(moment, &mut outlet))
    }

    /// Stores the results and hands over the logs' writers, for the receiver to end.
    fn tell(&mut self) {
        let gate = &mut self.gate;
        let said = Said {
            writers: gate.lanes.iter_mut().filter_map(Lane::end).collect(),
            workers: gate.lanes.iter().map(|lane| lane.counts).collect(),
            skipped: gate.skipped,
            flows: gate.flows.entered,
            flows_forgotten: gate.flows.forgotten,
            answers: self.ends.answers.sent,
            waits: gate.lanes.iter().map(|lane| lane.waits.clone()).collect(),
        };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = said; // as a whole
    }
}

impl Gate {
    fn waiting(&self) -> u64 {
        self.lanes.iter().map(Lane::waiting).sum()
    }

    /// Calls `what` on each lane. Returns whether any call returned true.
    fn each(
        &mut self,
        now_ns: u64,
        mut what: impl FnMut(&mut Lane, &mut Moment<'_>) -> Result<bool, PortError>,
    ) -> Result<bool, PortError> {
        let Self { lanes, flows, links, .. } = self;
        let mut moment = Moment { now_ns, flows, links };
        let mut any = false;
        for lane in lanes {
            any |= what(lane, &mut moment)?;
        }
        Ok(any)
    }

    /// Puts each packet of a burst into its worker's lane, or forwards it if its flow was passed.
    /// If forwarding fails, the packets after that point are lost; those before still wait (V4).
    fn spread(
        &mut self,
        burst: &Burst<'_>,
        now_ns: u64,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PortError> {
        let mut done = 0;
        let mut outcome = self.take_in(burst, now_ns, outlet, &mut done);
        if outcome.is_err() {
            outlet.ends.lost.add(Loss::WriteError, (burst.len() - done) as u64);
        }
        let Self { lanes, flows, links, .. } = self;
        for lane in lanes {
            let published = lane.publish(&mut Moment { now_ns, flows, links }, outlet);
            outcome = outcome.and(published);
        }
        outcome
    }

    /// Appends packets to their lanes without publishing them. On return, the first `done` packets
    /// of the burst are in a lane, sent or lost.
    fn take_in(
        &mut self,
        burst: &Burst<'_>,
        now_ns: u64,
        outlet: &mut Outlet<'_>,
        done: &mut usize,
    ) -> Result<(), PortError> {
        let Self { lanes, flows, links, skipped } = self;
        let mut run = 0;
        for (at, packet) in burst.packets().enumerate() {
            if flows.passes(&packet, now_ns, || links.of(packet.desc().port()).0) {
                *skipped += 1;
                continue;
            }
            // The sink counts the packets it is given even if it fails.
            *done = at;
            outlet.send(burst, run..at)?;
            run = at + 1;
            let lane = worker_of(packet.desc().hash(), lanes.len());
            let mut moment = Moment { now_ns, flows, links };
            lanes[lane].append(&packet, &mut moment, outlet)?;
        }
        *done = burst.len();
        outlet.send(burst, run..burst.len())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::stalled;
