//! Mirrors: ends that get copies of selected traffic.

use crate::EndId;
use crate::port::VlanSet;

/// The traffic that a mirror takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names of ports whose received frames are mirrored, as received.
    pub incoming: Vec<String>,
    /// Names of ports whose outgoing copies are mirrored, as sent.
    pub outgoing: Vec<String>,
    /// VLANs whose admitted frames are mirrored, as received.
    pub vlans: Option<VlanSet>,
}

impl Selection {
    /// Adds both directions of these ports.
    #[must_use]
    pub fn with_both(mut self, ports: Vec<String>) -> Self {
        self.incoming.extend_from_slice(&ports);
        self.outgoing.extend(ports);
        self
    }
}

/// A mirror: the traffic it takes and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The name of the target: a port, or an end that is not a port.
    pub to: String,
    /// The traffic it takes.
    pub takes: Selection,
}

/// Mirrors with names resolved to ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirrors {
    /// By end: the targets of frames received there.
    incoming: Vec<Vec<EndId>>,
    /// By end: the targets of copies sent there.
    outgoing: Vec<Vec<EndId>>,
    vlans: Vec<(VlanSet, EndId)>,
}

const NOBODY: &[EndId] = &[];

impl Mirrors {
    /// Resolves the names of ends. Unknown names are ignored until an end has that name.
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
