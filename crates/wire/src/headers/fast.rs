//! The fast path for the most common packets, with headers at fixed offsets.
//!
//! It takes untagged Ethernet; IPv4 without options or IPv6 without extension headers; no
//! fragments; TCP or UDP; nothing truncated. `None` means "not one of those", and the general walk
//! decides.

use super::transport::{UDP_HEADER_BYTES, is_udp_length, tcp_header_len};
use super::{Headers, Network, Outcome, Ports, ether_type, protocol};

const NETWORK: usize = 14;
const IPV4_TRANSPORT: usize = NETWORK + 20;
const IPV6_TRANSPORT: usize = NETWORK + 40;

/// Returns the headers of `packet` if it is one of those packets.
///
/// A packet is examined only if a TCP header without options fits: shorter UDP packets take the
/// walk. Every 60-byte IPv4 frame passes.
#[inline(always)]
pub(super) fn parse(packet: &[u8]) -> Option<Headers> {
    let head: &[u8; IPV4_TRANSPORT + 20] = packet.first_chunk()?;
    match u16::from_be_bytes([head[12], head[13]]) {
        ether_type::IPV4 => ipv4(head, packet.len()),
        ether_type::IPV6 => ipv6(packet.first_chunk()?, packet.len()),
        _ => None,
    }
}

#[inline(always)]
fn ipv4(head: &[u8; IPV4_TRANSPORT + 20], packet_len: usize) -> Option<Headers> {
    // Version 4 with five words of header; neither "more fragments" nor an offset.
    if head[NETWORK] != 0x45 || head[20] & 0x3f != 0 || head[21] != 0 {
        return None;
    }
    let end = NETWORK + usize::from(u16::from_be_bytes([head[16], head[17]]));
    let (_, transport) = head.split_last_chunk()?;
    let headers = Headers {
        ether_type: ether_type::IPV4,
        network: Network::Ipv4,
        protocol: head[23],
        ..Headers::EMPTY
    };
    finish(headers, transport, IPV4_TRANSPORT, end, packet_len)
}

#[inline(always)]
fn ipv6(head: &[u8; IPV6_TRANSPORT + 20], packet_len: usize) -> Option<Headers> {
    let payload_len = usize::from(u16::from_be_bytes([head[18], head[19]]));
    if head[NETWORK] >> 4 != 6 || payload_len == 0 {
        return None;
    }
    let (_, transport) = head.split_last_chunk()?;
    let headers = Headers {
        ether_type: ether_type::IPV6,
        network: Network::Ipv6,
        protocol: head[20],
        ..Headers::EMPTY
    };
    finish(headers, transport, IPV6_TRANSPORT, IPV6_TRANSPORT + payload_len, packet_len)
}

/// Adds the transport header, whose first 20 bytes are `transport`, at `offset`.
#[inline(always)]
fn finish(
    headers: Headers,
    transport: &[u8; 20],
    offset: usize,
    end: usize,
    packet_len: usize,
) -> Option<Headers> {
    let header_len = match headers.protocol {
        protocol::UDP if is_udp_length([transport[4], transport[5]]) => UDP_HEADER_BYTES,
        protocol::TCP => tcp_header_len(transport[12])?,
        _ => return None,
    };
    let payload_offset = offset + header_len;
    if payload_offset > end || end > packet_len {
        return None;
    }
    let ports = [transport[0], transport[1], transport[2], transport[3]];
    Some(Headers {
        network_offset: NETWORK as u32,
        transport_offset: offset as u32,
        payload_offset: payload_offset as u32,
        end: end as u32,
        ports: Some(Ports::from_bytes(ports)),
        outcome: Outcome::Complete,
        ..headers
    })
}
