//! Files in and out: counts are those of tcpdump, tshark and capinfos.

mod support;

use std::fs;

use burstline_skip::skip;
use support::{Directory, REAL, REAL_PACKETS, assert_closed, judged_packets, other, run, run_json};

/// A pcap file with its header words, and those of its records, in the other byte order.
fn swapped(pcap: &[u8]) -> Vec<u8> {
    let mut bytes = pcap.to_vec();
    for (at, width) in [(0, 4), (4, 2), (6, 2), (8, 4), (12, 4), (16, 4), (20, 4)] {
        bytes[at..at + width].reverse();
    }
    let mut at = 24;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        bytes[at..at + 16].chunks_mut(4).for_each(<[u8]>::reverse);
        at += 16 + length;
    }
    bytes
}

fn assert_counted(path: &str, packets: u64) {
    let report = run_json(&["count", path], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], packets, "{path}");
    for (who, count) in judged_packets(path) {
        assert_eq!(count, packets, "{who} {path}");
    }
}

#[test]
fn every_format_written_is_read_by_all() {
    let directory = Directory::new("formats");
    for format in ["segmented", "pcapng", "pcap-ns", "pcap"] {
        let file = directory.file(format);
        let report = run_json(&["capture", REAL, "-w", &file, "--format", format], 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], REAL_PACKETS);
        assert_counted(&file, REAL_PACKETS);
        let bytes = run_json(&["count", &file], 0)["total"]["bytes"].clone();
        assert_eq!(bytes, report["total"]["bytes"], "{format}");
        if format == "pcap" {
            let other_order = directory.file("swapped");
            fs::write(&other_order, swapped(&fs::read(&file).unwrap())).unwrap();
            assert_counted(&other_order, REAL_PACKETS);
        }
    }
}

#[test]
fn variants_made_by_other_programs_are_counted_alike() {
    let directory = Directory::new("variants");
    for format in ["pcap", "nsecpcap", "pcapng", "modpcap", "nokiapcap"] {
        let file = directory.file(format);
        if other("editcap", &["-F", format, REAL, &file]).is_none() {
            let test = "variants_made_by_other_programs_are_counted_alike";
            return skip(test, "editcap is not installed: scripts/setup test");
        }
        if format == "nokiapcap" {
            // Not a pcap for libpcap, nor for us: refused, not misread.
            assert_ne!(run(&["count", &file]).code, Some(101));
            continue;
        }
        let report = run_json(&["count", &file], 0);
        assert_eq!(report["total"]["delivered"], REAL_PACKETS, "{format}");
    }
    let packed = directory.file("packed.gz");
    let gzip = other("gzip", &["-c", REAL]).unwrap();
    assert_eq!(gzip.code, Some(0));
    let copy = directory.file("copy.pcap");
    fs::copy(REAL, &copy).unwrap();
    assert_eq!(other("gzip", &[&copy]).unwrap().code, Some(0));
    fs::rename(format!("{copy}.gz"), &packed).unwrap();
    assert_eq!(run_json(&["count", &packed], 0)["total"]["delivered"], REAL_PACKETS);
}

#[test]
fn several_sources_become_one_file_that_all_can_read() {
    let directory = Directory::new("several");
    let file = directory.file("all.pcapng");
    let sources = [REAL, "gen:?packets=20000&size=imix&ip=mix&protocol=mix", "gen:?packets=3"];
    let arguments = [&["capture"][..], &sources, &["-w", &file, "--hash", "five-tuple"]].concat();
    let report = run_json(&arguments, 0);
    assert_closed(&report);
    let rows: Vec<_> = (0..3).map(|row| report["ports"][row]["delivered"].clone()).collect();
    assert_eq!(rows, [REAL_PACKETS, 20_000, 3]);
    assert_counted(&file, REAL_PACKETS + 20_003);
}

#[test]
fn a_capture_of_a_capture_has_the_same_packets_and_times() {
    let directory = Directory::new("again");
    let file = directory.file("again.pcapng");
    assert_eq!(run(&["capture", REAL, "-w", &file, "--segment", "4k"]).code, Some(0));
    let lines = |path: &str| other("tcpdump", &["-nn", "-tt", "-e", "-x", "-r", path]);
    let (Some(before), Some(after)) = (lines(REAL), lines(&file)) else { return };
    assert!(before.stdout.len() > 10_000);
    assert_eq!(before.stdout, after.stdout);
}

#[test]
fn damage_is_named_and_ends_with_one() {
    let directory = Directory::new("damage");
    let file = directory.file("cut.pcap");
    let whole = fs::read(REAL).unwrap();
    fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let report = run_json(&["count", &file], 1);
    assert_closed(&report);
    assert_eq!(report["damaged"], true);
    let notes = report["notes"].to_string();
    assert!(
        notes.contains(&format!("{}", whole.len() - 10)) || notes.contains("offset"),
        "{notes}"
    );
    let text = run(&["count", &file]);
    assert!(text.stdout.contains("note "), "{}", text.stdout);
}
