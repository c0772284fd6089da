//! Filters in files and generators: wanted packets are delivered, the rest is `filtered`, and every
//! call ends.

mod common;

use std::path::Path;

use burstline_log::Scratch;
use burstline_port::{Filter, Loss, OpenOptions, Port, PortError, PortState};
use burstline_skip::skip;
use burstline_testbed::Bed;
use burstline_wire::files::{
    InterfaceDescription, PacketToWrite, PcapngEncoder, SectionDescription,
};
use burstline_wire::filter::Program;
use burstline_wire::headers::LinkType;

use common::live::try_open;
use common::{Folder, Got, drain_by_lending, drain_by_receiving, pcap, pump, sink, source};

/// Longer than 600 bytes on the wire, or with an odd byte at 49. Reads so far into the packet that
/// a snapshot length of 40 would change the verdict.
const PROGRAM: &str = "128 0 0 0, 37 2 0 600, 48 0 0 49, 69 0 1 1, 6 0 0 1, 6 0 0 0";

fn with(filter: &str, snapshot_bytes: Option<u32>) -> OpenOptions {
    let filter = filter.parse().unwrap();
    OpenOptions { filter, snapshot_bytes, ..OpenOptions::default() }
}

fn filtered(port: &dyn Port) -> u64 {
    port.account().lost.of(Loss::Filtered)
}

/// Returns the same packets in all formats, from a generator; and the generator itself.
fn addresses(folder: &Folder) -> Vec<String> {
    let recipe = "gen:?packets=5000&start=7&size=random:64-1200&flows=50&protocol=mix&ip=mix";
    let mut addresses = vec![recipe.to_owned()];
    for format in ["segmented", "pcapng", "pcap-ns"] {
        let file = folder.path(format).display().to_string();
        let job = OpenOptions::default();
        let mut to = sink(&format!("file:{file}?format={format}"), &job).unwrap();
        let mut from = source(recipe, &job).unwrap();
        assert_eq!(pump(&mut *from, &mut *to).unwrap(), 5000);
        to.finish().unwrap();
        addresses.push(format!("file:{file}"));
    }
    addresses
}

#[test]
fn what_is_wanted_is_delivered_and_the_rest_counted() {
    let folder = Folder::new();
    let program = Program::from_tcpdump_ddd(PROGRAM).unwrap();
    for address in addresses(&folder) {
        let all = drain_by_lending(&mut *source(&address, &OpenOptions::default()).unwrap(), 99);
        let is_wanted = |got: &&Got| program.run(&got.bytes, got.original_length as u32) > 0;
        for snapshot_bytes in [None, Some(40)] {
            let mut wanted: Vec<Got> = all.iter().filter(is_wanted).cloned().collect();
            let most = snapshot_bytes.unwrap_or(u32::MAX) as usize;
            wanted.iter_mut().for_each(|got| got.bytes.truncate(most));
            assert!((500..4500).contains(&wanted.len()), "{}", wanted.len());
            let open = || source(&address, &with(PROGRAM, snapshot_bytes)).unwrap();
            let mut port = open();
            assert!(drain_by_lending(&mut *port, u64::MAX) == wanted, "{address}");
            let account = port.account();
            assert_eq!((account.offered, account.in_flight), (5000, 0), "{address}");
            assert_eq!(filtered(&*port), 5000 - wanted.len() as u64, "{address}");
            let truncated = wanted.iter().filter(|got| got.bytes.len() < got.original_length);
            assert_eq!(account.truncated, truncated.count() as u64, "{address}");
            for budget in [1, 7, 1024] {
                assert!(drain_by_lending(&mut *open(), budget) == wanted, "{address} {budget}");
                let got = drain_by_receiving(&mut *open(), budget, 64 << 10, 8);
                assert!(got == wanted, "{address} {budget}");
            }
            // A log so small that it is often full.
            assert!(drain_by_receiving(&mut *open(), u64::MAX, 4 << 10, 3) == wanted, "{address}");
        }
    }
}

#[test]
fn a_limit_counts_what_passed_and_nothing_behind_it_is_looked_at() {
    let folder = Folder::new();
    for address in addresses(&folder) {
        let mut port = source(&address, &with(PROGRAM, None)).unwrap();
        let (mut scratch, mut left) = (Scratch::new(), 100);
        while left > 0 {
            left -= port.lend(&mut scratch, left).unwrap().burst.len() as u64;
        }
        let account = port.account();
        assert_eq!(account.offered, 100 + filtered(&*port), "{address}");
        assert!(account.offered < 5000 && account.in_flight == 0, "{address}: {account:?}");
    }
}

