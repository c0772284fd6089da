//! Checks packet by packet that a classic program means the same as an XDP program and in libpcap.
//!
//! Without libpcap, or without the privilege to load programs, the test only reports that.
#![cfg(not(miri))]

use burstline_skip::skip;
use burstline_sys::filter::Instruction as Classic;
use burstline_sys::pcap::{self, PcapError, RawInstruction};
use burstline_xdp::bpf::Register::{R0, R1, R6};
use burstline_xdp::bpf::{
    Assembler, BpfError, Embedding, Program, ProgramOptions, translate, xdp_action,
};

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

/// Each accepts some of [`packets`] and rejects others.
const EXPRESSIONS: &[&str] = &[
    "ip",
    "ip6",
    "arp",
    "tcp",
    "udp",
    "icmp",
    "not ip",
    "host 10.0.0.1",
    "src host 10.0.0.2",
    "dst host 10.0.0.3 or arp host 10.0.0.1",
    "net 10.0.0.0/30",
    "src net 10 and dst net 10.0.0.0/31",
    "ip6 host fd00::1",
    "src net fd00::/127",
    "port 53",
    "udp port 53",
    "tcp src port 80",
    "tcp port 443 or udp port 443",
    "portrange 50-60",
    "tcp dst portrange 50-443",
    "dst port 80 and not src port 53",
    "ip proto 17",
    "ip6 proto 6",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[tcpflags] == tcp-syn",
    "tcp[13] & 18 = 18",
    "icmp[icmptype] = icmp-echo",
    "ip[6:2] & 0x1fff = 0",
    "ip[6:2] & 0x3fff != 0",
    "ip[0] & 0xf != 5",
    "ip[2:2] - ((ip[0] & 0xf) << 2) > 30",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x07070707",
    "udp[4:2] % 5 = 1 or udp[4:2] / 3 = 9",
    "udp[4:2] / udp[8] > 3",
    "udp[4:2] % udp[8] = 1",
    "ip[8] * 2 = 128 and (ip[9] ^ 6) = 0",
    "1 << ip[8] > 2",
    "ether[12:2] = 0x0800 and len > 60",
    "ether[ether[13] + 14] & 1 = 1",
    "ether[len - 4:4] = 0x07070707",
    "len - 40 < 20 or -len = 5",
    "less 64",
    "greater 90",
    "ether host 02:00:00:00:00:01",
    "ether src 02:00:00:00:00:02 and ip",
    "ether broadcast",
    "ether multicast",
    "ip multicast",
    "vlan",
    "vlan 5",
    "vlan and udp port 53",
    "vlan 5 and vlan 7 and ip",
    "udp port 53 or (vlan and udp port 53)",
    "ip or ip6 and not (tcp or udp)",
    "(tcp or udp) and (port 80 or port 443 or port 53) and not host 10.0.0.3",
    "ether[60:4] = 0x07070707 or ether[100] = 7",
    "ip[20:4] & 0xffff0000 = 0x00500000",
];

/// Steele, Lea and Flood's SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `[0, end)`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Makes a packet that the expressions distinguish, with `[0, payload_max)` bytes of payload,
/// sometimes damaged, and of at least 14 bytes.
fn packet(random: &mut Random, payload_max: usize) -> Vec<u8> {
    let mac = |random: &mut Random| match random.below(8) {
        0 => [0xff; 6],
        1 => [1, 0, 0x5e, 0, 0, 5],
        other => [2, 0, 0, 0, 0, other as u8 - 1],
    };
    let mut packet = [mac(random), mac(random)].concat();
    for _ in 0..[0, 0, 0, 1, 1, 2][random.below(6)] {
        packet.extend([0x81, 0, 0, random.pick(&[5, 7])]);
    }
    let protocol = random.pick(&[1, 6, 6, 17, 17, 17, 50]);
    let mut transport = Vec::new();
    for _ in 0..2 {
        transport.extend([0, 53, 0, 80, 1, 187][2 * random.below(3)..][..2].iter());
    }
    match protocol {
        6 => {
            let flags = random.pick(&[2, 18, 16, 1]);
            transport.extend([0, 0, 0, 1, 0, 0, 0, 2, random.pick(&[0x50, 0x60]), flags, 1, 0]);
            transport.extend([0; 4]);
        }
        17 => transport.extend([0, random.below(64) as u8, 0, 0, random.below(4) as u8]),
        _ => transport[0] = random.pick(&[0, 8]),
    }
    transport.extend(vec![7; random.below(payload_max)]);
    match random.below(8) {
        0 => packet.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]),
        1 | 2 => {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, transport.len() as u8, protocol, 64]);
            for _ in 0..2 {
                packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                packet.push(random.below(3) as u8);
            }
        }
        _ => {
            let words = random.pick(&[5, 5, 6]);
            let bytes = (4 * words as usize + transport.len()) as u16;
            let fragment = random.pick(&[0, 0, 0x20, 1]);
            packet.extend([8, 0, 0x40 | words, 0]);
            packet.extend(bytes.to_be_bytes());
            packet.extend([0, 1, fragment, 0, random.pick(&[1, 33, 64]), protocol, 0, 0]);
            packet.extend([10, 0, 0, random.below(5) as u8]);
            packet.extend(random.pick(&[[224, 0, 0, 5], [10, 0, 0, 1], [10, 0, 0, 3]]));
            packet.extend(vec![1; 4 * (words as usize - 5)]);
        }
    }
    packet.extend(transport);
    for _ in 0..random.below(3) {
        let at = random.below(packet.len());
        packet[at] = random.next() as u8;
    }
    if random.below(5) == 0 {
        packet.truncate(random.below(packet.len()));
    }
    packet.resize(packet.len().max(14), 0);
    packet
}

