//! Queries for one conversation: by its five-tuple or by its Community ID.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::{CommunityId, FlowKey, IpVersion};
use crate::hash;
use crate::headers::{self, LinkType, Ports, protocol};
use crate::tunnel;

/// A requested conversation, in both directions.
///
/// Its text form is the two ends and the protocol, as [`FlowKey`] prints them, or with commas:
/// `10.0.0.1:53 > 10.0.0.2:999 udp`, `10.0.0.1:53,10.0.0.2:999,udp`,
/// `[fe80::1]:53,[fe80::2]:9,tcp`, `10.0.0.1,10.0.0.2,icmp`; or a Community ID:
/// `1:LQU9qZlK+B5F3KDmev6m5PMibrg=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowQuery {
    /// By its ends and protocol, as [`FlowKey::symmetric`].
    Key(FlowKey),
    /// By its Community ID.
    Community(CommunityId),
}

/// The error for a text that is not a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected two ends and a protocol, e.g. 10.0.0.1:53,10.0.0.2:999,udp, or a Community ID, e.g. \
     1:LQU9qZlK+B5F3KDmev6m5PMibrg="
)]
pub struct FlowQueryError;

impl FlowQuery {
    /// Returns the `five-tuple` hash of its packets, if known beforehand.
    #[must_use]
    pub fn five_tuple_hash(&self) -> Option<u32> {
        match self {
            Self::Key(key) => Some(hash::five_tuple_of(key)),
            Self::Community(_) => None,
        }
    }
}

/// Protocols that have ports here, by name.
const WITH_PORTS: [(&str, u8); 3] =
    [("tcp", protocol::TCP), ("udp", protocol::UDP), ("sctp", protocol::SCTP)];

/// Protocols without ports.
const WITHOUT_PORTS: [(&str, u8); 2] = [("icmp", protocol::ICMP), ("icmpv6", protocol::ICMPV6)];

impl FromStr for FlowQuery {
    type Err = FlowQueryError;

    fn from_str(text: &str) -> Result<Self, FlowQueryError> {
        if let Ok(id) = text.trim().parse() {
            return Ok(Self::Community(id));
        }
        let is_between = |c: char| c == ',' || c == '>' || c.is_whitespace();
        let words: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
        let (ends, name) = match words[..] {
            [from, to, name] => ([from, to], name.to_ascii_lowercase()),
            // This is how a flow without a protocol name is printed.
            [from, to, "protocol", number] => ([from, to], number.to_owned()),
            _ => return Err(FlowQueryError),
        };
        let known = WITH_PORTS.iter().chain(&WITHOUT_PORTS).find(|(known, _)| *known == name);
        let number = known.map(|(_, number)| *number).or_else(|| name.parse().ok());
        let protocol = number.ok_or(FlowQueryError)?;
        let has_ports = WITH_PORTS.iter().any(|(_, number)| *number == protocol);
        let [source, destination] = ends.map(|end| read_end(end, has_ports));
        let (source, destination) = (source?, destination?);
        let (version, addresses) = match [source.0, destination.0] {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                (IpVersion::V4, [from, to].map(|address| address.to_ipv6_mapped().octets()))
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                (IpVersion::V6, [from, to].map(|address| address.octets()))
            }
            _ => return Err(FlowQueryError),
        };
        let ports = source.1.zip(destination.1);
        let key = FlowKey {
            version,
            protocol,
            source: addresses[0],
            destination: addresses[1],
            ports: ports.map(|(source, destination)| Ports { source, destination }),
        };
        Ok(Self::Key(key.symmetric()))
    }
}

fn read_end(text: &str, has_port: bool) -> Result<(IpAddr, Option<u16>), FlowQueryError> {
    match has_port {
        true => {
            let end: SocketAddr = text.parse().map_err(|_| FlowQueryError)?;
            Ok((end.ip(), Some(end.port())))
        }
        false => Ok((text.parse().map_err(|_| FlowQueryError)?, None)),
    }
}

/// Tests whether packets belong to a conversation.
#[derive(Clone, Debug)]
pub struct FlowMatcher {
    query: FlowQuery,
    /// Whether the packet inside of tunnels counts.
    is_inner: bool,
    /// For a Community ID: the results for earlier conversations.
    known: HashMap<(FlowKey, u16), bool>,
}

impl FlowMatcher {
    /// The most conversations that are remembered.
    const KNOWN_MAX: usize = 64 << 10;

    /// Creates a matcher for one conversation, of packets as they are on the link.
    #[must_use]
    pub fn new(query: FlowQuery) -> Self {
        Self { query, is_inner: false, known: HashMap::new() }
    }

