//! Rules as written: the fields they match, and their actions.

use std::sync::Arc;

use crate::mirror::Mirror;
use crate::{Match, Quota, SetFields};

/// An action of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Drops the frame.
    Drop,
    /// Forwards the frame by its destination address.
    Normal,
    /// Sends the frame to this end.
    Output(String),
    /// Sends a copy of the frame, as received, to this end.
    Mirror(String),
    /// Drops the frame if this meter is exceeded.
    Meter(String),
    /// Sets fields.
    Set(SetFields),
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule as written.
    pub text: String,
    /// The matching rule with the highest priority applies; of equal ones the first.
    pub priority: u16,
    /// The name of the receiving port, if it matches one.
    pub in_port: Option<String>,
    /// The other fields it matches.
    pub matches: Match,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// Rules, meters and mirrors, which are replaced as a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// The rules, in the order written.
    pub rules: Vec<Rule>,
    /// Meters by name.
    pub meters: Vec<(String, Quota)>,
    /// Mirrors.
    pub mirrors: Vec<Mirror>,
}

/// A rule or a mirror names an end that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The rule's number, from 0; `None` for a mirror.
    pub rule: Option<usize>,
    /// The name.
    pub name: String,
}

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Frames that it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Rule {
    /// Returns the names of ends in the rule.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.actions.iter().filter_map(|action| match action {
            Action::Output(name) | Action::Mirror(name) => Some(name.as_str()),
            Action::Drop | Action::Normal | Action::Meter(_) | Action::Set(_) => None,
        });
        self.in_port.as_deref().into_iter().chain(named)
    }
}

impl RuleSet {
    /// Returns the targets of all mirrors, including those in rules. The caller must open the
    /// targets that are not ports.
    pub fn targets(&self) -> Vec<&str> {
        let of_rules = self.rules.iter().flat_map(|rule| &rule.actions);
        let of_rules = of_rules.filter_map(|action| match action {
            Action::Mirror(name) => Some(name.as_str()),
            _ => None,
        });
        let mut all: Vec<_> =
            self.mirrors.iter().map(|mirror| mirror.to.as_str()).chain(of_rules).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Checks that `is_known` returns true for every name of an end.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn check(&self, is_known: impl Fn(&str) -> bool) -> Result<(), UnknownName> {
        for (index, rule) in self.rules.iter().enumerate() {
            if let Some(name) = rule.names().find(|name| !is_known(name)) {
                return Err(UnknownName { rule: Some(index), name: name.to_owned() });
            }
        }
        for mirror in &self.mirrors {
            let takes = mirror.takes.incoming.iter().chain(&mirror.takes.outgoing);
            let mut names = takes.chain([&mirror.to]);
            if let Some(name) = names.find(|name| !is_known(name)) {
                return Err(UnknownName { rule: None, name: name.clone() });
            }
        }
        Ok(())
    }

    /// Wraps the set so that rule tables can share it.
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}
