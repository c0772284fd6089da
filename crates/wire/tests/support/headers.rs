//! Builds packets layer by layer, from the inside out. Checksums stay 0: no test reads them.
#![allow(dead_code)] // Each test crate uses a part.

use burstline_wire::headers::{Fragment, ether_type, protocol};

pub(crate) const MACS: [u8; 12] = [2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];

/// An Ethernet frame without FCS; `tags` are (tag protocol, control information), outermost first.
pub(crate) fn ethernet(tags: &[(u16, u16)], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = MACS.to_vec();
    for (tag_protocol, control) in tags {
        frame.extend(tag_protocol.to_be_bytes());
        frame.extend(control.to_be_bytes());
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The two addresses of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addresses {
    V4([u8; 4], [u8; 4]),
    V6([u8; 16], [u8; 16]),
}

impl Addresses {
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::V4(source, destination) => Self::V4(destination, source),
            Self::V6(source, destination) => Self::V6(destination, source),
        }
    }

    pub(crate) fn ether_type(self) -> u16 {
        match self {
            Self::V4(..) => ether_type::IPV4,
            Self::V6(..) => ether_type::IPV6,
        }
    }
}

/// An IPv4 header with `options` (a multiple of 4 bytes, at most 40) and its payload.
pub(crate) fn ipv4(
    (source, destination): ([u8; 4], [u8; 4]),
    protocol: u8,
    options: &[u8],
    fragment: Option<Fragment>,
    payload: &[u8],
) -> Vec<u8> {
    let header_len = 20 + options.len();
    let (id, flags_and_offset) = fragment.map_or((0, 0x4000), |part| {
        (part.id as u16, (part.offset_bytes / 8) | (u16::from(part.more) << 13))
    });
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(((header_len + payload.len()) as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(flags_and_offset.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(options);
    packet.extend(payload);
    packet
}

/// An IPv6 header and its payload, which starts with extension headers if `next` is one.
pub(crate) fn ipv6(
    (source, destination): ([u8; 16], [u8; 16]),
    next: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(payload);
    packet
}

/// Returns an extension header of `kind` (not a fragment header), `units` units above its minimum,
/// followed by `payload`.
pub(crate) fn extension(kind: u8, next: u8, units: u8, payload: &[u8]) -> Vec<u8> {
    // The authentication header counts 4-byte words minus 2, the others 8-byte words minus 1.
    let (length, bytes) = match kind {
        protocol::AUTHENTICATION => (units + 1, (usize::from(units) + 3) * 4),
        _ => (units, (usize::from(units) + 1) * 8),
    };
    let mut header = vec![next, length];
    header.resize(bytes, 1);
    header.extend(payload);
    header
}

pub(crate) fn fragment_header(next: u8, fragment: Fragment, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![next, 0];
    header.extend((fragment.offset_bytes | u16::from(fragment.more)).to_be_bytes());
    header.extend(fragment.id.to_be_bytes());
    header.extend(payload);
    header
}

/// An IP packet of either version, whole or a fragment.
pub(crate) fn ip(
    addresses: Addresses,
    protocol: u8,
    fragment: Option<Fragment>,
    payload: &[u8],
) -> Vec<u8> {
    match (addresses, fragment) {
        (Addresses::V4(source, destination), _) => {
            ipv4((source, destination), protocol, &[], fragment, payload)
        }
        (Addresses::V6(source, destination), None) => {
            ipv6((source, destination), protocol, payload)
        }
        (Addresses::V6(source, destination), Some(part)) => {
            let payload = fragment_header(protocol, part, payload);
            ipv6((source, destination), protocol::FRAGMENT, &payload)
        }
    }
}

/// A transport header of any protocol that has ports or is ICMP: `header_len` bytes of it.
pub(crate) fn transport(protocol: u8, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let header_len = transport_len(protocol);
    let mut bytes = Vec::new();
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    bytes.resize(header_len, 0);
    match protocol {
        protocol::TCP => bytes[12] = (header_len as u8 / 4) << 4,
        protocol::UDP => {
            let length = (header_len + payload.len()) as u16;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
        }
        _ => {}
    }
    bytes.extend(payload);
    bytes
}

/// Bytes of the header that [`transport`] makes; TCP has 12 bytes of options.
pub(crate) fn transport_len(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => 32,
        protocol::UDP | protocol::ICMP => 8,
        protocol::SCTP => 12,
        protocol::ICMPV6 => 4,
        _ => 0,
    }
}

/// A whole Ethernet frame of one flow.
pub(crate) fn flow_frame(addresses: Addresses, protocol: u8, ports: (u16, u16)) -> Vec<u8> {
    let packet = ip(addresses, protocol, None, &transport(protocol, ports, &[7; 18]));
    ethernet(&[], addresses.ether_type(), &packet)
}
