//! Decides whether a packet is wanted, and how it is described here.

use burstline_log::{Meta, Packet};
use burstline_share::Feed;
use burstline_wire::hash::HashKind;

use super::interfaces::Interfaces;
use crate::OpenOptions;
use crate::judge::Judge;

/// The job's wishes, for packets that come with the writer's metadata.
pub(super) struct LogJudge {
    pub(super) wishes: Judge,
    hash: HashKind,
    /// Packets lost before the next delivered one, besides those in its own `drops_before`.
    pub(super) drops_before: u64,
    /// Packets delivered truncated.
    pub(super) truncated: u64,
}

impl LogJudge {
    pub(super) fn new(options: &OpenOptions) -> Self {
        Self { wishes: Judge::new(options), hash: options.hash, drops_before: 0, truncated: 0 }
    }

    /// Switches to another writer, whose hashes may already be those that the job wants.
    pub(super) fn meet(&mut self, feed: &Feed) {
        let is_other = feed.hash_kind() != u32::from(self.hash.code());
        self.wishes.set_hashing(self.hash != HashKind::None && is_other);
    }

    /// Whether packets are delivered unchanged, except for their interface's number.
    pub(super) fn is_indifferent(&self) -> bool {
        self.wishes.takes_all() && !self.wishes.is_hashing() && self.drops_before == 0
    }

    /// Whether a packet is wanted. An unwanted one is counted.
    #[inline]
    pub(super) fn wants(&mut self, packet: &Packet<'_>, interfaces: &Interfaces) -> bool {
        if !self.wishes.is_filtering() {
            return true;
        }
        let link = interfaces.of(packet.port()).link;
        let length = packet.original_length() as u32;
        let is_wanted = self.wishes.wants(link, packet.bytes(), length, 0);
        if !is_wanted {
            self.drops_before = self.drops_before.saturating_add(packet.drops_before());
        }
        is_wanted
    }

    /// Returns how many bytes of a packet to keep, and its metadata here. It is not delivered yet.
    #[inline]
    pub(super) fn describe(&mut self, packet: &Packet<'_>, interfaces: &Interfaces) -> (u32, Meta) {
        let interface = interfaces.of(packet.port());
        let kept = (packet.length() as u32).min(self.wishes.snapshot_bytes());
        let mut meta = packet.meta();
        meta.port = interface.number;
        meta.drops_before = meta.drops_before.saturating_add(self.drops_before);
        self.wishes.describe(interface.link, &mut meta, || {
            let bytes = packet.bytes();
            bytes.get(..kept as usize).unwrap_or(bytes)
        });
        (kept, meta)
    }

    /// Counts a described packet as delivered.
    #[inline]
    pub(super) fn deliver(&mut self, kept: u32, original_length: u32) {
        self.drops_before = 0;
        self.truncated += u64::from(kept < original_length);
    }
}
