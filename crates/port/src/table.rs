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

/// The number of a port's interface. Once this is dropped, a port of the same name and link may
/// have the number again: what it stands for never changes.
#[derive(Debug)]
pub(crate) struct Seat {
    table: PortTable,
    number: u8,
}

/// Who hears of interfaces, and says whether it still wants to.
type Watcher = Box<dyn Fn(u8, &TableEntry) -> bool + Send>;

#[derive(Default)]
struct Entries {
    list: Vec<Row>,
    watchers: Vec<Watcher>,
}

struct Row {
    entry: TableEntry,
    /// Who has added it.
    thread: ThreadId,
    /// Its port has gone.
    is_free: bool,
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
        self.lock().add(name, link)
    }

    /// Calls `tell` for each interface that exists and for each later one, before any thread can
    /// have a packet of it. The thread that adds the interface makes the call. It must not ask the
    /// table.
    pub fn watch(&self, tell: impl Fn(u8, &TableEntry) + Send + 'static) {
        self.watch_while(move |number, entry| {
            tell(number, entry);
            true
        });
    }

    /// As [`watch`](Self::watch), until `tell` says no.
    pub(crate) fn watch_while(&self, tell: impl Fn(u8, &TableEntry) -> bool + Send + 'static) {
        let mut entries = self.lock();
        if (0..=u8::MAX).zip(&entries.list).all(|(number, row)| tell(number, &row.entry)) {
            entries.watchers.push(Box::new(tell));
        }
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

    /// As [`add_for`](Self::add_for), as long as the port has its seat.
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
        entries.list.get(first..).unwrap_or(&[]).iter().map(|row| row.entry.clone()).collect()
    }

    /// Those of the entries `range` that the calling thread has added. A port adds its interfaces
    /// while it is opened or polled, on the thread that does so. So a thread that polls several
    /// ports in turn learns here whose they are, even if other threads add some meanwhile.
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

    /// The number of a port that has gone and was called the same.
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

    /// Ports of a switch come and go for years.
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
