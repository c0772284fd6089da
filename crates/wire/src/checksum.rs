//! The Internet checksum: the ones' complement sum of 16-bit words, where 0xffff equals zero.
//!
//! Sums of parts add up to the sum of the whole if each part but the last has an even length. So a
//! header is summed once, and only the fields that differ are added for each packet. Source: RFC
//! 1071, section 2.

use crate::headers::{Headers, Network, Outcome, bytes_at, protocol};

/// Returns the sum of the words of `bytes`, in network order. An odd last byte is the upper half of
/// a word.
///
/// Cost: one addition per four bytes, which the compiler vectorizes.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    // `fold` adds the carries back, and the swap at the end fixes the byte order of a word: RFC
    // 1071, section 2 (B).
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    u16::from_be_bytes(fold(sum as u32).to_ne_bytes())
}

/// Folds a sum of words to 16 bits. The checksum is its complement.
#[inline]
#[must_use]
pub fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Returns whether the checksums of the IPv4 header and of TCP or UDP are right. `None` if there is
/// nothing to check: no IP, a fragment, another protocol, UDP without a checksum, or truncated
/// bytes.
///
/// Cost: one pass over the packet after its link header.
#[must_use]
pub fn holds(headers: &Headers, packet: &[u8]) -> Option<bool> {
    let segment = whole_segment(headers, packet)?;
    if let Some(header) = ipv4_header(headers, packet)
        && sum(header) != 0xffff
    {
        return Some(false);
    }
    let has_none = headers.protocol == protocol::UDP && segment.get(6..8)? == [0, 0];
    let is_known = matches!(headers.protocol, protocol::TCP | protocol::UDP);
    if !is_known || has_none {
        return None;
    }
    let pseudo = pseudo_sum(headers, packet)?;
    Some(fold(pseudo + u32::from(sum(segment))) == 0xffff)
}

/// Recomputes the checksums of the IPv4 header and, if the datagram is whole, of TCP, UDP, ICMP or
/// ICMPv6. UDP without a checksum gets one.
///
/// Cost: one pass over the packet after its link header.
pub fn renew(headers: &Headers, packet: &mut [u8]) {
    if let Some(length) = ipv4_header(headers, packet).map(<[u8]>::len) {
        let header = &mut packet[headers.network_offset as usize..][..length];
        header[10..12].fill(0);
        let checksum = !sum(header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let pseudo = match headers.protocol {
        protocol::ICMP => Some(0),
        _ => pseudo_sum(headers, packet),
    };
    let field = transport_field(headers);
    let (Some(pseudo), Some(at), Some(_)) = (pseudo, field, whole_segment(headers, packet)) else {
        return;
    };
    let segment = &mut packet[headers.transport_offset as usize..headers.end as usize];
    let Some(field) = segment.get_mut(at..at + 2) else { return };
    field.fill(0);
    let checksum = !fold(pseudo + u32::from(sum(segment)));
    segment[at..at + 2].copy_from_slice(&sendable(headers, checksum).to_be_bytes());
}

/// Returns the checksum after `old` became `new` in the bytes it covers, both of even length. A
/// wrong checksum stays wrong by the same difference. Source: RFC 1624, section 3.
#[inline]
#[must_use]
fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    !fold(u32::from(!checksum) + u32::from(!sum(old)) + u32::from(sum(new)))
}

/// Updates the checksum of an IPv4 header in which `old` became `new`, both of even length.
pub fn update_network(headers: &Headers, packet: &mut [u8], old: &[u8], new: &[u8]) {
    // By I2 of `headers` the fixed header is present, even if its options are truncated.
    if headers.network == Network::Ipv4 {
        let at = headers.network_offset as usize + 10;
        update(packet, at, |checksum| updated(checksum, old, new));
    }
}

/// Updates the checksum of the transport header, if present, after `old` became `new` in an IP
/// address or a port. Both have even length. UDP without a checksum stays without one. SCTP's
/// checksum cannot be updated by a difference and is left alone.
pub fn update_transport(headers: &Headers, packet: &mut [u8], old: &[u8], new: &[u8]) {
    // The bytes at the transport offset then belong to the network header.
    if headers.outcome == Outcome::TruncatedNetwork {
        return;
    }
    // ICMP's checksum for IPv4 covers no address; a later fragment has no transport header.
    let Some(at) = transport_field(headers) else { return };
    if headers.protocol == protocol::ICMP || headers.is_later_fragment() {
        return;
    }
    let has_none = |checksum| checksum == 0 && headers.protocol == protocol::UDP;
    let at = headers.transport_offset as usize + at;
    if at + 2 <= headers.end as usize {
        update(packet, at, |checksum| match has_none(checksum) {
            true => checksum,
            false => sendable(headers, updated(checksum, old, new)),
        });
    }
}

/// Changes the 16 bits at `at`, if they are present.
fn update(packet: &mut [u8], at: usize, change: impl FnOnce(u16) -> u16) {
    if let Some(field) = packet.get_mut(at..at + 2) {
        let checksum = change(u16::from_be_bytes([field[0], field[1]]));
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the offset of the checksum in the transport header. ICMP's covers only ICMP itself, all
/// others also the IP addresses.
fn transport_field(headers: &Headers) -> Option<usize> {
    match headers.protocol {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        protocol::ICMP | protocol::ICMPV6 => Some(2),
        _ => None,
    }
}

/// Returns a computed checksum as it is sent: 0 in UDP means "no checksum". Source: RFC 768.
fn sendable(headers: &Headers, checksum: u16) -> u16 {
    if checksum == 0 && headers.protocol == protocol::UDP { 0xffff } else { checksum }
}

/// Returns the IPv4 header with its options, if the packet has one and it is not truncated.
pub(crate) fn ipv4_header<'a>(headers: &Headers, packet: &'a [u8]) -> Option<&'a [u8]> {
    let network = headers.network_offset as usize;
    let words = usize::from(packet.get(network)? & 0xf);
    let header = packet.get(network..network + words * 4)?;
    (headers.network == Network::Ipv4 && words >= 5).then_some(header)
}

/// Returns transport header and payload, if they are complete and not a fragment.
fn whole_segment<'a>(headers: &Headers, packet: &'a [u8]) -> Option<&'a [u8]> {
    if headers.outcome != Outcome::Complete || headers.fragment.is_some() {
        return None;
    }
    let segment = packet.get(headers.transport_offset as usize..headers.end as usize)?;
    (segment.len() == transport_length(headers, packet)?).then_some(segment)
}

