//! Finds the rule of a packet.
//!
//! ```text
//!  key, of the bits that rules match ── same as last? ──► found
//!   └─hash──► exact-match cache: this key's rule ──► found
//!                  │ another key
//!                  ▼
//!   tuple spaces, the highest priority first:  mask A { masked key -> rule }
//!                                              mask B { ... }   until no better one can come
//! ```
//!
//! Rules that match the same bits are in one space. Searching a space costs one hash, however many
//! rules it has. The cache stores the answer for a key, including that no rule matches. A key has
//! only bits that some rule matches. So packets that no rule distinguishes share one key. If rules
//! match only ports and VLANs, no packet is parsed.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::frame::Frame;
use crate::hash::Seed;
use crate::key::Key;
use crate::meter::Meter;
use crate::mirror::Mirrors;
use crate::rules::{Action, RuleCounts, RuleSet};
use crate::{EndId, Match, SetFields};

/// Number of entries in the cache, which takes some 150 KiB.
const CACHE: usize = 2048;

/// The answer that no rule matches.
const NONE: u32 = u32::MAX;

/// A key that no packet has, because no VLAN is above 4095.
const NOBODY: Key = Key([u64::MAX; crate::key::WORDS]);

/// The rule of a key.
#[derive(Clone, Copy, Debug)]
struct Answer {
    key: Key,
    /// The rule's index, or [`NONE`].
    rule: u32,
}

impl Answer {
    /// No packet has this key.
    const NONE: Self = Self { key: NOBODY, rule: NONE };
}

/// The actions of a rule, with names resolved to numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) is_drop: bool,
    pub(crate) is_normal: bool,
    pub(crate) outputs: Vec<EndId>,
    pub(crate) mirrors: Vec<EndId>,
    pub(crate) meter: Option<usize>,
    /// See [`Copied::sets`](crate::Copied::sets).
    pub(crate) sets: u16,
    pub(crate) vlan: Option<u16>,
}

/// The rules with one mask.
#[derive(Debug)]
struct Space {
    mask: Key,
    /// The highest priority of its rules.
    most: u16,
    rules: HashMap<Key, u32, Seed>,
}

/// Counters of rule look-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUps {
    /// The number of different masks of the rules.
    pub masks: usize,
    /// Look-ups.
    pub count: u64,
    /// Look-ups that the cache answered.
    pub cache_hits: u64,
}

/// Rules, meters and mirrors, ready to be applied.
#[derive(Debug)]
pub struct RuleTable {
    set: Arc<RuleSet>,
    spaces: Vec<Space>,
    programs: Vec<Program>,
    fields: Vec<SetFields>,
    meters: Vec<Meter>,
    mirrors: Mirrors,
    /// The union of the masks of all rules.
    looked_at: Key,
    /// The last answer, and the cache of others.
    last: Answer,
    cache: Vec<Answer>,
    counts: Vec<RuleCounts>,
    seed: Seed,
    /// The counters, with `masks` unset.
    look_ups: LookUps,
}

impl RuleTable {
    /// Builds the table of a set. A rule whose receiving port does not exist matches nothing, and
    /// outputs to ends that do not exist are ignored. Cost: some hundred ns per rule.
    pub fn of(
        set: Arc<RuleSet>,
        find: impl Fn(&str) -> Option<EndId>,
        seed: u64,
        now_ns: u64,
    ) -> Self {
        let mut this = Self {
            spaces: Vec::new(),
            programs: Vec::with_capacity(set.rules.len()),
            fields: Vec::new(),
            meters: set.meters.iter().map(|(_, quota)| Meter::new(*quota, now_ns)).collect(),
            mirrors: Mirrors::resolve(&set.mirrors, &find),
            looked_at: Key::default(),
            last: Answer::NONE,
            cache: Vec::new(),
            counts: vec![RuleCounts::default(); set.rules.len()],
            seed: Seed(seed),
            set: Arc::clone(&set),
            look_ups: LookUps::default(),
        };
        for (index, rule) in set.rules.iter().enumerate() {
            let program = this.program(&rule.actions, &find);
            this.programs.push(program);
            let mut matches = rule.matches;
            match rule.in_port.as_deref().map(&find) {
                Some(None) => continue,
                Some(Some(end)) => matches.end(end),
                None => {}
            }
            this.enter(index as u32, &matches);
        }
        this.spaces.sort_by_key(|space| std::cmp::Reverse(space.most));
        if !this.spaces.is_empty() {
            let masks = this.spaces.iter().map(|space| &space.mask);
            this.looked_at = masks.fold(Key::default(), |all, mask| all.with(mask));
            this.cache = vec![Answer::NONE; CACHE];
        }
        this
    }

    fn program(&mut self, actions: &[Action], find: &impl Fn(&str) -> Option<EndId>) -> Program {
        let mut program = Program::default();
        let mut fields = SetFields::default();
        for action in actions {
            match action {
                Action::Drop => program.is_drop = true,
                Action::Normal => program.is_normal = true,
                Action::Output(name) => program.outputs.extend(find(name)),
                Action::Mirror(name) => program.mirrors.extend(find(name)),
                Action::Meter(name) => {
                    program.meter = self.set.meters.iter().position(|(known, _)| known == name);
                }
                Action::Set(set) => fields = merged(fields, set),
            }
        }
        program.vlan = fields.vlan;
        if fields.changes_bytes() {
            let known = self.fields.iter().position(|known| *known == fields);
            let at = known.unwrap_or_else(|| {
                self.fields.push(fields);
                self.fields.len() - 1
            });
            program.sets = (at + 1) as u16;
        }
        program
    }

