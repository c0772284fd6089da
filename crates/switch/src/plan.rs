//! Where the packets of a burst go: a list of copies for each end.

use crate::{EndId, TagChange};

/// A packet of a burst that goes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its number in the burst.
    pub packet: u16,
    /// The fields that are set, as an index of the rule table's list, plus 1; 0 for none.
    pub sets: u16,
    /// What becomes of its tag.
    pub tag: TagChange,
}

impl Copied {
    /// The packet as it came.
    pub(crate) fn unchanged(packet: u16) -> Self {
        Self { packet, sets: 0, tag: TagChange::Keep }
    }
}

/// Where the packets of one burst go.
#[derive(Debug, Default)]
pub struct Plan {
    lists: Vec<Vec<Copied>>,
    /// Ends that have copies, in the order in which they got the first.
    touched: Vec<EndId>,
}

impl Plan {
    /// Forgets the last burst.
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

    /// The ends that get something, and what, each in the order of the burst.
    pub fn outputs(&self) -> impl Iterator<Item = (EndId, &[Copied])> + '_ {
        self.touched.iter().map(|&end| (end, &self.lists[end.index()][..]))
    }

    /// What one end gets.
    pub fn of(&self, end: EndId) -> &[Copied] {
        self.lists.get(end.index()).map_or(&[], |list| list)
    }
}

/// What a rule has made of a frame.
pub(crate) enum Applied {
    /// It went where the rule says, and that was all.
    Done,
    /// It goes on as frames without rules do.
    GoesOn {
        /// Whether it went somewhere already.
        is_given: bool,
    },
}
