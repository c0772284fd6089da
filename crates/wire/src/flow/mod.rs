//! Flow keys: the addresses, ports and protocol of a packet's conversation.
//!
//! A key keeps the direction of the packet it came from. `reversed` is the other direction.
//! `symmetric` picks one of the two, the same for both, so a table keyed by it has one entry per
//! conversation:
//!
//! ```text
//! 10.0.0.1:53 > 10.0.0.2:999 udp   --symmetric-->  10.0.0.1:53 > 10.0.0.2:999 udp
//! 10.0.0.2:999 > 10.0.0.1:53 udp   --symmetric-->  10.0.0.1:53 > 10.0.0.2:999 udp
//! ```
//!
//! VLAN tags and tunnels are not part of the key.

mod community;
mod query;

pub use community::{CommunityId, CommunityIdError, IcmpEnds};
pub use query::{FlowMatcher, FlowQuery, FlowQueryError};

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::headers::{Headers, Network, Ports, bytes_at, protocol};

/// The two ends and the protocol of one packet's flow, in the packet's direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Whether the addresses are IPv4 or IPv6.
    pub version: IpVersion,
    /// IP protocol number. See [`protocol`].
    pub protocol: u8,
    /// Address of the sender; an IPv4 address is in the last 4 bytes, after `::ffff`.
    pub source: [u8; 16],
    /// Address of the receiver, likewise. A routing header is not followed.
    pub destination: [u8; 16],
    /// Ports. `None` if the protocol has none or the packet does not show them (later fragments,
    /// short snaplen).
    pub ports: Option<Ports>,
}

/// Version of the Internet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl FlowKey {
    /// Returns the flow of `packet` with its `headers`; `None` if it is not IP.
    ///
    /// Cost: two address copies, no allocation. `headers` of another packet give a wrong key or
    /// `None`, never a panic.
    #[must_use]
    pub fn new(headers: &Headers, packet: &[u8]) -> Option<Self> {
        let network = headers.network_offset as usize;
        let (version, source, destination) = match headers.network {
            Network::Ipv4 => {
                (IpVersion::V4, mapped(packet, network + 12)?, mapped(packet, network + 16)?)
            }
            Network::Ipv6 => {
                (IpVersion::V6, bytes_at(packet, network + 8)?, bytes_at(packet, network + 24)?)
            }
            Network::Llc | Network::None | Network::Other => return None,
        };
        let (protocol, ports) = (headers.protocol, headers.ports);
        Some(Self { version, protocol, source, destination, ports })
    }

    /// Returns the same flow in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        let ports =
            self.ports.map(|ports| Ports { source: ports.destination, destination: ports.source });
        Self { source: self.destination, destination: self.source, ports, ..self }
    }

    /// Returns the direction in which the end with the smaller address (then port) sends:
    /// `key.symmetric() == key.reversed().symmetric()`.
    #[must_use]
    pub fn symmetric(self) -> Self {
        self.min(self.reversed())
    }

    /// Returns the sender's address.
    #[must_use]
    pub fn source_address(&self) -> IpAddr {
        self.address(self.source)
    }

    /// Returns the receiver's address.
    #[must_use]
    pub fn destination_address(&self) -> IpAddr {
        self.address(self.destination)
    }

    fn address(&self, bytes: [u8; 16]) -> IpAddr {
        match self.version {
            IpVersion::V4 => {
                let [.., a, b, c, d] = bytes;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            IpVersion::V6 => IpAddr::V6(Ipv6Addr::from(bytes)),
        }
    }

    fn format_end(
        &self,
        f: &mut fmt::Formatter<'_>,
        bytes: [u8; 16],
        port: Option<u16>,
    ) -> fmt::Result {
        match (self.address(bytes), port) {
            (address, None) => write!(f, "{address}"),
            (IpAddr::V4(address), Some(port)) => write!(f, "{address}:{port}"),
            (IpAddr::V6(address), Some(port)) => write!(f, "[{address}]:{port}"),
        }
    }
}

/// Formats like `10.0.0.1:53 > 10.0.0.2:999 udp`, `[fe80::1]:53 > [fe80::2]:999 tcp`, `10.0.0.1 >
/// 10.0.0.2 icmp`.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.format_end(f, self.source, self.ports.map(|ports| ports.source))?;
        f.write_str(" > ")?;
        self.format_end(f, self.destination, self.ports.map(|ports| ports.destination))?;
        match self.protocol {
            protocol::ICMP => f.write_str(" icmp"),
            protocol::ICMPV6 => f.write_str(" icmpv6"),
            protocol::SCTP => f.write_str(" sctp"),
            protocol::TCP => f.write_str(" tcp"),
            protocol::UDP => f.write_str(" udp"),
            number => write!(f, " protocol {number}"),
        }
    }
}

/// Returns the IPv4 address at `offset`, IPv6-mapped. Source: RFC 4291 section 2.5.5.2.
fn mapped(packet: &[u8], offset: usize) -> Option<[u8; 16]> {
    let address: [u8; 4] = bytes_at(packet, offset)?;
    Some(Ipv4Addr::from(address).to_ipv6_mapped().octets())
}
