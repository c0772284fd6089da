//! One 32-bit number a packet that is equal for all packets of a flow.
//!
//! | | whole packet, first fragment | later fragment |
//! |---|---|---|
//! | rss | addresses; ports of TCP, UDP | as its first; without ports if that was not seen |
//! | symmetric | addresses, ports, protocol | as its first; without ports if that was not seen |
//! | not IP | rss: 0; symmetric: MAC addresses, EtherType | |
//!
//! Two kinds of hash: [`HashKind::Rss`] is the Toeplitz hash as a NIC computes it with Microsoft's
//! published key, where the directions of a conversation differ; [`HashKind::Symmetric`] gives both
//! directions the same number. Neither has a secret: a sender who wants to hit one worker can.
//!
//! A [`FlowHasher`] is one core's own: it remembers the first fragments it has seen (`fragments`),
//! so all fragments of a datagram have to pass the same hasher. Nothing is allocated after `new`.
//!
//! Invariants:
//! - I1: a flow has one hash, whether its packets are fragmented or not, except where the ports are
//!   unknown (first fragment not seen, snaplen shorter than the ports).
//! - I2: for `Symmetric`, swapping the source and destination of a packet keeps its hash.
//! - I3: no input panics, not even headers that belong to another packet.

mod fragments;
mod symmetric;
mod toeplitz;

pub use fragments::FRAGMENTS_MAX;
pub use toeplitz::{INPUT_BYTES_MAX, KEY_BYTES, MICROSOFT_KEY, Toeplitz};

use crate::headers::{self, Fragment, Headers, LinkType, Network, Ports, bytes_at, protocol};
use fragments::FragmentTable;

/// How a log hashes its packets. The numbers are stable: logs and files may store them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashKind {
    /// Not at all: every hash is 0.
    #[default]
    None = 0,
    /// Toeplitz with [`MICROSOFT_KEY`]: IPv4 and IPv6, with ports for TCP and UDP only. 0 for the
    /// rest.
    Rss = 1,
    /// The same for both directions of a flow, well mixed in every bit.
    Symmetric = 2,
}

/// Hashes the packets of one receive core.
pub struct FlowHasher {
    method: Method,
    fragments_unmatched: u64,
}

// One hasher lives on each core, so the size of the largest variant costs nothing.
enum Method {
    None,
    Rss(Toeplitz, FragmentTable),
    Symmetric(FragmentTable),
}

impl FlowHasher {
    /// A hasher with an empty fragment table.
    ///
    /// Cost: allocates 64 KiB for fragments, and for `Rss` another 36 KiB of Toeplitz tables,
    /// filled in some 10 us. Nothing for `None`.
    #[must_use]
    pub fn new(kind: HashKind) -> Self {
        let method = match kind {
            HashKind::None => Method::None,
            HashKind::Rss => Method::Rss(Toeplitz::new(&MICROSOFT_KEY), FragmentTable::new()),
            HashKind::Symmetric => Method::Symmetric(FragmentTable::new()),
        };
        Self { method, fragments_unmatched: 0 }
    }

    /// The hash of one packet, for any bytes.
    ///
    /// Cost: one [`headers::parse`] and [`Self::hash_parsed`]; nothing for `None`.
    #[inline]
    pub fn hash(&mut self, link: LinkType, packet: &[u8]) -> u32 {
        if matches!(self.method, Method::None) {
            return 0;
        }
        // Apart from each other, so that the plain case never stores its headers.
        match headers::parse_plain(link, packet) {
            Some(headers) => self.hash_flow(link, &headers, packet),
            None => self.hash_parsed(link, &headers::parse_general(link, packet), packet),
        }
    }

    /// The hash of a packet whose headers are already known.
    ///
    /// Cost: `Symmetric` two or three multiplications; `Rss` one table lookup for each byte of
    /// addresses and ports (12 or 36). A fragment adds a probe of one cache line.
    pub fn hash_parsed(&mut self, link: LinkType, headers: &Headers, packet: &[u8]) -> u32 {
        let flow_hash = self.hash_flow(link, headers, packet);
        match headers.fragment {
            Some(fragment) => self.follow(flow_hash, headers, fragment, packet),
            None => flow_hash,
        }
    }

    /// Later fragments whose first was not in the table: it came after them, never, or too long
    /// ago. They were hashed without ports. An absolute count since `new`.
    #[must_use]
    pub fn fragments_unmatched(&self) -> u64 {
        self.fragments_unmatched
    }

    /// The hash by what this packet shows itself.
    #[inline]
    fn hash_flow(&self, link: LinkType, headers: &Headers, packet: &[u8]) -> u32 {
        match &self.method {
            Method::None => 0,
            Method::Rss(toeplitz, _) => rss(toeplitz, headers, packet),
            Method::Symmetric(_) => symmetric_hash(link, headers, packet),
        }
    }

    /// The hash of a fragment: that of its datagram's first.
    fn follow(&mut self, hash: u32, headers: &Headers, part: Fragment, packet: &[u8]) -> u32 {
        let table = match &mut self.method {
            Method::None => return hash,
            Method::Rss(_, table) | Method::Symmetric(table) => table,
        };
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

/// Source: Microsoft, "RSS Hashing Types": source address, destination address, source port,
/// destination port, as in the packet. IPv6 addresses are those of the fixed header.
#[inline]
fn rss(toeplitz: &Toeplitz, headers: &Headers, packet: &[u8]) -> u32 {
    let network = headers.network_offset as usize;
    let has_ports = matches!(headers.protocol, protocol::TCP | protocol::UDP);
    let ports = headers.ports.filter(|_| has_ports);
    let hash = match headers.network {
        Network::Ipv4 => bytes_at::<8>(packet, network + 12).map(|addresses| match ports {
            Some(ports) => toeplitz.hash(&join::<8, 12>(addresses, ports)),
            None => toeplitz.hash(&addresses),
        }),
        Network::Ipv6 => bytes_at::<32>(packet, network + 8).map(|addresses| match ports {
            Some(ports) => toeplitz.hash(&join::<32, 36>(addresses, ports)),
            None => toeplitz.hash(&addresses),
        }),
        Network::Llc | Network::None | Network::Other => None,
    };
    hash.unwrap_or(0)
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

#[inline]
fn symmetric_hash(link: LinkType, headers: &Headers, packet: &[u8]) -> u32 {
    let network = headers.network_offset as usize;
    let hash = match headers.network {
        Network::Ipv4 => bytes_at(packet, network + 12)
            .map(|addresses| symmetric::ipv4(addresses, headers.ports, headers.protocol)),
        Network::Ipv6 => bytes_at(packet, network + 8)
            .map(|addresses| symmetric::ipv6(addresses, headers.ports, headers.protocol)),
        Network::Llc | Network::None | Network::Other if link == LinkType::ETHERNET => {
            bytes_at(packet, 0).map(|macs| symmetric::ethernet(macs, headers.ether_type))
        }
        Network::Llc | Network::None | Network::Other => None,
    };
    hash.unwrap_or(0)
}
