//! The switch: its ends and tables, and the forwarding of bursts.

use std::sync::Arc;

use burstline_log::Burst;

use crate::TagChange;
use crate::counters::{Cause, Counters};
use crate::frame::{Frame, PRIORITY, is_group, is_link_local};
use crate::mac::{Learned, MacEntry, MacTable, MacTotals, key_of};
use crate::meter::Meter;
use crate::plan::{Applied, Copied, Plan};
use crate::port::{EndId, PortConfig};
use crate::rules::RuleSet;
use crate::table::RuleTable;

/// The most address moves per second that are attributed to migrating guests; more suggest a loop.
const MOVES_OF_A_LOOP: u64 = 1000;

/// Interval between two checks for aged entries and moves, in ns.
const TICK_NS: u64 = 100_000_000;
/// Ticks in a second, the time that a sweep of the table takes.
const TICKS: u64 = 1_000_000_000 / TICK_NS;

/// The size of a switch, and the age of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Maximum number of known addresses.
    pub addresses_max: usize,
    /// How long an address is kept without a frame from it, in ns.
    pub age_ns: u64,
    /// A secret hash seed, so that no sender can target slots of the tables.
    pub seed: u64,
}

impl Default for SwitchConfig {
    /// Source of the age: IEEE 802.1Q, table 8-6.
    fn default() -> Self {
        Self { addresses_max: 8192, age_ns: 300_000_000_000, seed: 0 }
    }
}

/// Why an end or an entry could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The name is already taken.
    #[error("{name} is already a port or mirror of this switch")]
    Taken {
        /// The name.
        name: String,
    },
    /// There is no room for more ends.
    #[error("{name}: a switch has at most {most} ports and mirrors", most = EndId::MOST)]
    TooManyEnds {
        /// The name.
        name: String,
    },
    /// No end has this name.
    #[error("there is no port {name}; there are {present}")]
    NoSuchEnd {
        /// The name.
        name: String,
        /// The existing names.
        present: String,
    },
    /// The table is full of static entries.
    #[error("no room for a static address: the table holds {most}")]
    TooManyAddresses {
        /// The capacity of the table.
        most: usize,
    },
}

#[derive(Debug)]
struct End {
    name: String,
    /// `None` for a mirror target.
    port: Option<PortState>,
}

#[derive(Debug)]
struct PortState {
    config: PortConfig,
    storm: Option<Meter>,
}

/// The switch.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    ends: Vec<Option<End>>,
    counters: Vec<Counters>,
    macs: MacTable,
    rules: RuleTable,
    /// The ends to which frames are flooded: all ports.
    ports: Vec<EndId>,
    ticked_ns: u64,
    moved_before: u64,
    ticks: u64,
    loops: u64,
}

/// A frame that is being forwarded.
struct Moving<'a> {
    from: EndId,
    packet: u16,
    bytes: &'a [u8],
    frame: Frame,
    /// The VLAN in which it is forwarded.
    vlan: u16,
    sets: u16,
    now_ns: u64,
}

impl Switch {
    /// Creates a switch without ends and rules.
    pub fn new(config: SwitchConfig, now_ns: u64) -> Self {
        let rules = RuleTable::of(Arc::default(), |_| None, config.seed, now_ns);
        Self {
            macs: MacTable::new(config.addresses_max, config.age_ns, config.seed),
            config,
            ends: Vec::new(),
            counters: Vec::new(),
            rules,
            ports: Vec::new(),
            ticked_ns: now_ns,
            moved_before: 0,
            ticks: 0,
            loops: 0,
        }
    }

    /// Adds a port, or with `None` a mirror target. Rules that name it take effect.
    ///
    /// # Errors
    /// [`SwitchError::Taken`], [`SwitchError::TooManyEnds`].
    pub fn add(
        &mut self,
        name: &str,
        port: Option<PortConfig>,
        now_ns: u64,
    ) -> Result<EndId, SwitchError> {
        if self.find(name).is_some() {
            return Err(SwitchError::Taken { name: name.to_owned() });
        }
        let free = self.ends.iter().position(Option::is_none).unwrap_or(self.ends.len());
        if free >= EndId::MOST {
            return Err(SwitchError::TooManyEnds { name: name.to_owned() });
        }
        if free == self.ends.len() {
            self.ends.push(None);
            self.counters.push(Counters::default());
        }
        let id = EndId(free as u16);
        let port = port.map(|config| {
            let storm = config.storm.map(|quota| Meter::new(quota, now_ns));
            PortState { config, storm }
        });
        self.counters[free] = Counters::default();
        self.ports.extend(port.is_some().then_some(id));
        self.ends[free] = Some(End { name: name.to_owned(), port });
        self.renew(now_ns);
        Ok(id)
    }

