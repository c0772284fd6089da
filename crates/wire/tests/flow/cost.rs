//! Cost of hashes, in ns and in instructions. Prints, asserts nothing about time:
//! `cargo test --release -p burstline-wire --test flow cost:: -- --ignored --nocapture`

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use crate::headers_build::{Addresses, ethernet, flow_frame, ip, transport};
use crate::tunnel_build::{Carrier, GreFields, Packet};
use burstline_skip::skip;
use burstline_wire::hash::{BytePosition, FlowHasher, HashKind, NamedHash};
use burstline_wire::headers::{LinkType, parse, protocol};

const FLOWS: usize = 1024;
const ROUNDS: usize = 50;
const RUNS: usize = 200;

/// Every kind that has a name, and one of the others, as in `HashKind::NAMED`.
fn kinds() -> Vec<NamedHash> {
    let kind = HashKind::Byte(BytePosition::new(30).unwrap());
    let byte = NamedHash { kind, name: "byte:30", made_from: "" };
    HashKind::NAMED.into_iter().chain([byte]).collect()
}

/// Frames of one length, each in its own slot, back to back as in a segment.
struct Set {
    name: &'static str,
    bytes: Vec<u8>,
    slot: usize,
    length: usize,
}

impl Set {
    fn new(name: &'static str, frame: impl Fn(u16) -> Vec<u8>) -> Self {
        let length = frame(0).len();
        let slot = length.next_multiple_of(16);
        let mut bytes = vec![0; FLOWS * slot];
        for (i, place) in (0..).zip(bytes.chunks_exact_mut(slot)) {
            place[..length].copy_from_slice(&frame(i));
        }
        Self { name, bytes, slot, length }
    }

    fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.slot).map(|place| &place[..self.length])
    }
}

fn sets() -> Vec<Set> {
    let v4 = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
    let v6 = Addresses::V6([0xfd; 16], [0xfe; 16]);
    let tagged = |port| {
        let packet = ip(v4, protocol::UDP, None, &transport(protocol::UDP, (port, 53), &[7; 18]));
        ethernet(&[(0x8100, 5)], 0x0800, &packet)
    };
    vec![
        Set::new("ipv4 udp", |port| flow_frame(v4, protocol::UDP, (port, 53))),
        Set::new("ipv4 tcp", |port| flow_frame(v4, protocol::TCP, (port, 53))),
        Set::new("ipv6 udp", |port| flow_frame(v6, protocol::UDP, (port, 53))),
        Set::new("vlan ipv4 udp", tagged),
        Set::new("arp", |_| ethernet(&[], 0x0806, &[1; 46])),
        Set::new("in vxlan", |port| carried(&Carrier::Vxlan(4789, 0), port)),
        Set::new("in gre", |port| carried(&Carrier::Gre(GreFields::default()), port)),
        Set::new("in mpls", |port| carried(&Carrier::Mpls(vec![16], 17), port)),
        Set::new("in gtp-u", |port| carried(&Carrier::Gtp(false, vec![1]), port)),
    ]
}

/// An IPv4 UDP packet in a tunnel over IPv4.
fn carried(carrier: &Carrier, port: u16) -> Vec<u8> {
    let ends = Addresses::V4([192, 0, 2, 1], [192, 0, 2, 2]);
    let inner = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
    let packet = Packet::flow(inner, protocol::UDP, (port, 53));
    carrier.carry(ends, 7, &carrier.prepared(packet).unwrap()).framed().bytes
}

/// Returns the nanoseconds per packet: the fastest of many short runs, free of disturbance.
fn cost_ns(set: &Set, mut work: impl FnMut(&[u8])) -> f64 {
    let mut run = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            set.packets().for_each(&mut work);
        }
        start.elapsed().as_secs_f64() * 1e9 / (FLOWS * ROUNDS) as f64
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement: run it in release mode, by name"]
fn cost_of_a_packet() {
    for set in sets() {
        let parsed = cost_ns(&set, |packet| {
            black_box(parse(LinkType::ETHERNET, packet));
        });
        print!("{:14} {} bytes, ns: parse {parsed:.1}", set.name, set.length);
        for NamedHash { kind, name, .. } in kinds() {
            let mut hasher = FlowHasher::new(kind);
            let hashed = cost_ns(&set, |packet| {
                black_box(hasher.hash(LinkType::ETHERNET, packet));
            });
            print!(", {name} {hashed:.1}");
        }
        println!();
    }
}

/// Tells a copy of this program what to do: index of the set, index of the kind, rounds.
const TASK: &str = "BURSTLINE_FLOW_COST_TASK";

#[test]
#[ignore = "a measurement: run it in release mode, by name; needs valgrind"]
fn instructions_of_a_packet() {
    if let Ok(task) = std::env::var(TASK) {
        let task: Vec<usize> = task.split(',').map(|word| word.parse().unwrap()).collect();
        let [set, kind, rounds] = task[..] else { panic!("{task:?}") };
        let (set, mut hasher) = (&sets()[set], FlowHasher::new(kinds()[kind].kind));
        for _ in 0..rounds {
            for packet in set.packets() {
                black_box(hasher.hash(LinkType::ETHERNET, black_box(packet)));
            }
        }
        return;
    }
    for (index, set) in sets().iter().enumerate() {
        print!("{:14} {} bytes:", set.name, set.length);
        for (which, NamedHash { name, .. }) in kinds().iter().enumerate() {
            let [Some(few), Some(more)] = [1, 11].map(|rounds| instructions(index, which, rounds))
            else {
                return skip("valgrind is not installed");
            };
            let one = (more - few) as f64 / (10 * FLOWS) as f64;
            print!(" {name} {one:.0}");
        }
        println!(" instructions, the loop around included");
    }
}

/// Returns the instructions of a whole run of this program under callgrind.
fn instructions(set: usize, kind: usize, rounds: usize) -> Option<u64> {
    let program = std::env::current_exe().unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--ignored", "--exact", "--test-threads=1", "cost::instructions_of_a_packet"])
        .env(TASK, format!("{set},{kind},{rounds}"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :")).expect(&text);
    line.rsplit(' ').next()?.parse().ok()
}
