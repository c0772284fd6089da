//! Our interpreter and libpcap's agree on every packet and program.
//!
//! Without libpcap the tests are skipped.

use crate::build::{Random, mutated, noise, random_program};
use crate::headers_build::{Addresses, ethernet, extension, flow_frame, ip, ipv4, ipv6, transport};
use burstline_skip::skip;
use burstline_sys::pcap::{self, PcapError, RawInstruction};
use burstline_wire::filter::{FilterError, Instruction, Program};
use burstline_wire::headers::{Fragment, LinkType};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [192, 168, 7, 9];
const A6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const B6: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Every kind of primitive in pcap-filter(7) that Ethernet has. Each accepts some of [`packets`]
/// and rejects others.
const EXPRESSIONS: &[&str] = &[
    "host 10.0.0.1",
    "src host 192.168.7.9",
    "dst host 10.0.0.1 or arp host 10.0.0.1",
    "not host 10.0.0.1",
    "net 192.168.0.0/16",
    "src net 10 and dst net 192.168.7",
    "net 10.0.0.0 mask 255.255.255.0",
    "ip6 host fd00::1",
    "src net fd00::/8",
    "port 53",
    "udp port 53",
    "tcp src port 80",
    "dst port 443 or dst port 53",
    "portrange 50-60",
    "tcp dst portrange 1000-2000",
    "sctp port 7",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "igmp",
    "sctp",
    "ip proto 47",
    "ip proto 89 or ip proto 50",
    "ip6 proto 17",
    "arp",
    "rarp or arp",
    "ip",
    "ip6",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[tcpflags] == tcp-syn",
    "tcp[13] & 18 = 18",
    "icmp[icmptype] = icmp-echo",
    "icmp6[icmp6type] = 135",
    "ip[6:2] & 0x1fff = 0",
    "ip[6:2] & 0x3fff != 0",
    "ip[0] & 0xf != 5",
    "ip[2:2] - ((ip[0] & 0xf) << 2) > 30",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x07070707",
    "udp[4:2] % 5 = 1 or udp[4:2] / 3 = 9",
    "ip[8] * 2 = 128 and (ip[9] ^ 6) = 0",
    "ether[12:2] = 0x0800 and len > 60",
    "ether[ether[13] + 14] & 1 = 1",
    "len - 40 < 20 or -len = 5",
    "less 64",
    "greater 70",
    "ether host 02:00:00:00:00:0a",
    "ether src 02:00:00:00:00:0a and ip",
    "ether dst ff:ff:ff:ff:ff:ff",
    "ether proto 0x88cc",
    "ether proto \\ip6",
    "ether broadcast",
    "ether multicast",
    "ip multicast",
    "ip6 multicast",
    "vlan",
    "vlan 5",
    "vlan and udp port 53",
    "vlan 5 and vlan 7 and ip",
    "udp port 53 or (vlan and udp port 53)",
    "mpls",
    "mpls 100 and ip",
    "mpls 100 and mpls 200 and host 10.0.0.1",
    "pppoed",
    "pppoes and ip",
    "pppoes 17 and tcp",
    "llc",
    "stp",
    "ipx or netbeui or iso",
    "geneve",
    "ip or ip6 and not (tcp or udp)",
    "(tcp or udp) and (port 80 or port 443 or port 53) and not net 172.16.0.0/12",
];

