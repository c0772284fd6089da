//! The fields of a packet that the table needs: conversation, direction, bytes, time and TCP
//! fields.
//!
//! The key has the two ends in order, the smaller first, so that both directions have one key. Two
//! VLAN ids and the tunnel are part of it: the same addresses elsewhere are other machines.
//!
//! ```text
//! word 0, 1   address of the smaller end            4   port, port, protocol, kind, outer VLAN
//! word 2, 3   address of the larger                 5   tunnel's number, inner VLAN, tunnel's kind
//! ```

use burstline_log::Packet;
use burstline_wire::flow::{FlowKey, IcmpEnds, IpVersion};
use burstline_wire::headers::{self, Headers, LinkType, Network, Outcome, Ports, protocol};
use burstline_wire::tunnel::{self, TUNNELS_MAX};

use super::NoFlow;
use crate::record::Tunnel;

const IS_V6: u64 = 1;
const HAS_PORTS: u64 = 2;
/// Marks a message without a reply, from the larger end.
const IS_ONE_WAY_FROM_HIGH: u64 = 4;
const HAS_ICMP: u64 = 8;

/// Set if a VLAN id is present.
const HAS_VLAN: u64 = 0x8000;

/// The key of a conversation: see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key([u64; 6]);

/// The TCP fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    /// Payload bytes on the wire.
    pub(super) bytes: u32,
}

/// The fields of a packet that the table needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sight {
    pub(super) key: Key,
    pub(super) hash: u32,
    /// The end that sent it: 0 the smaller, 1 the larger.
    pub(super) from: usize,
    pub(super) bytes: u32,
    pub(super) time_ns: u64,
    pub(super) segment: Option<Segment>,
    /// Type and code of ICMP.
    pub(super) icmp: [u8; 2],
}

impl Sight {
    /// Parses a packet.
    ///
    /// # Errors
    /// The reason why it has no flow.
    #[inline(always)]
    pub(super) fn new(packet: &Packet<'_>, link: LinkType, secret: u64) -> Result<Self, NoFlow> {
        let bytes = packet.bytes();
        let outer = headers::parse(link, bytes);
        let mut word = u64::from(vlan(&outer, 1)) << 16;
        let inner = match tunnel::inside(&outer, bytes) {
            None => outer,
            Some(_) => within(&outer, bytes, &mut word),
        };
        let mut sight = Self::of_headers(&inner, bytes, u64::from(vlan(&outer, 0)), word)?;
        sight.hash = sight.key.hash(secret);
        let wire = packet.original_length();
        sight.bytes = wire as u32;
        sight.time_ns = packet.time_ns();
        if wire > bytes.len()
            && inner.end as usize == bytes.len()
            && let Some(segment) = &mut sight.segment
        {
            segment.bytes += (wire - bytes.len()) as u32;
        }
        Ok(sight)
    }

    #[inline(always)]
    fn of_headers(headers: &Headers, bytes: &[u8], vlan: u64, word: u64) -> Result<Self, NoFlow> {
        let network = headers.network_offset as usize;
        let at = |offset| word_at(bytes, network + offset);
        let (kind, source, destination) = match headers.network {
            Network::Ipv4 => {
                let both = at(12).ok_or(NoFlow::Malformed)?;
                let mapped = |address: u64| [0, 0xffff << 32 | address];
                (0, mapped(both >> 32), mapped(both & 0xffff_ffff))
            }
            Network::Ipv6 => {
                let get = |offset| at(offset).ok_or(NoFlow::Malformed);
                (IS_V6, [get(8)?, get(16)?], [get(24)?, get(32)?])
            }
            Network::None => return Err(NoFlow::Malformed),
            Network::Llc | Network::Other => return Err(NoFlow::NoIp),
        };
        let ports = headers.ports.unwrap_or(Ports { source: 0, destination: 0 });
        let mut ends = [ports.source, ports.destination];
        let mut kind = kind | if headers.ports.is_some() { HAS_PORTS } else { 0 };
        let (mut icmp, mut is_one_way) = ([0; 2], false);
        if matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6) {
            let head = bytes.get(headers.transport_offset as usize..).and_then(|b| b.first_chunk());
            if let Some(&head) = head.filter(|_| !headers.is_later_fragment()) {
                let message = IcmpEnds::new(headers.protocol, head);
                (icmp, ends, is_one_way) = (head, message.ends, message.is_one_way);
                kind |= HAS_ICMP;
            }
        }
        let is_high = (source, ends[0]) > (destination, ends[1]);
        if is_high && is_one_way {
            kind |= IS_ONE_WAY_FROM_HIGH;
        }
        let (low, high, ends) = match is_high {
            false => (source, destination, ends),
            true => (destination, source, [ends[1], ends[0]]),
        };
        let ports = u64::from(ends[0]) << 48 | u64::from(ends[1]) << 32;
        let facts = u64::from(headers.protocol) << 24 | kind << 16 | vlan;
        let words = [low[0], low[1], high[0], high[1], ports | facts, word];
        let segment = match (headers.protocol, headers.outcome) {
            (protocol::TCP, Outcome::Complete) => segment(headers, bytes),
            _ => None,
        };
        Ok(Self { key: Key(words), from: is_high.into(), segment, icmp, ..Self::default() })
    }
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_be_bytes(*word))
}

