//! Other tools read the files that we write. A tool that is not installed is named and skipped.

use std::process::Command;

use crate::build::payload;
use burstline_skip::{skip, without};
use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::files::{
    Counters, Direction, InterfaceDescription, PacketToWrite, PcapNsEncoder, PcapngEncoder,
    SectionDescription, SegmentEncoder,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

const PACKETS: u32 = 300;
const ETHERNET: LinkType = LinkType::ETHERNET;

/// Runs a tool. `None` if it is not installed, after counting the test as skipped.
fn run(tool: &str, arguments: &[&str]) -> Option<String> {
    installed(tool, arguments).map_err(skip).ok()
}

/// Runs a tool, or returns that it is not installed.
fn installed(tool: &str, arguments: &[&str]) -> Result<String, String> {
    let output = match Command::new(tool).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("{tool} is not installed: scripts/setup test"));
        }
        output => output.unwrap(),
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn packet(number: u32, data: &[u8]) -> PacketToWrite<'_> {
    let time_ns = 1_700_000_000_000_000_123 + 1000 * u64::from(number);
    let mut packet = PacketToWrite::new(data, time_ns);
    packet.original_length += number % 3;
    packet
}

fn data(number: u32) -> Vec<u8> {
    payload(number, 60 + number as usize % 900)
}

/// Returns a packet with everything that pcapng can say about it.
fn rich(number: u32, data: &[u8]) -> PacketToWrite<'_> {
    let mut packet = packet(number, data);
    packet.interface = number % 2;
    if number.is_multiple_of(50) {
        packet.drops_before = 7;
        packet.queue = Some(3);
        packet.direction = Some(Direction::Outbound);
    }
    packet
}

const COUNTERS: Counters = Counters {
    received: Some(400),
    missed: Some(60),
    accepted: None,
    lost: Some(40),
    delivered: Some(300),
};

fn interfaces() -> [InterfaceDescription<'static>; 2] {
    let described = InterfaceDescription {
        description: "a port",
        filter: "ip",
        ..InterfaceDescription::new(ETHERNET, "eth0")
    };
    [described, InterfaceDescription::new(ETHERNET, "eth1")]
}

fn pcapng_file() -> Vec<u8> {
    let (mut encoder, mut out) = (PcapngEncoder::new(ETHERNET, 262_144), vec![0; 1 << 20]);
    let about = SectionDescription { application: "burstline", ..Default::default() };
    let mut end = encoder.section(&mut out, &about).unwrap();
    for interface in &interfaces() {
        end += encoder.interface(&mut out[end..], interface).unwrap();
    }
    for number in 0..PACKETS {
        end += encoder.packet(&mut out[end..], &rich(number, &data(number))).unwrap();
    }
    for interface in 0..2 {
        let time_ns = 1_700_000_001_000_000_000;
        end += encoder.statistics(&mut out[end..], interface, time_ns, &COUNTERS).unwrap();
    }
    out.truncate(end);
    out
}

fn segmented_file() -> Vec<u8> {
    let size = 64 << 10;
    let mut encoder = SegmentEncoder::new(size, ETHERNET, 262_144, HashKind::None, 0);
    let (mut segment, mut file) = (vec![0; size], Vec::new());
    encoder.header(&mut segment, &SectionDescription::default(), &interfaces()).unwrap();
    file.extend(&segment);
    encoder.advance();
    for number in 0..PACKETS {
        let data = data(number);
        while !encoder.push(&mut segment, &rich(number, &data)).unwrap() {
            encoder.finish(&mut segment, &[0; 8]);
            file.extend(&segment);
            encoder.advance();
        }
    }
    for interface in 0..2 {
        let written = encoder.push_statistics(&mut segment, interface, 0, &COUNTERS).unwrap();
        assert!(written);
    }
    encoder.finish(&mut segment, &[0; 8]);
    file.extend(&segment);
    file
}

fn pcap_file() -> Vec<u8> {
    let (encoder, mut out) = (PcapNsEncoder::new(ETHERNET, 262_144), vec![0; 1 << 20]);
    let mut end = encoder.header(&mut out);
    for number in 0..PACKETS {
        end += encoder.packet(&mut out[end..], &packet(number, &data(number))).unwrap();
    }
    out.truncate(end);
    out
}

