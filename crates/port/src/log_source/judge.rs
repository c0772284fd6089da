//! What becomes of one packet: whether it is wanted, and how it is described here.

use burstline_log::{Meta, Packet};
use burstline_share::Feed;
use burstline_wire::hash::{FlowHasher, HashKind};

use super::interfaces::Interfaces;
use crate::filter::FilterByLink;
use crate::{Filter, OpenOptions};

/// The job's wishes.
pub(super) struct Judge {
    pub(super) filter: FilterByLink,
    is_filtering: bool,
    hash: HashKind,
    hasher: FlowHasher,
    /// Whether the writer's hashes are not those that the job wants.
    is_hashing: bool,
    snapshot_bytes: Option<u32>,
    /// Packets that the filter did not want.
    pub(super) filtered: u64,
    /// Packets lost before the next one that is delivered, besides those that itself tells of.
    pub(super) drops_before: u64,
    /// Packets delivered without their end.
    pub(super) truncated: u64,
}

impl Judge {
    pub(super) fn new(options: &OpenOptions) -> Self {
        Self {
            filter: FilterByLink::new(&options.filter),
            is_filtering: options.filter != Filter::All,
            hash: options.hash,
            hasher: FlowHasher::new(options.hash),
            is_hashing: false,
            snapshot_bytes: options.snapshot_bytes,
            filtered: 0,
            drops_before: 0,
            truncated: 0,
        }
    }

    /// The packets are another writer's from now on.
    pub(super) fn meet(&mut self, feed: &Feed) {
        self.is_hashing =
            self.hash != HashKind::None && feed.hash_kind() != u32::from(self.hash.code());
    }

    /// Whether packets are delivered just as they are, but for their interface's number.
    pub(super) fn is_indifferent(&self) -> bool {
        !self.is_filtering
            && !self.is_hashing
            && self.snapshot_bytes.is_none()
            && self.drops_before == 0
    }

    /// Whether a packet is wanted. One that is not is counted.
    #[inline]
    pub(super) fn wants(&mut self, packet: &Packet<'_>, interfaces: &Interfaces) -> bool {
        if !self.is_filtering {
            return true;
        }
        let link = interfaces.of(packet.port()).link;
        let is_wanted = self.filter.wants(link, packet.bytes(), packet.original_length() as u32);
        if !is_wanted {
            self.filtered += 1;
            self.drops_before = self.drops_before.saturating_add(packet.drops_before());
        }
        is_wanted
    }

    /// How many bytes of a packet to keep, and what is true of it here.
    #[inline]
    pub(super) fn describe(&mut self, packet: &Packet<'_>, interfaces: &Interfaces) -> (u32, Meta) {
        let interface = interfaces.of(packet.port());
        let kept = (packet.length() as u32).min(self.snapshot_bytes.unwrap_or(u32::MAX));
        let mut meta = packet.meta();
        meta.port = interface.number;
        meta.drops_before = meta.drops_before.saturating_add(self.drops_before);
        if self.is_hashing {
            let bytes = packet.bytes();
            let bytes = bytes.get(..kept as usize).unwrap_or(bytes);
            meta.hash = self.hasher.hash(interface.link, bytes);
        }
        (kept, meta)
    }

    /// Fragments that did not follow their flow, of those that were hashed here.
    pub(super) fn fragments_unmatched(&self) -> u64 {
        self.hasher.fragments_unmatched()
    }

    /// A packet that was described is delivered.
    #[inline]
    pub(super) fn deliver(&mut self, kept: u32, original_length: u32) {
        self.drops_before = 0;
        self.truncated += u64::from(kept < original_length);
    }
}