#[test]
fn a_call_that_meets_only_what_is_not_wanted_returns() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..40_000).map(|number| (number, 0, 60, vec![0; 60])).collect();
    let file = folder.file("many.pcap", &pcap(0xa1b2_c3d4, false, 1, &packets));
    let addresses = [format!("file:{}", file.display()), "gen:?packets=40000".to_owned()];
    for address in addresses {
        let mut lending = source(&address, &with("6 0 0 0", None)).unwrap();
        let mut receiving = source(&address, &with("6 0 0 0", None)).unwrap();
        let (mut scratch, mut calls, mut before) = (Scratch::new(), 0, 0);
        let (_log, mut writer, _reader) = common::log(4096, 3);
        loop {
            let lent = lending.lend(&mut scratch, u64::MAX).unwrap();
            assert!(lent.burst.is_empty());
            let state = lent.state;
            let received = receiving.receive(&mut writer, u64::MAX).unwrap();
            assert_eq!((received.packets, received.state), (0, state));
            for port in [&lending, &receiving] {
                let account = port.account();
                assert_eq!(account.offered, account.lost.of(Loss::Filtered));
                assert!(account.offered - before <= 20_000, "{address}: {account:?}");
            }
            before = lending.account().offered;
            calls += 1;
            match state {
                PortState::Ended => break,
                state => assert_eq!(state, PortState::Busy, "{address}"),
            }
        }
        assert!(calls >= 3 && before == 40_000, "{address}: {calls} calls, {before} packets");
    }
}

#[test]
fn without_a_filter_nothing_is_said_of_one() {
    let mut port = source("gen:?packets=3", &with(" ", None)).unwrap();
    drain_by_lending(&mut *port, 9);
    assert_eq!(port.account().lost.iter().count(), 0);
    let mut port = source("gen:?packets=3", &with("6 0 0 1", None)).unwrap();
    drain_by_lending(&mut *port, 9);
    assert!(port.account().lost.iter().eq([(Loss::Filtered, 0)]));
}

#[test]
fn a_paced_source_loses_only_what_was_wanted() {
    // Odd numbers only: the last byte of four, 8 bytes into the mark after 42 bytes of headers.
    let odd = with("48 0 0 53, 84 0 0 1, 22 0 0 0", None);
    let mut port = source("gen:?packets=20000&rate=1G&flows=1", &odd);
    let port = port.as_mut().unwrap();
    let (_log, mut writer, mut reader) = common::log(4096, 3);
    let mut delivered = 0;
    let mut rounds = 0;
    loop {
        let received = port.receive(&mut writer, 1000).unwrap();
        writer.publish();
        delivered += received.packets;
        common::check_ledger(&**port, delivered);
        rounds += 1;
        if received.state == PortState::Ended {
            break;
        }
        if rounds % 3 == 0 {
            while reader.next_burst().is_some() {}
        }
    }
    let lost = port.account().lost.of(Loss::LogFull);
    assert!(lost > 0 && delivered > 0);
    assert_eq!((filtered(&**port), delivered + lost), (10_000, 10_000));
}

#[test]
fn a_wrong_filter_leaves_no_device_behind() {
    let Some(bed) = Bed::or_skip() else { return };
    let error = try_open(&bed.far, "tap:kept?persist", with("no such word", None)).err().unwrap();
    assert!(matches!(error, PortError::Filter { .. }), "{error}");
    bed.far.command("ip", &["link", "show", "kept"]).expect_err("no device was made");
}

/// Writes a pcapng whose packets alternate between the interfaces, with one drop before each.
fn pcapng(path: &Path, links: &[LinkType], packets: &[Vec<u8>]) {
    let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 262_144);
    let (mut file, mut place) = (Vec::new(), vec![0; 4096]);
    let bytes = encoder.section(&mut place, &SectionDescription::default()).unwrap();
    file.extend_from_slice(&place[..bytes]);
    for link in links {
        let interface = InterfaceDescription::new(LinkType::ETHERNET, "if");
        let bytes = encoder.interface(&mut place, &interface).unwrap();
        // The encoder writes one link type per file; patch it after the block's type and length.
        place[8..10].copy_from_slice(&link.0.to_le_bytes());
        file.extend_from_slice(&place[..bytes]);
    }
    for (number, packet) in packets.iter().enumerate() {
        let interface = (number % links.len()) as u32;
        let packet =
            PacketToWrite { interface, drops_before: 1, ..PacketToWrite::new(packet, 1 << 60) };
        let bytes = encoder.packet(&mut place, &packet).unwrap();
        file.extend_from_slice(&place[..bytes]);
    }
    std::fs::write(path, file).unwrap();
}

