//! The ingress side of a switch port: its sources, and the checkpoint where packets wait.
//!
//! ```text
//! source ──────────────► Forward: Switch::forward ─► Plan ─► outlets
//! source ─► Checkpoint ─► Forward      packets wait for verdicts before they are switched
//! ```

use burstline_log::{Burst, Scratch};
use burstline_port::{PortAccount, PortError, PortState, Received, Source};
use burstline_switch::{EndId, Outgoing, Plan, Switch};

use super::port::Outlet;
use crate::inline::{Checkpoint, Entrance, Onward};

/// A source of an end.
pub(super) struct Inlet {
    pub(super) source: Box<dyn Source>,
    pub(super) has_ended: bool,
    /// Whether the source has ended; packets of it may still wait.
    is_over: bool,
}

/// All sources of an end. Empty for a mirror target.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) inlets: Vec<Inlet>,
    /// The checkpoint of an inline port.
    pub(super) checkpoint: Option<Box<Checkpoint>>,
}

/// Forwards packets of an end through the switch, to the ends of a plan.
pub(super) struct Forward<'a> {
    pub(super) from: EndId,
    pub(super) now_ns: u64,
    pub(super) switch: &'a mut Switch,
    pub(super) outlets: &'a mut [Option<Outlet>],
    pub(super) plan: &'a mut Plan,
    pub(super) outgoing: &'a mut Outgoing,
    /// Sinks that failed.
    pub(super) failed: Vec<(EndId, PortError)>,
}

impl Onward for Forward<'_> {
    fn pass(&mut self, burst: &Burst<'_>) -> Result<(), PortError> {
        self.switch.forward(self.from, burst, self.now_ns, self.plan);
        for (to, copies) in self.plan.outputs() {
            let Some(outlet) = &mut self.outlets[to.index()] else { continue };
            outlet.is_fresh = true;
            let send = |burst: &Burst<'_>| outlet.given.transmit(burst, &mut *outlet.sink);
            if let Err(error) = self.outgoing.send(burst, copies, self.switch.rules(), send) {
                self.failed.push((to, error));
            }
        }
        Ok(())
    }

    fn answer(&mut self, answer: &Burst<'_>) -> Result<u64, PortError> {
        let Some(outlet) = &mut self.outlets[self.from.index()] else { return Ok(0) };
        self.switch.count_answers(self.from, answer.len() as u64);
        outlet.is_fresh = true;
        outlet.given.transmit(answer, &mut *outlet.sink).map(|()| answer.len() as u64)
    }

    /// Does nothing: the fabric flushes its outlets when no packets arrive.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

impl Entry {
    pub(super) fn new(sources: Vec<Box<dyn Source>>, checkpoint: Option<Checkpoint>) -> Self {
        let inlet = |source| Inlet { source, has_ended: false, is_over: false };
        let checkpoint = checkpoint.map(Box::new);
        Self { inlets: sources.into_iter().map(inlet).collect(), checkpoint }
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = &dyn Source> {
        self.inlets.iter().map(|inlet| &*inlet.source)
    }

    /// Returns the combined account of all sources, including packets that waited for verdicts.
    pub(super) fn account(&self) -> PortAccount {
        let mut sum = PortAccount::default();
        for account in self.sources().map(|source| source.account()) {
            sum.add_counts(&account);
            for note in account.warnings.into_iter().chain(account.notes) {
                if !sum.notes.contains(&note) {
                    sum.notes.push(note);
                }
            }
        }
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.add_to(&mut sum);
        }
        sum
    }

    /// Returns whether packets wait for verdicts.
    pub(super) fn has_waiting(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.waiting() > 0)
    }

    /// Takes a burst from a source and forwards the packets that need not wait.
    #[inline]
    pub(super) fn pass(
        &mut self,
        source: usize,
        budget: u64,
        scratch: &mut Scratch,
        forward: &mut Forward<'_>,
    ) -> Result<Received, PortError> {
        let Some(Inlet { source, is_over, .. }) = self.inlets.get_mut(source) else {
            // The port has failed in this round.
            return Ok(Received { packets: 0, state: PortState::Ended });
        };
        if let Some(checkpoint) = &mut self.checkpoint {
            let entrance = Entrance { source: &mut **source, scratch, is_over };
            return checkpoint.pass(entrance, budget, forward);
        }
        let lent = source.lend(scratch, budget)?;
        let received = Received { packets: lent.burst.len() as u64, state: lent.state };
        if received.packets > 0 {
            forward.pass(&lent.burst)?;
        }
        Ok(received)
    }

    /// Takes no more packets from its sources. Returns whether packets wait, which polling a source
    /// decides.
    pub(super) fn stop(&mut self) -> bool {
        for inlet in &mut self.inlets {
            inlet.is_over = true;
        }
        self.has_waiting() && self.inlets.iter().any(|inlet| !inlet.has_ended)
    }

    /// Waits until every waiting packet was forwarded or lost by name.
    pub(super) fn close(&mut self, forward: &mut Forward<'_>) -> Result<(), PortError> {
        self.checkpoint.as_mut().map_or(Ok(()), |checkpoint| checkpoint.close(forward))
    }
}