/// A file that is deleted when the test ends.
struct OnDisk {
    path: String,
    _folder: TemporaryFolder,
}

impl OnDisk {
    fn new(name: &str, bytes: &[u8]) -> OnDisk {
        let folder = TemporaryFolder::create("burstline-wire-").unwrap();
        let path = folder.file(name);
        std::fs::write(&path, bytes).unwrap();
        OnDisk { path, _folder: folder }
    }

    fn path(&self) -> &str {
        &self.path
    }
}

fn files() -> [(OnDisk, bool); 3] {
    [
        (OnDisk::new("plain.pcapng", &pcapng_file()), true),
        (OnDisk::new("segments.pcapng", &segmented_file()), true),
        (OnDisk::new("ns.pcap", &pcap_file()), false),
    ]
}

#[test]
fn capinfos_counts_what_we_wrote() {
    for (file, pcapng) in files() {
        let Some(text) = run("capinfos", &["-M", "-c", "-t", "-I", file.path()]) else { return };
        assert!(text.contains("Number of packets:   300"), "{text}");
        if pcapng {
            assert!(text.contains("Name = eth0"), "{text}");
            assert!(text.contains("Number of stat entries = 1"), "{text}");
            assert!(text.contains("nanoseconds"), "{text}");
        } else {
            assert!(text.contains("Time precision = nanoseconds"), "{text}");
        }
    }
}

#[test]
fn tcpdump_prints_the_nanoseconds_we_wrote() {
    for (file, _) in files() {
        let arguments = ["-nn", "-tt", "-e", "--nano", "-r", file.path()];
        let Some(text) = run("tcpdump", &arguments) else { return };
        let times: Vec<_> = text.lines().filter(|line| line.starts_with("17")).collect();
        assert_eq!(times.len(), PACKETS as usize);
        assert!(times[0].starts_with("1700000000.000000123 "), "{}", times[0]);
        assert!(times[299].starts_with("1700000000.000299123 "), "{}", times[299]);
    }
}

#[test]
fn tshark_shows_lengths_and_what_was_lost() {
    for (file, pcapng) in files() {
        let fields = [
            "frame.time_epoch",
            "frame.cap_len",
            "frame.len",
            "frame.interface_id",
            "frame.drop_count",
            "frame.interface_queue",
        ];
        let mut arguments = vec!["-n", "-r", file.path(), "-T", "fields"];
        arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
        let Some(text) = run("tshark", &arguments) else { return };
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), PACKETS as usize);
        for (number, line) in (0u32..).zip(lines) {
            let columns: Vec<_> = line.split('\t').collect();
            let captured = 60 + number % 900;
            assert_eq!(columns[0], format!("1700000000.{:09}", 123 + 1000 * number));
            assert_eq!(columns[1], captured.to_string());
            assert_eq!(columns[2], (captured + number % 3).to_string());
            if pcapng {
                assert_eq!(columns[3], (number % 2).to_string());
                let gap = number % 50 == 0;
                assert_eq!(columns[4..], if gap { ["7", "3"] } else { ["", ""] });
            }
        }
    }
}

#[test]
fn we_read_what_the_tools_write() {
    let file = OnDisk::new("again.pcapng", &segmented_file());
    let to = OnDisk::new("rewritten", b"");
    let expected = crate::build::decode(&segmented_file());
    let tcpdump = installed("tcpdump", &["--nano", "-r", file.path(), "-w", to.path()]);
    if tcpdump.map_err(without).is_ok() {
        let decoded = crate::build::decode(&std::fs::read(to.path()).unwrap());
        assert_eq!(decoded.damage, []);
        let facts = |p: &crate::build::Packet| (p.bytes.clone(), p.time_ns, p.original_length);
        let written: Vec<_> = decoded.packets.iter().map(facts).collect();
        assert_eq!(written, expected.packets.iter().map(facts).collect::<Vec<_>>());
    }
    let tshark = installed("tshark", &["-r", file.path(), "-w", to.path()]);
    if tshark.map_err(without).is_ok() {
        let decoded = crate::build::decode(&std::fs::read(to.path()).unwrap());
        assert_eq!(decoded.damage, []);
        assert_eq!(decoded.packets, expected.packets);
    }
}
