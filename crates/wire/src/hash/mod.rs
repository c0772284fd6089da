//! Flow hashes: one 32-bit number per packet that is equal for all packets of a flow.
//!
//! | kind | made from | later fragment | not IP |
//! |---|---|---|---|
//! | five-tuple | addresses, ports, protocol | as its first | MAC addresses, EtherType |
//! | inner | the same, of the innermost packet | as its first | the same |
//! | ip | addresses | the same | MAC addresses, EtherType |
//! | vlan | VLAN numbers | the same | the same |
//! | rss | addresses; ports of TCP, UDP | as its first | 0 |
//! | byte:N | one byte | its own byte | the same |
//!
//! All kinds but `rss` and `byte:N` give both directions of a flow the same number; so does
//! `rss:symmetric`. None has a secret: a sender who wants to hit one worker can. [`HashKind`] lists
//! all kinds.
//!
//! A [`FlowHasher`] belongs to one core. It remembers the first fragments it has seen
//! (`fragments`), so all fragments of a datagram must pass the same hasher. A later fragment whose
//! first was not seen is hashed without ports, or by the packet around the tunnel, and counted.
//! Nothing is allocated after `new`.
//!
//! With `inner`, the tunnel's datagram may be fragmented, the one inside it, or both. A fragment's
//! hash is remembered at each fragmented level, so the next one finds it.
//!
//! Invariants:
//! - I1: a flow has one hash, whether its packets are fragmented or not. The exception: ports (or
//!   inner headers) are unknown, because the first fragment was not seen, or the snaplen or the
//!   fragment is too short.
//! - I2: for a kind that [`HashKind::is_symmetric`], swapping the source and destination of a
//!   packet keeps its hash. A tunnel's outer ports differ by direction, so `five-tuple` separates
//!   the directions of a VXLAN, and `inner` keeps them together.
//! - I3: no input panics, not even headers that belong to another packet.

mod fragments;
mod kind;
mod plain;
mod symmetric;
mod toeplitz;

pub use fragments::FRAGMENTS_MAX;
pub use kind::{BytePosition, HashKind, HashKindError, NamedHash};
pub use toeplitz::{INPUT_BYTES_MAX, KEY_BYTES, MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz};

use std::iter;

use crate::flow::{FlowKey, IpVersion};
use crate::headers::{self, Fragment, Headers, LinkType, Network, Ports, bytes_at, protocol};
use crate::tunnel::{self, TUNNELS_MAX};
use fragments::FragmentTable;
use plain::PlainFlow;

/// Hashes the packets of one receive core.
pub struct FlowHasher {
    method: Method,
    /// For the methods that need the first fragment to hash a later one.
    fragments: Option<FragmentTable>,
    fragments_unmatched: u64,
}

enum Method {
    None,
    /// The byte at this offset.
    Byte(usize),
    FiveTuple,
    Inner,
    Ip,
    Rss(Toeplitz),
    Vlan,
}

impl FlowHasher {
    /// Creates a hasher with an empty fragment table.
    ///
    /// Cost: allocates 64 KiB for fragments (`FiveTuple`, `Inner`, `Rss`), and for `Rss` another 36
    /// KiB of Toeplitz tables, filled in some 10 us. Nothing for the others.
    #[must_use]
    pub fn new(kind: HashKind) -> Self {
        let method = match kind {
            HashKind::None => Method::None,
            HashKind::Byte(position) => Method::Byte(position.offset()),
            HashKind::FiveTuple => Method::FiveTuple,
            HashKind::Inner => Method::Inner,
            HashKind::Ip => Method::Ip,
            HashKind::Rss => Method::Rss(Toeplitz::new(&MICROSOFT_KEY)),
            HashKind::RssSymmetric => Method::Rss(Toeplitz::new(&SYMMETRIC_KEY)),
            HashKind::Vlan => Method::Vlan,
        };
        let is_following = matches!(method, Method::FiveTuple | Method::Inner | Method::Rss(_));
        let fragments = is_following.then(FragmentTable::new);
        Self { method, fragments, fragments_unmatched: 0 }
    }

    /// Returns the hash of one packet, for any bytes.
    ///
    /// Cost: one [`headers::parse`] and [`Self::hash_parsed`]; nothing for `None`, one load for
    /// `Byte`.
    #[inline]
    pub fn hash(&mut self, link: LinkType, packet: &[u8]) -> u32 {
        let hash = match &self.method {
            Method::None => return 0,
            Method::Byte(at) => return replicated(packet, *at),
            Method::FiveTuple => plain(link, packet, |headers| five_tuple(headers, packet)),
            Method::Rss(toeplitz) => plain(link, packet, |headers| rss(toeplitz, headers, packet)),
            other => other.hash_plain(link, packet),
        };
        match hash {
            Some(hash) => hash,
            None => self.hash_parsed(link, &headers::parse_general(link, packet), packet),
        }
    }

