//! The hash of packets in tunnels, and the hashes over less than a flow key.

use std::collections::HashSet;

use crate::headers_build::{Addresses, MACS, ethernet, flow_frame, transport};
use crate::tunnel_build::{Carrier, Packet, any_addresses, any_carrier, carriers};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{Fragment, LinkType, parse, protocol};
use proptest::prelude::*;

const ENDS: Addresses = Addresses::V4([192, 0, 2, 1], [192, 0, 2, 2]);
const ENDS_V6: Addresses = Addresses::V6([0x20; 16], [0x21; 16]);
const V4: Addresses = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
const V6: Addresses = Addresses::V6([0xfd; 16], [0xfe; 16]);

fn hash(kind: HashKind, packet: &Packet) -> u32 {
    hash_with(&mut FlowHasher::new(kind), packet)
}

/// Returns the hash, which is the same if the headers are parsed beforehand.
fn hash_with(hasher: &mut FlowHasher, packet: &Packet) -> u32 {
    let unmatched = hasher.fragments_unmatched();
    let hash = hasher.hash(packet.link, &packet.bytes);
    let counted = hasher.fragments_unmatched() - unmatched;
    let headers = parse(packet.link, &packet.bytes);
    assert_eq!(hasher.hash_parsed(packet.link, &headers, &packet.bytes), hash);
    assert_eq!(hasher.fragments_unmatched() - unmatched, 2 * counted);
    hash
}

/// How often `hash_with` counts a packet: twice, because it hashes it twice.
const COUNTED: u64 = 2;

fn part(id: u32, offset_bytes: u16, more: bool) -> Option<Fragment> {
    Some(Fragment { id, offset_bytes, more })
}

/// Returns the other direction on the same Ethernet.
fn with_macs_swapped(mut frame: Packet) -> Packet {
    if frame.link == LinkType::ETHERNET {
        frame.bytes[..6].copy_from_slice(&MACS[6..]);
        frame.bytes[6..12].copy_from_slice(&MACS[..6]);
    }
    frame
}

proptest! {
    #[test]
    fn an_inner_flow_hashes_as_if_it_stood_alone_in_both_directions(
        stack in prop::collection::vec((any_carrier(), any_addresses(), any::<[u16; 2]>()), 0..4),
        addresses in any_addresses(),
        protocol in prop::sample::select(vec![1u8, 6, 17, 58, 132]),
        ports in (any::<u16>(), 0u16..2000),
    ) {
        let there = Packet::flow(addresses, protocol, ports);
        let back = Packet::flow(addresses.reversed(), protocol, (ports.1, ports.0));
        // A reply to a port of 2000 or less goes to `ports.0`, which might be a tunnel's.
        prop_assume!(![4789, 8472, 4790, 6081, 2152].contains(&ports.0));
        let alone = hash(HashKind::FiveTuple, &there);
        prop_assert_eq!(hash(HashKind::FiveTuple, &back), alone);
        let (mut there, mut back) = (there, back);
        for (carrier, ends, entropy) in stack {
            let is_guess = matches!(carrier, Carrier::Pseudowire(..));
            let is_ip = there.ether_type() != 0x6558
                || matches!(there.bytes[12..14], [0x08, 0x00] | [0x86, 0xdd]);
            if is_guess && !is_ip {
                continue;
            }
            let prepared = (carrier.prepared(there.clone()), carrier.prepared(back.clone()));
            let (Some(forth), Some(reply)) = prepared else { continue };
            there = carrier.carry(ends, entropy[0], &forth);
            back = with_macs_swapped(carrier.carry(ends.reversed(), entropy[1], &reply));
        }
        prop_assert_eq!(hash(HashKind::Inner, &there), alone);
        prop_assert_eq!(hash(HashKind::Inner, &back), alone);
        prop_assert_eq!(hash(HashKind::Inner, &there.framed()), alone);
    }

    #[test]
    fn symmetric_kinds_do_not_see_the_direction(
        addresses in any_addresses(),
        protocol in prop::sample::select(vec![1u8, 6, 17, 47, 58, 132]),
        ports: (u16, u16),
        tags in prop::collection::vec((Just(0x8100u16), 0u16..4096), 0..3),
    ) {
        let frame = |packet: Packet| Packet {
            link: LinkType::ETHERNET,
            bytes: ethernet(&tags, addresses.ether_type(), &packet.bytes),
        };
        let there = frame(Packet::flow(addresses, protocol, ports));
        let back = frame(Packet::flow(addresses.reversed(), protocol, (ports.1, ports.0)));
        let kinds = HashKind::NAMED.map(|named| named.kind).into_iter();
        for kind in kinds.filter(|kind| kind.is_symmetric()) {
            prop_assert_eq!(hash(kind, &there), hash(kind, &with_macs_swapped(back.clone())));
        }
    }

    #[test]
    fn frames_without_ip_hash_alike_in_both_directions(
        payload: [u8; 46],
        ether_type in 0x0900u16..0x0fff,
    ) {
        let there = Packet { link: LinkType::ETHERNET, bytes: ethernet(&[], ether_type, &payload) };
        let back = with_macs_swapped(there.clone());
        let kinds = HashKind::NAMED.map(|named| named.kind).into_iter();
        for kind in kinds.filter(|kind| kind.is_symmetric()) {
            prop_assert_eq!(hash(kind, &there), hash(kind, &back));
            // The same inside a tunnel, whose ends and ports differ by direction.
            let vxlan = Carrier::Vxlan(4789, 0);
            let there = vxlan.carry(ENDS, 1000, &there);
            let back = vxlan.carry(ENDS.reversed(), 2000, &back);
            let is_inner = kind == HashKind::Inner;
            prop_assert!(!is_inner || hash(kind, &there) == hash(kind, &back));
        }
    }
}

