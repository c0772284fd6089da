//! The writer's numbers of interfaces, and the job's.

use burstline_log::Burst;
use burstline_share::Feed;
use burstline_wire::headers::LinkType;

use crate::judge::Judge;
use crate::{OpenOptions, PortError, PortTable};

/// What stands for a number that the writer has not named.
const NO_NAME: &str = "port";

/// One of the writer's interfaces, as the job knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// Its number in the job's table.
    pub(super) number: u8,
    pub(super) link: LinkType,
}

/// From the writer's numbers to the job's.
pub(super) struct Interfaces {
    table: PortTable,
    /// By the writer's number; `None` where no packet of it was seen.
    known: [Option<Interface>; PortTable::MAX_ENTRIES],
    /// All that were entered, whichever writer brought them.
    entered: Vec<(String, Interface)>,
}

impl Interfaces {
    pub(super) fn new(options: &OpenOptions) -> Self {
        let known = [None; PortTable::MAX_ENTRIES];
        Self { table: options.table.clone(), known, entered: Vec::new() }
    }

    /// The interface of a packet of a burst that was `learned`.
    #[inline]
    pub(super) fn of(&self, port: u8) -> Interface {
        let unknown = Interface { number: port, link: LinkType::ETHERNET };
        self.known[usize::from(port)].unwrap_or(unknown)
    }

    /// Enters the interfaces of a burst that are new. Returns whether all have the same numbers
    /// here as there. Cost: a load or two a packet.
    pub(super) fn learn(
        &mut self,
        port: &str,
        burst: &Burst<'_>,
        feed: &Feed,
        wishes: &mut Judge,
    ) -> Result<bool, PortError> {
        let mut is_same = true;
        for packet in burst.packets() {
            let theirs = packet.port();
            let ours = match self.known[usize::from(theirs)] {
                Some(interface) => interface.number,
                None => self.enter(port, theirs, feed, wishes)?,
            };
            is_same &= ours == theirs;
        }
        Ok(is_same)
    }

    /// The numbers are another writer's from now on.
    pub(super) fn forget_numbers(&mut self) {
        self.known = [None; PortTable::MAX_ENTRIES];
    }

    #[cold]
    fn enter(
        &mut self,
        port: &str,
        theirs: u8,
        feed: &Feed,
        wishes: &mut Judge,
    ) -> Result<u8, PortError> {
        let (link, name) = named(feed, theirs);
        wishes.add_link(port, link)?;
        let same =
            |(known, interface): &&(String, Interface)| *known == name && interface.link == link;
        let interface = match self.entered.iter().find(same) {
            Some((_, interface)) => *interface,
            None => {
                let number = self.table.add_for(port, &name, link)?;
                let interface = Interface { number, link };
                self.entered.push((name, interface));
                interface
            }
        };
        self.known[usize::from(theirs)] = Some(interface);
        Ok(interface.number)
    }
}

/// What the writer calls an interface.
pub(super) fn named(feed: &Feed, port: u8) -> (LinkType, String) {
    match feed.port_name(port) {
        // Beyond 16 bits there is no link type: one that nothing knows.
        Some((link, name)) => (LinkType(u16::try_from(link).unwrap_or(u16::MAX)), name),
        None => (LinkType::ETHERNET, format!("{NO_NAME}{port}")),
    }
}
