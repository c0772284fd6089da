//! Maps interfaces to sinks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{PortTable, TableEntry};
use burstline_wire::headers::LinkType;

/// An interface of a file, as named by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceKey {
    /// By its number in the file, from 0.
    Number(usize),
    /// By its name in the file.
    Name(String),
}

/// The destination of an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The sink that the routes give for this number.
    Port(u8),
    /// No rule matches.
    Nowhere,
    /// Its packets are not Ethernet, and the sink only sends Ethernet.
    WrongLink,
}

/// Rules, and the resulting sink for each port number. Clones share the latter.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    rules: Vec<(InterfaceKey, usize)>,
    rest: Option<usize>,
    ethernet_only: Vec<bool>,
    met: Arc<Mutex<Met>>,
}

/// The maximum number of interfaces in a note.
const NAMES_SHOWN: usize = 8;

/// The interfaces met so far.
#[derive(Clone, Debug, Default)]
struct Met {
    /// Port numbers and their sinks.
    lanes: Vec<(u8, usize)>,
    /// Indexes of rules that an interface has matched.
    rules: Vec<usize>,
    /// Names of interfaces.
    names: Vec<String>,
}

impl Routes {
    /// Creates routes. `rules` map interfaces to indexes of sinks; the first match counts. `rest`
    /// is the sink for all other packets, if any. `ethernet_only` says for each sink whether it
    /// only sends Ethernet frames.
    #[must_use]
    pub fn new(
        rules: Vec<(InterfaceKey, usize)>,
        rest: Option<usize>,
        ethernet_only: Vec<bool>,
    ) -> Self {
        Self { rules, rest, ethernet_only, met: Arc::default() }
    }

    /// Returns the index of the sink for packets with this port number, 0 if none was set. Cost: a
    /// lock.
    #[must_use]
    pub fn sink_of(&self, port: u8) -> usize {
        let met = self.met();
        met.lanes.iter().find(|(known, _)| *known == port).map_or(0, |&(_, sink)| sink)
    }

    /// Returns interfaces named by rules from which no packet came.
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

    /// Chooses the destination of interface `number` of a file, and adds the interface to the job's
    /// table if it has a sink. `None` if the table is full.
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
