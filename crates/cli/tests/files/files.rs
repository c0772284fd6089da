//! Files in and out: the counts match those of tcpdump, tshark and capinfos.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::support::{
    Directory, REAL, REAL_PACKETS, assert_closed, command, counted_by_wireshark, judged_packets,
    last_object, other, other_or_skip, run, run_json,
};

/// Returns a pcap file with its header and record headers in the opposite byte order.
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
        if other_or_skip("editcap", &["-F", format, REAL, &file]).is_none() {
            return;
        }
        if format == "nokiapcap" {
            // Neither libpcap nor we accept it: refused, not misread.
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
    let lines = |path: &str| other_or_skip("tcpdump", &["-nn", "-tt", "-e", "-x", "-r", path]);
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
    // With several files, the note says which one it is about.
    let text = run(&["count", REAL, &file]);
    let noted = text.stdout.lines().find(|line| line.contains("note ")).unwrap();
    assert!(noted.contains(&format!("{file}: ")), "{}", text.stdout);
}

/// Two files have the same damage at the same offset, and a third has another. A job reads them as
/// three sources, another job as one set.
#[test]
fn a_note_on_damage_names_its_file_among_several() {
    let directory = Directory::new("damage-of-several");
    let [a, b, packed] = ["a.pcap", "b.pcap", "c.pcap.gz"].map(|name| directory.file(name));
    run_json(&["capture", REAL, "-w", &packed], 0);
    for (file, from, cut) in [(&a, REAL, 10), (&b, REAL, 10), (&packed, packed.as_str(), 3000)] {
        let whole = fs::read(from).unwrap();
        fs::write(file, &whole[..whole.len() - cut]).unwrap();
    }
    let set = format!("set:{}", directory.0.display());
    for sources in [&[a.as_str(), b.as_str(), packed.as_str()][..], &[set.as_str()]] {
        let report = run_json(&[&["count"][..], sources].concat(), 1);
        assert_closed(&report);
        let notes = report["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str());
        let notes: Vec<_> = notes.collect();
        let of = |file: &str| {
            let start = format!("{file}: ");
            notes.iter().filter_map(move |note| note.strip_prefix(&start)).collect::<Vec<_>>()
        };
        let [of_a, of_b, of_packed] = [&a, &b, &packed].map(|file| of(file));
        assert_eq!((of_a.len(), &of_a), (1, &of_b), "{sources:?}: {notes:?}");
        assert!(of_a[0].contains("the file ends inside a record"), "{notes:?}");
        let is_broken = |note: &&str| note.starts_with("compressed data broken");
        assert!(of_packed.iter().any(is_broken), "{notes:?}");
        assert_eq!(notes.len(), 2 + of_packed.len(), "a note without a name: {notes:?}");
    }
}

/// First bytes of the file written under each name, and whether it is compressed.
const NAMES: [(&str, [u8; 2], bool); 6] = [
    ("x.pcap", [0x4d, 0x3c], false),
    ("x.pcapng", [0x0a, 0x0d], false),
    ("x.pcap.gz", [0x1f, 0x8b], true),
    ("x.pcapng.gz", [0x1f, 0x8b], true),
    ("x.pcap.zst", [0x28, 0xb5], true),
    ("x.zst", [0x28, 0xb5], true),
];

#[test]
fn the_name_of_a_file_says_how_it_is_written() {
    let directory = Directory::new("names");
    for (name, magic, is_compressed) in NAMES {
        let file = directory.file(name);
        // Enough packets for several pieces.
        let job = ["capture", "gen:?packets=20000&size=100", "-w", &file];
        assert_eq!(run_json(&job, 0)["total"]["delivered"], 20_000, "{name}");
        let bytes = fs::read(&file).unwrap();
        assert_eq!(bytes[..2], magic, "{name}");
        assert_eq!(bytes.len() < 1 << 20, is_compressed, "{name}: {} bytes", bytes.len());
        let report = run_json(&["count", &file], 0);
        assert_eq!(report["total"]["delivered"], 20_000, "{name}");
        assert!(counted_by_wireshark(&file).is_none_or(|packets| packets == 20_000), "{name}");
    }
    let file = directory.file("y.pcap");
    assert_eq!(run(&["capture", REAL, "-w", &file, "--format", "pcapng"]).code, Some(0));
    assert_eq!(fs::read(&file).unwrap()[..2], [0x0a, 0x0d], "--format goes before the name");
}

#[test]
fn what_a_name_asks_for_and_cannot_have_is_one_line() {
    let directory = Directory::new("no-names");
    let flags: [(&str, &[&str], &str); 2] = [
        ("x.pcap.lz4", &[], "cannot write .lz4: use .zst or .gz"),
        ("x.gz", &["--format", "segmented"], "segments are compressed by zstd only"),
    ];
    for (name, flags, reason) in flags {
        let file = directory.file(name);
        let run = run(&[&["capture", REAL, "-w", &file], flags].concat());
        assert!(run.code != Some(0) && run.stderr.contains(reason), "{name}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{name}: {}", run.stderr);
        assert!(fs::metadata(&file).is_err(), "{name} was made");
    }
}

#[test]
fn an_interrupt_ends_a_compressed_file_well() {
    let directory = Directory::new("interrupted");
    for name in ["x.pcap.zst", "x.pcapng.gz"] {
        let file = directory.file(name);
        let job = ["capture", "gen:?rate=20k&pace=yes", "-w", &file, "--json"];
        let mut child = command(&job).stdout(Stdio::piped()).spawn().unwrap();
        while fs::metadata(&file).map_or(0, |metadata| metadata.len()) < 4096 {
            assert!(child.try_wait().unwrap().is_none(), "{name}: it has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        burstline_testbed::signal(child.id(), "-INT").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}");
        let report = last_object(&String::from_utf8_lossy(&output.stdout));
        let delivered = report["total"]["delivered"].as_u64().unwrap();
        assert!(delivered > 0, "{report}");
        assert_eq!(run_json(&["count", &file], 0)["total"]["delivered"], delivered, "{name}");
        assert!(counted_by_wireshark(&file).is_none_or(|packets| packets == delivered), "{name}");
    }
}
