//! Packets put into a tunnel are found in it; truncated or malformed ones are not.

use crate::headers_build::{Addresses, ethernet, ip, transport};
use crate::tunnel_build::{
    Carrier, GreFields, Packet, any_addresses, any_carrier, carriers, stack,
};
use burstline_wire::flow::FlowKey;
use burstline_wire::headers::{Fragment, Headers, LinkType, Network, parse, protocol};
use burstline_wire::tunnel::{self, Inner, TUNNELS_MAX, innermost, inside};
use proptest::prelude::*;

const ENDS: Addresses = Addresses::V4([192, 0, 2, 1], [192, 0, 2, 2]);
const V4: Addresses = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
const V6: Addresses = Addresses::V6([0xfd; 16], [0xfe; 16]);

fn first(frame: &[u8]) -> (Headers, Option<Inner>) {
    let headers = parse(LinkType::ETHERNET, frame);
    (headers, inside(&headers, frame))
}

fn key(headers: &Headers, packet: &[u8]) -> FlowKey {
    FlowKey::new(headers, packet).expect("it is IP")
}

/// Returns the packet's flow without a tunnel.
fn key_alone(packet: &Packet) -> FlowKey {
    key(&parse(packet.link, &packet.bytes), &packet.bytes)
}

fn flow() -> Packet {
    Packet::flow(V4, protocol::TCP, (1024, 443))
}

proptest! {
    #[test]
    fn what_is_carried_is_found(
        carrier in any_carrier(),
        ends in any_addresses(),
        addresses in any_addresses(),
        protocol in prop::sample::select(vec![1u8, 6, 17, 132]),
        ports in (any::<u16>(), 0u16..2000),
        entropy: u16,
        pad in 0usize..20,
    ) {
        let packet = Packet::flow(addresses, protocol, ports);
        let Some(packet) = carrier.prepared(packet) else { return Ok(()) };
        let mut frame = carrier.carry(ends, entropy, &packet).framed().bytes;
        let length = frame.len();
        frame.resize(length + pad, 0x5a);
        let (_, found) = first(&frame);
        let found = found.expect("there is one");
        prop_assert_eq!(found.tunnel, carrier.tunnel());
        prop_assert_eq!(found.offset as usize, length - packet.bytes.len());
        prop_assert_eq!(key(&found.headers, &frame), key_alone(&packet));
        prop_assert_eq!(innermost(&parse(LinkType::ETHERNET, &frame), &frame), Some(found));
        // The inner packet alone has the same headers, at lower offsets.
        let alone = parse(found.link, &frame[found.offset as usize..]);
        prop_assert_eq!(alone.network, found.headers.network);
        prop_assert_eq!(alone.network_offset + found.offset, found.headers.network_offset);
        prop_assert_eq!(alone.payload_offset + found.offset, found.headers.payload_offset);
        prop_assert_eq!(alone.end + found.offset, found.headers.end);
        prop_assert_eq!(found.headers.end as usize, length);
    }

    #[test]
    fn tunnels_within_tunnels_are_followed(
        stack in prop::collection::vec((any_carrier(), any_addresses(), any::<u16>()), 1..6),
        addresses in any_addresses(),
        ports in (any::<u16>(), 0u16..2000),
    ) {
        let packet = Packet::flow(addresses, protocol::UDP, ports);
        let (mut whole, mut depth) = (packet.clone(), 0);
        for (carrier, ends, entropy) in &stack {
            // A pseudowire is accepted only if IP directly follows its Ethernet header.
            let is_guess = matches!(carrier, Carrier::Pseudowire(..));
            let is_ip = whole.ether_type() != 0x6558
                || matches!(whole.bytes[12..14], [0x08, 0x00] | [0x86, 0xdd]);
            let prepared = carrier.prepared(whole.clone()).filter(|_| is_ip || !is_guess);
            if let Some(prepared) = prepared {
                whole = carrier.carry(*ends, *entropy, &prepared);
                depth += 1;
            }
        }
        let frame = whole.framed().bytes;
        let (outer, mut step) = first(&frame);
        let last = innermost(&outer, &frame);
        let mut steps = 0;
        while let Some(found) = step {
            steps += 1;
            step = inside(&found.headers, &frame);
            prop_assert_eq!(step.is_none(), Some(found) == last);
        }
        prop_assert_eq!(steps, depth);
        if let Some(found) = last {
            prop_assert_eq!(key(&found.headers, &frame), key_alone(&packet));
        }
    }
}

