//! No bytes make the parser or the hashes panic or point outside the packet.

mod headers_build;

use burstline_wire::flow::FlowKey;
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{Headers, LinkType, Network, parse};
use headers_build::{Addresses, ethernet, extension, flow_frame, ipv6, transport};
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

/// Invariants I1 to I3 of `headers`, and everything that is computed from headers.
fn check(link: LinkType, packet: &[u8]) -> Headers {
    let headers = parse(link, packet);
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
    assert_eq!(FlowKey::new(&headers, packet).is_some(), is_ip);
    for kind in [HashKind::None, HashKind::Rss, HashKind::FiveTuple] {
        let mut hasher = FlowHasher::new(kind);
        assert_eq!(hasher.hash(link, packet), hasher.hash_parsed(link, &headers, packet));
    }
    headers
}

/// Frames that are deep enough for every layer to have something to get wrong.
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
    fn headers_of_another_packet(
        one in prop::collection::vec(any::<u8>(), 0..100),
        which in 0usize..3,
    ) {
        let headers = parse(LinkType::ETHERNET, &deep_frames()[which]);
        let _ = FlowKey::new(&headers, &one);
        for kind in [HashKind::Rss, HashKind::FiveTuple] {
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
