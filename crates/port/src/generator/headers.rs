//! The headers of a flow, and functions that fill in lengths and checksums.

use burstline_wire::checksum::{fold, sum};
use burstline_wire::headers::{ether_type, protocol};

use super::recipe::{Pattern, Spec, Vxlan};

/// Ethernet, a VLAN tag, IPv4, UDP, VXLAN; then Ethernet, IPv6, TCP.
pub(super) const HEADERS_MOST: usize = 14 + 4 + 20 + 8 + 8 + 14 + 40 + 20;

/// VXLAN's port, and its flag for a valid network number. Source: RFC 7348, section 5.
const VXLAN_PORT: u16 = 4789;
const VXLAN_FLAGS: [u8; 4] = [8, 0, 0, 0];

/// Offsets of the fields that differ by packet, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The IPv4 header around VXLAN; 0 if there is none.
    pub(super) outer_at: u8,
    pub(super) network_at: u8,
    pub(super) transport_at: u8,
    pub(super) payload_at: u8,
    pub(super) is_ipv6: bool,
    pub(super) is_tcp: bool,
}

impl Shape {
    /// Returns the offset of the TCP or UDP checksum.
    #[inline]
    pub(super) fn checksum_at(&self) -> usize {
        usize::from(self.transport_at) + if self.is_tcp { 16 } else { 6 }
    }

    /// Returns the range of the addresses: 32 bytes for IPv6, 8 for IPv4.
    pub(super) fn addresses(&self) -> std::ops::Range<usize> {
        let network = usize::from(self.network_at);
        let start = if self.is_ipv6 { network + 8 } else { network + 12 };
        start..start + if self.is_ipv6 { 32 } else { 8 }
    }

    /// Returns the protocol number.
    pub(super) fn protocol(&self) -> u8 {
        if self.is_tcp { protocol::TCP } else { protocol::UDP }
    }

    /// Returns the factor of a packet's length in the sum of all its words. Each IPv4 header sums
    /// to 0, and TCP or UDP to the complement of a pseudo header that includes the length. So a
    /// header around VXLAN adds the length once, and an inner IPv4 packet subtracts it once.
    pub(super) fn slope(&self) -> i32 {
        i32::from(self.outer_at > 0) - i32::from(!self.is_ipv6)
    }
}

/// Returns the headers of a flow; lengths and checksums are 0.
pub(super) fn headers(pattern: &Pattern, spec: &Spec) -> (Vec<u8>, Shape) {
    let mut bytes = Vec::with_capacity(HEADERS_MOST);
    let mut outer_at = 0;
    if let Some(vxlan) = &pattern.vxlan {
        ethernet(&mut bytes, pattern, spec.vlan, ether_type::IPV4);
        outer_at = bytes.len() as u8;
        push_vxlan(&mut bytes, vxlan, spec);
    }
    let vlan = spec.vlan.filter(|_| outer_at == 0);
    let version = if spec.is_ipv6 { ether_type::IPV6 } else { ether_type::IPV4 };
    ethernet(&mut bytes, pattern, vlan, version);
    let network_at = bytes.len() as u8;
    let number = if spec.is_tcp { protocol::TCP } else { protocol::UDP };
    if spec.is_ipv6 {
        bytes.extend([0x60, 0, 0, 0, 0, 0, number, 64]);
        bytes.extend(spec.source.to_be_bytes());
        bytes.extend(spec.destination.to_be_bytes());
    } else {
        push_ipv4(&mut bytes, number, spec.source as u32, spec.destination as u32);
    }
    let transport_at = bytes.len() as u8;
    bytes.extend(spec.source_port.to_be_bytes());
    bytes.extend(spec.destination_port.to_be_bytes());
    if spec.is_tcp {
        // Sequence, acknowledgement, 5 words, ACK, window, checksum, urgent.
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    } else {
        bytes.extend([0; 4]);
    }
    let payload_at = bytes.len() as u8;
    let (is_ipv6, is_tcp) = (spec.is_ipv6, spec.is_tcp);
    (bytes, Shape { outer_at, network_at, transport_at, payload_at, is_ipv6, is_tcp })
}

/// Writes the lengths and checksums of a complete packet, over the present values.
pub(super) fn complete(packet: &mut [u8], shape: &Shape) {
    let (network, transport) = (usize::from(shape.network_at), usize::from(shape.transport_at));
    let length = packet.len();
    if shape.outer_at > 0 {
        let outer = usize::from(shape.outer_at);
        complete_ipv4(packet, outer);
        // No UDP checksum, as preferred by RFC 7348, section 4.1.
        put(packet, outer + 24, (length - outer - 20) as u16);
    }
    let segment = (length - transport) as u16;
    match shape.is_ipv6 {
        true => put(packet, network + 4, (length - network - 40) as u16),
        false => complete_ipv4(packet, network),
    }
    if !shape.is_tcp {
        put(packet, transport + 4, segment);
    }
    complete_transport(packet, shape);
}

/// Writes only the checksum of TCP or UDP, over all bytes to the end of the packet.
pub(super) fn complete_transport(packet: &mut [u8], shape: &Shape) {
    let transport = usize::from(shape.transport_at);
    put(packet, shape.checksum_at(), 0);
    let length = (packet.len() - transport) as u32;
    let pseudo = u32::from(sum(&packet[shape.addresses()])) + u32::from(shape.protocol()) + length;
    let checksum = transport_checksum(pseudo + u32::from(sum(&packet[transport..])), shape.is_tcp);
    put(packet, shape.checksum_at(), checksum);
}

/// Returns the checksum for a sum of `sum`.
#[inline]
pub(super) fn transport_checksum(sum: u32, is_tcp: bool) -> u16 {
    match !fold(sum) {
        // For UDP, 0 would mean no checksum (RFC 768).
        0 if !is_tcp => 0xffff,
        checksum => checksum,
    }
}

fn complete_ipv4(packet: &mut [u8], at: usize) {
    put(packet, at + 2, (packet.len() - at) as u16);
    put(packet, at + 10, 0);
    let checksum = !sum(&packet[at..at + 20]);
    put(packet, at + 10, checksum);
}

fn ethernet(bytes: &mut Vec<u8>, pattern: &Pattern, vlan: Option<u16>, kind: u16) {
    bytes.extend(pattern.macs);
    if let Some(vlan) = vlan {
        bytes.extend(ether_type::VLAN.to_be_bytes());
        bytes.extend(vlan.to_be_bytes());
    }
    bytes.extend(kind.to_be_bytes());
}

fn push_ipv4(bytes: &mut Vec<u8>, protocol: u8, source: u32, destination: u32) {
    bytes.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
}

fn push_vxlan(bytes: &mut Vec<u8>, vxlan: &Vxlan, spec: &Spec) {
    push_ipv4(bytes, protocol::UDP, vxlan.source.into(), vxlan.destination.into());
    // A port that depends on the flow, for load balancing: RFC 7348, section 5.
    let mixed = spec.source ^ spec.destination ^ u128::from(spec.source_port);
    bytes.extend((0xc000 | mixed as u16 & 0x3fff).to_be_bytes());
    bytes.extend(VXLAN_PORT.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(VXLAN_FLAGS);
    bytes.extend((vxlan.network << 8).to_be_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
