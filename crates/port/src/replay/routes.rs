//! Which of several sinks the packets of an interface go to.

use std::sync::{Arc, Mutex, PoisonError};

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

/// Rules, and what came of them for each port number. Clones share the latter.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    rules: Vec<(InterfaceKey, usize)>,
    rest: Option<usize>,
    ethernet_only: Vec<bool>,
    lanes: Arc<Mutex<Vec<(u8, usize)>>>,
}

impl Routes {
    /// Rules that name the number of a sink for an interface, the first that fits, and where all
    /// other packets go, if anywhere. `ethernet_only`: of each sink, whether it sends no other
    /// frames.
    #[must_use]
    pub fn new(
        rules: Vec<(InterfaceKey, usize)>,
        rest: Option<usize>,
        ethernet_only: Vec<bool>,
    ) -> Self {
        Self { rules, rest, ethernet_only, lanes: Arc::default() }
    }

    /// The number of the sink for packets with this port number, 0 where none was told. Cost: a
    /// lock.
    #[must_use]
    pub fn sink_of(&self, port: u8) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().find(|(known, _)| *known == port).map_or(0, |&(_, sink)| sink)
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
        let rule = self.rules.iter().find(|(key, _)| is_it(key)).map(|&(_, sink)| sink);
        let Some(sink) = rule.or(self.rest) else { return Some(Destination::Nowhere) };
        let is_ethernet_only = self.ethernet_only.get(sink).copied().unwrap_or(false);
        if is_ethernet_only && entry.link != LinkType::ETHERNET {
            return Some(Destination::WrongLink);
        }
        let port = table.add(&entry.name, entry.link)?;
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push((port, sink));
        Some(Destination::Port(port))
    }
}
