//! Link types of a job's interfaces, as seen by one thread.

use burstline_port::PortTable;
use burstline_wire::headers::LinkType;

/// Link types by interface.
pub(crate) struct Links {
    table: PortTable,
    known: [Option<LinkType>; PortTable::MAX_ENTRIES],
}

impl Links {
    pub(crate) fn new(table: &PortTable) -> Self {
        Self { table: table.clone(), known: [None; PortTable::MAX_ENTRIES] }
    }

    /// Returns the link type of interface `port`, and whether this thread asks for the first time.
    /// Cost: a load; the first time a lock.
    #[inline]
    pub(crate) fn of(&mut self, port: u8) -> (LinkType, bool) {
        match self.known[usize::from(port)] {
            Some(link) => (link, false),
            None => (self.look_up(port), true),
        }
    }

    #[cold]
    fn look_up(&mut self, port: u8) -> LinkType {
        let entry = self.table.entries_from(port.into()).into_iter().next();
        let link = entry.map_or(LinkType::ETHERNET, |entry| entry.link);
        *self.known[usize::from(port)].insert(link)
    }
}