    /// Creates a matcher for one conversation, of the innermost packets of tunnels. A packet that
    /// is no tunnel counts itself.
    #[must_use]
    pub fn of_innermost(query: FlowQuery) -> Self {
        Self { is_inner: true, ..Self::new(query) }
    }

    /// Returns whether a packet belongs to the conversation. A later fragment has no ports and
    /// matches no conversation with ports.
    ///
    /// Cost: [`headers::parse`] and a comparison; for a Community ID a table lookup; for innermost
    /// packets also [`tunnel::innermost`].
    pub fn matches(&mut self, link: LinkType, packet: &[u8]) -> bool {
        let outer = headers::parse(link, packet);
        let inner = self.is_inner.then(|| tunnel::innermost(&outer, packet)).flatten();
        let headers = inner.map_or(outer, |inner| inner.headers);
        let Some(key) = FlowKey::new(&headers, packet) else { return false };
        let id = match self.query {
            FlowQuery::Key(wanted) => return key.symmetric() == wanted,
            FlowQuery::Community(id) => id,
        };
        // The values that replace ICMP's ports are not in the key.
        let at = headers.transport_offset as usize;
        let head = headers::bytes_at(packet, at).map_or(0, u16::from_be_bytes);
        let kind = if key.ports.is_none() { head } else { 0 };
        if let Some(&is_it) = self.known.get(&(key, kind)) {
            return is_it;
        }
        let is_it = CommunityId::new(&headers, packet) == Some(id);
        if self.known.len() == Self::KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((key, kind), is_it);
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{FlowHasher, HashKind};

    /// Returns Ethernet, IPv4 and UDP from 10.0.0.1:53 to 10.0.0.2:999, without a payload.
    fn packet() -> Vec<u8> {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 3, 231, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn a_flow_is_asked_for_as_it_is_printed() {
        let headers = headers::parse(LinkType::ETHERNET, &packet());
        let key = FlowKey::new(&headers, &packet()).unwrap();
        let id = CommunityId::new(&headers, &packet()).unwrap();
        let back = key.reversed().to_string();
        for text in ["10.0.0.2:999,10.0.0.1:53,UDP", &key.to_string(), &back, &id.to_string()] {
            let query: FlowQuery = text.parse().unwrap();
            assert!(FlowMatcher::new(query).matches(LinkType::ETHERNET, &packet()), "{text}");
        }
        let other: FlowQuery = "10.0.0.2:998,10.0.0.1:53,udp".parse().unwrap();
        assert!(!FlowMatcher::new(other).matches(LinkType::ETHERNET, &packet()));
        let query = FlowQuery::Key(key.symmetric());
        let hash = FlowHasher::new(HashKind::FiveTuple).hash(LinkType::ETHERNET, &packet());
        assert_eq!(query.five_tuple_hash(), Some(hash));
    }

    #[test]
    fn the_innermost_packet_of_a_tunnel_is_asked_for_by_its_own_ends() {
        let plain = packet();
        let length = (20 + plain.len() - 14) as u8;
        let mut tunnel = vec![2; 12];
        // IPv4 in IPv4, from 192.0.2.1 to 192.0.2.2.
        tunnel.extend([8, 0, 0x45, 0, 0, length, 0, 0, 0, 0, 64, 4, 0, 0]);
        tunnel.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        tunnel.extend(&plain[14..]);
        let headers = headers::parse(LinkType::ETHERNET, &plain);
        let id = CommunityId::new(&headers, &plain).unwrap().to_string();
        for (text, is_outer, is_inner) in [
            ("10.0.0.1:53,10.0.0.2:999,udp", false, true),
            (id.as_str(), false, true),
            ("192.0.2.2,192.0.2.1,4", true, false),
        ] {
            let query: FlowQuery = text.parse().unwrap();
            let matches = |mut matcher: FlowMatcher| matcher.matches(LinkType::ETHERNET, &tunnel);
            assert_eq!(matches(FlowMatcher::new(query)), is_outer, "{text}");
            assert_eq!(matches(FlowMatcher::of_innermost(query)), is_inner, "{text}");
            let is_it = FlowMatcher::of_innermost(query).matches(LinkType::ETHERNET, &plain);
            assert_eq!(is_it, is_inner, "a packet that is no tunnel: {text}");
        }
    }

    #[test]
    fn what_names_no_conversation_is_refused() {
        for good in ["[fe80::1]:53 > [fe80::2]:9 tcp", "10.0.0.1 10.0.0.2 icmp", "::1,::2,58"] {
            assert!(good.parse::<FlowQuery>().is_ok(), "{good}");
        }
        for wrong in ["", "10.0.0.1,10.0.0.2,tcp", "10.0.0.1:1,::1,udp", "a,b,c", "1.1.1.1:1,udp"] {
            assert!(wrong.parse::<FlowQuery>().is_err(), "{wrong}");
        }
    }
}
