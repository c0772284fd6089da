//! Packets inside packets: finds the payload of tunnels, one step at a time.
//!
//! ```text
//! | link | IP | UDP | VXLAN | link | IP | TCP | payload | padding |
//!        `-- headers of the packet     `-- headers of Inner: offsets still count from the start
//! ```
//!
//! | tunnel | known by | carries |
//! |---|---|---|
//! | MPLS | EtherType, or a GRE, GPE, Geneve or PPP type | IP, Ethernet: a guess (`labels`) |
//! | PPPoE session | EtherType | IP, MPLS |
//! | IP in IP | IP protocol 4, 41 | IP |
//! | GRE, ERSPAN I, II, III | IP protocol 47 | IP, Ethernet, MPLS |
//! | VXLAN, VXLAN-GPE | UDP to 4789 or 8472, to 4790 | Ethernet; GPE also IP, MPLS |
//! | Geneve | UDP to 6081 | Ethernet, IP, MPLS |
//! | GTP-U | UDP to 2152 | IP |
//!
//! A step finds either a complete packet or nothing: an inner IP header that is truncated or
//! malformed is not an inner packet. A later fragment has no inner packet, because its bytes are
//! from the middle of one. A first fragment has one, as far as its bytes go.
//!
//! Not followed, because the packet alone is not enough: ESP (encrypted), L2TPv3 (its cookie's
//! length is negotiated elsewhere), MPLS pseudowires of anything but Ethernet.
//!
//! Invariants, for any bytes:
//! - I1: the headers of an inner packet keep I1 to I4 of [`headers`]. `offset` is after the network
//!   header of the outer packet, and not after its own `network_offset`.
//! - I2: an inner packet is IP (`network` is `Ipv4` or `Ipv6`), or a whole Ethernet header that
//!   announces something else.
//! - I3: depth is limited to [`TUNNELS_MAX`], labels and options are bounded, and so is time.

mod cursor;
mod gre;
mod gtp;
mod labels;
mod overlay;

pub use labels::LABELS_MAX;

use crate::headers::{self, Headers, LinkType, Network, Outcome, ether_type, protocol};
use cursor::Cursor;

/// Nested tunnels that are followed in one packet.
pub const TUNNELS_MAX: usize = 8;

/// VXLAN. Source: RFC 7348 section 5, IANA.
pub const VXLAN_PORT: u16 = 4789;
/// Linux's default port for VXLAN. Source: `drivers/net/vxlan/vxlan_core.c`, 6.18.
pub const VXLAN_PORT_LINUX: u16 = 8472;
/// VXLAN-GPE. Source: draft-ietf-nvo3-vxlan-gpe-13 section 3.1, IANA.
pub const VXLAN_GPE_PORT: u16 = 4790;
/// Geneve. Source: RFC 8926 section 3.3.
pub const GENEVE_PORT: u16 = 6081;
/// GTP-U. Source: 3GPP TS 29.281 section 4.4.2.
pub const GTP_PORT: u16 = 2152;

/// A packet inside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The tunnel that carries it.
    pub tunnel: Tunnel,
    /// Its first header: Ethernet, or one of the IP types without a link header.
    pub link: LinkType,
    /// Its offset in bytes from the start of the outermost packet.
    pub offset: u32,
    /// Its headers. Their offsets also count from the start of the outermost packet, so
    /// [`FlowKey::new`](crate::flow::FlowKey::new) takes them together with that packet.
    pub headers: Headers,
}

/// The kind of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// A mirrored frame in GRE, type I, II or III.
    Erspan,
    /// Generic network virtualization encapsulation.
    Geneve,
    /// Generic routing encapsulation, version 0.
    Gre,
    /// The user plane of a mobile network.
    Gtp,
    /// IPv4 or IPv6 directly in IPv4 or IPv6.
    IpInIp,
    /// A label stack after a link header.
    Mpls,
    /// A PPP session over Ethernet.
    Pppoe,
    /// Virtual extensible LAN.
    Vxlan,
    /// VXLAN with a type of its payload.
    VxlanGpe,
}

/// The payload that a tunnel header announces.
#[derive(Clone, Copy)]
enum Content {
    Ethernet,
    /// A guess, to be confirmed by IP after the Ethernet header.
    PerhapsEthernet,
    Ipv4,
    Ipv6,
    /// IPv4 or IPv6, by the version nibble.
    Ip,
}

/// Returns the packet inside `packet` with its `headers`, if there is one.
///
/// `headers` may be those of an [`Inner`] of the same packet, for the next step inwards. Headers of
/// another packet give a wrong result, never a panic.
///
/// Cost: two comparisons for a packet that is not a tunnel, or else a general [`headers::parse`].
#[inline]
#[must_use]
pub fn inside(headers: &Headers, packet: &[u8]) -> Option<Inner> {
    if may_carry(headers) { step(headers, packet) } else { None }
}

