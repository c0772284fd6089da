//! Which number in a desc is which interface.
//!
//! A desc has eight bits for its port. The ports of one job share a table, because interfaces
//! appear at run time: a pcapng file names them as it goes. The recorder reads the table to name
//! them again.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use burstline_wire::headers::LinkType;

use crate::PortError;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Its name, for people and for the files written.
    pub name: String,
    /// What the first header of its packets is.
    pub link: LinkType,
}

/// The interfaces of a job, in the order of their numbers. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PortTable(Arc<Mutex<Vec<(TableEntry, ThreadId)>>>);

impl PortTable {
    /// The most interfaces that can be told apart.
    pub const MAX_ENTRIES: usize = 256;

    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an interface and returns its number; `None` when the table is full.
    pub fn add(&self, name: &str, link: LinkType) -> Option<u8> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == Self::MAX_ENTRIES {
            return None;
        }
        entries.push((TableEntry { name: name.to_owned(), link }, thread::current().id()));
        Some((entries.len() - 1) as u8)
    }

    /// As [`add`](Self::add), for the port at `address`, which cannot do without.
    pub(crate) fn add_for(
        &self,
        address: &str,
        name: &str,
        link: LinkType,
    ) -> Result<u8, PortError> {
        self.add(name, link).ok_or_else(|| PortError::TooManyInterfaces {
            port: address.to_owned(),
            number: Self::MAX_ENTRIES,
            most: Self::MAX_ENTRIES,
        })
    }

    /// How many there are now; never becomes less.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries from number `first` on.
    pub fn entries_from(&self, first: usize) -> Vec<TableEntry> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(first..).unwrap_or(&[]).iter().map(|(entry, _)| entry.clone()).collect()
    }

    /// Those of the entries `range` that the calling thread has added. A port adds its interfaces
    /// while it is opened or polled, on the thread that does so; so whoever polls several ports,
    /// one after the other, learns here whose they are, whatever other threads add meanwhile.
    pub fn added_here(&self, range: Range<usize>) -> Vec<u8> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = thread::current().id();
        let range = range.start..range.end.min(entries.len());
        range.filter(|&number| entries[number].1 == here).map(|number| number as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_is_told_of_what_it_added() {
        let table = PortTable::new();
        let add = |name: &str| table.add(name, LinkType::ETHERNET).unwrap();
        assert_eq!(add("mine"), 0);
        thread::scope(|scope| {
            let other = scope.spawn(|| (add("theirs"), table.added_here(0..2)));
            assert_eq!(other.join().unwrap(), (1, vec![1]));
        });
        assert_eq!(add("mine again"), 2);
        assert_eq!(table.added_here(0..3), [0, 2]);
        assert_eq!(table.added_here(1..9), [2]);
        assert_eq!(table.entries_from(1).len(), 2);
    }
}
