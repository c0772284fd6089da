//! Fragments hash like the flow they belong to.

use crate::headers_build::{Addresses, ip, transport};
use burstline_wire::hash::{FRAGMENTS_MAX, FlowHasher, HashKind};
use burstline_wire::headers::{Fragment, LinkType, protocol};

const V4: Addresses = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
const V6: Addresses = Addresses::V6([0xfd; 16], [0xfe; 16]);
const KINDS: [HashKind; 2] = [HashKind::Rss, HashKind::FiveTuple];

fn first(id: u32) -> Option<Fragment> {
    Some(Fragment { id, offset_bytes: 0, more: true })
}

fn second(id: u32) -> Option<Fragment> {
    Some(Fragment { id, offset_bytes: 1480, more: true })
}

fn last(id: u32) -> Option<Fragment> {
    Some(Fragment { id, offset_bytes: 2960, more: false })
}

fn udp(ports: (u16, u16)) -> Vec<u8> {
    transport(protocol::UDP, ports, &[7; 32])
}

fn hash(hasher: &mut FlowHasher, addresses: Addresses, part: Option<Fragment>, body: &[u8]) -> u32 {
    hasher.hash(LinkType::RAW, &ip(addresses, protocol::UDP, part, body))
}

#[test]
fn all_fragments_follow_their_flow() {
    for kind in KINDS {
        for addresses in [V4, V6] {
            let mut hasher = FlowHasher::new(kind);
            for id in [1, 2] {
                let ports = (5000 + id as u16, 53);
                let whole = hash(&mut hasher, addresses, None, &udp(ports));
                assert_eq!(hash(&mut hasher, addresses, first(id), &udp(ports)), whole);
            }
            // The other direction uses the same ids, and both stay separate.
            let back = hash(&mut hasher, addresses.reversed(), first(1), &udp((53, 9999)));
            assert_eq!(hash(&mut hasher, addresses.reversed(), last(1), &[1; 40]), back);
            for id in [1, 2] {
                let whole = hash(&mut hasher, addresses, None, &udp((5000 + id as u16, 53)));
                assert_eq!(hash(&mut hasher, addresses, last(id), &[1; 40]), whole);
                assert_eq!(hash(&mut hasher, addresses, second(id), &[2; 40]), whole);
            }
            assert_eq!(hasher.fragments_unmatched(), 0);
        }
    }
}

#[test]
fn fragments_of_both_directions_hash_the_same_when_symmetric() {
    for addresses in [V4, V6] {
        let mut hasher = FlowHasher::new(HashKind::FiveTuple);
        hash(&mut hasher, addresses, first(1), &udp((5000, 53)));
        hash(&mut hasher, addresses.reversed(), first(77), &udp((53, 5000)));
        let there = hash(&mut hasher, addresses, last(1), &[1; 40]);
        assert_eq!(hash(&mut hasher, addresses.reversed(), last(77), &[1; 40]), there);
        assert_eq!(hasher.fragments_unmatched(), 0);
    }
}

#[test]
fn fragments_before_their_first_are_counted_and_hash_without_ports() {
    for kind in KINDS {
        for addresses in [V4, V6] {
            let mut hasher = FlowHasher::new(kind);
            let lost = hash(&mut hasher, addresses, second(1), &[1; 40]);
            assert_eq!(hash(&mut hasher, addresses, last(2), &[2; 48]), lost);
            assert_eq!(hasher.fragments_unmatched(), 2);
            let flow = hash(&mut hasher, addresses, first(1), &udp((5000, 53)));
            assert_ne!(flow, lost);
            assert_eq!(hash(&mut hasher, addresses, last(1), &[1; 40]), flow);
            assert_eq!(hasher.fragments_unmatched(), 2);
        }
    }
}

#[test]
fn a_datagram_with_extensions_behind_the_fragment_header_is_followed() {
    // The fragment header of every part announces destination options; only the first shows UDP.
    let mut hasher = FlowHasher::new(HashKind::FiveTuple);
    let body =
        crate::headers_build::extension(protocol::DESTINATION_OPTIONS, 17, 0, &udp((5000, 53)));
    let mut part = |fragment, body: &[u8]| {
        hasher.hash(LinkType::RAW, &ip(V6, protocol::DESTINATION_OPTIONS, fragment, body))
    };
    let flow = part(first(1), &body);
    assert_eq!(part(last(1), &[3; 40]), flow);
    assert_eq!(flow, hash(&mut hasher, V6, None, &udp((5000, 53))));
    assert_eq!(hasher.fragments_unmatched(), 0);
}

#[test]
fn ipv4_datagrams_of_two_protocols_may_share_an_id() {
    let mut hasher = FlowHasher::new(HashKind::FiveTuple);
    let udp_hash = hash(&mut hasher, V4, first(1), &udp((5000, 53)));
    let icmp = transport(protocol::ICMP, (0, 0), &[7; 32]);
    let icmp_hash = hasher.hash(LinkType::RAW, &ip(V4, protocol::ICMP, first(1), &icmp));
    assert_ne!(udp_hash, icmp_hash);
    assert_eq!(hash(&mut hasher, V4, last(1), &[1; 40]), udp_hash);
    let icmp_last = ip(V4, protocol::ICMP, last(1), &[1; 40]);
    assert_eq!(hasher.hash(LinkType::RAW, &icmp_last), icmp_hash);
}

#[test]
fn a_flood_of_fragments_pushes_out_the_old_ones_only() {
    let mut hasher = FlowHasher::new(HashKind::FiveTuple);
    let flood = 8 * FRAGMENTS_MAX as u32;
    let hashes: Vec<u32> =
        (0..flood).map(|id| hash(&mut hasher, V6, first(id), &udp((id as u16, 53)))).collect();
    // The latest quarter of the table's size must still be stored, however it is spread over sets.
    let recent = flood - FRAGMENTS_MAX as u32 / 4..flood;
    let found = recent
        .clone()
        .filter(|id| hash(&mut hasher, V6, last(*id), &[1; 40]) == hashes[*id as usize]);
    let found = found.count();
    assert!(found * 100 >= recent.len() * 98, "{found} of {}", recent.len());
    let unmatched = hasher.fragments_unmatched();
    for id in 0..FRAGMENTS_MAX as u32 {
        hash(&mut hasher, V6, last(id), &[1; 40]);
    }
    assert!(hasher.fragments_unmatched() - unmatched > FRAGMENTS_MAX as u64 * 95 / 100);
}
