//! Elephants: the few flows that carry much of the traffic, found with one lookup a packet.
//!
//! ```text
//!  slot of the hash -> | hash | bytes | packets | debt | name |      1,024 slots of a line each
//! ```
//!
//! Each slot keeps one flow and a debt: the bytes of other flows since then. If the debt exceeds
//! the flow's bytes, the flow of the current packet takes the slot. So a flow with more than half
//! of its slot's bytes holds the slot. Its count misses at most the bytes it had while another flow
//! held the slot. Source: Boyer and Moore, "MJRTY", 1981, with bytes for votes.
//!
//! The counts include the bytes of all lent packets, even of those lost later.

use burstline_log::{Burst, Packet};
use burstline_port::PortTable;
use burstline_wire::flow::FlowKey;
use burstline_wire::hash::HashKind;
use burstline_wire::{headers, tunnel};

use super::Distribution;
use super::links::Links;

const SLOTS: usize = 1024;

/// Packets of a flow in its slot before its name is looked up; most flows never reach it.
const NAME_AT: u64 = 16;

/// The most flows that are named, and the least share of all bytes of each: 1/100.
const ELEPHANTS_MAX: usize = 8;
const LEAST_PART: u64 = 100;

/// A flow that carries much of the traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elephant {
    /// Its flow hash.
    pub hash: u32,
    /// Its name, in one direction: addresses, ports and protocol, if it has any.
    pub name: Option<String>,
    /// Packets, at least.
    pub packets: u64,
    /// Bytes, at least.
    pub bytes: u64,
    /// Its worker in each group.
    pub workers: Vec<usize>,
}

#[derive(Clone, Default)]
struct Slot {
    hash: u32,
    bytes: u64,
    packets: u64,
    debt: u64,
    name: Option<Box<str>>,
}

/// One receive thread's elephants.
#[derive(Default)]
pub(super) struct Herd {
    slots: Vec<Slot>,
    links: Option<Links>,
    is_inner: bool,
    bytes: u64,
}

impl std::fmt::Debug for Herd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Herd").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Herd {
    /// Creates the slots. A round-robin distribution has no flows, so it gets no slots.
    pub(super) fn new(table: PortTable, distribution: Distribution) -> Self {
        let has_flows = matches!(distribution, Distribution::Hash(_));
        let slots = if has_flows { vec![Slot::default(); SLOTS] } else { Vec::new() };
        let is_inner = distribution == Distribution::Hash(HashKind::Inner);
        Self { slots, links: Some(Links::new(&table)), is_inner, bytes: 0 }
    }

    /// Counts a burst. Cost: a cache line a packet; with few flows, these stay in the cache.
    pub(super) fn see(&mut self, burst: &Burst<'_>) {
        if self.slots.is_empty() {
            return;
        }
        for packet in burst.packets() {
            let (hash, length) = (packet.desc().hash(), packet.length() as u64);
            self.bytes += length;
            let slot = &mut self.slots[hash as usize % SLOTS];
            if slot.hash == hash {
                slot.bytes += length;
                slot.packets += 1;
                if slot.packets == NAME_AT {
                    self.name(&packet);
                }
                continue;
            }
            slot.debt += length;
            if slot.debt > slot.bytes {
                *slot = Slot { hash, bytes: length, packets: 1, debt: 0, name: None };
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn name(&mut self, packet: &Packet<'_>) {
        let Some(links) = &mut self.links else { return };
        let (bytes, (link, _)) = (packet.bytes(), links.of(packet.port()));
        let mut found = headers::parse(link, bytes);
        if self.is_inner
            && let Some(inner) = tunnel::innermost(&found, bytes)
        {
            found = inner.headers;
        }
        let key = FlowKey::new(&found, bytes);
        let slot = &mut self.slots[packet.desc().hash() as usize % SLOTS];
        slot.name = key.map(|key| key.symmetric().to_string().into());
    }

    /// Returns the elephants of all receive threads, the largest first; `workers_of` returns the
    /// workers of a hash.
    pub(super) fn largest<'h>(
        herds: impl Iterator<Item = &'h Self>,
        workers_of: impl Fn(u32) -> Vec<usize>,
    ) -> Vec<Elephant> {
        let (mut all, mut bytes): (Vec<Slot>, u64) = (Vec::new(), 0);
        for herd in herds {
            bytes += herd.bytes;
            for slot in herd.slots.iter().filter(|slot| slot.packets >= NAME_AT) {
                match all.iter_mut().find(|known| known.hash == slot.hash) {
                    Some(known) => {
                        known.bytes += slot.bytes;
                        known.packets += slot.packets;
                    }
                    None => all.push(slot.clone()),
                }
            }
        }
        all.retain(|slot| slot.bytes >= bytes / LEAST_PART);
        all.sort_by_key(|slot| std::cmp::Reverse(slot.bytes));
        all.truncate(ELEPHANTS_MAX);
        let elephant = |slot: Slot| Elephant {
            hash: slot.hash,
            name: slot.name.map(Into::into),
            packets: slot.packets,
            bytes: slot.bytes,
            workers: workers_of(slot.hash),
        };
        all.into_iter().map(elephant).collect()
    }
}
