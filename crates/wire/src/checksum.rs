//! The Internet checksum: the sum of 16-bit words, where 0xffff counts as nothing.
//!
//! Sums of parts add up to the sum of the whole wherever each part but the last has an even
//! length, and what changes is added alone: so a header's checksum is summed up once, and only
//! what differs from packet to packet is added for each. Source: RFC 1071, section 2.

use crate::headers::{Headers, Network, Outcome, bytes_at, protocol};

/// The sum of the words of `bytes`, in network order; an odd last byte is the upper half of a word.
///
/// Cost: an addition for each four bytes, and the compiler does several at a time.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    // Carries are added back by `fold`, and the order of bytes in a word by the swap at the end:
    // RFC 1071, section 2 (B).
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    u16::from_be_bytes(fold(sum as u32).to_ne_bytes())
}

/// Brings a sum of words to 16 bits. The checksum is its complement.
#[inline]
#[must_use]
pub fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Whether the checksums that the packet has of its own hold: of the IPv4 header, and of TCP or UDP
/// over addresses, header and payload. `None` where there is none to judge by: no IP, a fragment,
/// another protocol, UDP without one, or bytes that are cut off.
///
/// Cost: a pass over the packet, behind its link header.
#[must_use]
pub fn holds(headers: &Headers, packet: &[u8]) -> Option<bool> {
    let (network, transport) = (headers.network_offset as usize, headers.transport_offset as usize);
    if headers.outcome != Outcome::Complete || headers.fragment.is_some() {
        return None;
    }
    let segment = packet.get(transport..headers.end as usize)?;
    let (addresses, length) = match headers.network {
        Network::Ipv4 => {
            let words = usize::from(packet.get(network)? & 0xf);
            let header = packet.get(network..network + words * 4)?;
            if sum(header) != 0xffff {
                return Some(false);
            }
            let total = u16::from_be_bytes(bytes_at(packet, network + 2)?);
            (header.get(12..20)?, usize::from(total).checked_sub(words * 4)?)
        }
        Network::Ipv6 => {
            let payload = u16::from_be_bytes(bytes_at(packet, network + 4)?);
            let extensions = transport.checked_sub(network + 40)?;
            let addresses = packet.get(network + 8..network + 40)?;
            (addresses, usize::from(payload).checked_sub(extensions)?)
        }
        Network::Llc | Network::None | Network::Other => return None,
    };
    let has_none = headers.protocol == protocol::UDP && segment.get(6..8)? == [0, 0];
    let is_known = matches!(headers.protocol, protocol::TCP | protocol::UDP);
    if !is_known || has_none || segment.len() != length {
        return None;
    }
    let pseudo = u32::from(sum(addresses)) + u32::from(headers.protocol) + length as u32;
    Some(fold(pseudo + u32::from(sum(segment))) == 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{LinkType, parse};

    fn slowly(bytes: &[u8]) -> u16 {
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| b.into());
        bytes.chunks(2).map(word).fold(0, |sum, word| fold(sum + word).into()) as u16
    }

    #[test]
    fn the_sum_is_that_of_the_words_for_every_length() {
        let bytes: Vec<u8> = (0..1600_u32).map(|at| (at * 37 + 11) as u8).collect();
        for length in (0..64).chain([1513, 1514, 1600]) {
            assert_eq!(sum(&bytes[..length]), slowly(&bytes[..length]), "{length}");
        }
        assert_eq!(sum(&[0xff; 8]), 0xffff);
        // The example of RFC 1071, section 3.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn real_packets_hold_and_changed_ones_do_not() {
        // An echo request over UDP; its checksums are from another program.
        let packet = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0xae,
            0xa5, 198, 18, 0, 1, 198, 19, 0, 1, 4, 0, 0, 7, 0, 12, 0x6b, 0xa1, 1, 2, 3, 4,
        ];
        let verdict = |packet: &[u8]| holds(&parse(LinkType::ETHERNET, packet), packet);
        assert_eq!(verdict(&packet), Some(true));
        for at in 15..packet.len() {
            let mut changed = packet;
            changed[at] ^= 0x10;
            assert_ne!(verdict(&changed), Some(true), "byte {at}");
        }
        assert_eq!(verdict(&packet[..45]), None);
    }
}
