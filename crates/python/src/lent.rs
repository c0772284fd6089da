//! A run of packets that stays where it is: what a burst of Python's and all its views share.

use std::sync::Arc;

use burstline_log::{Burst, Desc, Flags, Packet, Verdict, VerdictGiver};
use burstline_port::FilterByLink;
use burstline_share::Held;

use crate::fork::Here;
use crate::links::Links;
use crate::verdicts::Verdicts;

/// Packets that are held. The last share of it that goes lets go of them.
pub(crate) struct Lent {
    held: Here<Held>,
    chosen: Option<Chosen>,
    /// What packets begin with, by port.
    pub(crate) links: Arc<Links>,
    /// Which log of the name, or which source.
    pub(crate) log: u32,
    /// Which publisher of the name; 0 where there is none.
    pub(crate) epoch: u64,
    /// What the flow hash is made from, as a code.
    pub(crate) hash_kind: u32,
    /// Where packets wait for verdicts.
    pub(crate) verdicts: Option<Verdicts>,
}

/// Some of the packets, perhaps cut.
struct Chosen {
    /// Which of the burst's, ascending.
    indices: Vec<u32>,
    /// Their descs, the newest first, as in a log.
    worklist: Vec<Desc>,
    snapshot_bytes: u32,
}

/// One packet.
pub(crate) struct Seen<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) packet: Packet<'a>,
}

impl Seen<'_> {
    /// Its marks. What [`Flags::FACTS`] announces is in the other functions.
    pub(crate) fn flags(&self) -> u8 {
        self.packet.desc().flags().without(Flags::FACTS).bits()
    }
}

impl Lent {
    pub(crate) fn new(held: Held, links: Arc<Links>, log: u32, epoch: u64, hash_kind: u32) -> Self {
        let (held, chosen, verdicts) = (Here::new(held), None, None);
        Self { held, chosen, links, log, epoch, hash_kind, verdicts }
    }

    /// Leaves those packets that a filter wants, and of each no more than `snapshot_bytes`.
    /// Returns how many it does not want. Cost: the filter, and some ns a packet; no byte moves.
    pub(crate) fn choose(&mut self, filter: &FilterByLink, snapshot_bytes: Option<u32>) -> u64 {
        let burst = self.held.peek().burst();
        let most = snapshot_bytes.unwrap_or(u32::MAX);
        let (mut indices, mut worklist) = (Vec::new(), Vec::new());
        for (index, packet) in (0..).zip(burst.packets()) {
            let (link, length) = (self.links.link(packet.port()), packet.original_length());
            if filter.wants(link, packet.bytes(), length as u32) {
                indices.push(index);
                worklist.push(cut(packet.desc(), most));
            }
        }
        worklist.reverse();
        let unwanted = (burst.len() - indices.len()) as u64;
        self.chosen = Some(Chosen { indices, worklist, snapshot_bytes: most });
        unwanted
    }

    /// Has the packets wait for verdicts. Those that were not chosen get theirs now: they pass.
    pub(crate) fn wait_for(&mut self, giver: &Arc<VerdictGiver>) {
        let burst = self.held.peek().burst();
        let (first, count) = (burst.first_packet(), burst.len());
        let numbers = match &self.chosen {
            None => (first..).take(count).collect(),
            Some(Chosen { indices, .. }) => {
                let mut wanted = indices.iter().peekable();
                for index in 0..count as u32 {
                    if wanted.next_if_eq(&&index).is_none() {
                        // A verdict without bytes has no error.
                        let _ = giver.give(first + u64::from(index), Verdict::Pass);
                    }
                }
                indices.iter().map(|index| first + u64::from(*index)).collect()
            }
        };
        self.verdicts = Some(Verdicts::new(Arc::clone(giver), numbers));
    }

    /// The packets as they lie there, those included that were not chosen.
    pub(crate) fn burst(&self) -> Burst<'_> {
        self.held.peek().burst()
    }

    /// The descs, the newest first.
    pub(crate) fn worklist(&self) -> &[Desc] {
        match &self.chosen {
            Some(chosen) => &chosen.worklist,
            None => self.burst().worklist(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.worklist().len()
    }

    /// Packet `index`, in `[0, len)`.
    pub(crate) fn packet(&self, index: usize) -> Seen<'_> {
        let burst = self.burst();
        let (packet, most) = match &self.chosen {
            Some(chosen) => {
                (burst.packet(chosen.indices[index] as usize), chosen.snapshot_bytes as usize)
            }
            None => (burst.packet(index), usize::MAX),
        };
        let bytes = packet.bytes();
        Seen { bytes: &bytes[..bytes.len().min(most)], packet }
    }

    /// The packets, the oldest first.
    pub(crate) fn packets(&self) -> impl Iterator<Item = Seen<'_>> {
        (0..self.len()).map(|index| self.packet(index))
    }

    pub(crate) fn here(&self) -> &Here<Held> {
        &self.held
    }
}

/// The desc of no more than `most` bytes.
fn cut(desc: Desc, most: u32) -> Desc {
    let length = desc.length().min(most);
    Desc::new(desc.offset(), length, desc.port(), desc.flags())
        .with(desc.hash(), desc.time_delta_ns())
}
