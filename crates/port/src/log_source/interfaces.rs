//! Maps the writer's interface numbers to the job's.

use burstline_log::Burst;
use burstline_share::Feed;
use burstline_wire::headers::LinkType;

use crate::judge::Judge;
use crate::{OpenOptions, PortError, PortTable};

/// The name of an interface that the writer has not named, before its number.
const NO_NAME: &str = "port";

/// One of the writer's interfaces, as registered in the job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// Its number in the job's table.
    pub(super) number: u8,
    pub(super) link: LinkType,
}

/// A map from the writer's numbers to the job's.
pub(super) struct Interfaces {
    table: PortTable,
    /// By the writer's number; `None` if no packet of that interface was seen.
    known: [Option<Interface>; PortTable::MAX_ENTRIES],
    /// All registered interfaces, of any writer.
    entered: Vec<(String, Interface)>,
}

impl Interfaces {
    pub(super) fn new(options: &OpenOptions) -> Self {
        let known = [None; PortTable::MAX_ENTRIES];
        Self { table: options.table.clone(), known, entered: Vec::new() }
    }

    /// Returns the interface of a packet of a burst that was `learned`.
    #[inline]
    pub(super) fn of(&self, port: u8) -> Interface {
        let unknown = Interface { number: port, link: LinkType::ETHERNET };
        self.known[usize::from(port)].unwrap_or(unknown)
    }

    /// Registers new interfaces of a burst. Returns whether all of them have the same numbers in
    /// both tables. Cost: a load or two per packet.
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

    /// Forgets the numbers, because another writer follows.
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

/// Returns the link type and name that the writer gives to an interface.
pub(super) fn named(feed: &Feed, port: u8) -> (LinkType, String) {
    match feed.port_name(port) {
        // A number beyond 16 bits is not a link type: map it to an unknown one.
        Some((link, name)) => (LinkType(u16::try_from(link).unwrap_or(u16::MAX)), name),
        None => (LinkType::ETHERNET, format!("{NO_NAME}{port}")),
    }
}
