//! Compares our records with those of nfpcapd and softflowd. Each conversation is equal, or differs
//! for a reason listed in docs/flows.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use crate::collectors::{ask, await_listener, await_reader, free_port, nfdump, start};
use crate::support::{Directory, Run, run_json, started};
use burstline_skip::skip;
use serde_json::Value;

/// The source of the reasons.
const DOCUMENTED: &str = include_str!("../../../../docs/flows.md");

/// Start of the file, in s since 1970.
const BEGIN_S: u32 = 1_700_000_000;

const ETHERNET_BYTES: u64 = 14;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// An address and a port; the port is 0 if there is none.
type End = (IpAddr, u16);

/// A conversation: the protocol, and the smaller end first.
type Name = (u8, End, End);

/// A bidirectional record: index 0 is what the smaller end sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Both {
    /// In ms since 1970.
    first_ms: u64,
    last_ms: u64,
    packets: [u64; 2],
    /// Counted from the IP header on.
    bytes: [u64; 2],
    flags: [u8; 2],
}

impl Both {
    fn sum(records: &[Self]) -> Self {
        let mut sum = Self { first_ms: u64::MAX, ..Self::default() };
        for record in records {
            sum.first_ms = sum.first_ms.min(record.first_ms);
            sum.last_ms = sum.last_ms.max(record.last_ms);
            for way in 0..2 {
                sum.packets[way] += record.packets[way];
                sum.bytes[way] += record.bytes[way];
                sum.flags[way] |= record.flags[way];
            }
        }
        sum
    }
}

/// The records of each conversation, in time order.
type Records = BTreeMap<Name, Vec<Both>>;

/// A packet of the file.
struct Sent {
    ms: u32,
    frame: Vec<u8>,
}

/// IPv4 or IPv6 packets between two machines.
#[derive(Clone, Copy)]
enum Link {
    V4(u8),
    V6(u8),
}

impl Link {
    /// Returns a frame; only IPv4 has fragments, given by offset and more-fragments bit.
    fn frame(self, is_back: bool, protocol: u8, payload: &[u8], fragment: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let mut ends = match self {
            Self::V4(host) => [vec![10, 0, 0, host], vec![10, 0, 1, 1]],
            Self::V6(host) => [1, host].map(|net| {
                let mut address = vec![0x20, 1, 0xd, 0xb8, 0, 0, 0, net];
                address.extend([0, 0, 0, 0, 0, 0, 0, host]);
                address
            }),
        };
        if is_back {
            ends.reverse();
        }
        match self {
            Self::V4(_) => {
                frame.extend([8, 0]);
                let mut header = vec![0x45, 0];
                header.extend((20 + payload.len() as u16).to_be_bytes());
                header.extend([0, 77]);
                header.extend(fragment.to_be_bytes());
                header.extend([64, protocol, 0, 0]);
                header.extend(ends.concat());
                let sum = checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend(header);
            }
            Self::V6(_) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((payload.len() as u16).to_be_bytes());
                frame.extend([protocol, 64]);
                frame.extend(ends.concat());
            }
        }
        frame.extend(payload);
        frame
    }
}

/// Source: RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum + (sum >> 16)) as u16
}

fn tcp(ports: [u16; 2], numbers: [u32; 2], flags: u8, bytes: usize) -> Vec<u8> {
    let mut segment = ports.map(u16::to_be_bytes).concat();
    segment.extend(numbers.map(u32::to_be_bytes).concat());
    segment.extend([0x50, flags, 4, 0, 0, 0, 0, 0]);
    segment.resize(20 + bytes, b'x');
    segment
}

fn udp(ports: [u16; 2], bytes: usize) -> Vec<u8> {
    let mut datagram = ports.map(u16::to_be_bytes).concat();
    datagram.extend((8 + bytes as u16).to_be_bytes());
    datagram.resize(8 + bytes, 0);
    datagram
}

fn icmp(kind: u8, code: u8) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 1, 0, 1];
    message.resize(40, b'z');
    message
}

