//! The plan of a burst: for each end, the list of copies that it gets.

use crate::{EndId, TagChange};

/// A packet of a burst that goes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The packet's index in the burst.
    pub packet: u16,
    /// The fields to set: the index in the rule table's list plus 1, or 0 for none.
    pub sets: u16,
    /// The change of its VLAN tag.
    pub tag: TagChange,
}

impl Copied {
    /// Returns a copy of the packet as received.
    pub(crate) fn unchanged(packet: u16) -> Self {
        Self { packet, sets: 0, tag: TagChange::Keep }
    }
}

/// The copies of one burst's packets, by end.
#[derive(Debug, Default)]
pub struct Plan {
    lists: Vec<Vec<Copied>>,
    /// Ends that have copies, in the order of their first copy.
    touched: Vec<EndId>,
}

impl Plan {
    /// Removes the copies of the last burst.
    pub(crate) fn clear(&mut self) {
        for end in self.touched.drain(..) {
            self.lists[end.index()].clear();
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, end: EndId, copy: Copied) {
        if self.lists.len() <= end.index() {
            self.lists.resize_with(end.index() + 1, Vec::new);
        }
        let list = &mut self.lists[end.index()];
        if list.is_empty() {
            self.touched.push(end);
        }
        list.push(copy);
    }

    /// Returns the ends that get copies, and the copies of each in the order of the burst.
    pub fn outputs(&self) -> impl Iterator<Item = (EndId, &[Copied])> + '_ {
        self.touched.iter().map(|&end| (end, &self.lists[end.index()][..]))
    }

    /// Returns the copies of one end.
    pub fn of(&self, end: EndId) -> &[Copied] {
        self.lists.get(end.index()).map_or(&[], |list| list)
    }
}

/// The result of applying a rule to a frame.
pub(crate) enum Applied {
    /// The rule has handled the frame completely.
    Done,
    /// The frame is forwarded further, as frames without rules are.
    GoesOn {
        /// Whether the rule already gave it to an end.
        is_given: bool,
    },
}
