//! No input makes the parser or the hashes panic or return offsets outside the packet.

use crate::headers_build::{Addresses, ethernet, extension, flow_frame, ipv6, transport};
use crate::tunnel_build::{Carrier, Packet, any_carrier, carriers};
use burstline_wire::flow::FlowKey;
use burstline_wire::hash::{BytePosition, FlowHasher, HashKind};
use burstline_wire::headers::{Headers, LinkType, Network, parse};
use burstline_wire::tunnel::{TUNNELS_MAX, innermost, inside};
use proptest::prelude::*;

const LINKS: [LinkType; 9] = [
    LinkType::NULL,
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::LINUX_SLL2,
    LinkType(147),
];

/// Returns all kinds of hash.
fn kinds() -> impl Iterator<Item = HashKind> {
    let byte = BytePosition::new(30).map(HashKind::Byte);
    HashKind::NAMED.map(|named| named.kind).into_iter().chain(byte)
}

/// Checks the invariants of `headers` and `tunnel`, and everything that is computed from headers.
fn check(link: LinkType, packet: &[u8]) -> Headers {
    let headers = parse(link, packet);
    check_layer(&headers, packet);
    for kind in kinds() {
        let mut hasher = FlowHasher::new(kind);
        assert_eq!(hasher.hash(link, packet), hasher.hash_parsed(link, &headers, packet));
    }
    let (mut around, mut steps, mut last) = (headers, 0, None);
    while let Some(inner) = inside(&around, packet) {
        check_layer(&inner.headers, packet);
        assert!(around.network_offset < inner.offset, "{inner:?} in {around:?}");
        assert!(inner.offset <= inner.headers.network_offset, "{inner:?}");
        assert!(inner.headers.end <= around.end, "{inner:?} in {around:?}");
        let is_ip = matches!(inner.headers.network, Network::Ipv4 | Network::Ipv6);
        assert!(is_ip || inner.link == LinkType::ETHERNET, "{inner:?}");
        (around, steps) = (inner.headers, steps + 1);
        last = Some(inner).filter(|_| steps <= TUNNELS_MAX).or(last);
    }
    assert_eq!(innermost(&headers, packet), last);
    headers
}

/// Checks invariants I1 to I3 of `headers`.
fn check_layer(headers: &Headers, packet: &[u8]) {
    assert!(headers.network_offset <= headers.transport_offset);
    assert!(headers.transport_offset <= headers.payload_offset);
    assert!(headers.payload_offset <= headers.end);
    assert!(headers.end as usize <= packet.len());
    let network_len = headers.end - headers.network_offset;
    match headers.network {
        Network::Ipv4 => assert!(network_len >= 20),
        Network::Ipv6 => assert!(network_len >= 40),
        Network::Llc | Network::None | Network::Other => {}
    }
    if headers.ports.is_some() {
        assert!(headers.end - headers.transport_offset >= 4);
    }
    let is_ip = matches!(headers.network, Network::Ipv4 | Network::Ipv6);
    assert_eq!(FlowKey::new(headers, packet).is_some(), is_ip);
}

/// Returns a frame of one carrier in another, or in a third.
fn nested(one: &Carrier, other: &Carrier) -> Vec<u8> {
    let ends = Addresses::V6([0x20; 16], [0x21; 16]);
    let packet = Packet::flow(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]), 17, (53, 999));
    let inner = one.carry(ends, 7, &one.prepared(packet).expect("it is IP"));
    let inner = match other.prepared(inner.clone()) {
        Some(inner) => other.carry(ends, 7, &inner),
        None => Carrier::Vxlan(4789, 0).carry(ends, 7, &inner),
    };
    inner.framed().bytes
}

/// Returns frames deep enough for every layer to have something malformed.
fn deep_frames() -> [Vec<u8>; 3] {
    let (source, destination) = ([0xfd; 16], [0xfe; 16]);
    let body = transport(6, (1, 2), &[9; 30]);
    let body = extension(51, 6, 2, &body);
    let body = extension(43, 51, 1, &body);
    let body = ipv6((source, destination), 0, &extension(0, 43, 0, &body));
    [
        ethernet(&[(0x88a8, 100), (0x8100, 200)], 0x86dd, &body),
        flow_frame(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]), 17, (53, 999)),
        flow_frame(Addresses::V6(source, destination), 6, (53, 999)),
    ]
}

proptest! {
    #[test]
    fn random_bytes(
        link in prop::sample::select(&LINKS[..]),
        packet in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check(link, &packet);
    }

    #[test]
    fn random_bytes_that_look_like_ip(
        link in prop::sample::select(&LINKS[..]),
        start in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60]),
        packet in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        check(link, &[&[start][..], &packet].concat());
        let ether_type = if start == 0x60 { 0x86dd } else { 0x0800 };
        check(LinkType::ETHERNET, &ethernet(&[], ether_type, &[&[start][..], &packet].concat()));
    }

    #[test]
    fn good_frames_with_bad_bytes(
        which in 0usize..3,
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut frame = deep_frames()[which].clone();
        for (at, byte) in noise {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        check(LinkType::ETHERNET, &frame);
    }

    #[test]
    fn tunnels_with_bad_bytes(
        one in any_carrier(),
        other in any_carrier(),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut frame = nested(&one, &other);
        check(LinkType::ETHERNET, &frame);
        for (at, byte) in noise {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        check(LinkType::ETHERNET, &frame);
        check(LinkType::ETHERNET, &frame[..cut.index(frame.len())]);
    }

    #[test]
    fn random_bytes_in_tunnels(
        port in prop::sample::select(vec![4789u16, 8472, 4790, 6081, 2152]),
        protocol in prop::sample::select(vec![4u8, 41, 47, 17]),
        ether_type in prop::sample::select(vec![0x8847u16, 0x8848, 0x8864]),
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check(LinkType::ETHERNET, &ethernet(&[], ether_type, &bytes));
        if protocol == 17 {
            bytes = transport(17, (7, port), &bytes);
        }
        let ends = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
        check(LinkType::ETHERNET, &Packet::ip(ends, protocol, &bytes).framed().bytes);
    }

    #[test]
    fn headers_of_another_packet(
        one in prop::collection::vec(any::<u8>(), 0..100),
        which in 0usize..3,
    ) {
        let headers = parse(LinkType::ETHERNET, &deep_frames()[which]);
        let _ = FlowKey::new(&headers, &one);
        let _ = innermost(&headers, &one);
        for kind in kinds() {
            FlowHasher::new(kind).hash_parsed(LinkType::ETHERNET, &headers, &one);
        }
    }
}

#[test]
fn every_truncation() {
    for frame in deep_frames() {
        let whole = check(LinkType::ETHERNET, &frame);
        for length in 0..frame.len() {
            let headers = check(LinkType::ETHERNET, &frame[..length]);
            let has_ports = length >= whole.transport_offset as usize + 4;
            assert_eq!(headers.ports, whole.ports.filter(|_| has_ports), "{length} bytes");
            let is_complete = length >= whole.payload_offset as usize;
            assert_eq!(headers.outcome == whole.outcome, is_complete, "{length} bytes");
        }
    }
}

#[test]
fn every_value_of_every_byte_of_every_tunnel() {
    for carrier in carriers() {
        let good = nested(&carrier, &Carrier::IpInIp);
        for at in 12..good.len() {
            for value in [0, 1, 0x0f, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xff] {
                let mut packet = good.clone();
                packet[at] = value;
                check(LinkType::ETHERNET, &packet);
            }
        }
    }
}