/// Returns the length of transport header and payload according to the IP header.
fn transport_length(headers: &Headers, packet: &[u8]) -> Option<usize> {
    let (network, transport) = (headers.network_offset as usize, headers.transport_offset as usize);
    match headers.network {
        Network::Ipv4 => {
            let total = u16::from_be_bytes(bytes_at(packet, network + 2)?);
            usize::from(total).checked_sub(ipv4_header(headers, packet)?.len())
        }
        Network::Ipv6 => {
            let payload = u16::from_be_bytes(bytes_at(packet, network + 4)?);
            usize::from(payload).checked_sub(transport.checked_sub(network + 40)?)
        }
        Network::Llc | Network::None | Network::Other => None,
    }
}

/// Returns the sum of addresses, protocol and length. Source: RFC 9293, section 3.1; RFC 8200,
/// section 8.1.
fn pseudo_sum(headers: &Headers, packet: &[u8]) -> Option<u32> {
    let network = headers.network_offset as usize;
    let addresses = match headers.network {
        Network::Ipv4 => packet.get(network + 12..network + 20)?,
        Network::Ipv6 => packet.get(network + 8..network + 40)?,
        Network::Llc | Network::None | Network::Other => return None,
    };
    let length = transport_length(headers, packet)? as u32;
    Some(u32::from(sum(addresses)) + u32::from(headers.protocol) + length)
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
    #[test]
    fn what_is_renewed_holds_and_what_is_updated_stays_as_it_was() {
        let mut packet = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0,
            198, 18, 0, 1, 198, 19, 0, 1, 4, 0, 0, 7, 0, 12, 9, 9, 1, 2, 3, 4,
        ];
        let headers = parse(LinkType::ETHERNET, &packet);
        renew(&headers, &mut packet);
        assert_eq!((&packet[24..26], &packet[40..42]), (&[0xae, 0xa5][..], &[0x6b, 0xa1][..]));
        let changed = updated(0x6ba1, &[198, 18, 0, 1], &[10, 0, 0, 255]);
        packet[26..30].copy_from_slice(&[10, 0, 0, 255]);
        let headers = parse(LinkType::ETHERNET, &packet);
        renew(&headers, &mut packet);
        assert_eq!(packet[40..42], changed.to_be_bytes());
    }
}
