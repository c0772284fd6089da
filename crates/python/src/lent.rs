//! A run of packets that stay in place, shared by a Python burst and its views.

use std::sync::Arc;

use burstline_log::{Burst, Desc, Flags, Packet, Verdict, VerdictGiver};
use burstline_port::FilterByLink;
use burstline_share::Held;

use crate::fork::Here;
use crate::links::Links;
use crate::verdicts::Verdicts;

/// Packets that are held. Dropping the last share releases them.
pub(crate) struct Lent {
    held: Here<Held>,
    chosen: Option<Chosen>,
    /// Link types and names by port.
    pub(crate) links: Arc<Links>,
    /// Index of the log of the name, or of the source.
    pub(crate) log: u32,
    /// Epoch of the publisher; 0 if there is none.
    pub(crate) epoch: u64,
    /// Code of the kind of flow hash.
    pub(crate) hash_kind: u32,
    /// Present if the packets wait for verdicts.
    pub(crate) verdicts: Option<Verdicts>,
}

/// A selection of the packets, possibly truncated.
struct Chosen {
    /// Their indices in the burst, ascending.
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
    /// Returns the packet's marks. What [`Flags::FACTS`] announces is returned by the other
    /// functions.
    pub(crate) fn flags(&self) -> u8 {
        self.packet.desc().flags().without(Flags::FACTS).bits()
    }
}

impl Lent {
    pub(crate) fn new(held: Held, links: Arc<Links>, log: u32, epoch: u64, hash_kind: u32) -> Self {
        let (held, chosen, verdicts) = (Here::new(held), None, None);
        Self { held, chosen, links, log, epoch, hash_kind, verdicts }
    }

    /// Keeps only packets that the filter accepts, truncated to `snapshot_bytes`. Returns the
    /// number of rejected packets. Cost: the filter, and some ns per packet; no bytes are moved.
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

    /// Makes the packets wait for verdicts. Packets that were not chosen pass now.
    pub(crate) fn wait_for(&mut self, giver: &Arc<VerdictGiver>) {
        let burst = self.held.peek().burst();
        let (first, count) = (burst.first_packet(), burst.len());
        let numbers = match &self.chosen {
            None => (first..).take(count).collect(),
            Some(Chosen { indices, .. }) => {
                let mut wanted = indices.iter().peekable();
                for index in 0..count as u32 {
                    if wanted.next_if_eq(&&index).is_none() {
                        // A verdict without bytes cannot fail.
                        let _ = giver.give(first + u64::from(index), Verdict::Pass);
                    }
                }
                indices.iter().map(|index| first + u64::from(*index)).collect()
            }
        };
        self.verdicts = Some(Verdicts::new(Arc::clone(giver), numbers));
    }

    /// Returns the packets in place, including those that were not chosen.
    pub(crate) fn burst(&self) -> Burst<'_> {
        self.held.peek().burst()
    }

    /// Returns the descs, the newest first.
    pub(crate) fn worklist(&self) -> &[Desc] {
        match &self.chosen {
            Some(chosen) => &chosen.worklist,
            None => self.burst().worklist(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.worklist().len()
    }

    /// Returns packet `index`, in `[0, len)`.
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

    /// Returns the packets, the oldest first.
    pub(crate) fn packets(&self) -> impl Iterator<Item = Seen<'_>> {
        (0..self.len()).map(|index| self.packet(index))
    }

    pub(crate) fn here(&self) -> &Here<Held> {
        &self.held
    }
}

/// Returns the desc truncated to at most `most` bytes.
fn cut(desc: Desc, most: u32) -> Desc {
    let length = desc.length().min(most);
    Desc::new(desc.offset(), length, desc.port(), desc.flags())
        .with(desc.hash(), desc.time_delta_ns())
}
