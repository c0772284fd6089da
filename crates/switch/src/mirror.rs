//! Mirrors: who gets a copy of what crosses.

use crate::EndId;
use crate::port::VlanSet;

/// What a mirror takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ports by name; frames that come in there, as they come.
    pub incoming: Vec<String>,
    /// Ports by name; copies that leave there, as they leave.
    pub outgoing: Vec<String>,
    /// VLANs; frames of them that were let in, as they came.
    pub vlans: Option<VlanSet>,
}

impl Selection {
    /// The same, and both directions of these ports.
    #[must_use]
    pub fn with_both(mut self, ports: Vec<String>) -> Self {
        self.incoming.extend_from_slice(&ports);
        self.outgoing.extend(ports);
        self
    }
}

/// A mirror: what it takes and where that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// An end by name: a port, or a target that is not a port.
    pub to: String,
    /// What it takes.
    pub takes: Selection,
}

/// Mirrors with their ends' numbers in the place of names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirrors {
    /// By end: who gets what comes in there.
    incoming: Vec<Vec<EndId>>,
    /// By end: who gets what leaves there.
    outgoing: Vec<Vec<EndId>>,
    vlans: Vec<(VlanSet, EndId)>,
}

const NOBODY: &[EndId] = &[];

impl Mirrors {
    /// Names that no end has are left out until one has them.
    pub(crate) fn resolve(mirrors: &[Mirror], find: impl Fn(&str) -> Option<EndId>) -> Self {
        let mut this = Self::default();
        for mirror in mirrors {
            let Some(to) = find(&mirror.to) else { continue };
            let takes = &mirror.takes;
            for (names, lists) in
                [(&takes.incoming, &mut this.incoming), (&takes.outgoing, &mut this.outgoing)]
            {
                for end in names.iter().filter_map(|name| find(name)).filter(|&end| end != to) {
                    lists.resize(lists.len().max(end.index() + 1), Vec::new());
                    if !lists[end.index()].contains(&to) {
                        lists[end.index()].push(to);
                    }
                }
            }
            if let Some(vlans) = &takes.vlans {
                this.vlans.push((vlans.clone(), to));
            }
        }
        this
    }

    #[inline]
    pub(crate) fn of_incoming(&self, end: EndId) -> &[EndId] {
        self.incoming.get(end.index()).map_or(NOBODY, |list| list)
    }

    #[inline]
    pub(crate) fn of_outgoing(&self, end: EndId) -> &[EndId] {
        self.outgoing.get(end.index()).map_or(NOBODY, |list| list)
    }

    #[inline]
    pub(crate) fn of_vlan(&self, vlan: u16) -> impl Iterator<Item = EndId> + '_ {
        self.vlans.iter().filter(move |(vlans, _)| vlans.has(vlan)).map(|&(_, to)| to)
    }
}
