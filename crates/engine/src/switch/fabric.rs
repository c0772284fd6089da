//! Connects the ports of a switch to its forwarding logic.

mod departing;

use std::sync::mpsc::Sender;

use burstline_log::Scratch;
use burstline_port::{Losses, Port, PortError, Received};
use burstline_switch::{
    EndId, Mirror, Outgoing, Plan, RuleSet, Static, Switch, SwitchConfig, UnknownName,
};
use burstline_sys::clock;

use super::closing::{Closer, Closing};
use super::entry::{Entry, Forward};
use super::own_mirror;
use super::port::{OpenedPort, OpenedTarget, Outlet};
use super::rows::{Rows, losses_of, sink_place, source_place, tally_of};
use super::status::{KnownAddress, MeterStatus, PortStatus, SwitchStatus, taken_by};
use crate::runtime::Tally;
use crate::{EngineError, Place};
use departing::Departing;

/// A switch with its ports.
pub struct Fabric {
    switch: Switch,
    /// By end.
    entries: Vec<Entry>,
    outlets: Vec<Option<Outlet>>,
    /// The sources that have not ended, by end and number.
    polls: Vec<(EndId, usize)>,
    /// The rules as set, without the ports' own mirrors.
    rules: RuleSet,
    /// Ports with their own mirror, and the target of each.
    own_mirrors: Vec<(String, String)>,
    plan: Plan,
    outgoing: Outgoing,
    scratch: Scratch,
    now_ns: u64,
    /// Ends that are removed when no packet of theirs waits any more.
    departing: Vec<Departing>,
    /// Who waits until there are none.
    askers: Vec<Sender<()>>,
    closing: Closing,
    gone: Rows,
    failed: Vec<String>,
}

