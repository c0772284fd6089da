//! The symmetric hash: same for both directions, different for different flows, even over workers.

use std::collections::HashSet;

use crate::headers_build::{Addresses, MACS, ethernet, flow_frame, ip, transport};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{LinkType, protocol};
use proptest::prelude::*;

const FLOWS: u32 = 10_000;

fn hash(frame: &[u8]) -> u32 {
    FlowHasher::new(HashKind::FiveTuple).hash(LinkType::ETHERNET, frame)
}

/// Returns sets of flows as in real traffic, with numbers that count up in one field.
fn flow_sets() -> Vec<(&'static str, Vec<u32>)> {
    let mut hasher = FlowHasher::new(HashKind::FiveTuple);
    let mut hashes = |frame: &dyn Fn(u32) -> Vec<u8>| -> Vec<u32> {
        (0..FLOWS).map(|i| hasher.hash(LinkType::ETHERNET, &frame(i))).collect()
    };
    let server = [10, 0, 0, 1];
    let client = |i: u32| [10, 1, (i >> 8) as u8, i as u8];
    let v6 = |i: u32| {
        let mut address = [0x20; 16];
        address[12..].copy_from_slice(&i.to_be_bytes());
        address
    };
    vec![
        (
            "clients of one server",
            hashes(&|i| flow_frame(Addresses::V4(client(i), server), protocol::TCP, (40_000, 443))),
        ),
        (
            "ports of one pair of hosts",
            hashes(&|i| {
                let ports = (1024 + i as u16, 443);
                flow_frame(Addresses::V4(client(1), server), protocol::TCP, ports)
            }),
        ),
        (
            "both ends count up together",
            hashes(&|i| flow_frame(Addresses::V4(client(i), client(i + 1)), protocol::UDP, (7, 7))),
        ),
        (
            "hosts without ports",
            hashes(&|i| flow_frame(Addresses::V4(client(i), server), 47, (0, 0))),
        ),
        (
            "IPv6 hosts",
            hashes(&|i| flow_frame(Addresses::V6(v6(i), v6(1 << 20)), protocol::UDP, (7, 7))),
        ),
        (
            "IPv6 ports",
            hashes(&|i| {
                flow_frame(Addresses::V6(v6(1), v6(2)), protocol::UDP, (1024 + i as u16, 53))
            }),
        ),
        (
            "stations without IP",
            hashes(&|i| {
                let mut frame = ethernet(&[], 0x88b5, &[0; 46]);
                frame[8..12].copy_from_slice(&i.to_be_bytes());
                frame
            }),
        ),
    ]
}

/// Asserts that no bucket is further than 5 standard deviations from its fair share.
fn assert_even(name: &str, buckets: usize, places: impl Iterator<Item = usize>) {
    let mut counts = vec![0u32; buckets];
    places.for_each(|place| counts[place] += 1);
    let share = f64::from(FLOWS) / buckets as f64;
    let deviation = (share * (1.0 - 1.0 / buckets as f64)).sqrt();
    for count in counts {
        let distance = (f64::from(count) - share).abs();
        assert!(distance < 5.0 * deviation, "{name}: {count} in one of {buckets}, fair {share}");
    }
}

#[test]
fn flows_spread_over_workers() {
    for (name, hashes) in flow_sets() {
        for workers in 2..=16u32 {
            let count = workers as usize;
            assert_even(name, count, hashes.iter().map(|hash| (hash % workers) as usize));
            let scaled = |hash: &u32| ((u64::from(*hash) * u64::from(workers)) >> 32) as usize;
            assert_even(name, count, hashes.iter().map(scaled));
        }
    }
}

#[test]
fn every_byte_of_the_hash_spreads() {
    for (name, hashes) in flow_sets() {
        for shift in [0, 8, 16, 24] {
            assert_even(name, 256, hashes.iter().map(|hash| (hash >> shift & 255) as usize));
        }
    }
}

#[test]
fn flows_rarely_share_a_hash() {
    // 10,000 random 32-bit numbers have 0.01 collisions on average.
    for (name, hashes) in flow_sets() {
        let distinct = hashes.iter().collect::<HashSet<_>>().len();
        assert!(distinct + 2 >= hashes.len(), "{name}: {distinct} hashes");
    }
}

#[test]
fn each_port_and_the_protocol_tell_flows_apart() {
    let v4 = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
    for addresses in [v4, Addresses::V6([0xfd; 16], [0xfe; 16])] {
        // The second has the ports of the first crossed: no XOR of fields would see that.
        let mut hashes: Vec<u32> = [(1, 2), (2, 1), (1, 3), (3, 2)]
            .map(|ports| hash(&flow_frame(addresses, protocol::UDP, ports)))
            .to_vec();
        hashes.push(hash(&flow_frame(addresses, protocol::TCP, (1, 2))));
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 5, "{hashes:x?}");
    }
}

#[test]
fn short_capture_without_ports_hashes_by_addresses() {
    let frame = flow_frame(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]), protocol::UDP, (1, 2));
    let other = flow_frame(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]), protocol::UDP, (3, 4));
    assert_eq!(hash(&frame[..36]), hash(&other[..36]));
    assert_eq!(hash(&frame[..38]), hash(&frame), "four bytes of transport suffice");
    assert_ne!(hash(&frame), hash(&other));
}

#[test]
fn none_is_zero() {
    let frame = flow_frame(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]), protocol::UDP, (1, 2));
    assert_eq!(FlowHasher::new(HashKind::None).hash(LinkType::ETHERNET, &frame), 0);
}

fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| Addresses::V4(a, b)),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| Addresses::V6(a, b)),
        any::<([u8; 8], [u8; 8], [u8; 8])>().prop_map(|(prefix, a, b)| Addresses::V6(
            [prefix, a].concat().try_into().unwrap(),
            [prefix, b].concat().try_into().unwrap(),
        )),
    ]
}

proptest! {
    #[test]
    fn both_directions_hash_the_same(
        addresses in addresses(),
        protocol in prop::sample::select(vec![1u8, 6, 17, 47, 58, 132]),
        ports: (u16, u16),
        tag: u16,
    ) {
        let there = flow_frame(addresses, protocol, ports);
        let reversed = addresses.reversed();
        let back = transport(protocol, (ports.1, ports.0), &[7; 90]);
        let back = ip(reversed, protocol, None, &back);
        let tagged = ethernet(&[(0x8100, tag)], reversed.ether_type(), &back);
        prop_assert_eq!(hash(&there), hash(&tagged));
        let mut hasher = FlowHasher::new(HashKind::FiveTuple);
        prop_assert_eq!(hash(&there), hasher.hash(LinkType::RAW, &back));
    }

    #[test]
    fn frames_without_ip_hash_the_same_in_both_directions(
        payload: [u8; 46],
        ether_type in 0x0900u16..0x0fff,
    ) {
        let there = ethernet(&[], ether_type, &payload);
        let mut back = there.clone();
        back[..6].copy_from_slice(&MACS[6..]);
        back[6..12].copy_from_slice(&MACS[..6]);
        prop_assert_eq!(hash(&there), hash(&back));
        prop_assert_ne!(hash(&there), hash(&ethernet(&[], ether_type ^ 1, &payload)));
    }
}
