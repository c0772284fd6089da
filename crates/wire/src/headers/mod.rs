//! Finds the headers of one packet in a single forward pass over untrusted bytes.
//!
//! ```text
//! | link | tags | IP and extensions    | transport | payload            | padding |
//! 0             ^network_offset        ^           ^payload_offset      ^end      packet.len()
//!                                      ^transport_offset
//! ```
//!
//! The pass only reads and never allocates. It returns [`Headers`], a small Copy value of offsets
//! and facts that borrows nothing; the caller keeps the packet. The pass stops where the bytes end,
//! at an unknown header, or after the transport header. [`Headers::outcome`] says which.
//!
//! Most packets are untagged Ethernet with IPv4 or IPv6 and TCP or UDP, all at fixed offsets:
//! `fast` recognises exactly those. Everything else takes the general walk (`walk`, with one layer
//! each in `link`, `ip` and `transport`). A test checks that both give the same result.
//!
//! Invariants, for any bytes:
//! - I1: `network_offset <= transport_offset <= payload_offset <= end <= packet.len()`. The offset
//!   of a layer that was not reached is where the walk stopped.
//! - I2: if `network` is `Ipv4` (`Ipv6`), the 20 (40) bytes of its fixed header are before `end`.
//! - I3: if `ports` is `Some`, the four bytes at `transport_offset` are before `end`.
//! - I4: tags and extension headers are bounded ([`TAGS_MAX`], [`EXTENSIONS_MAX`]), and so is time.
//!
//! Not done here: checksums, reassembly, the payload of ICMP errors. See [`tunnel`](crate::tunnel)
//! for tunnels.

pub mod ether_type;
pub mod protocol;

mod fast;
mod ip;
mod link;
mod link_type;
mod transport;
mod walk;

#[cfg(test)]
mod tests;

pub use ip::EXTENSIONS_MAX;
pub use link::TAGS_MAX;
pub use link_type::LinkType;

use walk::Walk;

/// Finds the headers of `packet`, which starts with the link header of `link` and has no FCS. Any
/// length and any content is allowed; bytes from 4 GiB on are ignored.
///
/// Cost: no allocation. A few nanoseconds for untagged Ethernet, IPv4 or IPv6, TCP or UDP;
/// otherwise in proportion to the number of tags and extension headers, which is bounded.
#[inline]
#[must_use]
pub fn parse(link: LinkType, packet: &[u8]) -> Headers {
    parse_plain(link, packet).unwrap_or_else(|| parse_general(link, packet))
}

/// Like [`parse`] for the plain packets that the fast path knows; `None` for the others.
///
/// A caller with a separate case for these packets keeps the headers in registers. That requires
/// inlining everything, however often it is called.
#[inline(always)]
pub(crate) fn parse_plain(link: LinkType, packet: &[u8]) -> Option<Headers> {
    if link == LinkType::ETHERNET { fast::parse(packet) } else { None }
}

/// Like [`parse`], but always by the general walk.
// Not inlined: it would only bloat the callers' fast path.
#[inline(never)]
pub(crate) fn parse_general(link: LinkType, packet: &[u8]) -> Headers {
    let mut headers = Headers::EMPTY;
    Walk::run(link, packet, &mut headers);
    headers
}

/// Like [`parse`] for the packet that starts `start` bytes into `packet`. Offsets still count from
/// the start of `packet`.
pub(crate) fn parse_from(link: LinkType, packet: &[u8], start: usize) -> Headers {
    let start = start.min(packet.len()).min(u32::MAX as usize);
    // Limits the walk so that sums of offsets fit 32 bits.
    let end = packet.len().min(u32::MAX as usize);
    let headers = parse(link, &packet[start..end]);
    let start = start as u32;
    Headers {
        network_offset: headers.network_offset + start,
        transport_offset: headers.transport_offset + start,
        payload_offset: headers.payload_offset + start,
        end: headers.end + start,
        ..headers
    }
}