impl Fabric {
    /// Creates a switch without ports.
    pub fn new(config: SwitchConfig) -> Self {
        let now_ns = clock::monotonic_ns();
        Self {
            switch: Switch::new(config, now_ns),
            entries: Vec::new(),
            outlets: Vec::new(),
            rules: RuleSet::default(),
            own_mirrors: Vec::new(),
            plan: Plan::default(),
            outgoing: Outgoing::default(),
            scratch: Scratch::new(),
            now_ns,
            departing: Vec::new(),
            askers: Vec::new(),
            closing: Closing::default(),
            gone: Rows::default(),
            polls: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Adds a port.
    ///
    /// # Errors
    /// If its name is taken, or the target of its mirror does not exist. Also if one port delivers
    /// packets with offloads and another cannot send them.
    pub fn add_port(&mut self, port: OpenedPort) -> Result<(), EngineError> {
        self.check_offloads(&port)?;
        if let Some(to) = &port.mirror {
            self.lasting(to)?;
        }
        let end = self.switch.add(&port.name, Some(port.config), self.now_ns)?;
        let entry = Entry::new(port.sources, port.checkpoint);
        self.put(end, entry, Outlet::new(port.sink));
        if let Some(to) = port.mirror {
            self.own_mirrors.push((port.name, to));
            self.renew_rules();
        }
        Ok(())
    }

    /// Adds a mirror target.
    ///
    /// # Errors
    /// If its name is taken.
    pub fn add_target(&mut self, target: OpenedTarget) -> Result<(), EngineError> {
        let end = self.switch.add(&target.name, None, self.now_ns)?;
        self.put(end, Entry::default(), Outlet::new(target.sink));
        Ok(())
    }

    fn put(&mut self, end: EndId, entry: Entry, outlet: Outlet) {
        if self.outlets.len() <= end.index() {
            self.outlets.resize_with(end.index() + 1, || None);
            self.entries.resize_with(end.index() + 1, Entry::default);
        }
        self.entries[end.index()] = entry;
        self.outlets[end.index()] = Some(outlet);
        self.renew_polls();
    }

    /// Checks that no port delivers packets with offloads that another port cannot send.
    fn check_offloads(&self, port: &OpenedPort) -> Result<(), EngineError> {
        let passes = port.sources.iter().any(|source| passes_offloads(&**source));
        let takes = passes_offloads(&*port.sink);
        for (end, other, _) in self.switch.ends().filter(|(.., config)| config.is_some()) {
            let Some(outlet) = &self.outlets[end.index()] else { continue };
            let mut sources = self.entries[end.index()].sources();
            let other_passes = sources.any(|source| passes_offloads(source));
            if passes && !passes_offloads(&*outlet.sink) || other_passes && !takes {
                let (name, other) = (port.name.clone(), other.to_owned());
                let (from, to) = if passes { (name, other) } else { (other, name) };
                return Err(EngineError::Offloads { from, to });
            }
        }
        Ok(())
    }

    /// Removes a port that failed.
    pub(super) fn fail(&mut self, end: EndId, error: EngineError) {
        self.failed.push(format!("{}: {error}", self.switch.name(end)));
        self.take_out(end, Some(error));
    }

    /// Starts closing removed ends on a thread, which must run the returned [`Closer`].
    pub(super) fn begin_closing(&mut self) -> Closer {
        self.closing.begin()
    }

    /// Waits until all removed ends are closed.
    pub(super) fn end_closing(&mut self) {
        for rows in self.closing.end() {
            self.gone.merge(rows);
        }
    }

    /// Replaces all rules, meters and mirrors. Their targets must exist.
    ///
    /// # Errors
    /// [`EngineError::UnknownEnd`] if a rule or a mirror names an end that does not exist. Then the
    /// old ones stay.
    pub fn set_rules(&mut self, rules: RuleSet) -> Result<(), EngineError> {
        let check = rules.check(|name| self.lasting(name).is_ok());
        check.map_err(|UnknownName { rule, name }| EngineError::UnknownEnd { rule, name })?;
        self.rules = rules;
        self.renew_rules();
        Ok(())
    }

    /// Returns the rules, meters and mirrors that were set.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Adds a mirror.
    ///
    /// # Errors
    /// As [`set_rules`](Self::set_rules).
    pub fn add_mirror(&mut self, mirror: Mirror) -> Result<(), EngineError> {
        let mut rules = self.rules.clone();
        rules.mirrors.push(mirror);
        self.set_rules(rules)
    }

    /// Removes the mirrors that lead to a target. Returns their number.
    pub fn remove_mirrors(&mut self, to: &str) -> usize {
        let before = self.rules.mirrors.len() + self.own_mirrors.len();
        self.rules.mirrors.retain(|mirror| mirror.to != to);
        self.own_mirrors.retain(|(_, target)| target != to);
        self.renew_rules();
        before - self.rules.mirrors.len() - self.own_mirrors.len()
    }

    fn renew_rules(&mut self) {
        let mut all = self.rules.clone();
        let own = self.own_mirrors.iter().map(|(port, to)| own_mirror(port, to));
        all.mirrors.extend(own);
        self.switch.set_rules(all.shared(), self.now_ns);
    }

    /// Adds a static address of a port.
    ///
    /// # Errors
    /// If there is no such port, or the table is full of static addresses.
    pub fn add_static(&mut self, one: &Static) -> Result<(), EngineError> {
        let end = self.switch.end(&one.port)?;
        Ok(self.switch.add_static(one.vlan, one.address, end)?)
    }

    /// Forgets all learned addresses. Returns their number.
    pub fn forget_addresses(&mut self) -> usize {
        self.switch.forget_addresses()
    }

    /// Returns the known addresses.
    pub fn addresses(&self) -> Vec<KnownAddress> {
        let entries = self.switch.addresses(self.now_ns).into_iter();
        let named = entries.map(|entry| {
            let port = self.switch.name(entry.end).to_owned();
            let idle_ns = self.now_ns.saturating_sub(entry.seen_ns);
            KnownAddress { entry, port, idle_ns }
        });
        named.collect()
    }

    /// Returns the names of its ends.
    pub fn names(&self) -> Vec<String> {
        self.switch.ends().map(|(_, name, _)| name.to_owned()).collect()
    }

    /// Returns whether an end is a mirror target and not a port.
    pub fn is_target(&self, name: &str) -> bool {
        self.switch.ends().any(|(_, known, config)| known == name && config.is_none())
    }

    /// Returns the status of the switch.
    pub fn status(&self) -> SwitchStatus {
        let table = self.switch.rules();
        let set = table.set();
        let rules = set.rules.iter().map(|rule| rule.text.clone()).zip(table.counts().to_vec());
        let meters = set.meters.iter().zip(table.meters()).map(|((name, _), meter)| {
            let (passed, exceeded) = meter.counts();
            MeterStatus { name: name.clone(), passed, exceeded }
        });
        let mirrors = set.mirrors.iter().map(|mirror| (mirror.to.clone(), taken_by(mirror)));
        SwitchStatus {
            ports: self.port_statuses(),
            addresses: self.switch.address_totals(),
            rules: rules.collect(),
            meters: meters.collect(),
            mirrors: mirrors.collect(),
            look_ups: table.look_ups(),
            loops: self.switch.loops(),
            failed: self.failed.clone(),
        }
    }

    fn port_statuses(&self) -> Vec<PortStatus> {
        let mut ports = Vec::new();
        for (end, name, config) in self.switch.ends() {
            let Some(outlet) = &self.outlets[end.index()] else { continue };
            ports.push(PortStatus {
                name: name.to_owned(),
                config: config.cloned(),
                counters: self.switch.counters(end),
                dropped: losses_of(&self.switch.counters(end)),
                incoming: self.entries[end.index()].account(),
                outgoing: outlet.sink.account(),
            });
        }
        ports
    }

    /// Returns the current state of its sources and sinks.
    pub(super) fn places(&self) -> Vec<Place> {
        let (mut places, mut sinks) = (Vec::new(), Vec::new());
        for (end, name, _) in self.switch.ends() {
            let Some(outlet) = &self.outlets[end.index()] else { continue };
            let (entry, counters) = (&self.entries[end.index()], self.switch.counters(end));
            if !entry.inlets.is_empty() {
                let account = entry.account();
                places.push(source_place(name, places.len(), &account, &counters));
            }
            sinks.push(sink_place(name, sinks.len(), outlet, &counters));
        }
        places.extend(sinks);
        places
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.switch.tick(now_ns);
        while let Some(rows) = self.closing.closed() {
            self.gone.merge(rows);
        }
    }

    fn renew_polls(&mut self) {
        self.polls.clear();
        for (index, entry) in self.entries.iter().enumerate() {
            let open = entry.inlets.iter().enumerate().filter(|(_, inlet)| !inlet.has_ended);
            self.polls.extend(open.map(|(source, _)| (EndId(index as u16), source)));
        }
    }

    /// Returns the end and number of a source that has not ended.
    #[inline]
    pub(super) fn poll_at(&self, index: usize) -> Option<(EndId, usize)> {
        self.polls.get(index).copied()
    }

    /// Returns the ports of all sources that have not ended, to wait for.
    pub(super) fn open_sources(&self) -> impl Iterator<Item = &dyn Port> {
        let all = self.entries.iter().flat_map(|entry| &entry.inlets);
        all.filter(|inlet| !inlet.has_ended).map(|inlet| &*inlet.source as &dyn Port)
    }

    /// Returns whether packets wait for verdicts, which do not wake the thread.
    pub(super) fn has_waiting(&self) -> bool {
        self.entries.iter().any(Entry::has_waiting)
    }

    /// Marks a source as ended. Its port still sends.
    pub(super) fn end_source(&mut self, end: EndId, source: usize) {
        if let Some(inlet) = self.entries[end.index()].inlets.get_mut(source) {
            inlet.has_ended = true;
        }
        self.renew_polls();
        self.let_go(end);
    }

    /// Takes a burst from a source and forwards its packets.
    ///
    /// # Errors
    /// If the source fails. The end of a failing sink is removed instead.
    pub(super) fn pass(
        &mut self,
        end: EndId,
        source: usize,
        budget: u64,
    ) -> Result<Received, PortError> {
        self.forward(end, |entry, scratch, forward| entry.pass(source, budget, scratch, forward))
    }

    /// Waits for the verdicts of an end's waiting packets.
    fn close_entry(&mut self, end: EndId) -> Result<(), PortError> {
        self.forward(end, |entry, _, forward| entry.close(forward))
    }

    /// Calls `what` on an end's entry, then removes the ends whose sinks failed.
    #[inline]
    fn forward<T>(
        &mut self,
        from: EndId,
        what: impl FnOnce(&mut Entry, &mut Scratch, &mut Forward<'_>) -> T,
    ) -> T {
        let Self { switch, entries, outlets, plan, outgoing, scratch, now_ns, .. } = self;
        let (now_ns, failed) = (*now_ns, Vec::new());
        let mut forward = Forward { from, now_ns, switch, outlets, plan, outgoing, failed };
        let outcome = what(&mut entries[from.index()], scratch, &mut forward);
        for (to, error) in forward.failed {
            self.fail(to, error.into());
        }
        outcome
    }

    /// Flushes every sink that got packets since the last flush.
    pub(super) fn flush(&mut self) {
        let mut failed = Vec::new();
        for (index, outlet) in self.outlets.iter_mut().enumerate() {
            let Some(outlet) = outlet.as_mut().filter(|outlet| outlet.is_fresh) else { continue };
            outlet.is_fresh = false;
            if let Err(error) = outlet.sink.flush() {
                failed.push((EndId(index as u16), error));
            }
        }
        for (end, error) in failed {
            self.fail(end, error.into());
        }
    }

    /// Returns the tally of packets switched so far.
    pub(super) fn through(&self) -> Tally {
        let mut sum = self.gone.through;
        self.closing.so_far().for_each(|rows| sum.add(&rows.through));
        for (end, _, _) in self.switch.ends() {
            sum.add(&tally_of(&self.switch.counters(end)));
        }
        sum
    }

    /// Returns the losses so far: at `places`, which must be all current ones, and at removed ones.
    pub(super) fn losses(&self, places: &[Place]) -> Losses {
        let mut losses = Losses::default();
        let gone = std::iter::once(&self.gone).chain(self.closing.so_far());
        gone.flat_map(|gone| &gone.rows).for_each(|row| losses.merge(&row.lost));
        places.iter().for_each(|place| losses.merge(&place.lost));
        losses
    }

    /// Stops all sources. Sources that cannot drain end. Returns whether any has packets to drain.
    pub(super) fn stop_sources(&mut self) -> bool {
        let (mut can_drain, mut failed) = (false, Vec::new());
        for (index, entry) in self.entries.iter_mut().enumerate() {
            for inlet in &mut entry.inlets {
                inlet.has_ended |= !inlet.source.info().capabilities.can_drain;
                can_drain |= !inlet.has_ended;
                if let Err(error) = inlet.source.finish() {
                    failed.push((EndId(index as u16), error));
                }
            }
        }
        self.renew_polls();
        for (end, error) in failed {
            self.fail(end, error.into());
        }
        can_drain
    }

    /// Waits until no packet waits for a verdict, then finishes all sinks.
    pub(super) fn finish(&mut self) {
        self.end_departing();
        for index in 0..self.entries.len() {
            let end = EndId(index as u16);
            if let Err(error) = self.close_entry(end) {
                self.gone.errors.push(error.into());
            }
        }
        for outlet in self.outlets.iter_mut().flatten() {
            if let Err(error) = outlet.sink.finish() {
                self.gone.errors.push(error.into());
            }
        }
    }

    /// Returns the rows of all present and removed ports.
    pub(super) fn close(mut self) -> Rows {
        let mut rows = std::mem::take(&mut self.gone);
        for (end, name, _) in self.switch.ends() {
            let entry = &self.entries[end.index()];
            if let Some(outlet) = &self.outlets[end.index()] {
                rows.add(name, entry, outlet, &self.switch.counters(end));
            }
        }
        rows.bytes_copied += self.outgoing.bytes_copied();
        if self.switch.loops() > 0 {
            let seconds = self.switch.loops();
            rows.notes.push(format!(
                "addresses kept moving between ports during {seconds} s: two ports seem to lead to \
                 the same network"
            ));
        }
        rows
    }
}

/// Returns whether a source delivers packets with offloads for a device, or a sink takes such
/// packets.
fn passes_offloads(port: &dyn Port) -> bool {
    port.info().capabilities.passes_offloads
}
