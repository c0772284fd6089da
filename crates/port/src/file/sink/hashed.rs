//! Pairs packets with their hashes, computed in batches.

use burstline_log::PlainPacket;
use burstline_wire::hash::FlowHasher;
use burstline_wire::headers::LinkType;

/// Packets hashed at a time.
const BATCH: usize = 32;

/// An iterator over packets and their hashes.
///
/// Packets that were hashed but not taken are hashed again at the next call: a hasher may see a
/// packet twice.
pub(super) struct Hashed<'h, I> {
    packets: I,
    hasher: &'h mut FlowHasher,
    link: LinkType,
    hashes: [u32; BATCH],
    /// Index of the next hash.
    at: usize,
}

impl<'h, I> Hashed<'h, I> {
    #[inline]
    pub(super) fn new(packets: I, hasher: &'h mut FlowHasher, link: LinkType) -> Self {
        Self { packets, hasher, link, hashes: [0; BATCH], at: BATCH }
    }
}

impl<'a, I: Iterator<Item = PlainPacket<'a>> + Clone> Iterator for Hashed<'_, I> {
    type Item = (PlainPacket<'a>, u32);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == BATCH {
            let ahead = self.packets.clone().map(|packet| packet.bytes);
            self.hasher.hash_all(self.link, ahead, &mut self.hashes);
            self.at = 0;
        }
        let packet = self.packets.next()?;
        let hash = self.hashes[self.at];
        self.at += 1;
        Some((packet, hash))
    }
}
