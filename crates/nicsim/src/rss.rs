//! Which queue a packet goes to: a Toeplitz hash and a table of 128 entries.
//!
//! Source: Microsoft, "RSS Hashing Functions"; Intel 82599 Datasheet, 7.1.2.8.

use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{Headers, LinkType, parse};

/// Entries of the table.
pub const INDIRECTION_ENTRIES: usize = 128;

/// Hash and table.
pub struct Spreader {
    hasher: FlowHasher,
    table: [u8; INDIRECTION_ENTRIES],
}

impl Spreader {
    /// Spreads over `queues`, in `[1, 16]`, with the table that drivers begin with: in turns.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        let table = std::array::from_fn(|entry| (entry % queues) as u8);
        Self { hasher: FlowHasher::new(HashKind::Rss), table }
    }

    /// What is known of a packet: its headers where they are wanted, and its hash, or 0.
    #[inline]
    pub(crate) fn describe(
        &mut self,
        packet: &[u8],
        is_hashing: bool,
        has_metadata: bool,
    ) -> (Option<Headers>, u32) {
        if !is_hashing && !has_metadata {
            return (None, 0);
        }
        let headers = parse(LinkType::ETHERNET, packet);
        let hash = if is_hashing { self.hash(&headers, packet) } else { 0 };
        (Some(headers), hash)
    }

    /// The hash of a packet, with Microsoft's key. Cost: some ns, and a lookup a byte hashed.
    #[inline]
    pub fn hash(&mut self, headers: &Headers, packet: &[u8]) -> u32 {
        self.hasher.hash_parsed(LinkType::ETHERNET, headers, packet)
    }

    /// The queue of a hash: its seven low bits say which entry of the table.
    #[inline]
    #[must_use]
    pub fn queue(&self, hash: u32) -> usize {
        usize::from(self.table[hash as usize % INDIRECTION_ENTRIES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Vector = ([u8; 4], u16, [u8; 4], u16, u32);

    /// Microsoft, "Verifying the RSS Hash Calculation", IPv4: destination, source, with ports.
    const VECTORS: [Vector; 5] = [
        ([161, 142, 100, 80], 1766, [66, 9, 149, 187], 2794, 0x51cc_c178),
        ([65, 69, 140, 83], 4739, [199, 92, 111, 2], 14_230, 0xc626_b0ea),
        ([12, 22, 207, 184], 38_024, [24, 19, 198, 95], 12_898, 0x5c2b_394a),
        ([209, 142, 163, 6], 2217, [38, 27, 205, 30], 48_228, 0xafc7_327f),
        ([202, 188, 127, 2], 1303, [153, 39, 163, 191], 44_251, 0x10e8_28a2),
    ];

    #[test]
    fn microsofts_vectors_choose_hash_and_queue() {
        let mut spreader = Spreader::new(4);
        for (to, to_port, from, from_port, hash) in VECTORS {
            let mut frame = vec![0; 60];
            frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
            frame[26..30].copy_from_slice(&from);
            frame[30..34].copy_from_slice(&to);
            frame[34..36].copy_from_slice(&from_port.to_be_bytes());
            frame[36..38].copy_from_slice(&to_port.to_be_bytes());
            frame[46] = 0x50;
            let headers = parse(LinkType::ETHERNET, &frame);
            assert_eq!(spreader.hash(&headers, &frame), hash);
            assert_eq!(spreader.queue(hash), (hash % 128 % 4) as usize);
        }
    }
}