#[test]
fn inner_flows_of_one_tunnel_are_told_apart() {
    for carrier in carriers() {
        let hashes: HashSet<u32> = (0..100)
            .filter_map(|port| carrier.prepared(Packet::flow(V4, protocol::UDP, (port, 53))))
            .map(|packet| hash(HashKind::Inner, &carrier.carry(ENDS, 7, &packet)))
            .collect();
        assert_eq!(hashes.len(), 100, "{carrier:?}");
        let five_tuples: HashSet<u32> = (0..100)
            .filter_map(|port| carrier.prepared(Packet::flow(V4, protocol::UDP, (port, 53))))
            .map(|packet| hash(HashKind::FiveTuple, &carrier.carry(ENDS, 7, &packet)))
            .collect();
        assert_eq!(five_tuples.len(), 1, "{carrier:?}: the outer flow is one");
    }
}

#[test]
fn fragments_of_a_tunnel_follow_the_inner_flow() {
    for carrier in carriers() {
        for ends in [ENDS, ENDS_V6] {
            let inner = Packet::flow(V4, protocol::TCP, (1024, 443));
            let alone = hash(HashKind::FiveTuple, &inner);
            let Some(packet) = carrier.prepared(inner) else { continue };
            let outer = carrier.carry(ends, 7, &packet);
            if outer.link == LinkType::ETHERNET {
                continue;
            }
            let headers = parse(outer.link, &outer.bytes);
            let body = &outer.bytes[headers.transport_offset as usize..];
            let of = |part, body: &[u8]| Packet::fragment(ends, headers.protocol, part, body);
            let mut hasher = FlowHasher::new(HashKind::Inner);
            let early = hash_with(&mut hasher, &of(part(1, 1480, true), &[9; 40]));
            assert_ne!(early, alone, "nothing is known of it yet");
            assert_eq!(hasher.fragments_unmatched(), COUNTED);
            assert_eq!(hash_with(&mut hasher, &of(part(1, 0, true), body)), alone, "{carrier:?}");
            assert_eq!(hash_with(&mut hasher, &of(part(1, 1480, true), &[9; 40])), alone);
            assert_eq!(hash_with(&mut hasher, &of(part(1, 2960, false), &[8; 40])), alone);
            assert_eq!(hasher.fragments_unmatched(), COUNTED);
        }
    }
}

