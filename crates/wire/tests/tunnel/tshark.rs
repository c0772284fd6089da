//! tshark and we find the same inner packets. Skipped with a message if it is not installed.

use std::process::Command;

use crate::headers_build::Addresses;
use crate::tunnel_build::{Carrier, GreFields, Packet, carriers, pseudowire_label};
use burstline_skip::skip;
use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::files::{
    InterfaceDescription, PacketToWrite, PcapngEncoder, SectionDescription,
};
use burstline_wire::flow::FlowKey;
use burstline_wire::headers::{LinkType, parse, protocol};
use burstline_wire::tunnel::innermost;

/// The last occurrence of each of these is the innermost.
const FIELDS: [&str; 10] = [
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
    "sctp.dstport",
];

fn all_carriers() -> Vec<Carrier> {
    let mut all = carriers();
    // tshark 4.0 names these two and stops there.
    all.retain(|way| !matches!(way, Carrier::ErspanIII(_, true) | Carrier::Gpe(false)));
    for bits in 0..8u8 {
        let has = |bit: u8| bits & bit != 0;
        let fields =
            GreFields { has_checksum: has(1), has_key: has(2), has_sequence: has(4), routes: None };
        all.extend([Carrier::Gre(fields), Carrier::GreMpls(fields, vec![16, 17, 18])]);
    }
    all.extend([
        Carrier::Mpls(vec![100, 200], 300),
        Carrier::Mpls(vec![], 0),
        Carrier::PppoeMpls(vec![100]),
        Carrier::GpeMpls(vec![100, 200]),
        Carrier::Geneve(63, true),
        Carrier::Gtp(true, vec![]),
        Carrier::Gtp(false, vec![1]),
        Carrier::Gtp(true, vec![4, 1, 2]),
    ]);
    all
}

/// Frames of each carrier over both versions of IP, in both, of three transports, and nested.
fn frames() -> Vec<(String, Vec<u8>)> {
    let v4 = |a, b| Addresses::V4([10, 0, a, 1], [10, 0, b, 2]);
    let v6 = |a, b| Addresses::V6([a; 16], [b; 16]);
    let mut frames = Vec::new();
    let mut number = 1000;
    for carrier in all_carriers() {
        // An IPv4 null label cannot carry IPv6.
        let is_v4_only = matches!(&carrier, Carrier::Mpls(_, 0));
        for (ends, inner) in [
            (v4(1, 2), v4(3, 4)),
            (v4(1, 2), v6(0x23, 0x24)),
            (v6(0x21, 0x22), v4(3, 4)),
            (v6(0x21, 0x22), v6(0x23, 0x24)),
        ] {
            for transport in [protocol::TCP, protocol::UDP, protocol::SCTP] {
                number += 1;
                let packet = Packet::flow(inner, transport, (number, 20_000));
                let Some(packet) = carrier.prepared(packet) else { continue };
                if is_v4_only && packet.link != LinkType::IPV4 {
                    continue;
                }
                let once = carrier.carry(ends, 50_000, &packet);
                let name = format!("{carrier:?} {inner:?} in {ends:?}");
                // The same inside another GRE tunnel.
                let twice = Carrier::Gre(GreFields::default()).carry(v4(7, 8), 0, &once);
                frames.push((format!("{name} in GRE"), twice.framed().bytes));
                frames.push((name, once.framed().bytes));
            }
        }
    }
    frames
}

fn file(frames: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 262_144);
    let mut out = vec![0; 1 << 20];
    let mut end = encoder.section(&mut out, &SectionDescription::default()).unwrap();
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    end += encoder.interface(&mut out[end..], &interface).unwrap();
    for (_, frame) in frames {
        end += encoder.packet(&mut out[end..], &PacketToWrite::new(frame, 1)).unwrap();
    }
    out.truncate(end);
    out
}

/// Returns a line for each packet, or `None` without tshark.
fn tshark(path: &str) -> Option<String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", path, "-T", "fields", "-E", "occurrence=l"]);
    // Not guessed by default: the port that Linux uses, and pseudowires by label.
    let with_word = format!("mpls.label=={},pwethcw", pseudowire_label(true));
    let without = format!("mpls.label=={},pwethnocw", pseudowire_label(false));
    command.args(["-d", "udp.port==8472,vxlan", "-d", &with_word, "-d", &without]);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the innermost packet of tshark's line, in the format of a flow key's source and
/// destination.
fn expected(line: &str, key: &FlowKey) -> [String; 4] {
    let words: Vec<&str> = line.split('\t').collect();
    let addresses = if key.source_address().is_ipv4() { 0 } else { 2 };
    let ports = match key.protocol {
        protocol::TCP => 4,
        protocol::UDP => 6,
        _ => 8,
    };
    [addresses, addresses + 1, ports, ports + 1].map(|at| words[at].to_owned())
}

#[test]
fn tshark_sees_the_same_inner_packets() {
    let frames = frames();
    let folder = TemporaryFolder::create("burstline-tunnels-").unwrap();
    let path = folder.file("tunnels.pcapng");
    std::fs::write(&path, file(&frames)).unwrap();
    let lines = tshark(&path);
    let Some(lines) = lines else {
        return skip("tshark is not installed: scripts/setup test");
    };
    assert_eq!(lines.lines().count(), frames.len());
    let mut wrong = Vec::new();
    for (line, (name, frame)) in lines.lines().zip(&frames) {
        let inner = innermost(&parse(LinkType::ETHERNET, frame), frame).expect(name);
        let key = FlowKey::new(&inner.headers, frame).expect(name);
        let ports = key.ports.expect(name);
        let ours = [
            key.source_address().to_string(),
            key.destination_address().to_string(),
            ports.source.to_string(),
            ports.destination.to_string(),
        ];
        let theirs = expected(line, &key);
        if ours != theirs {
            wrong.push(format!("{name}: we {ours:?}, tshark {theirs:?}"));
        }
    }
    let (count, all) = (wrong.len(), frames.len());
    assert!(wrong.is_empty(), "{count} of {all} differ:\n{}", wrong.join("\n"));
    eprintln!("{all} packets, tshark and we agree");
}