/// Returns one or more packets of each kind that an expression matches.
fn packets() -> Vec<Vec<u8>> {
    let (v4, v6) = (Addresses::V4(A, B), Addresses::V6(A6, B6));
    let mut packets = Vec::new();
    for addresses in [v4, v4.reversed(), v6, v6.reversed(), Addresses::V4(B, [224, 0, 0, 5])] {
        for (protocol, ports) in [
            (6, (80, 1234)),
            (6, (999, 443)),
            (17, (53, 2000)),
            (17, (5353, 53)),
            (17, (999, 6081)),
            (132, (7, 7)),
            (1, (0x0800, 0)),
            (58, (0x8700, 0)),
            (2, (0x1100, 0)),
            (47, (0, 0x0800)),
            (50, (1, 2)),
            (89, (3, 4)),
        ] {
            packets.push(flow_frame(addresses, protocol, ports));
        }
    }
    let udp = transport(17, (53, 53), &[7; 19]);
    let packet = ip(v4, 17, None, &udp);
    for flags in [2_u8, 1, 18, 16] {
        let mut tcp = transport(6, (80, 1500), &[7; 40]);
        tcp[13] = flags;
        packets.push(ethernet(&[], 0x0800, &ipv4((A, B), 6, &[1; 8], None, &tcp)));
    }
    for part in [(0, true), (1480, true), (2960, false)] {
        let fragment = Some(Fragment { id: 9, offset_bytes: part.0, more: part.1 });
        packets.push(ethernet(&[], 0x0800, &ip(v4, 17, fragment, &udp)));
        packets.push(ethernet(&[], 0x86dd, &ip(v6, 17, fragment, &udp)));
    }
    packets.push(ethernet(&[], 0x86dd, &ipv6((A6, B6), 0, &extension(0, 17, 1, &udp))));
    let tags = [(0x8100, 5), (0x8100, 7), (0x88a8, 5), (0x9100, 5)];
    for outer in tags {
        packets.push(ethernet(&[outer], 0x0800, &packet));
        packets.push(ethernet(&[outer], 0x86dd, &ip(v6, 17, None, &udp)));
        packets.push(ethernet(&[outer, (0x8100, 7)], 0x0800, &packet));
        packets.push(ethernet(&[outer, (0x8100, 7), (0x8100, 9)], 0x0806, &packet));
    }
    let label = |number: u32, is_last: u32| (number << 12 | is_last << 8 | 64).to_be_bytes();
    packets.push(ethernet(&[], 0x8847, &[&label(100, 1)[..], &packet].concat()));
    packets.push(ethernet(&[], 0x8847, &[&label(100, 0)[..], &label(200, 1), &packet].concat()));
    let session = [&[0x11, 0, 0, 17, 0, 60, 0, 0x21][..], &ip(v4, 6, None, &udp)].concat();
    packets.push(ethernet(&[], 0x8864, &session));
    packets.push(ethernet(&[], 0x8863, &[0x11, 9, 0, 0, 0, 0, 1, 1, 0, 0]));
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 10][..], &A, &[0; 6], &B].concat();
    for ether_type in [0x0806, 0x8035] {
        packets.push(ethernet(&[], ether_type, &arp));
    }
    packets.push(ethernet(&[], 0x88cc, &[2; 40]));
    for service in [0x42, 0xe0, 0xf0, 0xfe] {
        packets.push(ethernet(&[], 38, &[service; 38]));
    }
    let mut broadcast = packets[0].clone();
    broadcast[..6].fill(0xff);
    packets.push(broadcast);
    packets.push(vec![0xff; 14]);
    packets
}

fn ours(raw: &[RawInstruction]) -> Result<Program, FilterError> {
    let of =
        |raw: &RawInstruction| Instruction { code: raw.code, jt: raw.jt, jf: raw.jf, k: raw.k };
    Program::new(raw.iter().map(of).collect())
}

fn raw(program: &Program) -> Vec<RawInstruction> {
    let of = |i: &Instruction| RawInstruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k };
    program.instructions().iter().map(of).collect()
}

/// Counts the test as skipped if libpcap is missing.
fn is_left_out() -> bool {
    match pcap::compile("ip", LinkType::ETHERNET.0, 64, true) {
        Err(error @ PcapError::NotInstalled { .. }) => {
            skip(error);
            true
        }
        _ => false,
    }
}

/// Both verdicts on a packet; panics if they differ.
fn agreed(program: &Program, raw: &[RawInstruction], packet: &[u8], original: u32) -> u32 {
    let theirs = pcap::verdict(raw, packet, original).unwrap();
    let ours = program.run(packet, original);
    assert_eq!(Some(ours), theirs, "of {original}: {packet:02x?}\n{program}");
    ours
}