#[test]
fn fragments_within_a_tunnel_follow_their_flow() {
    for carrier in carriers() {
        for addresses in [V4, V6] {
            let udp = transport(protocol::UDP, (5000, 53), &[7; 32]);
            let alone = hash(HashKind::FiveTuple, &Packet::ip(addresses, protocol::UDP, &udp));
            let mut hasher = FlowHasher::new(HashKind::Inner);
            let mut hash_of = |part, body: &[u8]| {
                let packet = Packet::fragment(addresses, protocol::UDP, part, body);
                let packet = carrier.prepared(packet)?;
                Some(hash_with(&mut hasher, &carrier.carry(ENDS, 7, &packet)))
            };
            let Some(first) = hash_of(part(3, 0, true), &udp) else { continue };
            assert_eq!(first, alone, "{carrier:?}");
            assert_eq!(hash_of(part(3, 1480, true), &[1; 40]), Some(alone));
            assert_eq!(hash_of(part(3, 2960, false), &[2; 40]), Some(alone));
            assert_eq!(hasher.fragments_unmatched(), 0);
        }
    }
}

#[test]
fn fragments_of_fragments_follow_their_flow() {
    // Each fragment of a datagram travels in a tunnel packet that is itself fragmented.
    let udp = transport(protocol::UDP, (5000, 53), &[7; 1480]);
    let alone = hash(HashKind::FiveTuple, &Packet::ip(V4, protocol::UDP, &udp));
    let mut hasher = FlowHasher::new(HashKind::Inner);
    for (id, inner) in [(1, part(3, 0, true)), (2, part(3, 1480, true)), (3, part(3, 2960, false))]
    {
        let packet = Packet::fragment(V4, protocol::UDP, inner, &udp).framed();
        let outer = Carrier::Vxlan(4789, 0).carry(ENDS_V6, 7, &packet);
        let (start, rest) = outer.bytes[40..].split_at(1200);
        let mut hash_of = |part, body: &[u8]| {
            hash_with(&mut hasher, &Packet::fragment(ENDS_V6, protocol::UDP, part, body))
        };
        assert_eq!(hash_of(part(id, 0, true), start), alone, "{inner:?}");
        assert_eq!(hash_of(part(id, 1200, false), rest), alone, "{inner:?}");
    }
    assert_eq!(hasher.fragments_unmatched(), 0);
}

#[test]
fn fragments_of_a_fragmented_middle_follow_too() {
    // IP in IP in IP; the middle one is fragmented before the outermost is added.
    let inner = Packet::flow(V4, protocol::TCP, (1, 2));
    let alone = hash(HashKind::FiveTuple, &inner);
    let (start, rest) = inner.bytes.split_at(48);
    let mut hasher = FlowHasher::new(HashKind::Inner);
    for (part, body) in [(part(5, 0, true), start), (part(5, 48, false), rest)] {
        let middle = Packet::fragment(V6, protocol::IPV4, part, body);
        let outer = Carrier::IpInIp.carry(ENDS, 7, &middle);
        assert_eq!(hash_with(&mut hasher, &outer), alone, "{part:?}");
    }
}

#[test]
fn what_is_damaged_within_hashes_by_what_is_around_it() {
    for carrier in carriers() {
        let Some(packet) = carrier.prepared(Packet::flow(V4, 6, (1, 2))) else { continue };
        let whole = carrier.carry(ENDS, 7, &packet).framed();
        let inner_at = whole.bytes.len() - packet.bytes.len();
        let cut = Packet { link: whole.link, bytes: whole.bytes[..inner_at + 2].to_vec() };
        assert_eq!(hash(HashKind::Inner, &cut), hash(HashKind::FiveTuple, &cut), "{carrier:?}");
    }
}

fn frame(bytes: Vec<u8>) -> Packet {
    Packet { link: LinkType::ETHERNET, bytes }
}