    /// Removes an end and forgets its addresses. Returns its counters.
    pub fn remove(&mut self, end: EndId, now_ns: u64) -> Option<Counters> {
        self.ends.get_mut(end.index())?.take()?;
        self.ports.retain(|&port| port != end);
        self.macs.retain(|entry| entry.end != end);
        self.renew(now_ns);
        Some(std::mem::take(&mut self.counters[end.index()]))
    }

    /// Returns the end with this name.
    pub fn find(&self, name: &str) -> Option<EndId> {
        let is_it = |end: &Option<End>| end.as_ref().is_some_and(|end| end.name == name);
        self.ends.iter().position(is_it).map(|index| EndId(index as u16))
    }

    /// Like [`find`](Self::find), but with an error that lists the existing names.
    ///
    /// # Errors
    /// [`SwitchError::NoSuchEnd`].
    pub fn end(&self, name: &str) -> Result<EndId, SwitchError> {
        self.find(name).ok_or_else(|| {
            let present: Vec<_> = self.ends().map(|(_, name, _)| name).collect();
            SwitchError::NoSuchEnd { name: name.to_owned(), present: present.join(", ") }
        })
    }

    /// Returns all ends: number, name, and the configuration if it is a port.
    pub fn ends(&self) -> impl Iterator<Item = (EndId, &str, Option<&PortConfig>)> {
        let ends = self.ends.iter().enumerate();
        ends.filter_map(|(index, end)| {
            let end = end.as_ref()?;
            let config = end.port.as_ref().map(|port| &port.config);
            Some((EndId(index as u16), end.name.as_str(), config))
        })
    }

    /// Returns the name of an end.
    pub fn name(&self, end: EndId) -> &str {
        let end = self.ends.get(end.index()).and_then(Option::as_ref);
        end.map_or("", |end| &end.name)
    }

    /// Returns the counters of an end.
    pub fn counters(&self, end: EndId) -> Counters {
        self.counters.get(end.index()).copied().unwrap_or_default()
    }

    /// Counts answers to senders, which leave through an end but were received on none.
    pub fn count_answers(&mut self, end: EndId, answers: u64) {
        if let Some(counters) = self.counters.get_mut(end.index()) {
            counters.copies_out += answers;
        }
    }

    /// Replaces all rules, meters and mirrors. If the rules and meters did not change, they keep
    /// their counts. Cost: some hundred ns per rule.
    pub fn set_rules(&mut self, set: Arc<RuleSet>, now_ns: u64) {
        let mut table = RuleTable::of(set, |name| self.find(name), self.config.seed, now_ns);
        table.go_on(&self.rules);
        self.rules = table;
    }

    /// Returns the rule table.
    pub fn rules(&self) -> &RuleTable {
        &self.rules
    }

    /// Adds a static address of an end.
    ///
    /// # Errors
    /// [`SwitchError::TooManyAddresses`].
    pub fn add_static(
        &mut self,
        vlan: u16,
        address: [u8; 6],
        end: EndId,
    ) -> Result<(), SwitchError> {
        let most = self.config.addresses_max;
        let is_added = self.macs.add_static(vlan, address, end);
        is_added.then_some(()).ok_or(SwitchError::TooManyAddresses { most })
    }

    /// Returns the known addresses.
    pub fn addresses(&self, now_ns: u64) -> Vec<MacEntry> {
        self.macs.entries(now_ns)
    }

    /// Returns the totals of the MAC table.
    pub fn address_totals(&self) -> MacTotals {
        self.macs.totals()
    }

    /// Forgets all learned addresses. Returns their number.
    pub fn forget_addresses(&mut self) -> usize {
        self.macs.retain(|entry| entry.is_static)
    }

    /// Returns the number of seconds in which enough addresses moved to suggest a loop.
    pub fn loops(&self) -> u64 {
        self.loops
    }