#[test]
fn every_truncation_finds_the_inner_packet_or_nothing() {
    for carrier in carriers() {
        for addresses in [V4, V6] {
            let packet = Packet::flow(addresses, protocol::TCP, (1024, 443));
            let Some(packet) = carrier.prepared(packet) else { continue };
            let frame = carrier.carry(ENDS, 7, &packet).framed().bytes;
            let whole = first(&frame).1.unwrap();
            // From the end of the fixed IP header on, addresses are known.
            let fixed = if whole.headers.network == Network::Ipv4 { 20 } else { 40 };
            let needed = whole.headers.network_offset as usize + fixed;
            for length in 0..frame.len() {
                let cut = &frame[..length];
                let found = first(cut).1;
                assert_eq!(found.is_some(), length >= needed, "{carrier:?}: {length} bytes");
                let Some(found) = found else { continue };
                let has_ports = length >= whole.headers.transport_offset as usize + 4;
                let expected = whole.headers.ports.filter(|_| has_ports);
                assert_eq!(found.headers.ports, expected, "{carrier:?}: {length} bytes");
                assert_eq!((found.offset, found.link), (whole.offset, whole.link));
            }
        }
    }
}

#[test]
fn an_inner_packet_is_bounded_by_what_is_around_it() {
    // The inner IPv4 header claims 100 bytes more than the tunnel around it has; after the tunnel
    // there is only padding.
    for carrier in carriers() {
        let mut inner = flow();
        let total = u16::from_be_bytes([inner.bytes[2], inner.bytes[3]]) + 100;
        inner.bytes[2..4].copy_from_slice(&total.to_be_bytes());
        let Some(packet) = carrier.prepared(inner) else { continue };
        let mut frame = carrier.carry(ENDS, 7, &packet).framed().bytes;
        let length = frame.len();
        frame.resize(length + 200, 0x5a);
        let found = first(&frame).1.unwrap();
        // A label stack has no length field.
        let is_bounded = !matches!(carrier, Carrier::Mpls(..) | Carrier::Pseudowire(..));
        let expected = if is_bounded { length } else { length + 100 };
        assert_eq!(found.headers.end as usize, expected, "{carrier:?}");
    }
}

#[test]
fn depth_is_bounded() {
    let mut packet = flow();
    for _ in 0..TUNNELS_MAX + 3 {
        packet = Carrier::IpInIp.carry(ENDS, 7, &packet);
    }
    let frame = packet.framed().bytes;
    let found = innermost(&parse(LinkType::ETHERNET, &frame), &frame).unwrap();
    assert_eq!(found.offset as usize, 14 + 20 * TUNNELS_MAX);
    assert_eq!(found.headers.protocol, protocol::IPV4, "there are more within");
}

#[test]
fn a_frame_that_is_not_ip_is_found_where_the_tunnel_says_so() {
    let arp =
        Packet { link: LinkType::ETHERNET, bytes: ethernet(&[(0x8100, 5)], 0x0806, &[1; 28]) };
    for carrier in carriers() {
        let Some(packet) = carrier.prepared(arp.clone()) else { continue };
        let frame = carrier.carry(ENDS, 7, &packet).framed().bytes;
        let found = first(&frame).1;
        // A pseudowire was a guess, and nothing confirms it.
        let is_guess = matches!(carrier, Carrier::Pseudowire(..));
        assert_eq!(found.is_none(), is_guess, "{carrier:?}");
        let Some(found) = found else { continue };
        assert_eq!((found.headers.network, found.headers.ether_type), (Network::Other, 0x0806));
        assert_eq!(found.headers.tags()[0].id(), 5);
    }
}

fn udp(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    let payload = [header, inner].concat();
    let datagram = transport(protocol::UDP, (7, port), &payload);
    ethernet(&[], 0x0800, &ip(ENDS, protocol::UDP, None, &datagram))
}

fn gre(header: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(&[], 0x0800, &ip(ENDS, protocol::GRE, None, &[header, inner].concat()))
}

