//! Single cases: where the walk stops, and its outcome.

use crate::headers_build::{ethernet, extension, fragment_header, ipv4, ipv6, transport};
use burstline_wire::headers::{
    EXTENSIONS_MAX, Fragment, LinkType, Network, Outcome, TAGS_MAX, VlanTag, parse, protocol,
};

const V4: ([u8; 4], [u8; 4]) = ([10, 0, 0, 1], [10, 0, 0, 2]);
const V6: ([u8; 16], [u8; 16]) = ([0xfd; 16], [0xfe; 16]);

fn udp() -> Vec<u8> {
    transport(protocol::UDP, (53, 999), &[7; 18])
}

#[track_caller]
fn outcome_of(packet: &[u8], expected: Outcome) {
    assert_eq!(parse(LinkType::RAW, packet).outcome, expected);
}

#[test]
fn arp_and_empty_and_unknown_links() {
    let arp = parse(LinkType::ETHERNET, &ethernet(&[], 0x0806, &[0; 28]));
    assert_eq!((arp.network, arp.outcome), (Network::Other, Outcome::UnknownNetwork));
    assert_eq!((arp.ether_type, arp.network_offset, arp.payload_len()), (0x0806, 14, 28));
    assert_eq!(parse(LinkType::ETHERNET, &[]).outcome, Outcome::TruncatedLink);
    assert_eq!(parse(LinkType::RAW, &[]).outcome, Outcome::TruncatedNetwork);
    assert_eq!(parse(LinkType(147), &[0; 60]).outcome, Outcome::UnknownLink);
}

#[test]
fn spanning_tree_is_llc_and_ends_where_its_length_says() {
    let mut frame = ethernet(&[], 38, &[&[0x42, 0x42, 3][..], &[0; 35]].concat());
    frame.resize(60, 0);
    let headers = parse(LinkType::ETHERNET, &frame);
    assert_eq!((headers.network, headers.outcome), (Network::Llc, Outcome::UnknownNetwork));
    assert_eq!((headers.ether_type, headers.network_offset, headers.end), (0, 17, 52));
}

#[test]
fn snap_of_a_vendor_is_llc() {
    let cdp = [0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0x00, 2, 180];
    let headers = parse(LinkType::ETHERNET, &ethernet(&[(0x8100, 5)], 10, &cdp));
    assert_eq!((headers.network, headers.ether_type), (Network::Llc, 0));
    assert_eq!((headers.tags(), headers.network_offset), (&[VlanTag(5)][..], 26));
}

#[test]
fn tag_fields() {
    let tag = VlanTag(0xb064);
    assert_eq!((tag.priority(), tag.is_drop_eligible(), tag.id()), (5, true, 100));
}

#[test]
fn one_tag_too_many() {
    let frame = ethernet(&[(0x8100, 1); TAGS_MAX + 1], 0x0800, &ipv4(V4, 17, &[], None, &udp()));
    let headers = parse(LinkType::ETHERNET, &frame);
    assert_eq!((headers.outcome, headers.tags().len()), (Outcome::TooManyTags, TAGS_MAX));
}

#[test]
fn one_extension_too_many() {
    let mut body = udp();
    let mut next = protocol::UDP;
    for _ in 0..EXTENSIONS_MAX {
        body = extension(protocol::DESTINATION_OPTIONS, next, 0, &body);
        next = protocol::DESTINATION_OPTIONS;
    }
    outcome_of(&ipv6(V6, next, &body), Outcome::Complete);
    let body = extension(protocol::HOP_BY_HOP, next, 0, &body);
    outcome_of(&ipv6(V6, protocol::HOP_BY_HOP, &body), Outcome::TooManyExtensions);
}