/// Returns a program for a packet socket without its first three instructions, which ask the kernel
/// for a stripped tag. `None` if it divides by X, which is refused.
fn behind_the_question(instructions: Result<Vec<Instruction>, FilterError>) -> Option<Program> {
    match instructions {
        Ok(instructions) => Some(Program::new(instructions[3..].to_vec()).unwrap()),
        Err(FilterError::DivisionByIndex { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Checks the two programs for a packet socket against libpcap's verdict on their original. Returns
/// false if they do not exist. The kernel sees packets whole.
fn opposites(program: &Program, raws: &[RawInstruction], packets: &[Vec<u8>]) -> bool {
    let main = behind_the_question(program.for_packet_socket(96));
    let rest = behind_the_question(program.complement_for_packet_socket());
    let (Some(main), Some(rest)) = (main, rest) else { return false };
    for packet in packets {
        let length = packet.len() as u32;
        let is_wanted = pcap::verdict(raws, packet, length).unwrap().unwrap() > 0;
        let expected = if is_wanted { (96, 0) } else { (0, 1) };
        let seen = (
            agreed(&main, &raw(&main), packet, length),
            agreed(&rest, &raw(&rest), packet, length),
        );
        assert_eq!(seen, expected, "{packet:02x?}\n{program}");
    }
    true
}

/// Returns original packets, then changed ones, then noise.
fn corpus(seed: u64) -> Vec<Vec<u8>> {
    let random = &mut Random(seed);
    let mut corpus = packets();
    for packet in packets() {
        corpus.extend((0..30).map(|_| mutated(random, &packet)));
    }
    corpus.extend((0..1000).map(|_| noise(random)));
    corpus
}

#[test]
fn expressions_mean_what_libpcap_means() {
    if is_left_out() {
        return;
    }
    let (originals, corpus) = (packets().len(), corpus(1));
    let mut compared = 0;
    for expression in EXPRESSIONS {
        for optimise in [true, false] {
            let raw = pcap::compile(expression, LinkType::ETHERNET.0, 65_535, optimise).unwrap();
            let program = ours(&raw).unwrap_or_else(|error| panic!("{expression}: {error}"));
            let mut wanted = 0;
            for (number, packet) in corpus.iter().enumerate() {
                let original = packet.len() as u32 + [0, 7, 1400][number % 3];
                let verdict = agreed(&program, &raw, packet, original);
                wanted += usize::from(verdict > 0 && number < originals);
                compared += 1;
            }
            let range = 1..originals;
            assert!(range.contains(&wanted), "{expression}: {wanted} of {originals} wanted");
        }
    }
    println!(
        "{} expressions, each optimised and not, on {} packets: {compared} verdicts agreed",
        EXPRESSIONS.len(),
        corpus.len()
    );
}

#[test]
fn a_sockets_program_and_its_complement_are_opposites() {
    if is_left_out() {
        return;
    }
    let (corpus, random) = (corpus(4), &mut Random(5));
    let mut pairs = 0;
    for expression in EXPRESSIONS {
        for optimise in [true, false] {
            let raw = pcap::compile(expression, LinkType::ETHERNET.0, 65_535, optimise).unwrap();
            let has_pair = opposites(&ours(&raw).unwrap(), &raw, &corpus);
            // Only the optimiser detects that a divisor in X is a constant.
            assert!(has_pair || (!optimise && expression.contains('%')), "{expression}");
            pairs += usize::from(has_pair);
        }
    }
    for _ in 0..3000 {
        let program = random_program(random);
        let noise: Vec<Vec<u8>> = (0..20).map(|_| noise(random)).collect();
        pairs += usize::from(opposites(&program, &raw(&program), &noise));
    }
    assert!(pairs > 1000, "{pairs} pairs of programs");
    println!("{pairs} pairs of programs are opposites");
}

#[test]
fn other_link_types_too() {
    if is_left_out() {
        return;
    }
    let random = &mut Random(2);
    let mut compared = 0;
    for link in [LinkType::NULL, LinkType::RAW, LinkType::LINUX_SLL, LinkType::LINUX_SLL2] {
        for expression in ["udp port 53", "host 10.0.0.1", "ip6", "tcp[13] & 2 != 0", "less 70"] {
            let raw = pcap::compile(expression, link.0, 65_535, true).unwrap();
            let program = ours(&raw).unwrap();
            for packet in packets() {
                // The packet without its Ethernet header, after this link's own header bytes.
                let front = match link {
                    LinkType::NULL => vec![2, 0, 0, 0],
                    LinkType::LINUX_SLL => [&[0; 14][..], &packet[12..14]].concat(),
                    LinkType::LINUX_SLL2 => [&packet[12..14], &[0; 18][..]].concat(),
                    _ => Vec::new(),
                };
                let packet = [&front[..], &packet[14..], &[0]].concat();
                for packet in [mutated(random, &packet), packet] {
                    agreed(&program, &raw, &packet, packet.len() as u32);
                    compared += 1;
                }
            }
        }
    }
    println!("{compared} verdicts agreed");
}

#[test]
fn random_programs_do_what_they_do_in_libpcap() {
    if is_left_out() {
        return;
    }
    let random = &mut Random(3);
    let (mut compared, mut wanted) = (0, 0);
    for _ in 0..4000 {
        let program = random_program(random);
        let raw = raw(&program);
        for _ in 0..20 {
            let packet = noise(random);
            let original = packet.len() as u32 + random.below(100) as u32;
            wanted += u32::from(agreed(&program, &raw, &packet, original) > 0);
            compared += 1;
        }
    }
    assert!(wanted > compared / 10, "only {wanted} of {compared} come to something");
    println!("{compared} verdicts agreed, {wanted} of them not 0");
}

#[test]
fn what_the_kernel_would_take_otherwise_is_refused() {
    if is_left_out() {
        return;
    }
    let compile = |text| pcap::compile(text, LinkType::ETHERNET.0, 64, false).unwrap();
    let error = ours(&compile("ip6 protochain 17")).unwrap_err();
    assert!(matches!(error, FilterError::JumpBack { .. }), "{error}");
}
