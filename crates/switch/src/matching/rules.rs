//! Rules as they are written: what they look at, and what they do.

use std::sync::Arc;

use crate::mirror::Mirror;
use crate::{Match, Quota, SetFields};

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The frame goes nowhere.
    Drop,
    /// It goes where its address leads.
    Normal,
    /// It goes to this end.
    Output(String),
    /// This end gets a copy, as the frame came.
    Mirror(String),
    /// It goes nowhere where this meter is exceeded.
    Meter(String),
    /// Fields are set.
    Set(SetFields),
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// Of several rules that match, the one with the highest; of equal ones the first.
    pub priority: u16,
    /// The port that frames come in by, by name.
    pub in_port: Option<String>,
    /// What else it looks at.
    pub matches: Match,
    /// What it does.
    pub actions: Vec<Action>,
}

/// All that is replaced at once: rules, meters and mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// The rules, in the order in which they were written.
    pub rules: Vec<Rule>,
    /// Meters by name.
    pub meters: Vec<(String, Quota)>,
    /// Mirrors.
    pub mirrors: Vec<Mirror>,
}

/// A rule, or a mirror, names an end that there is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The rule's number, from 0 on; `None`: it is a mirror.
    pub rule: Option<usize>,
    /// The name.
    pub name: String,
}

/// What a rule has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Frames that it was applied to.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Rule {
    /// The ends that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.actions.iter().filter_map(|action| match action {
            Action::Output(name) | Action::Mirror(name) => Some(name.as_str()),
            Action::Drop | Action::Normal | Action::Meter(_) | Action::Set(_) => None,
        });
        self.in_port.as_deref().into_iter().chain(named)
    }
}

impl RuleSet {
    /// The targets of mirrors, of rules' own, too: ends that are no ports have to be opened.
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

    /// Checks that `is_known` knows every name of an end.
    ///
    /// # Errors
    /// The first that it does not know.
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

    /// As it is kept: shared by the tables that are made of it.
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}