/// Returns the innermost packet, at most [`TUNNELS_MAX`] deep; `None` if `packet` is no tunnel.
///
/// Cost: [`inside`] for each step.
#[must_use]
pub fn innermost(headers: &Headers, packet: &[u8]) -> Option<Inner> {
    let mut found = inside(headers, packet)?;
    for _ in 1..TUNNELS_MAX {
        let Some(next) = inside(&found.headers, packet) else { break };
        found = next;
    }
    Some(found)
}

/// Returns whether a [`step`] may find something: cheap, and false for nearly all other packets.
#[inline]
pub(crate) fn may_carry(headers: &Headers) -> bool {
    match headers.protocol {
        protocol::TCP => false,
        protocol::UDP => headers.ports.is_some_and(|ports| is_tunnel_port(ports.destination)),
        _ => true,
    }
}

#[inline]
fn is_tunnel_port(port: u16) -> bool {
    matches!(port, VXLAN_PORT | VXLAN_PORT_LINUX | VXLAN_GPE_PORT | GENEVE_PORT | GTP_PORT)
}

#[inline(never)]
fn step(headers: &Headers, packet: &[u8]) -> Option<Inner> {
    let bytes = packet.get(..headers.end as usize)?;
    let (tunnel, content, start) = match headers.network {
        Network::Other => behind_link(headers, Cursor::new(bytes, headers.network_offset)),
        Network::Ipv4 | Network::Ipv6 => behind_ip(headers, bytes),
        Network::Llc | Network::None => None,
    }?;
    let (link, must_be_ip) = match content {
        Content::Ethernet => (LinkType::ETHERNET, false),
        Content::PerhapsEthernet => (LinkType::ETHERNET, true),
        Content::Ipv4 => (LinkType::IPV4, true),
        Content::Ipv6 => (LinkType::IPV6, true),
        Content::Ip => (LinkType::RAW, true),
    };
    let inner = headers::parse_from(link, start.bytes(), start.at());
    let is_whole = match inner.network {
        Network::Ipv4 | Network::Ipv6 => true,
        Network::Other | Network::Llc => !must_be_ip,
        Network::None => false,
    };
    is_whole.then_some(Inner { tunnel, link, offset: start.at() as u32, headers: inner })
}

/// A tunnel, its payload, and where that starts.
type Found<'a> = (Tunnel, Content, Cursor<'a>);

fn behind_link<'a>(headers: &Headers, mut at: Cursor<'a>) -> Option<Found<'a>> {
    let (tunnel, content) = match headers.ether_type {
        ether_type::MPLS | ether_type::MPLS_MULTICAST => (Tunnel::Mpls, labels::mpls(&mut at)?),
        ether_type::PPPOE_SESSION => (Tunnel::Pppoe, labels::pppoe(&mut at)?),
        _ => return None,
    };
    Some((tunnel, content, at))
}

fn behind_ip<'a>(headers: &Headers, bytes: &'a [u8]) -> Option<Found<'a>> {
    let mut at = Cursor::new(bytes, headers.payload_offset);
    // These outcomes mean that the walk got past the IP header, or past UDP. They exclude truncated
    // options or extensions, and later fragments.
    let (tunnel, content) = match (headers.outcome, headers.protocol) {
        (Outcome::UnknownTransport, protocol::IPV4) => (Tunnel::IpInIp, Content::Ipv4),
        (Outcome::UnknownTransport, protocol::IPV6) => (Tunnel::IpInIp, Content::Ipv6),
        (Outcome::UnknownTransport, protocol::GRE) => gre::gre(&mut at)?,
        (Outcome::Complete, protocol::UDP) => match headers.ports?.destination {
            VXLAN_PORT | VXLAN_PORT_LINUX => (Tunnel::Vxlan, overlay::vxlan(&mut at)?),
            VXLAN_GPE_PORT => (Tunnel::VxlanGpe, overlay::vxlan_gpe(&mut at)?),
            GENEVE_PORT => (Tunnel::Geneve, overlay::geneve(&mut at)?),
            GTP_PORT => (Tunnel::Gtp, gtp::gtp(&mut at)?),
            _ => return None,
        },
        _ => return None,
    };
    Some((tunnel, content, at))
}

/// Returns the payload that an EtherType in a tunnel header announces; for labels, their payload.
fn announced(ether_type: u16, at: &mut Cursor<'_>) -> Option<Content> {
    match ether_type {
        ether_type::IPV4 => Some(Content::Ipv4),
        ether_type::IPV6 => Some(Content::Ipv6),
        ether_type::ETHERNET_BRIDGING => Some(Content::Ethernet),
        ether_type::MPLS | ether_type::MPLS_MULTICAST => labels::mpls(at),
        _ => None,
    }
}