/// Returns the file's packets, by host: every protocol, both versions, each kind of ending.
fn sent() -> Vec<Sent> {
    let mut all = Vec::new();
    let mut at = |ms, link: Link, is_back, protocol, payload: &[u8], fragment| {
        all.push(Sent { ms, frame: link.frame(is_back, protocol, payload, fragment) });
    };
    // Complete connections, with at least 60 bytes because padding is counted differently.
    for (ms, link, client) in [(0, Link::V4(1), 1001), (100, Link::V6(2), 1002)] {
        let (to, back) = ([client, 443], [443, client]);
        at(ms, link, false, 6, &tcp(to, [100, 0], SYN, 20), 0);
        at(ms + 10, link, true, 6, &tcp(back, [500, 121], SYN | ACK, 20), 0);
        at(ms + 20, link, false, 6, &tcp(to, [121, 521], ACK, 20), 0);
        at(ms + 30, link, false, 6, &tcp(to, [141, 521], ACK | PSH, 100), 0);
        at(ms + 40, link, true, 6, &tcp(back, [521, 241], ACK | PSH, 300), 0);
        at(ms + 50, link, false, 6, &tcp(to, [241, 821], FIN | ACK, 10), 0);
        at(ms + 60, link, true, 6, &tcp(back, [821, 252], FIN | ACK, 10), 0);
        at(ms + 70, link, false, 6, &tcp(to, [252, 832], ACK, 10), 0);
    }
    // A refused connection.
    at(200, Link::V4(3), false, 6, &tcp([1003, 81], [7, 0], SYN, 10), 0);
    at(210, Link::V4(3), true, 6, &tcp([81, 1003], [0, 8], RST | ACK, 10), 0);
    for (ms, link) in [(300, Link::V4(4)), (310, Link::V6(4))] {
        // DNS, another protocol, and one-way traffic.
        for question in [0, 1] {
            at(ms + question, link, false, 17, &udp([2000, 53], 30), 0);
            at(ms + question + 1, link, true, 17, &udp([53, 2000], 90), 0);
        }
        at(ms + 3, link, false, 17, &udp([2001, 8000], 33), 0);
        at(ms + 4, link, true, 17, &udp([8000, 2001], 600), 0);
        at(ms + 5, link, true, 17, &udp([8000, 2001], 700), 0);
        (6..9).for_each(|more| at(ms + more, link, false, 17, &udp([2002, 9], 40), 0));
    }
    for (ms, link, protocol, ask, answer) in
        [(400, Link::V4(5), 1, 8, 0), (420, Link::V6(5), 58, 128, 129)]
    {
        for more in [0, 10] {
            at(ms + more, link, false, protocol, &icmp(ask, 0), 0);
            at(ms + more + 2, link, true, protocol, &icmp(answer, 0), 0);
        }
    }
    // A packet that nobody answers.
    at(440, Link::V4(6), true, 1, &icmp(3, 3), 0);
    // A datagram in three fragments.
    let whole = udp([3000, 3001], 2992);
    at(500, Link::V4(7), false, 17, &whole[..1480], 0x2000);
    at(501, Link::V4(7), false, 17, &whole[1480..2960], 0x2000 | 185);
    at(502, Link::V4(7), false, 17, &whole[2960..], 370);
    // Padded to Ethernet's minimum.
    at(600, Link::V4(10), false, 17, &udp([6000, 6001], 4), 0);
    // Silent for longer than the idle timeout of 15 s; open for longer than the active one of 60 s.
    for ms in [1000, 2000, 30_000, 31_000] {
        at(ms, Link::V4(8), false, 17, &udp([4000, 4001], 40), 0);
    }
    (0..21).for_each(|n| at(1000 + 5000 * n, Link::V4(9), false, 17, &udp([5000, 5001], 40), 0));
    all.sort_by_key(|sent| sent.ms);
    all
}