    fn enter(&mut self, index: u32, matches: &Match) {
        let priority = self.set.rules[index as usize].priority;
        let seed = self.seed;
        let at = self.spaces.iter().position(|space| space.mask == matches.mask);
        let at = at.unwrap_or_else(|| {
            let rules = HashMap::with_hasher(seed);
            self.spaces.push(Space { mask: matches.mask, most: 0, rules });
            self.spaces.len() - 1
        });
        let space = &mut self.spaces[at];
        space.most = space.most.max(priority);
        let known = space.rules.entry(matches.value).or_insert(index);
        if self.set.rules[*known as usize].priority < priority {
            *known = index;
        }
    }

    /// Returns whether there are no rules to look up.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Returns the key of a packet: the bits of its fields that rules match.
    #[inline]
    pub(crate) fn key(&self, from: EndId, frame: &Frame, bytes: &[u8]) -> Key {
        let key = match self.looked_at.is_of_place() {
            true => Key::of_place(from, frame),
            false => Key::of(from, frame, bytes),
        };
        key.masked(&self.looked_at)
    }

    /// Finds the rule of a packet by its [`key`](Self::key).
    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<usize> {
        self.look_ups.count += 1;
        if self.last.key == *key {
            self.look_ups.cache_hits += 1;
        } else {
            self.last = Answer { key: *key, rule: self.find_other(key) };
        }
        (self.last.rule != NONE).then_some(self.last.rule as usize)
    }

    fn find_other(&mut self, key: &Key) -> u32 {
        let at = self.seed.hash_one(key) as usize % CACHE;
        let Some(known) = self.cache.get(at) else { return NONE };
        if known.key == *key {
            self.look_ups.cache_hits += 1;
            return known.rule;
        }
        let found = self.search(key).map_or(NONE, |index| index as u32);
        self.cache[at] = Answer { key: *key, rule: found };
        found
    }

    /// Like [`find`](Self::find), without the cache.
    pub(crate) fn search(&self, key: &Key) -> Option<usize> {
        let mut best: Option<(u16, u32)> = None;
        for space in &self.spaces {
            if best.is_some_and(|(priority, _)| priority > space.most) {
                break;
            }
            let Some(&rule) = space.rules.get(&key.masked(&space.mask)) else { continue };
            let priority = self.set.rules[rule as usize].priority;
            let is_better = best
                .is_none_or(|(known, index)| priority > known || priority == known && rule < index);
            if is_better {
                best = Some((priority, rule));
            }
        }
        best.map(|(_, rule)| rule as usize)
    }

    #[inline]
    pub(crate) fn program_of(&self, rule: usize) -> &Program {
        &self.programs[rule]
    }

    #[inline]
    pub(crate) fn count(&mut self, rule: usize, bytes: usize) {
        let counts = &mut self.counts[rule];
        *counts = RuleCounts { packets: counts.packets + 1, bytes: counts.bytes + bytes as u64 };
    }

    pub(crate) fn meter(&mut self, meter: usize) -> &mut Meter {
        &mut self.meters[meter]
    }

    #[inline]
    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Returns the fields to set in a copy.
    #[inline]
    pub fn fields(&self, sets: u16) -> Option<&SetFields> {
        self.fields.get(usize::from(sets).checked_sub(1)?)
    }

    /// Returns the set that the table was built from.
    pub fn set(&self) -> &Arc<RuleSet> {
        &self.set
    }

    /// Returns the counters of each rule, in the order of the set.
    pub fn counts(&self) -> &[RuleCounts] {
        &self.counts
    }

    /// Returns the meters, in the order of the set.
    pub fn meters(&self) -> &[Meter] {
        &self.meters
    }

    /// Returns the counters of rule look-ups.
    pub fn look_ups(&self) -> LookUps {
        LookUps { masks: self.spaces.len(), ..self.look_ups }
    }

    /// Takes over the counts of `before`, if it has the same rules and meters.
    pub(crate) fn go_on(&mut self, before: &Self) {
        let is_same = Arc::ptr_eq(&self.set, &before.set)
            || self.set.rules == before.set.rules && self.set.meters == before.set.meters;
        if is_same {
            self.counts.clone_from(&before.counts);
            self.meters.clone_from(&before.meters);
            self.look_ups = before.look_ups;
        }
    }
}

/// Merges two sets of fields; `then` takes precedence.
fn merged(first: SetFields, then: &SetFields) -> SetFields {
    SetFields {
        source: then.source.or(first.source),
        destination: then.destination.or(first.destination),
        vlan: then.vlan.or(first.vlan),
        ip_source: then.ip_source.or(first.ip_source),
        ip_destination: then.ip_destination.or(first.ip_destination),
        source_port: then.source_port.or(first.source_port),
        destination_port: then.destination_port.or(first.destination_port),
    }
}