#[test]
fn losses_before_unwanted_packets_are_told_by_the_next() {
    let folder = Folder::new();
    let path = folder.path("drops.pcapng");
    let packets: Vec<Vec<u8>> = (0..99).map(|number| vec![number; 60]).collect();
    pcapng(&path, &[LinkType::ETHERNET], &packets);
    // Multiples of ten are filtered out.
    let filter = "48 0 0 0, 148 0 0 10, 21 1 0 0, 6 0 0 0, 6 0 0 1";
    let address = format!("file:{}", path.display());
    let got = drain_by_lending(&mut *source(&address, &with(filter, None)).unwrap(), 4);
    let seen: Vec<_> = got.iter().map(|got| (got.bytes[0], got.drops_before)).collect();
    let expected: Vec<_> = (0..10).map(|ten| (ten * 10, if ten == 0 { 1 } else { 10 })).collect();
    assert_eq!(seen, expected);
}

/// Returns `None`, after counting the test as skipped, if libpcap is missing.
fn expression(text: &str) -> Option<Filter> {
    use burstline_sys::pcap::{PcapError, compile};
    match compile("ip", 1, 64, true) {
        Err(error @ PcapError::NotInstalled { .. }) => {
            skip(error);
            None
        }
        _ => Some(text.parse().unwrap()),
    }
}

#[test]
fn an_expression_is_compiled_for_each_link_type_of_a_file() {
    let Some(filter) = expression("udp port 7") else { return };
    let folder = Folder::new();
    let path = folder.path("links.pcapng");
    let made = "gen:?packets=600&start=1&flows=8&protocol=mix&ip=mix";
    let frames = drain_by_lending(&mut *source(made, &OpenOptions::default()).unwrap(), 99);
    // Every other packet starts with its IP header.
    let packets = frames.iter().enumerate();
    let packets: Vec<Vec<u8>> =
        packets.map(|(number, got)| got.bytes[number % 2 * 14..].to_vec()).collect();
    pcapng(&path, &[LinkType::ETHERNET, LinkType::RAW], &packets);
    let options = OpenOptions { filter, ..OpenOptions::default() };
    let address = format!("file:{}", path.display());
    let got = drain_by_lending(&mut *source(&address, &options).unwrap(), 99);
    let is_udp = |frame: &&Got| match frame.bytes[12..14] {
        [8, 0] => frame.bytes[23] == 17,
        _ => frame.bytes[20] == 17,
    };
    let expected = frames.iter().filter(is_udp).count();
    assert!((100..500).contains(&expected));
    assert_eq!(got.len(), expected);
}

#[test]
fn a_link_type_that_an_expression_does_not_fit_is_an_error_that_names_it() {
    let Some(filter) = expression("ether broadcast") else { return };
    let folder = Folder::new();
    let options = OpenOptions { filter, ..OpenOptions::default() };
    let (early, late) = (folder.path("early.pcapng"), folder.path("late.pcapng"));
    let packets = vec![vec![0xff; 60]; 9];
    pcapng(&early, &[LinkType::ETHERNET, LinkType::RAW], &packets);
    let error = source(&format!("file:{}", early.display()), &options).err().unwrap();
    assert!(matches!(error, PortError::Filter { link: LinkType::RAW, .. }), "{error}");
    // A second section, after the part that opening reads.
    pcapng(&late, &[LinkType::ETHERNET], &packets);
    let mut bytes = std::fs::read(&late).unwrap().repeat(1000);
    bytes.extend(std::fs::read(&early).unwrap());
    std::fs::write(&late, bytes).unwrap();
    let mut port = source(&format!("file:{}", late.display()), &options).unwrap();
    let (mut scratch, mut delivered) = (Scratch::new(), 0);
    let error = loop {
        match port.lend(&mut scratch, 100) {
            Ok(lent) => delivered += lent.burst.len() as u64,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("link type 101: filter `ether broadcast`: "), "{error}");
    assert_eq!(port.account().offered, delivered);
    assert!((9000..=9009).contains(&delivered), "{delivered}");
}
