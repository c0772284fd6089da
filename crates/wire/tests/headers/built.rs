//! Packets of every kind parse to the fields they were built from.

use crate::headers_build::{
    ethernet, extension, fragment_header, ipv4, ipv6, transport, transport_len,
};
use burstline_wire::headers::{
    Fragment, Headers, LinkType, Network, Outcome, Ports, ether_type, parse, protocol,
};
use proptest::prelude::*;

const TRANSPORTS: [u8; 6] =
    [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::ICMP, protocol::ICMPV6, 47];
const EXTENSIONS: [u8; 5] = [
    protocol::HOP_BY_HOP,
    protocol::ROUTING,
    protocol::DESTINATION_OPTIONS,
    protocol::AUTHENTICATION,
    protocol::MOBILITY,
];
const TAG_PROTOCOLS: [u16; 3] =
    [ether_type::VLAN, ether_type::SERVICE_VLAN, ether_type::OLD_STACKED_VLAN];

/// A network packet and its link-independent fields.
#[derive(Clone, Debug)]
struct Built {
    bytes: Vec<u8>,
    is_ipv6: bool,
    header_len: usize,
    protocol: u8,
    ports: (u16, u16),
    fragment: Option<Fragment>,
}

fn fragments() -> impl Strategy<Value = Option<Fragment>> {
    prop::option::of((any::<u16>(), 0u16..8192, any::<bool>()).prop_map(|(id, offset, more)| {
        Fragment { id: u32::from(id), offset_bytes: offset * 8, more: more || offset == 0 }
    }))
}

fn ipv4_packets() -> impl Strategy<Value = Built> {
    (
        any::<([u8; 4], [u8; 4], (u16, u16))>(),
        prop::sample::select(&TRANSPORTS[..]),
        0usize..=10,
        fragments(),
        0usize..50,
    )
        .prop_map(|((source, destination, ports), protocol, words, fragment, payload)| {
            let body = transport(protocol, ports, &vec![0xee; payload]);
            let options = vec![1; words * 4];
            let bytes = ipv4((source, destination), protocol, &options, fragment, &body);
            let header_len = 20 + options.len();
            Built { bytes, is_ipv6: false, header_len, protocol, ports, fragment }
        })
}

fn ipv6_packets() -> impl Strategy<Value = Built> {
    (
        any::<([u8; 16], [u8; 16], (u16, u16))>(),
        prop::sample::select(&TRANSPORTS[..]),
        prop::collection::vec((prop::sample::select(&EXTENSIONS[..]), 0u8..20), 0..=7),
        fragments(),
        0usize..50,
    )
        .prop_map(|((source, destination, ports), protocol, extensions, fragment, payload)| {
            let mut body = transport(protocol, ports, &vec![0xee; payload]);
            let (mut next, mut header_len) = (protocol, 40);
            if let Some(part) = fragment {
                body = fragment_header(next, part, &body);
                (next, header_len) = (protocol::FRAGMENT, header_len + 8);
            }
            for (kind, units) in extensions {
                let longer = extension(kind, next, units, &body);
                header_len += longer.len() - body.len();
                (next, body) = (kind, longer);
            }
            let bytes = ipv6((source, destination), next, &body);
            Built { bytes, is_ipv6: true, header_len, protocol, ports, fragment }
        })
}

fn packets() -> impl Strategy<Value = Built> {
    prop_oneof![ipv4_packets(), ipv6_packets()]
}