#[test]
fn what_no_tunnel_sends_has_no_inner_packet() {
    let inner = flow().bytes;
    let frame = flow().framed().bytes;
    let numbered = |erspan: u8| [&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1][..], &[erspan; 8]].concat();
    for (what, packet) in [
        ("VXLAN without a network", udp(tunnel::VXLAN_PORT, &[0; 8], &frame)),
        (
            "GPE of another version",
            udp(tunnel::VXLAN_GPE_PORT, &[0x1c, 0, 0, 1, 0, 0, 0, 0], &inner),
        ),
        ("GPE management", udp(tunnel::VXLAN_GPE_PORT, &[0x0d, 0, 0, 1, 0, 0, 0, 0], &inner)),
        ("GPE of something", udp(tunnel::VXLAN_GPE_PORT, &[0x0c, 0, 0, 9, 0, 0, 0, 0], &inner)),
        (
            "Geneve of another version",
            udp(tunnel::GENEVE_PORT, &[0x40, 0, 8, 0, 0, 0, 0, 0], &inner),
        ),
        ("Geneve control", udp(tunnel::GENEVE_PORT, &[0, 0x80, 8, 0, 0, 0, 0, 0], &inner)),
        ("Geneve of something", udp(tunnel::GENEVE_PORT, &[0, 0, 8, 6, 0, 0, 0, 0], &inner)),
        (
            "Geneve options behind the end",
            udp(tunnel::GENEVE_PORT, &[63, 0, 8, 0, 0, 0, 0, 0], &inner),
        ),
        ("GTP'", udp(tunnel::GTP_PORT, &[0x20, 255, 0, 58, 0, 0, 0, 0], &inner)),
        ("GTP version 2", udp(tunnel::GTP_PORT, &[0x50, 255, 0, 58, 0, 0, 0, 0], &inner)),
        ("GTP echo", udp(tunnel::GTP_PORT, &[0x30, 1, 0, 58, 0, 0, 0, 0], &inner)),
        ("GTP of no length", udp(tunnel::GTP_PORT, &[0x30, 255, 0, 0, 0, 0, 0, 0], &inner)),
        (
            "GTP extension of no length",
            udp(tunnel::GTP_PORT, &[0x34, 255, 0, 66, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &inner),
        ),
        ("GRE of version 1", gre(&[0x20, 1, 8, 0, 0, 0, 0, 0], &inner)),
        ("GRE of something", gre(&[0, 0, 0x88, 0x0b], &inner)),
        ("ERSPAN II of another version", gre(&numbered(0x20), &frame)),
        ("GRE with a route without end", gre(&[0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 255], &inner)),
        ("IPv6 that says it is IPv4", ethernet(&[], 0x0800, &ip(ENDS, 41, None, &inner))),
        (
            "PPPoE discovery",
            ethernet(&[], 0x8864, &[&[0x11, 9, 0, 1, 0, 60, 0, 0x21], &inner[..]].concat()),
        ),
        (
            "PPP of something",
            ethernet(&[], 0x8864, &[&[0x11, 0, 0, 1, 0, 60, 0xc0, 0x21], &inner[..]].concat()),
        ),
        ("a stack of only nulls", ethernet(&[], 0x8847, &[0; 64])),
        (
            "a control channel",
            ethernet(&[], 0x8847, &[&stack(&[], 9)[..], &[0x10, 0, 0, 0], &inner].concat()),
        ),
        (
            "VXLAN from its port",
            ethernet(
                &[],
                0x0800,
                &ip(
                    ENDS,
                    17,
                    None,
                    &transport(
                        17,
                        (tunnel::VXLAN_PORT, 9),
                        &[&[8, 0, 0, 0, 0, 0, 1, 0], &frame[..]].concat(),
                    ),
                ),
            ),
        ),
    ] {
        assert_eq!(first(&packet).1, None, "{what}");
    }
}

#[test]
fn a_packet_whose_options_are_cut_off_is_not_inside_itself() {
    // Found by the fuzzer: the options end after the packet, so nothing follows them.
    let mut frame = Carrier::IpInIp.carry(ENDS, 7, &flow()).framed().bytes;
    frame[14] = 0x4f;
    frame.truncate(14 + 56);
    frame[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(first(&frame).1, None);
}

#[test]
fn labels_at_the_bottom_and_the_length_of_stacks() {
    let inner = flow();
    let behind = |stack: Vec<u8>| {
        let frame = ethernet(&[], 0x8847, &[stack, inner.bytes.clone()].concat());
        first(&frame).1.is_some()
    };
    assert!(behind(stack(&[], 0)), "explicit null of IPv4");
    assert!(!behind(stack(&[], 2)), "explicit null of IPv6, and IPv4 behind it");
    assert!(behind(stack(&[16; tunnel::LABELS_MAX - 1], 17)));
    assert!(!behind(stack(&[16; tunnel::LABELS_MAX], 17)), "a label too many");
}

#[test]
fn only_the_first_fragment_of_a_tunnel_has_an_inner_packet() {
    let part = |offset_bytes, more| Some(Fragment { id: 9, offset_bytes, more });
    for carrier in carriers() {
        for ends in [ENDS, V6] {
            let Some(packet) = carrier.prepared(flow()) else { continue };
            let outer = carrier.carry(ends, 7, &packet);
            if outer.link == LinkType::ETHERNET {
                continue;
            }
            let headers = parse(outer.link, &outer.bytes);
            let body = &outer.bytes[headers.transport_offset as usize..];
            let of = |fragment, body: &[u8]| {
                Packet::fragment(ends, headers.protocol, fragment, body).framed().bytes
            };
            let start = of(part(0, true), body);
            let found = first(&start).1.unwrap();
            assert_eq!(key(&found.headers, &start), key_alone(&packet), "{carrier:?}");
            // The middle of the datagram looks like its start, but is not a packet.
            let middle = of(part(1480, true), body);
            assert_eq!(first(&middle).1, None, "{carrier:?}");
        }
    }
}

#[test]
fn gre_fields_are_skipped_whatever_they_hold() {
    for bits in 0..8u8 {
        for routes in [None, Some(0), Some(3)] {
            let has = |bit: u8| bits & bit != 0;
            let fields =
                GreFields { has_checksum: has(1), has_key: has(2), has_sequence: has(4), routes };
            let frame = Carrier::Gre(fields).carry(ENDS, 7, &flow()).framed().bytes;
            assert!(first(&frame).1.is_some(), "{fields:?}");
        }
    }
}
