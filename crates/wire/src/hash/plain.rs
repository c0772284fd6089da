//! The flow of the most common packets, read from bytes at fixed offsets.
//!
//! They are untagged Ethernet; IPv4 without options; not a fragment; TCP or UDP, of which only the
//! ports matter.

use crate::headers::{Ports, bytes_at, protocol};

use super::symmetric;

/// Bytes up to the end of the ports, and bytes of the link header.
const HEAD_BYTES: usize = LINK_BYTES + 20 + 4;
const LINK_BYTES: usize = 14;

/// From byte 12 on: EtherType, version and header length of IPv4 without options.
const IPV4: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0]);
const IPV4_BITS: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 0]);

/// From byte 20 on: the "more fragments" flag and the offset.
const PART_BITS: u16 = u16::from_ne_bytes([0x3f, 0xff]);

/// Input of the five-tuple hash of such a packet, in the packet's layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlainFlow {
    addresses: u64,
    ports: u32,
    /// 0 if it is the flow of no packet.
    protocol: u8,
}

impl PlainFlow {
    /// Returns the flow of an Ethernet frame, if it is one of those packets.
    #[inline(always)]
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = packet.first_chunk()?;
        let kind = u32::from_ne_bytes(bytes_at(head, 12)?) & IPV4_BITS;
        let total_len = u16::from_be_bytes(bytes_at(head, 16)?);
        let part = u16::from_ne_bytes(bytes_at(head, 20)?) & PART_BITS;
        let protocol = head[23];
        // Ports past the datagram's end are padding.
        let is_plain = kind == IPV4
            && part == 0
            && usize::from(total_len) >= HEAD_BYTES - LINK_BYTES
            && matches!(protocol, protocol::TCP | protocol::UDP);
        let addresses = u64::from_be_bytes(bytes_at(head, 26)?);
        let ports = u32::from_be_bytes(bytes_at(head, 34)?);
        is_plain.then_some(Self { addresses, ports, protocol })
    }

    /// Returns its five-tuple hash.
    #[inline(always)]
    pub(super) fn five_tuple(self) -> u32 {
        let ports = Ports { source: (self.ports >> 16) as u16, destination: self.ports as u16 };
        symmetric::ipv4(self.addresses.to_be_bytes(), Some(ports), self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{FlowHasher, HashKind};
    use crate::headers::{self, LinkType};

    /// Returns a frame of 60 bytes.
    fn frame(protocol: u8) -> [u8; 60] {
        let mut frame = [0x50; 60];
        frame[12..24].copy_from_slice(&[0x08, 0, 0x45, 0, 0, 46, 0, 1, 0x40, 0, 64, protocol]);
        frame[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 4, 0]);
        frame
    }

    /// Hashes by the general walk over the headers.
    fn slowly(packet: &[u8]) -> u32 {
        let headers = headers::parse_general(LinkType::ETHERNET, packet);
        let mut hasher = FlowHasher::new(HashKind::FiveTuple);
        hasher.hash_parsed(LinkType::ETHERNET, &headers, packet)
    }

    #[test]
    fn its_hash_is_that_of_the_packet_whatever_a_byte_is() {
        let mut plain = [0, 0];
        for (kind, protocol) in [protocol::TCP, protocol::UDP].into_iter().enumerate() {
            for at in 0..60 {
                for byte in 0..=255 {
                    let mut frame = frame(protocol);
                    frame[at] = byte;
                    for packet in [&frame[..], &frame[..38], &frame[..37]] {
                        let Some(flow) = PlainFlow::of(packet) else { continue };
                        assert_eq!(flow.five_tuple(), slowly(packet), "{at} {byte}");
                        plain[kind] += 1;
                    }
                }
            }
        }
        // All values of most bytes, and some of those that determine the kind.
        assert!(plain.iter().all(|&plain| plain > 2 * 50 * 256), "{plain:?}");
    }

    #[test]
    fn hashes_of_many_are_those_of_each() {
        let mut frames = Vec::new();
        for number in 0..200 {
            let mut frame = frame([protocol::TCP, protocol::UDP][number / 7 % 2]);
            // Runs of a flow, and of its other direction, with IPv6, fragments and ARP in between.
            frame[29] = (number / 5) as u8;
            match number % 11 {
                3 => frame[26..34].rotate_left(4),
                5 => frame[20] = 0x20,
                7 => frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]),
                9 => frame[13] = 0x06,
                _ => {}
            }
            frames.push(frame);
        }
        for kind in HashKind::NAMED.map(|named| named.kind) {
            for link in [LinkType::ETHERNET, LinkType::RAW] {
                let (mut many, mut one) = (FlowHasher::new(kind), FlowHasher::new(kind));
                let mut hashes = [0; 250];
                let packets = || frames.iter().map(|frame| &frame[..]);
                assert_eq!(many.hash_all(link, packets(), &mut hashes), 200);
                let each: Vec<u32> = packets().map(|packet| one.hash(link, packet)).collect();
                assert_eq!(hashes[..200], each, "{kind:?}");
                assert_eq!(many.hash_all(link, packets(), &mut hashes[..3]), 3);
            }
        }
    }
}
