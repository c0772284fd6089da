//! What a hash costs. Prints, asserts nothing about time:
//! `cargo test --release -p burstline-wire --test flow_cost -- --ignored --nocapture`

mod headers_build;

use std::hint::black_box;
use std::time::Instant;

use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{LinkType, parse, protocol};
use headers_build::{Addresses, ethernet, flow_frame, ip, transport};

const FLOWS: usize = 1024;
const ROUNDS: usize = 50;
const RUNS: usize = 200;

/// `FLOWS` frames of 64-byte slots or larger, back to back as in a segment.
fn frames(frame: impl Fn(u16) -> Vec<u8>) -> (Vec<u8>, usize, usize) {
    let length = frame(0).len();
    let slot = length.next_multiple_of(16);
    let mut bytes = vec![0; FLOWS * slot];
    for (i, place) in (0..).zip(bytes.chunks_exact_mut(slot)) {
        place[..length].copy_from_slice(&frame(i));
    }
    (bytes, slot, length)
}

/// Nanoseconds a packet: the fastest of many short runs, which no other program disturbed.
fn cost_ns((bytes, slot, length): &(Vec<u8>, usize, usize), mut work: impl FnMut(&[u8])) -> f64 {
    let mut run = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for place in bytes.chunks_exact(*slot) {
                work(&place[..*length]);
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / (FLOWS * ROUNDS) as f64
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement: run it in release mode, by name"]
fn cost_of_a_packet() {
    let v4 = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
    let v6 = Addresses::V6([0xfd; 16], [0xfe; 16]);
    let tagged = |port| {
        let packet = ip(v4, protocol::UDP, None, &transport(protocol::UDP, (port, 53), &[7; 18]));
        ethernet(&[(0x8100, 5)], 0x0800, &packet)
    };
    let sets = [
        ("ipv4 udp", frames(|port| flow_frame(v4, protocol::UDP, (port, 53)))),
        ("ipv4 tcp", frames(|port| flow_frame(v4, protocol::TCP, (port, 53)))),
        ("ipv6 udp", frames(|port| flow_frame(v6, protocol::UDP, (port, 53)))),
        ("vlan ipv4 udp", frames(tagged)),
        ("arp", frames(|_| ethernet(&[], 0x0806, &[1; 46]))),
    ];
    for (name, set) in &sets {
        let parsed = cost_ns(set, |packet| {
            black_box(parse(LinkType::ETHERNET, packet));
        });
        print!("{name:14} {} bytes: parse {parsed:.1} ns", set.2);
        for kind in [HashKind::Symmetric, HashKind::Rss] {
            let mut hasher = FlowHasher::new(kind);
            let hashed = cost_ns(set, |packet| {
                black_box(hasher.hash(LinkType::ETHERNET, packet));
            });
            print!(", {kind:?} {hashed:.1} ns");
        }
        println!();
    }
}
