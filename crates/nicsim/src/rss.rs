//! Selects the queue of a packet by a Toeplitz hash and a table of 128 entries.
//!
//! Source: Microsoft, "RSS Hashing Functions"; Intel 82599 Datasheet, 7.1.2.8.

use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{Headers, LinkType, ether_type, parse};

use crate::descriptor::Metadata;

/// Entries of the table.
pub const INDIRECTION_ENTRIES: usize = 128;

/// Up to here the field is the length of an 802.3 frame. Source: IEEE 802.3, 3.2.6.
const LENGTH_MAX: u16 = 1500;

/// Hash and table.
pub struct Spreader {
    hasher: FlowHasher,
    table: [u8; INDIRECTION_ENTRIES],
}

impl Spreader {
    /// Spreads over `queues`, in `[1, 16]`, with the drivers' default table: round robin.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        let table = std::array::from_fn(|entry| (entry % queues) as u8);
        Self { hasher: FlowHasher::new(HashKind::Rss), table }
    }

    /// Returns the wanted metadata of a packet except its length; a hash of 0 if it is not hashed.
    #[inline]
    pub(crate) fn describe(
        &mut self,
        packet: &[u8],
        is_hashing: bool,
        has_metadata: bool,
    ) -> Metadata {
        match (is_hashing, has_metadata) {
            (false, false) => return Metadata::default(),
            (false, true) => return unhashed(packet),
            (true, _) => {}
        }
        let headers = parse(LinkType::ETHERNET, packet);
        let hash = self.hash(&headers, packet);
        let known = if has_metadata { Metadata::of(&headers) } else { Metadata::default() };
        // A packet that has a hash has a type of hash.
        let rss_type = if hash == 0 { 0 } else { known.rss_type };
        Metadata { hash, rss_type, ..known }
    }

    /// Returns the hash of a packet, with Microsoft's key. Cost: some ns, and a lookup per byte.
    #[inline]
    pub fn hash(&mut self, headers: &Headers, packet: &[u8]) -> u32 {
        self.hasher.hash_parsed(LinkType::ETHERNET, headers, packet)
    }

    /// Returns the queue of a hash, whose seven low bits select the table entry.
    #[inline]
    #[must_use]
    pub fn queue(&self, hash: u32) -> usize {
        usize::from(self.table[hash as usize % INDIRECTION_ENTRIES])
    }
}

/// Returns the metadata of an unhashed packet except its length.
#[inline]
pub(crate) fn unhashed(packet: &[u8]) -> Metadata {
    if is_opaque(packet) {
        return Metadata::default();
    }
    let headers = parse(LinkType::ETHERNET, packet);
    // A packet that has a hash has a type of hash.
    Metadata { rss_type: 0, ..Metadata::of(&headers) }
}

/// Returns whether a frame has nothing to parse: its EtherType is not IP, it has no tag, and it is
/// not an 802.3 frame with a length in that field. A few instructions; `parse` takes many.
#[inline]
fn is_opaque(frame: &[u8]) -> bool {
    let Some(&[high, low]) = frame.get(12..).and_then(|rest| rest.first_chunk()) else {
        return false;
    };
    let of_headers = [
        ether_type::IPV4,
        ether_type::IPV6,
        ether_type::VLAN,
        ether_type::SERVICE_VLAN,
        ether_type::OLD_STACKED_VLAN,
    ];
    let number = u16::from_be_bytes([high, low]);
    number > LENGTH_MAX && !of_headers.contains(&number)
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

    /// Skipping the parser changes nothing, for every EtherType.
    #[test]
    fn a_frame_is_described_as_its_headers_say() {
        let mut spreader = Spreader::new(1);
        let mut opaque = 0_u32;
        for number in 0..=u16::MAX {
            let mut frame = [0; 60];
            frame[12..14].copy_from_slice(&number.to_be_bytes());
            frame[14..24].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17]);
            let headers = parse(LinkType::ETHERNET, &frame);
            let expected = Metadata { rss_type: 0, ..Metadata::of(&headers) };
            assert_eq!(spreader.describe(&frame, false, true), expected, "{number:#x}");
            assert_eq!(spreader.describe(&frame, false, false), Metadata::default());
            let expected = Metadata { hash: spreader.hash(&headers, &frame), ..expected };
            let hashed = spreader.describe(&frame, true, true);
            assert_eq!(Metadata { rss_type: 0, ..hashed }, expected, "{number:#x}");
            assert_eq!(hashed.rss_type != 0, hashed.hash != 0, "{number:#x}");
            opaque += u32::from(is_opaque(&frame));
        }
        assert_eq!(opaque, 65_536 - 1501 - 5);
        assert!((0..14).all(|length| !is_opaque(&vec![9; length])));
    }
}