/// Makes an XDP program that passes what the classic program accepts, and drops the rest.
fn as_xdp(raw: &[RawInstruction], has_fragments: bool) -> Result<Program, BpfError> {
    let classic = |i: &RawInstruction| Classic {
        code: i.code,
        jump_true: i.jt,
        jump_false: i.jf,
        operand: i.k,
    };
    let classic: Vec<Classic> = raw.iter().map(classic).collect();
    let mut code = Assembler::new();
    let (accept, reject) = (code.label(), code.label());
    code.mov(R6, R1);
    let embedding = Embedding { accept, reject, has_fragments, stack_bytes: 16 };
    translate(&mut code, &classic, &embedding)?;
    code.bind(accept).mov(R0, xdp_action::PASS).exit();
    code.bind(reject).mov(R0, xdp_action::DROP).exit();
    let options = ProgramOptions { name: "classic", has_fragments, ..ProgramOptions::default() };
    Program::load(&code.finish()?, &options)
}

/// Counts the test as skipped if verdicts cannot be compared.
fn is_left_out() -> bool {
    let ports = match pcap::compile("port 53", ETHERNET, 64, true) {
        Err(error @ PcapError::NotInstalled { .. }) => {
            skip(error);
            return true;
        }
        program => program.unwrap(),
    };
    if let Err(error @ BpfError::NotPermitted { .. }) = as_xdp(&ports, false) {
        skip(error);
        return true;
    }
    false
}

/// Returns the common verdict; panics if the two differ.
fn agreed(program: &Program, raw: &[RawInstruction], packet: &[u8], what: &str) -> bool {
    let wanted = pcap::verdict(raw, packet, packet.len() as u32).unwrap().unwrap() > 0;
    let action = program.test_run(packet, 1).unwrap().value as i32;
    let ours = action == xdp_action::PASS;
    assert!(ours || action == xdp_action::DROP, "answer {action}");
    assert_eq!(ours, wanted, "{what}, {} bytes: {packet:02x?}", packet.len());
    wanted
}

#[test]
fn expressions_mean_what_libpcap_means() {
    if is_left_out() {
        return;
    }
    let random = &mut Random(1);
    let packets: Vec<Vec<u8>> = (0..400).map(|_| packet(random, 60)).collect();
    let mut compared = 0;
    for expression in EXPRESSIONS {
        for (optimise, has_fragments) in [(true, false), (false, false), (true, true)] {
            let raw = pcap::compile(expression, ETHERNET, 65_535, optimise).unwrap();
            let program = as_xdp(&raw, has_fragments)
                .unwrap_or_else(|error| panic!("{expression}, {optimise}: {error}"));
            let wanted =
                packets.iter().filter(|packet| agreed(&program, &raw, packet, expression)).count();
            compared += packets.len();
            assert!((1..packets.len()).contains(&wanted), "{expression}: {wanted} wanted");
        }
    }
    println!("{} expressions: {compared} verdicts agreed", EXPRESSIONS.len());
}