#[test]
fn ip_looks_at_addresses_only() {
    for addresses in [V4, V6] {
        let by_ip =
            |protocol, ports| hash(HashKind::Ip, &frame(flow_frame(addresses, protocol, ports)));
        assert_eq!(by_ip(protocol::UDP, (1, 2)), by_ip(protocol::TCP, (3, 4)));
        let mut hasher = FlowHasher::new(HashKind::Ip);
        let later = Packet::fragment(addresses, 17, part(1, 1480, false), &[1; 40]);
        assert_eq!(hash_with(&mut hasher, &later), by_ip(protocol::UDP, (1, 2)));
        assert_eq!(hasher.fragments_unmatched(), 0, "nothing is missed");
    }
    let hosts: HashSet<u32> = (0..200)
        .map(|host| Addresses::V4([10, 0, 0, host], [10, 0, 1, 1]))
        .map(|addresses| hash(HashKind::Ip, &Packet::flow(addresses, 6, (1, 2))))
        .collect();
    assert_eq!(hosts.len(), 200);
}

#[test]
fn vlan_looks_at_numbers_only() {
    let by_vlan = |tags: &[(u16, u16)], packet: &Packet| {
        hash(HashKind::Vlan, &frame(ethernet(tags, packet.ether_type(), &packet.bytes)))
    };
    let (one, other) = (Packet::flow(V4, 6, (1, 2)), Packet::flow(V6, 17, (3, 4)));
    assert_eq!(by_vlan(&[(0x8100, 5)], &one), by_vlan(&[(0x88a8, 0xe005)], &other), "priority");
    assert_eq!(by_vlan(&[], &one), by_vlan(&[(0x8100, 0x6000)], &other), "only a priority");
    let two = by_vlan(&[(0x88a8, 5), (0x8100, 6)], &one);
    assert_eq!(two, by_vlan(&[(0x8100, 5), (0x8100, 6)], &other));
    assert_ne!(two, by_vlan(&[(0x88a8, 6), (0x8100, 5)], &one), "the order counts");
    let all: HashSet<u32> = (0..4095).map(|number| by_vlan(&[(0x8100, number)], &one)).collect();
    assert!(all.len() > 4090, "{}", all.len());
}

#[test]
fn byte_is_that_byte_four_times() {
    // From the NUMA document: the 30th byte is the last of the IPv4 source address.
    let kind = |text: &str| text.parse::<HashKind>().unwrap();
    for host in 0..=255 {
        let addresses = Addresses::V4([10, 0, 0, host], [10, 0, 1, 1]);
        let packet = frame(flow_frame(addresses, protocol::UDP, (1, 2)));
        let hash = hash(kind("byte:30"), &packet);
        assert_eq!(hash.to_be_bytes(), [host; 4]);
        for workers in [2, 4, 8, 16] {
            assert_eq!(hash % workers, u32::from(host) % workers);
        }
    }
    let short = frame(vec![7; 29]);
    assert_eq!(hash(kind("byte:29"), &short), 0x0707_0707);
    assert_eq!(hash(kind("byte:30"), &short), 0);
}

#[test]
fn byte_spreads_over_any_number_of_workers_as_the_byte_does() {
    for workers in 1..=64u64 {
        let mut by_rest = vec![0; workers as usize];
        let mut by_range = vec![0; workers as usize];
        for byte in 0..=255u8 {
            let hash = u64::from(u32::from_ne_bytes([byte; 4]));
            by_rest[(hash % workers) as usize] += 1;
            by_range[((hash * workers) >> 32) as usize] += 1;
        }
        for counts in [by_rest, by_range] {
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{workers} workers: {counts:?}");
        }
    }
}

#[test]
fn rss_with_the_symmetric_key_is_toeplitz_all_the_same() {
    use burstline_wire::hash::{SYMMETRIC_KEY, Toeplitz};
    let toeplitz = Toeplitz::new(&SYMMETRIC_KEY);
    let input = [10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0, 53];
    let packet = frame(flow_frame(V4, protocol::UDP, (0x1234, 53)));
    assert_eq!(hash(HashKind::RssSymmetric, &packet), toeplitz.hash(&input));
    assert_ne!(hash(HashKind::RssSymmetric, &packet), hash(HashKind::Rss, &packet));
}