    /// Hashes consecutive packets as [`hash`](Self::hash) does, as many as `hashes` has room for.
    /// Returns how many.
    ///
    /// Packets of a flow come in runs, and `FiveTuple` computes the hash of a run once. Cost for
    /// TCP and UDP in IPv4: some 30 instructions a packet in a run, else some 65; as `hash` for
    /// others.
    #[inline]
    pub fn hash_all<'a>(
        &mut self,
        link: LinkType,
        packets: impl Iterator<Item = &'a [u8]>,
        hashes: &mut [u32],
    ) -> usize {
        let is_plain = link == LinkType::ETHERNET && matches!(self.method, Method::FiveTuple);
        let (mut last, mut last_hash, mut count) = (PlainFlow::default(), 0, 0);
        for (hash, packet) in hashes.iter_mut().zip(packets) {
            count += 1;
            *hash = match PlainFlow::of(packet).filter(|_| is_plain) {
                None => self.hash_one(link, packet),
                Some(flow) => {
                    if flow != last {
                        (last, last_hash) = (flow, flow.five_tuple());
                    }
                    last_hash
                }
            };
        }
        count
    }

    // Not inlined: it would take registers of the calling loop.
    #[inline(never)]
    fn hash_one(&mut self, link: LinkType, packet: &[u8]) -> u32 {
        self.hash(link, packet)
    }

    /// Returns the hash of a packet whose headers are already known.
    ///
    /// Cost: `FiveTuple` two or three multiplications; `Rss` one table lookup for each byte of
    /// addresses and ports (12 or 36); `Inner` as [`tunnel::innermost`] and `FiveTuple`. A fragment
    /// adds a probe of one cache line.
    pub fn hash_parsed(&mut self, link: LinkType, headers: &Headers, packet: &[u8]) -> u32 {
        let hash = match &self.method {
            Method::FiveTuple => by_ends(link, headers, 0, packet, true),
            Method::Inner => return self.hash_within(link, headers, 0, packet, TUNNELS_MAX),
            Method::Ip => return by_ends(link, headers, 0, packet, false),
            Method::Rss(toeplitz) => rss(toeplitz, headers, packet).unwrap_or(0),
            Method::None => return 0,
            Method::Byte(at) => return replicated(packet, *at),
            Method::Vlan => return by_vlans(headers),
        };
        self.follow(hash, headers, packet)
    }

    /// Returns the later fragments whose first was not in the table: it came after them, never, or
    /// too long ago. They were hashed without ports, or by the outer packet. An absolute count
    /// since `new`.
    #[must_use]
    pub fn fragments_unmatched(&self) -> u64 {
        self.fragments_unmatched
    }

    /// Returns the five-tuple hash of the innermost packet in a packet that starts at `start`, at
    /// most `depth` tunnels further in. Fragments on the way are followed.
    fn hash_within(
        &mut self,
        link: LinkType,
        headers: &Headers,
        start: usize,
        packet: &[u8],
        depth: usize,
    ) -> u32 {
        let hash = match tunnel::inside(headers, packet) {
            Some(inner) if depth > 0 => {
                let start = inner.offset as usize;
                self.hash_within(inner.link, &inner.headers, start, packet, depth - 1)
            }
            _ => by_ends(link, headers, start, packet, true),
        };
        self.follow(hash, headers, packet)
    }

    /// Returns `hash`, or for a fragment the hash of its datagram's first fragment.
    #[inline]
    fn follow(&mut self, hash: u32, headers: &Headers, packet: &[u8]) -> u32 {
        match headers.fragment {
            Some(part) => self.follow_fragment(hash, headers, part, packet),
            None => hash,
        }
    }

    #[inline(never)]
    fn follow_fragment(
        &mut self,
        hash: u32,
        headers: &Headers,
        part: Fragment,
        packet: &[u8],
    ) -> u32 {
        let Some(table) = &mut self.fragments else { return hash };
        let key = fragments::key(headers, part, packet);
        if part.offset_bytes == 0 {
            table.remember(key, hash);
            return hash;
        }
        table.recall(key).unwrap_or_else(|| {
            self.fragments_unmatched += 1;
            hash
        })
    }
}

impl Method {
    /// Returns the hash of a packet that is not a tunnel, by the methods that are too rare to be
    /// inlined into every caller's loop.
    #[inline(never)]
    fn hash_plain(&self, link: LinkType, packet: &[u8]) -> Option<u32> {
        match self {
            Self::Inner => plain(link, packet, |headers| {
                if tunnel::may_carry(headers) { None } else { five_tuple(headers, packet) }
            }),
            Self::Ip => plain(link, packet, |headers| symmetric_ip(headers, None, 0, packet)),
            // A plain packet has no tag.
            Self::Vlan => plain(link, packet, |_| Some(symmetric::vlans(iter::empty()))),
            Self::None | Self::Byte(_) | Self::FiveTuple | Self::Rss(_) => None,
        }
    }
}