#[test]
fn packets_in_several_buffers_are_looked_through() {
    if is_left_out() {
        return;
    }
    let random = &mut Random(2);
    let packets: Vec<Vec<u8>> = (0..100).map(|_| packet(random, 12_000)).collect();
    for (expression, has_both) in [
        ("ether[8000] = 7", true),
        ("ether[len - 2:2] = 0x0707", true),
        // Across the edge of the first buffer, wherever that is.
        ("ether[3518:4] = 0x07070707 and ether[3519:4] = 0x07070707", true),
        ("ether[ether[200] * 500:2] = 0x0707", true),
        ("udp[3519:4] = 0x07070707", true),
        ("greater 4000 and ip", true),
        ("ether[65531:4] = 0 or ether[70000] = 0 or ether[2000000000] = 0", false),
    ] {
        let raw = pcap::compile(expression, ETHERNET, 1 << 20, true).unwrap();
        let program = as_xdp(&raw, true).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let wanted = packets.iter().filter(|packet| agreed(&program, &raw, packet, expression));
        let wanted = wanted.count();
        assert_eq!((1..packets.len()).contains(&wanted), has_both, "{expression}: {wanted}");
    }
}

/// Makes a valid program: stores all memory, runs `[1, 40]` random instructions, then returns A.
fn random_program(random: &mut Random) -> Vec<RawInstruction> {
    const CODES: [u16; 44] = [
        0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x00, 0x80, 0x60, 0x01, 0x81, 0x61, 0xb1, 0x02, 0x03,
        0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74,
        0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, 0x05, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x45, 0x07,
    ];
    let plain = |code, k| RawInstruction { code, jt: 0, jf: 0, k };
    let mut program = vec![plain(0x80, 0)];
    program.extend((0..16).map(|word| plain(0x02, word)));
    for left in (0..1 + random.below(40)).rev() {
        let code = random.pick(&CODES);
        let forward = left + 1;
        let k = match code {
            0x60 | 0x61 | 0x02 | 0x03 => random.below(16) as u32,
            0x34 | 0x94 => random.next() as u32 | 1,
            0x64 | 0x74 => random.below(32) as u32,
            0x05 => random.below(forward) as u32,
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 if random.below(12) == 0 => {
                random.next() as u32 >> 1
            }
            _ if random.below(8) == 0 && code & 7 > 1 => random.next() as u32,
            _ => random.below(64) as u32,
        };
        let (jt, jf) = (random.below(forward) as u8, random.below(forward) as u8);
        program.push(RawInstruction { code, jt, jf, k });
    }
    program.push(plain(0x16, 0));
    program
}

#[test]
fn random_programs_do_what_they_do_in_libpcap() {
    if is_left_out() {
        return;
    }
    let random = &mut Random(3);
    let (mut compared, mut wanted) = (0, 0);
    for round in 0..600 {
        let raw = random_program(random);
        let program = as_xdp(&raw, round % 2 == 0)
            .unwrap_or_else(|error| panic!("round {round}: {error}\n{raw:?}"));
        for _ in 0..20 {
            let bytes = 14 + random.below(100);
            let packet: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
            wanted += u32::from(agreed(&program, &raw, &packet, &format!("{raw:?}")));
            compared += 1;
        }
    }
    assert!(wanted > compared / 10, "only {wanted} of {compared} come to something");
    println!("{compared} verdicts agreed, {wanted} of them accept");
}

#[test]
fn what_means_nothing_to_an_xdp_program_is_refused() {
    let refused = |instructions: &[(u16, u8, u8, u32)]| {
        let raw: Vec<RawInstruction> = instructions
            .iter()
            .map(|&(code, jt, jf, k)| RawInstruction { code, jt, jf, k })
            .collect();
        match as_xdp(&raw, false) {
            Err(BpfError::NotTranslatable { at, .. }) => at,
            other => panic!("{instructions:?}: {other:?}"),
        }
    };
    let accept = (0x06, 0, 0, 1);
    assert_eq!(refused(&[]), 0);
    // The VLAN tag, which only a socket knows, and other codes that do not exist.
    assert_eq!(refused(&[(0x28, 0, 0, (-0x1000_i32 + 44) as u32), accept]), 0);
    for code in [0x18, 0xb0, 0x0e, 0xe4, 0x51, 0x0d, 0x0a, 0x47, 0x115, 0x106] {
        assert_eq!(refused(&[(0x00, 0, 0, 0), (code, 0, 0, 0), accept]), 1, "{code:#x}");
    }
    // Memory, division and shifts out of range; jumps out of the program; no return.
    for bad in [(0x60, 0, 0, 16), (0x34, 0, 0, 0), (0x64, 0, 0, 32), (0x15, 0, 1, 0)] {
        assert_eq!(refused(&[bad, accept]), 0, "{bad:?}");
    }
    assert_eq!(refused(&[(0x05, 0, 0, u32::MAX), accept]), 0);
    assert_eq!(refused(&[(0x00, 0, 0, 0)]), 0);
}
