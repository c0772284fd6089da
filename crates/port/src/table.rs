//! Maps the port number in a desc to its interface.
//!
//! A desc has eight bits for its port. The ports of one job share a table, because interfaces
//! appear at run time: a pcapng file defines them in mid-stream. The recorder reads the table to
//! name them in its output.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use burstline_wire::headers::LinkType;

use crate::PortError;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Its name, for users and for output files.
    pub name: String,
    /// The link type: the first header of its packets.
    pub link: LinkType,
}

/// The interfaces of a job, in the order of their numbers. Clones share it.
#[derive(Clone, Default)]
pub struct PortTable(Arc<Mutex<Entries>>);

/// The number of a port's interface. Once this is dropped, a port of the same name and link may
/// reuse the number: its meaning never changes.
#[derive(Debug)]
pub(crate) struct Seat {
    table: PortTable,
    number: u8,
}

/// A callback for new interfaces that returns whether it wants more calls.
type Watcher = Box<dyn Fn(u8, &TableEntry) -> bool + Send>;

#[derive(Default)]
struct Entries {
    list: Vec<Row>,
    watchers: Vec<Watcher>,
}

struct Row {
    entry: TableEntry,
    /// The thread that added it.
    thread: ThreadId,
    /// Whether its port is gone.
    is_free: bool,
}

impl PortTable {
    /// The maximum number of interfaces.
    pub const MAX_ENTRIES: usize = 256;

    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an interface and returns its number; `None` when the table is full.
    pub fn add(&self, name: &str, link: LinkType) -> Option<u8> {
        self.lock().add(name, link)
    }

    /// Calls `tell` for each existing and each later interface, before any thread can have a packet
    /// of it. The thread that adds the interface makes the call. `tell` must not access the table.
    pub fn watch(&self, tell: impl Fn(u8, &TableEntry) + Send + 'static) {
        self.watch_while(move |number, entry| {
            tell(number, entry);
            true
        });
    }

    /// As [`watch`](Self::watch), until `tell` returns false.
    pub(crate) fn watch_while(&self, tell: impl Fn(u8, &TableEntry) -> bool + Send + 'static) {
        let mut entries = self.lock();
        if (0..=u8::MAX).zip(&entries.list).all(|(number, row)| tell(number, &row.entry)) {
            entries.watchers.push(Box::new(tell));
        }
    }

    /// As [`add`](Self::add), for the port at `address`, which fails without a number.
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

    /// As [`add_for`](Self::add_for), but releases the number when the seat is dropped.
    pub(crate) fn seat_for(
        &self,
        address: &str,
        name: &str,
        link: LinkType,
    ) -> Result<Seat, PortError> {
        let again = self.lock().take_again(name, link);
        let number = again.map_or_else(|| self.add_for(address, name, link), Ok)?;
        Ok(Seat { table: self.clone(), number })
    }

    /// Returns the number of interfaces; it never decreases.
    pub fn len(&self) -> usize {
        self.lock().list.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries from number `first` on.
    pub fn entries_from(&self, first: usize) -> Vec<TableEntry> {
        let entries = self.lock();
        entries.list.get(first..).unwrap_or(&[]).iter().map(|row| row.entry.clone()).collect()
    }

    /// Returns the entries in `range` that the calling thread added. A port adds its interfaces on
    /// the thread that opens or polls it. So a thread that polls several ports in turn can
    /// attribute interfaces to ports, even if other threads add some meanwhile.
    pub fn added_here(&self, range: Range<usize>) -> Vec<u8> {
        let entries = &self.lock().list;
        let here = thread::current().id();
        let range = range.start..range.end.min(entries.len());
        range.filter(|&number| entries[number].thread == here).map(|number| number as u8).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn add(&mut self, name: &str, link: LinkType) -> Option<u8> {
        if self.list.len() == PortTable::MAX_ENTRIES {
            return None;
        }
        let (number, entry) = (self.list.len() as u8, TableEntry { name: name.to_owned(), link });
        self.watchers.retain(|tell| tell(number, &entry));
        self.list.push(Row { entry, thread: thread::current().id(), is_free: false });
        Some(number)
    }

    /// Reuses the number of a removed port with the same name.
    fn take_again(&mut self, name: &str, link: LinkType) -> Option<u8> {
        let mut rows = (0..=u8::MAX).zip(&mut self.list);
        let is_same = |row: &Row| row.is_free && row.entry.name == name && row.entry.link == link;
        let (number, row) = rows.find(|(_, row)| is_same(row))?;
        (row.is_free, row.thread) = (false, thread::current().id());
        Some(number)
    }
}

impl Seat {
    pub(crate) fn number(&self) -> u8 {
        self.number
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.lock().list[usize::from(self.number)].is_free = true;
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
    fn a_watcher_that_has_gone_is_told_no_more() {
        let (table, told) = (PortTable::new(), Arc::new(Mutex::new(0)));
        let times = Arc::downgrade(&told);
        table.watch_while(move |_, _| {
            times.upgrade().is_some_and(|times| {
                *times.lock().unwrap() += 1;
                true
            })
        });
        table.add("a", LinkType::ETHERNET);
        assert_eq!((*told.lock().unwrap(), table.lock().watchers.len()), (1, 1));
        drop(told);
        table.add("b", LinkType::ETHERNET);
        assert!(table.lock().watchers.is_empty());
    }

    /// Ports of a switch are added and removed for years.
    #[test]
    fn a_port_that_comes_again_has_its_number_again() {
        let table = PortTable::new();
        let seat = |name: &str| table.seat_for(name, name, LinkType::ETHERNET);
        let other = seat("b").unwrap();
        for _ in 0..2 * PortTable::MAX_ENTRIES {
            assert_eq!(seat("a").unwrap().number(), 1);
        }
        let first = seat("a").unwrap();
        assert_eq!(seat("a").unwrap().number(), 2, "two of one name are two interfaces");
        assert_eq!((other.number(), first.number(), table.len()), (0, 1, 3));
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
