//! Which of several sinks the packets of an interface go to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{PortTable, TableEntry};
use burstline_wire::headers::LinkType;

/// An interface of a file, as one names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceKey {
    /// By its number in the file, from 0.
    Number(usize),
    /// By its name in the file.
    Name(String),
}

/// What becomes of the packets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// They go to the sink that the routes tell for this number.
    Port(u8),
    /// No rule is about it.
    Nowhere,
    /// Its packets are not Ethernet's, and the sink sends nothing else.
    WrongLink,
}

/// Rules, and their result for each port number. Clones share the latter.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    rules: Vec<(InterfaceKey, usize)>,
    rest: Option<usize>,
    ethernet_only: Vec<bool>,
    met: Arc<Mutex<Met>>,
}

/// Interfaces that a note names, at most.
const NAMES_SHOWN: usize = 8;

/// What files had so far.
#[derive(Clone, Debug, Default)]
struct Met {
    /// Port numbers, and the sinks for them.
    lanes: Vec<(u8, usize)>,
    /// The rules that an interface has fitted, by their numbers.
    rules: Vec<usize>,
    /// Names of interfaces.
    names: Vec<String>,
}

impl Routes {
    /// `rules` name the number of a sink for an interface; the first that fits counts. `rest` is
    /// where all other packets go, if anywhere. `ethernet_only`: of each sink, whether it sends no
    /// other frames.
    #[must_use]
    pub fn new(
        rules: Vec<(InterfaceKey, usize)>,
        rest: Option<usize>,
        ethernet_only: Vec<bool>,
    ) -> Self {
        Self { rules, rest, ethernet_only, met: Arc::default() }
    }

    /// The number of the sink for packets with this port number, 0 if none was set. Cost: a
    /// lock.
    #[must_use]
    pub fn sink_of(&self, port: u8) -> usize {
        let met = self.met();
        met.lanes.iter().find(|(known, _)| *known == port).map_or(0, |&(_, sink)| sink)
    }

    /// Interfaces that rules name and that no packet came from.
    pub(super) fn missed(&self) -> Vec<String> {
        let met = self.met();
        let missed = (0..self.rules.len()).filter(|rule| !met.rules.contains(rule));
        let note = |rule: usize| {
            let known = match met.names.is_empty() {
                true => String::new(),
                false => {
                    let names: Vec<&str> =
                        met.names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
                    format!("; packets came from {}", names.join(", "))
                }
            };
            match &self.rules[rule].0 {
                InterfaceKey::Number(number) => {
                    format!("no packet came from interface {number}, which is mapped{known}")
                }
                InterfaceKey::Name(name) => {
                    format!("no packet came from interface '{name}', which is mapped{known}")
                }
            }
        };
        missed.map(note).collect()
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about interface `number` of a file, and enters it into the job's table if its
    /// packets go anywhere. `None`: the table is full.
    pub(super) fn enter(
        &self,
        number: usize,
        entry: &TableEntry,
        table: &PortTable,
    ) -> Option<Destination> {
        let is_it = |key: &InterfaceKey| match key {
            InterfaceKey::Number(wanted) => *wanted == number,
            InterfaceKey::Name(wanted) => *wanted == entry.name,
        };
        let fitting = (0..self.rules.len()).filter(|rule| is_it(&self.rules[*rule].0));
        let fitting: Vec<usize> = fitting.collect();
        let rule = fitting.first().map(|rule| self.rules[*rule].1);
        let mut met = self.met();
        met.rules.extend(fitting);
        met.names.push(format!("{number} ({})", entry.name));
        let Some(sink) = rule.or(self.rest) else { return Some(Destination::Nowhere) };
        let is_ethernet_only = self.ethernet_only.get(sink).copied().unwrap_or(false);
        if is_ethernet_only && entry.link != LinkType::ETHERNET {
            return Some(Destination::WrongLink);
        }
        let port = table.add(&entry.name, entry.link)?;
        met.lanes.push((port, sink));
        Some(Destination::Port(port))
    }
}