fn pcap(directory: &Directory) -> String {
    let mut bytes = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for Sent { ms, mut frame } in sent() {
        frame.resize(frame.len().max(60), 0);
        let length = frame.len() as u32;
        let words = [BEGIN_S + ms / 1000, ms % 1000 * 1000, length, length];
        bytes.extend(words.map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    let file = directory.file("compared.pcap");
    fs::write(&file, bytes).unwrap();
    file
}

/// Returns the conversation's name, and the index of the direction.
fn name_of(protocol: u8, from: End, to: End) -> (Name, usize) {
    match from <= to {
        true => ((protocol, from, to), 0),
        false => ((protocol, to, from), 1),
    }
}

/// Returns our records as read by DuckDB, or `None` without DuckDB.
fn ours(directory: &Directory, file: &str) -> Option<Records> {
    let tree = directory.file("tree");
    let limits = ["--idle", "15s", "--active", "60s"];
    run_json(&[&["flows", file, "-o", &tree, "--sensor", "s"], &limits[..]].concat(), 0);
    let sql = "SELECT protocol, src_ip, coalesce(src_port, 0), dst_ip, coalesce(dst_port, 0), \
               first_ns // 1000000, last_ns // 1000000, packets, bytes, packets_back, bytes_back, \
               tcp_flags, tcp_flags_back FROM flows";
    let mut records = Records::new();
    for row in ask(&tree, sql)? {
        let number = |at: usize| row[at].as_u64().unwrap_or_else(|| panic!("{at}: {row}"));
        let end = |at: usize| (row[at].as_str().unwrap().parse().unwrap(), number(at + 1) as u16);
        let (name, from) = name_of(number(0) as u8, end(1), end(3));
        let mut both = Both { first_ms: number(5), last_ms: number(6), ..Both::default() };
        let back = 1 - from;
        both.packets[back] = number(9);
        both.packets[from] = number(7) - number(9);
        both.bytes[back] = number(10);
        both.bytes[from] = number(8) - number(10);
        (both.flags[from], both.flags[back]) = (number(11) as u8, number(12) as u8);
        for way in 0..2 {
            both.bytes[way] -= ETHERNET_BYTES * both.packets[way];
        }
        records.entry(name).or_default().push(both);
    }
    records.values_mut().for_each(|records| records.sort_unstable());
    Some(records)
}

/// Returns their records as read by nfdump: unidirectional, paired by order.
fn theirs(read: &[Value]) -> Records {
    let mut ways: BTreeMap<Name, [Vec<Both>; 2]> = BTreeMap::new();
    for record in read {
        let number = |key: &str| record[key].as_u64().unwrap_or(0);
        let address = |four: &str, six: &str| -> IpAddr {
            let text = record[four].as_str().or(record[six].as_str());
            text.unwrap_or_else(|| panic!("{record}")).parse().unwrap()
        };
        let protocol = number("proto") as u8;
        // The port field holds type and code of ICMP.
        let port = |key: &str| if matches!(protocol, 1 | 58) { 0 } else { number(key) as u16 };
        let from = (address("src4_addr", "src6_addr"), port("src_port"));
        let to = (address("dst4_addr", "dst6_addr"), port("dst_port"));
        let (name, way) = name_of(protocol, from, to);
        let mut one = Both {
            first_ms: ms_of(record["first"].as_str().unwrap()),
            last_ms: ms_of(record["last"].as_str().unwrap()),
            ..Both::default()
        };
        (one.packets[way], one.bytes[way]) = (number("in_packets"), number("in_bytes"));
        one.flags[way] = flags_of(record["tcp_flags"].as_str().unwrap_or(""));
        ways.entry(name).or_default()[way].push(one);
    }
    let join = |[mut there, mut back]: [Vec<Both>; 2]| {
        there.sort_unstable();
        back.sort_unstable();
        let count = there.len().max(back.len());
        let nth = |at: usize| [there.get(at), back.get(at)].into_iter().flatten().copied();
        (0..count).map(|at| Both::sum(&nth(at).collect::<Vec<_>>())).collect()
    };
    ways.into_iter().map(|(name, ways)| (name, join(ways))).collect()
}

/// Parses `2023-11-14T22:13:20.300`; the file spans less than an hour.
fn ms_of(text: &str) -> u64 {
    let clock = text.split(['T', ' ']).nth(1).unwrap_or_else(|| panic!("{text}"));
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    let begin = [22.0, 13.0, 20.0];
    let passed: f64 = parts.iter().zip(begin).fold(0.0, |sum, (a, b)| 60.0 * sum + a - b);
    (f64::from(BEGIN_S) * 1e3 + passed * 1e3).round() as u64
}

/// Parses `...AP.SF`.
fn flags_of(text: &str) -> u8 {
    [('F', FIN), ('S', SYN), ('R', RST), ('P', PSH), ('A', ACK)]
        .iter()
        .filter(|(letter, _)| text.contains(*letter))
        .fold(0, |flags, (_, flag)| flags | flag)
}

/// A reason for a difference: its words in docs/flows.md, and whether it explains the difference.
struct Reason {
    words: &'static str,
    explains: fn(&Name, &[Both], &[Both]) -> bool,
}

fn is_of(name: &Name, port: u16) -> bool {
    name.1.1 == port || name.2.1 == port
}

/// Returns packets, bytes and flags of all records.
fn totals(records: &[Both]) -> ([u64; 2], [u64; 2], [u8; 2]) {
    let sum = Both::sum(records);
    (sum.packets, sum.bytes, sum.flags)
}

/// Fails unless each conversation is equal or differs as a reason says, and each reason was needed.
fn compare(ours: &Records, theirs: &Records, reasons: &[Reason]) {
    let mut needed = BTreeSet::new();
    let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    assert!(names.len() >= 16, "{names:?}");
    for name in names {
        let none = Vec::new();
        let [mine, yours] = [ours, theirs].map(|all| all.get(name).unwrap_or(&none));
        if mine == yours {
            continue;
        }
        let explains = |reason: &&Reason| (reason.explains)(name, mine, yours);
        let reason = reasons.iter().find(explains);
        let reason =
            reason.unwrap_or_else(|| panic!("{name:?}\nours   {mine:?}\ntheirs {yours:?}"));
        needed.insert(reason.words);
    }
    for reason in reasons {
        assert!(DOCUMENTED.contains(reason.words), "docs/flows.md does not say: {}", reason.words);
        assert!(needed.contains(reason.words), "nothing differs so any more: {}", reason.words);
    }
}

#[test]
fn nfpcapd_has_the_same_records() {
    let directory = Directory::new("flows-nfpcapd");
    let file = pcap(&directory);
    let folder = directory.file("nfpcapd");
    fs::create_dir(&folder).unwrap();
    let mut program = Command::new("nfpcapd");
    program.args(["-r", &file, "-w", &folder, "-e", "60,15"]).stdin(Stdio::null());
    let done: Run = match started("nfpcapd", "test", program.output()) {
        Ok(output) => output.into(),
        Err(reason) => return skip(reason),
    };
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let Some(ours) = ours(&directory, &file) else { return };
    let Some(read) = nfdump(&folder) else { return };
    compare(
        &ours,
        &theirs(&read),
        &[
            Reason {
                words: "a record for each packet of ICMP, ICMPv6 and port 53",
                explains: |name, ours, theirs| {
                    let is_one_each =
                        theirs.iter().all(|record| record.packets.iter().all(|n| *n < 2));
                    (matches!(name.0, 1 | 58) || is_of(name, 53))
                        && is_one_each
                        && totals(ours) == totals(theirs)
                },
            },
            Reason {
                words: "fragments are one packet, with one IP header",
                // We count the first fragment, and the others without ports: 20 more bytes each.
                explains: |name, ours, theirs| {
                    let bytes = |records: &[Both]| totals(records).1[0] + totals(records).1[1];
                    let is_first =
                        is_of(name, 3000) && bytes(ours) == 1500 && bytes(theirs) == 3020;
                    let is_later = theirs.is_empty() && bytes(ours) == 3060 - 1500;
                    is_first || is_later
                },
            },
            Reason {
                words: "bytes by the length in the IP header: padding is not counted",
                explains: |name, ours, theirs| {
                    let bytes = |records: &[Both]| totals(records).1;
                    is_of(name, 6000)
                        && totals(ours).0 == totals(theirs).0
                        && bytes(ours).contains(&46)
                        && bytes(theirs).contains(&32)
                },
            },
            Reason {
                words: "looks at the active time-out from time to time, and ends a record later",
                explains: |name, ours, theirs| {
                    let spans = theirs.iter().map(|record| record.last_ms - record.first_ms);
                    is_of(name, 5000)
                        && totals(ours) == totals(theirs)
                        && theirs.len() == ours.len()
                        && spans.max().is_some_and(|span_ms| (60_000..75_000).contains(&span_ms))
                },
            },
        ],
    );
}

#[test]
fn softflowd_has_the_same_records() {
    let directory = Directory::new("flows-softflowd");
    let file = pcap(&directory);
    let (port, folder) = (free_port(), directory.file("nfcapd"));
    fs::create_dir(&folder).unwrap();
    let arguments = ["-w", &folder, "-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600"];
    let Some(collector) = start("nfcapd", &arguments, "test") else { return };
    await_listener(port);
    let mut program = Command::new("softflowd");
    let to = format!("127.0.0.1:{port}");
    program.args(["-r", &file, "-d", "-a", "-6", "-v", "9", "-n", &to, "-c", "none"]);
    for limit in ["tcp=15", "tcp.fin=1", "tcp.rst=1", "udp=15", "icmp=15", "general=15"] {
        program.args(["-t", limit]);
    }
    program.args(["-t", "maxlife=60", "-t", "expint=1", "-p", &directory.file("pid")]);
    let output = program.stdin(Stdio::null()).output();
    let done: Run = match started("softflowd", "sensors", output) {
        Ok(output) => output.into(),
        Err(reason) => {
            collector.end();
            return skip(reason);
        }
    };
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    await_reader(port);
    collector.end();
    let Some(ours) = ours(&directory, &file) else { return };
    let Some(read) = nfdump(&folder) else { return };
    compare(
        &ours,
        &theirs(&read),
        &[Reason {
            words: "looks at no time-out while it reads a file: one record until its end",
            explains: |name, ours, theirs| {
                (is_of(name, 4000) || is_of(name, 5000))
                    && ours.len() == 2
                    && theirs == [Both::sum(ours)]
            },
        }],
    );
}
