//! The answer to a rejected packet: a TCP reset, or an ICMP error.
//!
//! ```text
//! TCP with ACK     --> RST, with the number that was acknowledged     RFC 9293, section 3.10.7.1
//! TCP without      --> RST and ACK, with the number that comes next
//! others           --> ICMP: communication administratively prohibited, and the packet's start
//! ```
//!
//! No answer goes to:
//! - a reset
//! - an ICMP message other than an echo request
//! - a later fragment
//! - a packet to or from group addresses
//!
//! Source: RFC 1122, section 3.2.2; RFC 4443, section 2.4.

use crate::checksum;
use crate::headers::{self, Headers, LinkType, Network, Outcome, bytes_at, protocol};

const LINK_ADDRESSES_BYTES: usize = 12;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const ICMP_BYTES: usize = 8;
/// Most bytes of the packet that an ICMPv6 error quotes: the error is at most 1280 bytes long.
const ICMPV6_QUOTE_MOST: usize = 1280 - IPV6_BYTES - ICMP_BYTES;
/// Bytes after the IP header that an ICMP error for IPv4 quotes.
const ICMP_QUOTE_BYTES: usize = 8;

/// TCP's flags. Source: RFC 9293, section 3.1.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Appends the answer to a rejected Ethernet packet. Returns false if the packet gets no answer;
/// then nothing is appended.
pub fn append_refusal(packet: &[u8], out: &mut Vec<u8>) -> bool {
    let headers = headers::parse(LinkType::ETHERNET, packet);
    if headers.is_later_fragment() || headers.outcome == Outcome::TruncatedNetwork {
        return false;
    }
    let body = match headers.protocol {
        protocol::TCP => reset(&headers, packet),
        _ => prohibited(&headers, packet),
    };
    let (Some(body), start) = (body, out.len()) else { return false };
    if append_headers(&headers, packet, body.len(), out).is_none() {
        out.truncate(start);
        return false;
    }
    out.extend_from_slice(&body);
    let parsed = headers::parse(LinkType::ETHERNET, &out[start..]);
    checksum::renew(&parsed, &mut out[start..]);
    true
}

/// Appends the link and network headers back to the sender, for `length` bytes of payload.
fn append_headers(
    headers: &Headers,
    packet: &[u8],
    length: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let network = headers.network_offset as usize;
    let [to, from]: [[u8; 6]; 2] = [bytes_at(packet, 6)?, bytes_at(packet, 0)?];
    let is_of_many = |address: [u8; 6]| address[0] & 1 != 0;
    if is_of_many(to) || is_of_many(from) {
        return None;
    }
    out.extend([to, from].as_flattened());
    out.extend_from_slice(packet.get(LINK_ADDRESSES_BYTES..network)?);
    let is_tcp = headers.protocol == protocol::TCP;
    match headers.network {
        Network::Ipv4 => {
            let [source, destination]: [[u8; 4]; 2] =
                [bytes_at(packet, network + 12)?, bytes_at(packet, network + 16)?];
            if source[0] == 0 || source[0] >= 224 || destination[0] >= 224 {
                return None;
            }
            let total = u16::try_from(IPV4_BYTES + length).ok()?.to_be_bytes();
            let number = if is_tcp { protocol::TCP } else { protocol::ICMP };
            // Version and length, no fragments, 64 hops; the checksum comes later.
            out.extend([0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, number, 0, 0]);
            out.extend([destination, source].as_flattened());
        }
        Network::Ipv6 => {
            let [source, destination]: [[u8; 16]; 2] =
                [bytes_at(packet, network + 8)?, bytes_at(packet, network + 24)?];
            if source[0] == 0xff || destination[0] == 0xff || source == [0; 16] {
                return None;
            }
            let length = u16::try_from(length).ok()?.to_be_bytes();
            let number = if is_tcp { protocol::TCP } else { protocol::ICMPV6 };
            out.extend([0x60, 0, 0, 0, length[0], length[1], number, 64]);
            out.extend([destination, source].as_flattened());
        }
        _ => return None,
    }
    Some(())
}

fn reset(headers: &Headers, packet: &[u8]) -> Option<Vec<u8>> {
    let at = headers.transport_offset as usize;
    let [source, destination]: [[u8; 2]; 2] = [bytes_at(packet, at)?, bytes_at(packet, at + 2)?];
    let [number, acknowledged]: [[u8; 4]; 2] =
        [bytes_at(packet, at + 4)?, bytes_at(packet, at + 8)?];
    let [flags]: [u8; 1] = bytes_at(packet, at + 13)?;
    if flags & RST != 0 {
        return None;
    }
    let begins_and_ends = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let next = u32::from_be_bytes(number)
        .wrapping_add(headers.payload_len())
        .wrapping_add(begins_and_ends);
    let (number, acknowledged, flags) = match flags & ACK != 0 {
        true => (acknowledged, [0; 4], RST),
        false => ([0; 4], next.to_be_bytes(), RST | ACK),
    };
    let mut body = Vec::with_capacity(TCP_BYTES);
    body.extend([destination, source].as_flattened());
    body.extend([number, acknowledged].as_flattened());
    body.extend([(TCP_BYTES as u8 / 4) << 4, flags]);
    body.resize(TCP_BYTES, 0);
    Some(body)
}