/// The result of [`parse`]. Offsets are bytes from the start of the packet; see I1 to I3 of the
/// module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Start of the network header.
    pub network_offset: u32,
    /// Start of the transport header, after IPv4 options and IPv6 extension headers.
    pub transport_offset: u32,
    /// Start of the payload.
    pub payload_offset: u32,
    /// End of the packet by its own lengths, or of the captured bytes. Link padding is after it.
    pub end: u32,
    /// Fragment fields. `None` for a whole datagram, including an IPv6 packet whose fragment header
    /// says "from 0, no more" (an atomic fragment, RFC 6946).
    pub fragment: Option<Fragment>,
    /// Ports of TCP, UDP and SCTP. Known if their four bytes are present, even if the rest of the
    /// transport header is truncated or malformed.
    pub ports: Option<Ports>,
    /// EtherType after all tags, 0 if there is none (LLC, unknown link). Links without one (raw IP,
    /// null) get the EtherType of their IP version. See [`ether_type`].
    pub ether_type: u16,
    /// IP protocol: the last next-header value seen. 0 without IP. See [`protocol`].
    pub protocol: u8,
    /// Kind of header at `network_offset`.
    pub network: Network,
    /// How far the pass got, and why it stopped there.
    pub outcome: Outcome,
    tag_count: u8,
    tags: [VlanTag; TAGS_MAX],
}

impl Headers {
    /// Returns the VLAN tags, outermost first; `[0, TAGS_MAX]` of them.
    #[must_use]
    pub fn tags(&self) -> &[VlanTag] {
        &self.tags[..usize::from(self.tag_count)]
    }

    /// Returns the number of captured payload bytes after the transport header.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.end - self.payload_offset
    }

    /// Returns whether this is a fragment other than the first: it has no transport header.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset_bytes > 0)
    }

    const EMPTY: Self = Self {
        network_offset: 0,
        transport_offset: 0,
        payload_offset: 0,
        end: 0,
        fragment: None,
        ports: None,
        ether_type: 0,
        protocol: 0,
        network: Network::None,
        outcome: Outcome::Complete,
        tag_count: 0,
        tags: [VlanTag(0); TAGS_MAX],
    };
}

/// Kind of the header after the link header and its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4 with a complete and sane fixed header.
    Ipv4,
    /// IPv6 with a complete and sane fixed header.
    Ipv6,
    /// 802.2 LLC in an 802.3 frame, other than SNAP with an EtherType.
    Llc,
    /// Not reached, or an IP header that is truncated or malformed.
    None,
    /// Something else; `ether_type` has its type, if the link has one.
    Other,
}

/// How far [`parse`] got, and why it stopped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transport header is complete: the payload is at `payload_offset`.
    Complete,
    /// A fragment other than the first: its part of the datagram is at `payload_offset`.
    LaterFragment,
    /// The IP header contradicts itself: version, header length, total length, nested fragments.
    MalformedNetwork,
    /// The transport header contradicts itself: TCP data offset, UDP length.
    MalformedTransport,
    /// More IPv6 extension headers than [`EXTENSIONS_MAX`].
    TooManyExtensions,
    /// More VLAN tags than [`TAGS_MAX`].
    TooManyTags,
    /// The bytes end in the link header, its tags or LLC.
    TruncatedLink,
    /// The bytes end in the IP header, its options or extension headers.
    TruncatedNetwork,
    /// The bytes end in the transport header.
    TruncatedTransport,
    /// A link type that is not parsed here.
    UnknownLink,
    /// Neither IPv4 nor IPv6: ARP, LLC and so on.
    UnknownNetwork,
    /// A transport protocol that is not parsed here (ESP, GRE, IPv6 no-next-header and so on).
    UnknownTransport,
}

/// Identity of a fragment's datagram, and the fragment's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// Offset of this part in the datagram: a multiple of 8 in `[0, 65_528]`.
    pub offset_bytes: u16,
    /// Whether more parts follow.
    pub more: bool,
}

/// The two ports of a transport header, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
}

impl Ports {
    pub(crate) fn from_bytes([s0, s1, d0, d1]: [u8; 4]) -> Self {
        Self { source: u16::from_be_bytes([s0, s1]), destination: u16::from_be_bytes([d0, d1]) }
    }
}

/// Tag control information of a VLAN tag. Source: IEEE 802.1Q, 9.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag(pub u16);

impl VlanTag {
    /// Returns the VLAN identifier, in `[0, 4095]`; 0 means a priority tag.
    #[must_use]
    pub fn id(self) -> u16 {
        self.0 & 0x0fff
    }

    /// Returns the priority code point, in `[0, 7]`.
    #[must_use]
    pub fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Returns the drop eligible indicator.
    #[must_use]
    pub fn is_drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

/// Returns the `N` bytes of `packet` from `offset` on, if all are present.
#[inline]
pub(crate) fn bytes_at<const N: usize>(packet: &[u8], offset: usize) -> Option<[u8; N]> {
    packet.get(offset..)?.first_chunk().copied()
}