#[test]
fn malformed_network_headers() {
    let good = ipv4(V4, 17, &[], None, &udp());
    for (at, byte) in [(0, 0x55), (0, 0x44), (0, 0x05), (3, 19)] {
        let mut packet = good.clone();
        packet[at] = byte;
        assert_eq!(parse(LinkType::IPV4, &packet).outcome, Outcome::MalformedNetwork);
    }
    assert_eq!(parse(LinkType::IPV6, &good).outcome, Outcome::MalformedNetwork);
    assert_eq!(parse(LinkType::IPV6, &good[..39]).outcome, Outcome::TruncatedNetwork);
    assert_eq!(parse(LinkType::IPV6, &[0x45; 60]).outcome, Outcome::MalformedNetwork);
    outcome_of(&[0x50; 60], Outcome::MalformedNetwork);

    let part = Fragment { id: 1, offset_bytes: 0, more: true };
    let nested = fragment_header(protocol::FRAGMENT, part, &fragment_header(17, part, &udp()));
    outcome_of(&ipv6(V6, protocol::FRAGMENT, &nested), Outcome::MalformedNetwork);
}

#[test]
fn malformed_transport_headers_still_show_ports() {
    let mut body = transport(protocol::TCP, (80, 81), &[]);
    body[12] = 0x40;
    let headers = parse(LinkType::RAW, &ipv4(V4, protocol::TCP, &[], None, &body));
    assert_eq!(headers.outcome, Outcome::MalformedTransport);
    assert_eq!(headers.ports.unwrap().source, 80);
    assert_eq!(headers.payload_offset, headers.transport_offset);

    let mut body = udp();
    body[5] = 7;
    outcome_of(&ipv4(V4, protocol::UDP, &[], None, &body), Outcome::MalformedTransport);
}

#[test]
fn ports_in_the_padding_are_not_ports() {
    // The total length allows three bytes after the IPv4 header; a padded frame has more.
    let mut packet = ipv4(V4, protocol::UDP, &[], None, &udp());
    packet[2..4].copy_from_slice(&23u16.to_be_bytes());
    let headers = parse(LinkType::ETHERNET, &ethernet(&[], 0x0800, &packet));
    assert_eq!((headers.outcome, headers.ports), (Outcome::TruncatedTransport, None));
    assert_eq!(headers.end, 14 + 23);
}

#[test]
fn length_zero_reaches_to_the_end() {
    let mut packet = ipv4(V4, protocol::UDP, &[], None, &udp());
    packet[2..4].fill(0);
    let headers = parse(LinkType::ETHERNET, &ethernet(&[], 0x0800, &packet));
    assert_eq!((headers.outcome, headers.end as usize), (Outcome::Complete, 14 + packet.len()));

    let mut packet = ipv6(V6, protocol::UDP, &udp());
    packet[4..6].fill(0);
    let headers = parse(LinkType::ETHERNET, &ethernet(&[], 0x86dd, &packet));
    assert_eq!((headers.outcome, headers.end as usize), (Outcome::Complete, 14 + packet.len()));
}

#[test]
fn atomic_fragment_is_a_whole_datagram() {
    let atomic = Fragment { id: 9, offset_bytes: 0, more: false };
    let packet = ipv6(V6, protocol::FRAGMENT, &fragment_header(protocol::UDP, atomic, &udp()));
    let headers = parse(LinkType::RAW, &packet);
    assert_eq!((headers.fragment, headers.outcome), (None, Outcome::Complete));
    assert_eq!(headers.ports.unwrap().destination, 999);
}

#[test]
fn a_later_fragment_is_not_searched_for_extensions() {
    let part = Fragment { id: 9, offset_bytes: 1480, more: true };
    let body = fragment_header(protocol::DESTINATION_OPTIONS, part, &[0xff; 64]);
    let headers = parse(LinkType::RAW, &ipv6(V6, protocol::FRAGMENT, &body));
    assert_eq!(headers.outcome, Outcome::LaterFragment);
    assert_eq!((headers.protocol, headers.fragment), (protocol::DESTINATION_OPTIONS, Some(part)));
    assert_eq!(headers.payload_len(), 64);
}

#[test]
fn a_packet_larger_than_its_length_field_can_say() {
    // GRO on a loopback interface: 65,549 bytes, IPv6 payload length 65,495 and Ethernet.
    let body = transport(protocol::TCP, (1, 2), &vec![0; 65_495 - 32]);
    let frame = ethernet(&[], 0x86dd, &ipv6(V6, protocol::TCP, &body));
    assert_eq!(frame.len(), 65_549);
    let headers = parse(LinkType::ETHERNET, &frame);
    assert_eq!((headers.outcome, headers.end), (Outcome::Complete, 65_549));
}