#[inline(always)]
fn segment(headers: &Headers, bytes: &[u8]) -> Option<Segment> {
    let header: &[u8; 14] = bytes.get(headers.transport_offset as usize..)?.first_chunk()?;
    let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    Some(Segment { flags: header[13], sequence, bytes: headers.payload_len() })
}

/// Returns the VLAN id `at` from outside, marked as present; 0 if there is none.
#[inline(always)]
fn vlan(headers: &Headers, at: usize) -> u16 {
    headers.tags().get(at).map_or(0, |tag| tag.id() | HAS_VLAN as u16)
}

/// Returns the headers of the innermost packet. Stores the tunnel in the key's last word.
#[cold]
#[inline(never)]
fn within(outer: &Headers, bytes: &[u8], word: &mut u64) -> Headers {
    let mut around = *outer;
    for _ in 0..TUNNELS_MAX {
        let Some(inner) = tunnel::inside(&around, bytes) else { break };
        let tunnel = Tunnel { kind: inner.tunnel, id: number(inner.tunnel, &around, bytes) };
        *word = *word & !Tunnel::MASK | tunnel.to_bits();
        around = inner.headers;
    }
    around
}

/// Returns the number of a tunnel if both directions have the same: 24 bits after four header
/// bytes.
/// Source: RFC 7348 section 5, RFC 8926 section 3.4.
fn number(kind: tunnel::Tunnel, around: &Headers, bytes: &[u8]) -> Option<u32> {
    use tunnel::Tunnel::{Geneve, Vxlan, VxlanGpe};
    if !matches!(kind, Vxlan | VxlanGpe | Geneve) {
        return None;
    }
    let header: &[u8; 8] = bytes.get(around.payload_offset as usize..)?.first_chunk()?;
    Some(u32::from_be_bytes([0, header[4], header[5], header[6]]))
}

impl Key {
    /// Computes a hash whose collisions cannot be forced without the secret.
    #[inline(always)]
    pub(super) fn hash(&self, secret: u64) -> u32 {
        // Odd numbers without structure: fractional parts of the square roots of 11, 13, 17.
        const K0: u64 = 0x510e_527f_ade6_82d1;
        const K1: u64 = 0x9b05_688c_2b3e_6c1f;
        const K2: u64 = 0x1f83_d9ab_fb41_bd6b;
        let [l0, l1, h0, h1, facts, rest] = self.0;
        let low = mix(l0 ^ secret, l1 ^ K0);
        let high = mix(h0 ^ secret.rotate_left(21), h1 ^ K1);
        let hash = mix(low ^ facts, high ^ rest.rotate_left(7) ^ K2);
        (hash ^ hash >> 32) as u32
    }

    /// Returns the flow in the direction of end `from`.
    pub(super) fn flow(&self, from: usize) -> FlowKey {
        let [l0, l1, h0, h1, facts, _] = self.0;
        let address =
            |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let kind = facts >> 16;
        let ports = Ports { source: (facts >> 48) as u16, destination: (facts >> 32) as u16 };
        let key = FlowKey {
            version: if kind & IS_V6 != 0 { IpVersion::V6 } else { IpVersion::V4 },
            protocol: (facts >> 24) as u8,
            source: address(l0, l1),
            destination: address(h0, h1),
            ports: (kind & HAS_PORTS != 0).then_some(ports),
        };
        if from == 0 { key } else { key.reversed() }
    }

    /// Returns whether it is a conversation of ICMP messages of known type.
    pub(super) fn has_icmp(&self) -> bool {
        self.0[4] >> 16 & HAS_ICMP != 0
    }

    /// Returns the outermost VLAN id.
    pub(super) fn vlan(&self) -> Option<u16> {
        let tag = self.0[4] & 0xffff;
        (tag & HAS_VLAN != 0).then_some((tag & 0xfff) as u16)
    }

    /// Returns the innermost tunnel.
    pub(super) fn tunnel(&self) -> Option<Tunnel> {
        Tunnel::from_bits(self.0[5])
    }
}

#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