/// Returns what `hash` computes for a plain packet; `None` for the others.
///
/// The headers are used once per parse: only then do they stay in registers.
#[inline(always)]
fn plain(link: LinkType, packet: &[u8], hash: impl FnOnce(&Headers) -> Option<u32>) -> Option<u32> {
    headers::parse_plain(link, packet).and_then(|headers| hash(&headers))
}

/// Returns the `FiveTuple` hash of all packets of a flow, fragments excepted.
pub(crate) fn five_tuple_of(key: &FlowKey) -> u32 {
    let (ports, protocol) = (key.ports, key.protocol);
    let ends = [key.source, key.destination];
    match key.version {
        IpVersion::V4 => {
            let mut addresses = [0; 8];
            addresses[..4].copy_from_slice(&ends[0][12..]);
            addresses[4..].copy_from_slice(&ends[1][12..]);
            symmetric::ipv4(addresses, ports, protocol)
        }
        IpVersion::V6 => {
            let mut addresses = [0; 32];
            addresses[..16].copy_from_slice(&ends[0]);
            addresses[16..].copy_from_slice(&ends[1]);
            symmetric::ipv6(addresses, ports, protocol)
        }
    }
}

/// Repeats a byte in all four bytes of a hash, so that it spreads whichever bits are used.
#[inline]
fn replicated(packet: &[u8], at: usize) -> u32 {
    packet.get(at).map_or(0, |byte| u32::from_ne_bytes([*byte; 4]))
}

/// Source: Microsoft, "RSS Hashing Types": source address, destination address, source port,
/// destination port, as in the packet. IPv6 addresses are those of the fixed header.
#[inline(always)]
fn rss(toeplitz: &Toeplitz, headers: &Headers, packet: &[u8]) -> Option<u32> {
    let network = headers.network_offset as usize;
    let has_ports = matches!(headers.protocol, protocol::TCP | protocol::UDP);
    let ports = headers.ports.filter(|_| has_ports);
    match (headers.network, ports) {
        (Network::Ipv4, Some(ports)) => {
            Some(toeplitz.hash(&join::<8, 12>(bytes_at(packet, network + 12)?, ports)))
        }
        (Network::Ipv4, None) => Some(toeplitz.hash::<8>(&bytes_at(packet, network + 12)?)),
        (Network::Ipv6, Some(ports)) => {
            Some(toeplitz.hash(&join::<32, 36>(bytes_at(packet, network + 8)?, ports)))
        }
        (Network::Ipv6, None) => Some(toeplitz.hash::<32>(&bytes_at(packet, network + 8)?)),
        (Network::Llc | Network::None | Network::Other, _) => None,
    }
}

#[inline]
fn join<const A: usize, const N: usize>(addresses: [u8; A], ports: Ports) -> [u8; N] {
    const { assert!(N == A + 4) };
    let mut input = [0; N];
    input[..A].copy_from_slice(&addresses);
    input[A..A + 2].copy_from_slice(&ports.source.to_be_bytes());
    input[A + 2..].copy_from_slice(&ports.destination.to_be_bytes());
    input
}

/// Hashes addresses, with or without ports and protocol. Without IP, hashes the Ethernet header at
/// `start`.
#[inline(always)]
fn by_ends(link: LinkType, headers: &Headers, start: usize, packet: &[u8], has_ports: bool) -> u32 {
    let (ports, protocol) = if has_ports { (headers.ports, headers.protocol) } else { (None, 0) };
    let of_stations = || {
        let macs = bytes_at(packet, start).filter(|_| link == LinkType::ETHERNET)?;
        Some(symmetric::ethernet(macs, headers.ether_type))
    };
    symmetric_ip(headers, ports, protocol, packet).or_else(of_stations).unwrap_or(0)
}

/// Hashes the ids of all tags except 0, which only marks a packet with a priority.
// Not inlined: unrolled, it would take registers of the other kinds.
#[inline(never)]
fn by_vlans(headers: &Headers) -> u32 {
    let numbers = headers.tags().iter().map(|tag| tag.id());
    symmetric::vlans(numbers.filter(|number| *number != 0))
}

#[inline(always)]
fn five_tuple(headers: &Headers, packet: &[u8]) -> Option<u32> {
    symmetric_ip(headers, headers.ports, headers.protocol, packet)
}

#[inline(always)]
fn symmetric_ip(
    headers: &Headers,
    ports: Option<Ports>,
    protocol: u8,
    packet: &[u8],
) -> Option<u32> {
    let network = headers.network_offset as usize;
    match headers.network {
        Network::Ipv4 => bytes_at(packet, network + 12)
            .map(|addresses| symmetric::ipv4(addresses, ports, protocol)),
        Network::Ipv6 => bytes_at(packet, network + 8)
            .map(|addresses| symmetric::ipv6(addresses, ports, protocol)),
        Network::Llc | Network::None | Network::Other => None,
    }
}