fn prohibited(headers: &Headers, packet: &[u8]) -> Option<Vec<u8>> {
    let (network, end) = (headers.network_offset as usize, headers.end as usize);
    let transport = headers.transport_offset as usize;
    let first = packet.get(transport).copied();
    let (mut body, most) = match (headers.network, headers.protocol) {
        (Network::Ipv4, protocol::ICMP) if first != Some(8) => return None,
        (Network::Ipv6, protocol::ICMPV6) if first != Some(128) => return None,
        // Source: RFC 1812, section 5.2.7.1; RFC 4443, section 3.1.
        (Network::Ipv4, _) => (vec![3, 13], transport + ICMP_QUOTE_BYTES),
        (Network::Ipv6, _) => (vec![1, 1], network + ICMPV6_QUOTE_MOST),
        _ => return None,
    };
    body.resize(ICMP_BYTES, 0);
    body.extend_from_slice(packet.get(network..end.min(most))?);
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

    /// An IPv4 packet from 10.0.0.1 to 10.0.0.2 with this protocol and payload.
    fn ipv4(number: u8, payload: &[u8]) -> Vec<u8> {
        let total = (20 + payload.len()) as u16;
        let mut packet = MAC.to_vec();
        packet.extend([8, 0, 0x45, 0]);
        packet.extend(total.to_be_bytes());
        packet.extend([0, 1, 0, 0, 9, number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(payload);
        packet
    }

    fn ipv6(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = MAC.to_vec();
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([number, 9]);
        for last in [1, 2] {
            packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        packet.extend(payload);
        packet
    }

    fn tcp(flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = vec![0x10, 1, 0, 80, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, flags];
        segment.resize(TCP_BYTES, 0);
        segment.extend(payload);
        segment
    }

    fn answer(packet: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![7];
        let is_answered = append_refusal(packet, &mut out);
        assert_eq!((out[0], is_answered), (7, out.len() > 1));
        is_answered.then(|| out.split_off(1))
    }

    #[test]
    fn a_reset_has_the_number_that_its_receiver_takes() {
        for of in [ipv4, ipv6] {
            let packet = of(protocol::TCP, &tcp(ACK, b"hello"));
            let reset = answer(&packet).unwrap();
            assert_eq!((&reset[..6], &reset[6..12]), (&MAC[6..], &MAC[..6]));
            let headers = headers::parse(LinkType::ETHERNET, &reset);
            let segment = &reset[headers.transport_offset as usize..];
            assert_eq!(segment[..14], [0, 80, 0x10, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0x50, RST]);
            assert_eq!(checksum::holds(&headers, &reset), Some(true));
            let begin = answer(&of(protocol::TCP, &tcp(SYN, b""))).unwrap();
            let segment = &begin[headers.transport_offset as usize..];
            assert_eq!(segment[4..14], [0, 0, 0, 0, 0, 0, 1, 1, 0x50, RST | ACK]);
            assert_eq!(answer(&of(protocol::TCP, &tcp(RST, b""))), None);
        }
    }

    #[test]
    fn others_get_an_icmp_error_with_their_start() {
        let packet = ipv4(protocol::UDP, &[1; 100]);
        let error = answer(&packet).unwrap();
        assert_eq!(error[26..36], [10, 0, 0, 2, 10, 0, 0, 1, 3, 13]);
        assert_eq!(error[42..], packet[14..42], "its IP header, and eight bytes");
        assert_eq!(checksum::sum(&error[34..]), 0xffff);
        let packet = ipv6(protocol::UDP, &[1; 1400]);
        let error = answer(&packet).unwrap();
        assert_eq!((error[54..56].to_vec(), error.len()), (vec![1, 1], 14 + 1280));
        let headers = headers::parse(LinkType::ETHERNET, &error);
        let mut again = error.clone();
        checksum::renew(&headers, &mut again);
        assert_eq!(again, error, "the checksum is its own");
        assert!(answer(&ipv4(protocol::ICMP, &[8; 20])).is_some());
        assert!(answer(&ipv6(protocol::ICMPV6, &[128; 20])).is_some());
    }

    #[test]
    fn what_must_not_be_answered_is_not() {
        assert_eq!(answer(&ipv4(protocol::ICMP, &[3; 20])), None, "an error");
        assert_eq!(answer(&ipv6(protocol::ICMPV6, &[135; 30])), None, "a neighbour's call");
        let change = |at: usize, bytes: &[u8]| {
            let mut packet = ipv4(protocol::UDP, &[1; 20]);
            packet[at..at + bytes.len()].copy_from_slice(bytes);
            answer(&packet)
        };
        assert!(change(0, &[2]).is_some());
        assert_eq!(change(0, &[0xff; 6]), None, "to all stations");
        assert_eq!(change(30, &[224, 0, 0, 1]), None, "to many");
        assert_eq!(change(26, &[0; 4]), None, "from nobody");
        assert_eq!(change(20, &[0, 9]), None, "a later fragment");
        assert_eq!(answer(&[]), None);
        let (mut whole, mut cut) = (ipv4(protocol::TCP, &tcp(ACK, b"x")), 0);
        while whole.pop().is_some() {
            cut += usize::from(answer(&whole).is_none());
        }
        assert!(cut > 40, "{cut}");
    }
}
