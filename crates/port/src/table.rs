//! Which number in a desc is which interface.
//!
//! A desc has eight bits for its port. The ports of one job share a table, because interfaces
//! appear at run time: a pcapng file names them as it goes. The recorder reads the table to name
//! them again.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
#[derive(Clone, Default)]
pub struct PortTable(Arc<Mutex<Entries>>);

/// Who hears of interfaces.
type Watcher = Box<dyn Fn(u8, &TableEntry) + Send>;

#[derive(Default)]
struct Entries {
    list: Vec<(TableEntry, ThreadId)>,
    watchers: Vec<Watcher>,
}

impl PortTable {
    /// The maximum number of interfaces.
    pub const MAX_ENTRIES: usize = 256;

    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an interface and returns its number; `None` when the table is full.
    pub fn add(&self, name: &str, link: LinkType) -> Option<u8> {
        let mut entries = self.lock();
        if entries.list.len() == Self::MAX_ENTRIES {
            return None;
        }
        let (number, entry) =
            (entries.list.len() as u8, TableEntry { name: name.to_owned(), link });
        entries.watchers.iter().for_each(|tell| tell(number, &entry));
        entries.list.push((entry, thread::current().id()));
        Some(number)
    }

    /// Calls `tell` for each interface that exists and for each later one, before any thread can
    /// have a packet of it. The thread that adds the interface makes the call. It must not ask the
    /// table.
    pub fn watch(&self, tell: impl Fn(u8, &TableEntry) + Send + 'static) {
        let mut entries = self.lock();
        (0..=u8::MAX).zip(&entries.list).for_each(|(number, (entry, _))| tell(number, entry));
        entries.watchers.push(Box::new(tell));
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
        self.lock().list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries from number `first` on.
    pub fn entries_from(&self, first: usize) -> Vec<TableEntry> {
        let entries = self.lock();
        entries.list.get(first..).unwrap_or(&[]).iter().map(|(entry, _)| entry.clone()).collect()
    }

    /// Those of the entries `range` that the calling thread has added. A port adds its interfaces
    /// while it is opened or polled, on the thread that does so. So a thread that polls several
    /// ports in turn learns here whose they are, even if other threads add some meanwhile.
    pub fn added_here(&self, range: Range<usize>) -> Vec<u8> {
        let entries = &self.lock().list;
        let here = thread::current().id();
        let range = range.start..range.end.min(entries.len());
        range.filter(|&number| entries[number].1 == here).map(|number| number as u8).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PortTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries_from(0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_told_of_all() {
        let (table, told) = (PortTable::new(), Arc::new(Mutex::new(Vec::new())));
        let add = |name: &str| table.add(name, LinkType::ETHERNET);
        add("a");
        let list = Arc::clone(&told);
        table.watch(move |number, entry| list.lock().unwrap().push((number, entry.name.clone())));
        add("b");
        assert_eq!(*told.lock().unwrap(), [(0, "a".into()), (1, "b".into())]);
    }

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