    /// Ages out entries. Call it regularly; it acts every 100 ms.
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.ticked_ns) < TICK_NS {
            return;
        }
        self.ticked_ns = now_ns;
        self.macs.sweep(self.macs.slots() / TICKS as usize + 1, now_ns);
        self.ticks += 1;
        if self.ticks.is_multiple_of(TICKS) {
            let moved = self.macs.totals().moved;
            self.loops += u64::from(moved - self.moved_before > MOVES_OF_A_LOOP);
            self.moved_before = moved;
        }
    }

    /// Plans where the packets of a burst received on port `from` go. The burst has up to 65,536
    /// packets.
    ///
    /// Cost: a parse of the link header and two look-ups per packet; with rules also a parse of all
    /// headers.
    pub fn forward(&mut self, from: EndId, burst: &Burst<'_>, now_ns: u64, plan: &mut Plan) {
        plan.clear();
        for (index, packet) in burst.packets().enumerate() {
            let bytes = packet.bytes();
            let Some(port) = self.port(from) else { return };
            let frame = Frame::of(bytes, &port.config.vlan);
            let counters = &mut self.counters[from.index()];
            counters.frames_in += 1;
            counters.bytes_in += bytes.len() as u64;
            for &to in self.rules.mirrors().of_incoming(from) {
                mirror(&mut self.counters, plan, to, Copied::unchanged(index as u16));
            }
            let outcome = frame.and_then(|frame| {
                let (vlan, packet, sets) = (frame.vlan, index as u16, 0);
                let mut moving = Moving { from, packet, bytes, frame, vlan, sets, now_ns };
                self.pass(&mut moving, plan)
            });
            match outcome {
                Ok(()) => self.counters[from.index()].bytes_switched += bytes.len() as u64,
                Err(cause) => self.counters[from.index()].drop(cause),
            }
        }
    }

    /// Gives a frame to its ends, and counts it as forwarded or flooded.
    fn pass(&mut self, moving: &mut Moving<'_>, plan: &mut Plan) -> Result<(), Cause> {
        let destination = &moving.bytes[..6];
        if is_link_local(destination) {
            return Err(Cause::LinkLocal);
        }
        for to in self.rules.mirrors().of_vlan(moving.vlan) {
            mirror(&mut self.counters, plan, to, Copied::unchanged(moving.packet));
        }
        let mut is_forwarded = false;
        if !self.rules.is_empty() {
            let key = self.rules.key(moving.from, &moving.frame, moving.bytes);
            if let Some(rule) = self.rules.find(&key) {
                match self.apply(rule, moving, plan)? {
                    Applied::Done => return Ok(()),
                    Applied::GoesOn { is_given } => is_forwarded = is_given,
                }
            }
        }
        match self.go_on(moving, plan) {
            // A rule already forwarded the frame, so count it as forwarded.
            Err(_) if is_forwarded => {
                self.counters[moving.from.index()].forwarded += 1;
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Gives a frame to the end of its destination address, or floods it.
    fn go_on(&mut self, moving: &Moving<'_>, plan: &mut Plan) -> Result<(), Cause> {
        let destination = &moving.bytes[..6];
        self.learn(moving)?;
        if is_group(destination) {
            return self.flood(moving, plan);
        }
        match self.macs.find(key_of(moving.vlan, destination), moving.now_ns) {
            None => self.flood(moving, plan),
            Some(to) => {
                self.give(moving, to, plan)?;
                self.counters[moving.from.index()].forwarded += 1;
                Ok(())
            }
        }
    }

    /// Applies a rule: gives the frame to the rule's outputs, then continues if the rule says so.
    fn apply(
        &mut self,
        rule: usize,
        moving: &mut Moving<'_>,
        plan: &mut Plan,
    ) -> Result<Applied, Cause> {
        self.rules.count(rule, moving.bytes.len());
        let program = self.rules.program_of(rule);
        let (is_drop, is_normal, meter) = (program.is_drop, program.is_normal, program.meter);
        (moving.sets, moving.vlan) = (program.sets, program.vlan.unwrap_or(moving.vlan));
        for &to in &program.mirrors {
            mirror(&mut self.counters, plan, to, Copied::unchanged(moving.packet));
        }
        if is_drop {
            return Err(Cause::Rule);
        }
        if let Some(meter) = meter
            && !self.rules.meter(meter).allows(moving.bytes.len(), moving.now_ns)
        {
            return Err(Cause::Metered);
        }
        let mut outcome = Err(Cause::NoDestination);
        for index in 0..self.rules.program_of(rule).outputs.len() {
            let to = self.rules.program_of(rule).outputs[index];
            let given = self.give(moving, to, plan);
            outcome = if outcome.is_ok() { outcome } else { given };
        }
        if is_normal {
            return Ok(Applied::GoesOn { is_given: outcome.is_ok() });
        }
        outcome?;
        self.counters[moving.from.index()].forwarded += 1;
        Ok(Applied::Done)
    }

    fn learn(&mut self, moving: &Moving<'_>) -> Result<(), Cause> {
        let key = key_of(moving.frame.vlan, &moving.bytes[6..12]);
        let most = self.port(moving.from).and_then(|port| port.config.addresses_max);
        match self.macs.learn(key, moving.from, moving.now_ns, most) {
            Learned::Refused => Err(Cause::Security),
            Learned::Known | Learned::New => Ok(()),
            // If the port's addresses are limited, an unknown address would exceed the limit.
            Learned::Full if most.is_some() => Err(Cause::Security),
            Learned::Full => Ok(()),
        }
    }

    /// Gives a frame to every port that carries its VLAN.
    fn flood(&mut self, moving: &Moving<'_>, plan: &mut Plan) -> Result<(), Cause> {
        if let Some(storm) = self.port_mut(moving.from).and_then(|port| port.storm.as_mut())
            && !storm.allows(moving.bytes.len(), moving.now_ns)
        {
            return Err(Cause::Storm);
        }
        let (mut copies, mut cause) = (0, Cause::NoDestination);
        for index in 0..self.ports.len() {
            match self.give(moving, self.ports[index], plan) {
                Ok(()) => copies += 1,
                Err(Cause::Vlan) => cause = Cause::Vlan,
                Err(Cause::Isolated) if cause != Cause::Vlan => cause = Cause::Isolated,
                Err(_) => {}
            }
        }
        if copies == 0 {
            return Err(cause);
        }
        let counters = &mut self.counters[moving.from.index()];
        counters.flooded += 1;
        counters.flood_copies += copies;
        Ok(())
    }

    /// Gives a frame to a port, if W4 allows it.
    #[inline]
    fn give(&mut self, moving: &Moving<'_>, to: EndId, plan: &mut Plan) -> Result<(), Cause> {
        if to == moving.from {
            return Err(Cause::SamePort);
        }
        let (Some(from), Some(port)) = (self.port(moving.from), self.port(to)) else {
            return Err(Cause::NoDestination);
        };
        if !port.config.vlan.carries(moving.vlan) {
            return Err(Cause::NoDestination);
        }
        if from.config.isolate.is_some() && from.config.isolate == port.config.isolate {
            return Err(Cause::Isolated);
        }
        let is_tagged = port.config.vlan.tags(moving.vlan);
        if !is_tagged && moving.frame.has_inner {
            return Err(Cause::Vlan);
        }
        let tag = tag_for(moving, is_tagged);
        let copy = Copied { packet: moving.packet, sets: moving.sets, tag };
        plan.push(to, copy);
        self.counters[to.index()].copies_out += 1;
        for &target in self.rules.mirrors().of_outgoing(to) {
            mirror(&mut self.counters, plan, target, copy);
        }
        Ok(())
    }

    fn port(&self, end: EndId) -> Option<&PortState> {
        self.ends.get(end.index())?.as_ref()?.port.as_ref()
    }

    fn port_mut(&mut self, end: EndId) -> Option<&mut PortState> {
        self.ends.get_mut(end.index())?.as_mut()?.port.as_mut()
    }

    /// Rebuilds the rule table after the ends have changed.
    fn renew(&mut self, now_ns: u64) {
        self.set_rules(Arc::clone(self.rules.set()), now_ns);
    }
}

/// Gives a copy to the target of a mirror (W2).
#[inline]
fn mirror(counters: &mut [Counters], plan: &mut Plan, to: EndId, copy: Copied) {
    plan.push(to, copy);
    counters[to.index()].mirrored += 1;
}

/// Returns how the tag changes when a frame leaves tagged or untagged.
#[inline]
fn tag_for(moving: &Moving<'_>, is_tagged: bool) -> TagChange {
    let Some(tag) = moving.frame.tag else {
        return if is_tagged { TagChange::Put(moving.vlan) } else { TagChange::Keep };
    };
    let wanted = tag & PRIORITY | moving.vlan;
    match is_tagged {
        false => TagChange::Strip,
        true if tag == wanted => TagChange::Keep,
        true => TagChange::Put(wanted),
    }
}
