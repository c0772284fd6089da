//! Removes ends from a switch, also while packets of theirs wait for verdicts.
//!
//! ```text
//!  remove ─► last bursts ─► does a packet wait? ─ no ─────────────────────► take_out ─► closing
//!                                 └─ yes: the end departs ─► pass ─► none waits ─┘
//! ```
//!
//! Waiting here until every packet has its verdict would hold up all ports, for up to a second. So
//! the end departs: it takes no packets from its sources, it still sends, and the rounds decide the
//! packets that wait. Its name stays taken, and no mirror may lead to it any more.

use std::sync::mpsc;

use burstline_port::{PortState, Received};
use burstline_switch::{EndId, SwitchError};

use super::Fabric;
use crate::EngineError;
use crate::switch::closing::{Leaving, WhenClosed};

/// Maximum number of bursts taken from a source of a port that is being removed.
const LAST_BURSTS: u32 = 64;

/// An end that is removed when none of its packets waits any more.
pub(super) struct Departing {
    end: EndId,
    /// The error of its last bursts.
    error: Option<EngineError>,
}

impl Fabric {
    /// Removes a port or a mirror target. Packets that it has already received are still switched,
    /// also those that wait for verdicts: then the end leaves in a later round. While the switch
    /// runs, another thread then closes it.
    ///
    /// # Errors
    /// If no end has this name, or a mirror leads to it.
    pub fn remove(&mut self, name: &str) -> Result<(), EngineError> {
        let end = self.switch.end(name)?;
        if self.is_departing(end) {
            return Ok(());
        }
        let is_mirrored = self.own_mirrors.iter().any(|(port, to)| to == name && port != name);
        if is_mirrored || self.rules.targets().contains(&name) {
            return Err(EngineError::MirrorsLeadTo { name: name.to_owned() });
        }
        let mut outcome = Ok(());
        for source in 0..self.entries[end.index()].inlets.len() {
            // If the port's own sink fails in the meantime, the whole port is already removed.
            let Some(inlet) = self.entries[end.index()].inlets.get_mut(source) else { break };
            outcome = outcome.and(inlet.source.finish());
            let mut bursts = 0;
            while outcome.is_ok() && bursts < LAST_BURSTS {
                bursts += 1;
                match self.pass(end, source, u64::MAX) {
                    Ok(Received { state: PortState::Busy, .. }) => {}
                    Ok(_) => break,
                    Err(error) => outcome = Err(error),
                }
            }
        }
        self.flush();
        let error = outcome.err().map(EngineError::from);
        match self.entries[end.index()].stop() {
            true => self.departing.push(Departing { end, error }),
            false => self.take_out(end, error),
        }
        Ok(())
    }

    /// Removes a departing end whose sources have all ended: none of its packets waits any more.
    pub(super) fn let_go(&mut self, end: EndId) {
        let have_ended = self.entries[end.index()].inlets.iter().all(|inlet| inlet.has_ended);
        if have_ended && self.is_departing(end) {
            self.flush();
            self.take_out(end, None);
        }
    }

    /// Stops waiting for departing ends, as the switch ends: they are like the others then.
    pub(super) fn end_departing(&mut self) {
        self.gone.errors.extend(self.departing.drain(..).filter_map(|departing| departing.error));
        self.askers.clear();
    }

    /// Returns the end with this name, unless it is departing.
    ///
    /// # Errors
    /// [`SwitchError::NoSuchEnd`].
    pub(super) fn lasting(&self, name: &str) -> Result<EndId, SwitchError> {
        let end = self.switch.end(name)?;
        if !self.is_departing(end) {
            return Ok(end);
        }
        let lasting = self.switch.ends().filter(|(end, ..)| !self.is_departing(*end));
        let present: Vec<_> = lasting.map(|(_, name, _)| name).collect();
        Err(SwitchError::NoSuchEnd { name: name.to_owned(), present: present.join(", ") })
    }

    fn is_departing(&self, end: EndId) -> bool {
        self.departing.iter().any(|departing| departing.end == end)
    }

    /// Removes an end now. If packets of a failed port wait for verdicts, it waits for them.
    pub(super) fn take_out(&mut self, end: EndId, error: Option<EngineError>) {
        let Some(outlet) = self.outlets[end.index()].take() else { return };
        let departing = self.departing.iter_mut().find(|departing| departing.end == end);
        let error = error.or(departing.and_then(|departing| departing.error.take()));
        let closed = self.close_entry(end);
        let name = self.switch.name(end).to_owned();
        let entry = std::mem::take(&mut self.entries[end.index()]);
        let error = error.or(closed.err().map(EngineError::from));
        let counters = self.switch.remove(end, self.now_ns).unwrap_or_default();
        self.own_mirrors.retain(|(port, _)| *port != name);
        self.renew_polls();
        let has_failed = error.is_some();
        self.gone.errors.extend(error);
        let rows = self.closing.close(Leaving { name, entry, outlet, counters, has_failed });
        self.gone.merge(rows.unwrap_or_default());
        // Only now: to close it may take out another end, and nobody is to be answered before.
        self.departing.retain(|departing| departing.end != end);
        if self.departing.is_empty() {
            for asker in std::mem::take(&mut self.askers) {
                self.closing.answer(asker);
            }
        }
    }

    /// Returns a handle to wait until all ends removed so far are closed.
    pub(in crate::switch) fn when_closed(&mut self) -> WhenClosed {
        let (asker, closed) = mpsc::channel();
        match self.departing.is_empty() {
            true => self.closing.answer(asker),
            false => self.askers.push(asker),
        }
        WhenClosed::by(closed)
    }
}

#[cfg(test)]
mod tests;