/// Checks `headers` against `built`, whose bytes start at `network` of the packet.
fn check(headers: &Headers, built: &Built, network: usize) {
    let is_later = built.fragment.is_some_and(|part| part.offset_bytes > 0);
    let has_ports = matches!(built.protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
    let ports = Ports { source: built.ports.0, destination: built.ports.1 };
    let header_len = if is_later { 0 } else { transport_len(built.protocol) };
    let outcome = match built.protocol {
        _ if is_later => Outcome::LaterFragment,
        47 => Outcome::UnknownTransport,
        _ => Outcome::Complete,
    };
    assert_eq!(headers.outcome, outcome);
    assert_eq!(headers.network, if built.is_ipv6 { Network::Ipv6 } else { Network::Ipv4 });
    assert_eq!(headers.protocol, built.protocol);
    assert_eq!(headers.fragment, built.fragment);
    assert_eq!(headers.ports, (has_ports && !is_later).then_some(ports));
    assert_eq!(headers.network_offset as usize, network);
    assert_eq!(headers.transport_offset as usize, network + built.header_len);
    assert_eq!(headers.payload_offset, headers.transport_offset + header_len as u32);
    assert_eq!(headers.end as usize, network + built.bytes.len());
    assert_eq!(headers.payload_len(), headers.end - headers.payload_offset);
}

fn ether_type_of(built: &Built) -> u16 {
    if built.is_ipv6 { ether_type::IPV6 } else { ether_type::IPV4 }
}

proptest! {
    #[test]
    fn ethernet_with_up_to_eight_tags(
        built in packets(),
        tags in prop::collection::vec(
            (prop::sample::select(&TAG_PROTOCOLS[..]), any::<u16>()),
            0..=8,
        ),
        padding in 0usize..8,
    ) {
        let mut frame = ethernet(&tags, ether_type_of(&built), &built.bytes);
        // An IPv6 payload length of 0 means that the packet extends to the end of the frame. So
        // bytes after an empty one are not known to be padding.
        let padding = if built.is_ipv6 && built.bytes.len() == 40 { 0 } else { padding };
        frame.resize(frame.len() + padding, 0);
        let headers = parse(LinkType::ETHERNET, &frame);
        check(&headers, &built, 14 + 4 * tags.len());
        prop_assert_eq!(headers.ether_type, ether_type_of(&built));
        let controls: Vec<u16> = headers.tags().iter().map(|tag| tag.0).collect();
        prop_assert_eq!(controls, tags.iter().map(|tag| tag.1).collect::<Vec<_>>());
    }

    #[test]
    fn snap(built in packets(), padding in 0usize..8) {
        let mut body = vec![0xaa, 0xaa, 3, 0, 0, 0];
        body.extend(ether_type_of(&built).to_be_bytes());
        body.extend(&built.bytes);
        prop_assume!(body.len() <= 1500);
        let mut frame = ethernet(&[], body.len() as u16, &body);
        frame.resize(frame.len() + padding, 0);
        check(&parse(LinkType::ETHERNET, &frame), &built, 22);
    }

    #[test]
    fn links_without_mac_addresses(built in packets()) {
        let version = if built.is_ipv6 { LinkType::IPV6 } else { LinkType::IPV4 };
        check(&parse(version, &built.bytes), &built, 0);
        check(&parse(LinkType::RAW, &built.bytes), &built, 0);
        let families: &[u32] = if built.is_ipv6 { &[10, 24, 28, 30] } else { &[2] };
        for family in families {
            for start in [family.to_le_bytes(), family.to_be_bytes()] {
                let packet = [&start[..], &built.bytes].concat();
                check(&parse(LinkType::NULL, &packet), &built, 4);
                check(&parse(LinkType::LOOP, &packet), &built, 4);
            }
        }
    }

    #[test]
    fn linux_cooked(built in packets(), tag: u16) {
        let ether_type = ether_type_of(&built).to_be_bytes();
        let cooked = [&[0; 14][..], &ether_type, &built.bytes].concat();
        check(&parse(LinkType::LINUX_SLL, &cooked), &built, 16);
        let cooked = [&ether_type[..], &[0; 18], &built.bytes].concat();
        check(&parse(LinkType::LINUX_SLL2, &cooked), &built, 20);

        let tag_bytes = tag.to_be_bytes();
        let tagged = [&[0; 14][..], &[0x81, 0], &tag_bytes, &ether_type, &built.bytes].concat();
        let headers = parse(LinkType::LINUX_SLL, &tagged);
        check(&headers, &built, 20);
        prop_assert_eq!(headers.tags()[0].0, tag);
    }
}
