//! Which number in a desc is which interface.
//!
//! A desc has eight bits for its port. The ports of one job share a table, because interfaces
//! appear at run time: a pcapng file names them as it goes. The recorder reads the table to name
//! them again.

use std::sync::{Arc, Mutex, PoisonError};

use burstline_wire::headers::LinkType;

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
pub struct PortTable(Arc<Mutex<Vec<TableEntry>>>);

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
        entries.push(TableEntry { name: name.to_owned(), link });
        Some((entries.len() - 1) as u8)
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
        entries.get(first..).unwrap_or(&[]).to_vec()
    }
}
