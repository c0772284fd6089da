//! `merge`: one sequence in time order, from files, generators, logs and live interfaces.
//!
//! The live tests need root, or `unshare -Urn`; without, each says that it was skipped.

use burstline_skip::test_name;
use std::time::Duration;
use std::{fs, iter, thread};

use crate::support::live::{Live, wait_until};
use crate::support::sharing::{Names, pcap_header, pcap_packets};
use crate::support::{Directory, REAL, REAL_PACKETS, assert_closed, assert_says, other, run_json};
use burstline_afpacket::Sender;
use burstline_testbed::{Bed, FAR, Frames, NEAR};
use serde_json::Value;

const FRAMES: u64 = 10_000;
/// Number of slices in which the frames are sent.
const SLICES: u64 = 20;

/// Checks with tshark, if installed, that the timestamps of `packets` packets are in order.
fn assert_times_in_order(path: &str, packets: u64) {
    let fields = ["-r", path, "-T", "fields", "-e", "frame.time_epoch"];
    let Some(run) = other("tshark", &fields) else { return };
    // Seconds since 1970 with nine decimals have the same number of digits until the year 2286.
    let times: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(times.len() as u64, packets);
    assert!(times.is_sorted());
}

#[test]
fn files_of_several_formats_become_one_in_order_of_time() {
    let directory = Directory::new("merge-files");
    let (micro, nano) = (directory.file("a.pcap"), directory.file("b.pcapng"));
    let source = |seed: u32| format!("gen:?packets=3000&size=imix&rate=1M&seed={seed}");
    run_json(&["capture", &source(1), "--format", "pcap", "-w", &micro], 0);
    run_json(&["capture", &source(2), "-w", &nano], 0);
    let all = directory.file("all.pcapng");
    let report = run_json(&["merge", &micro, &nano, REAL, "-w", &all], 0);
    assert_closed(&report);
    let merge = &report["merge"];
    assert_eq!((&merge["order"], &merge["late"]), (&"packet".into(), &0.into()), "{merge}");
    assert!(merge["cores_used"].as_f64().unwrap() > 0.0, "{merge}");
    assert!(merge["line_bits_per_core_s"].as_f64() > merge["l2_bits_per_core_s"].as_f64());
    assert_eq!(report["total"]["delivered"], 6000 + REAL_PACKETS);
    assert_times_in_order(&all, 6000 + REAL_PACKETS);
    assert_eq!(report["stages"][0]["name"], "merge");
}

#[test]
fn an_offset_moves_one_source() {
    let directory = Directory::new("merge-offset");
    let out = directory.file("out.pcapng");
    let offset = format!("{REAL}=-1500us");
    // The same file twice: the second copy is 1.5 ms earlier, so file order is wrong.
    let copy = directory.file("copy.pcap");
    fs::copy(REAL, &copy).unwrap();
    let report = run_json(&["merge", &copy, REAL, "--offset", &offset, "-w", &out], 0);
    assert_eq!(report["merge"]["ports"][1]["offset_ns"], -1_500_000);
    assert_times_in_order(&out, 2 * REAL_PACKETS);
    let first = run_json(&["count", REAL], 0)["packet_times_ns"][0].as_u64().unwrap();
    assert_eq!(report["packet_times_ns"][0].as_u64().unwrap(), first - 1_500_000);
}

#[test]
fn a_shared_merge_writes_the_same_packets_in_the_same_order() {
    let directory = Directory::new("merge-shared");
    let source = |seed: u32| format!("gen:?packets=3000&size=imix&rate=1M&seed={seed}");
    let (one, two) = (directory.file("a.pcap"), directory.file("b.pcapng"));
    run_json(&["capture", &source(1), "--format", "pcap", "-w", &one], 0);
    run_json(&["capture", &source(2), "-w", &two], 0);
    let merged = [&[][..], &["--share"]].map(|share: &[&str]| {
        let path = directory.file(&format!("{}.pcap", share.len()));
        let out = ["--format", "pcap", "-w", &path];
        let report = run_json(&[&["merge", &one, &two, REAL][..], share, &out].concat(), 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], 6000 + REAL_PACKETS);
        assert_eq!(report["merge"]["late"], 0);
        (report, fs::read(&path).unwrap())
    });
    assert!(merged[0].1 == merged[1].1, "the files differ");
    let names: Vec<_> =
        merged[1].0["stages"].as_array().unwrap().iter().map(|stage| &stage["name"]).collect();
    assert_eq!(names, ["receive-0", "receive-1", "receive-2", "merge", "record"]);
}

#[test]
fn what_cannot_be_is_a_usage_error() {
    for (arguments, said) in [
        (&["merge", REAL, "--offset", "eth7=1ms"][..], "no such source"),
        (&["merge", REAL, "--offset", "eth7"], "SOURCE=TIME"),
        (&["merge", REAL, "--offset", "eth7=5"], "ms, s"),
        (&["merge", REAL, "--lateness", "0"], "--lateness"),
        (&["merge", REAL, "--share", "--publish", "all"], "--publish needs copies"),
        (&["merge", REAL, "--share", "--offset", "eth7=1ms"], "--offset needs copies"),
        (&["merge", REAL, "--format", "pcap"], "--write"),
        (&["merge"], "SOURCE"),
    ] {
        assert_says(arguments, 2, said);
    }
}

#[test]
fn packets_that_the_file_cannot_hold_are_named() {
    let directory = Directory::new("merge-links");
    let raw = directory.file("raw.pcap");
    let mut bytes: Vec<u8> = Vec::new();
    // A classic header of link type 101, and one packet from 1970. Source: draft-ietf-opsawg-pcap.
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 101, 1, 0, 4, 4, 0x45] {
        bytes.extend(word.to_le_bytes());
    }
    fs::write(&raw, bytes).unwrap();
    let out = directory.file("out.pcapng");
    let report = run_json(&["merge", REAL, &raw, "-w", &out], 1);
    assert_closed(&report);
    let total = &report["total"];
    let lost = total["lost"]["link_mismatch"].as_u64().unwrap();
    assert_eq!((lost + total["delivered"].as_u64().unwrap()), REAL_PACKETS + 1);
    // Without an output file, link types may differ.
    let report = run_json(&["merge", REAL, &raw], 0);
    assert_eq!(report["total"]["delivered"], REAL_PACKETS + 1);
}

#[test]
fn a_published_merge_is_one_log_in_order_and_can_be_merged_again() {
    let names = Names::new("merge-published");
    // The generator's packets wait until the pipe delivers one.
    let sources = ["-", "gen:?packets=20000&rate=100k", "--lateness", "1h"];
    let publish = ["--publish", "all?lossless=forever", "--depth", "16m"];
    let mut merger = names.start(&[&["merge"][..], &sources, &publish].concat());
    names.wait_for_readers("all", 0);
    // Truncated by snaplen, so the lent packets get new descs.
    let reader = names.start(&["merge", "log:all?lossless", REAL, "--snaplen", "80"]);
    names.wait_for_readers("all", 1);
    merger.feed(&[pcap_header(), pcap_packets(0, 100)].concat());
    merger.close_input();
    let (merged, read) = (merger.end(), reader.end());
    let done = (&merged["total"]["delivered"], &merged["merge"]["late"]);
    assert_eq!(done, (&20_100.into(), &0.into()));
    assert_eq!(merged["published"]["packets"], serde_json::json!([20_100]));
    assert_eq!(merged["memory"]["log_bytes"], 16 << 20);
    let row = &read["ports"][0];
    let (delivered, cut) = (&row["delivered"], &row["truncated"]);
    assert_eq!((delivered, cut), (&20_100.into(), &100.into()), "{read}");
    assert_eq!(row["bytes"], 20_000 * 60 + 100 * 80);
    assert_eq!((&read["merge"]["late"], &read["total"]["unaccounted"]), (&0.into(), &0.into()));
}

/// Merges the far interface and an idle one, with more `flags`, and returns the report after all
/// frames arrived.
fn merge_with_an_idle_one(test: &str, scheme: &str, flags: &str) -> Option<Value> {
    let bed = Bed::or_skip()?;
    let directory = Directory::new(test);
    let ip = |arguments: &[&str]| bed.far.command("ip", arguments).unwrap();
    ip(&["link", "add", "idle0", "type", "veth", "peer", "name", "idle1"]);
    ip(&["link", "set", "idle0", "up"]);
    ip(&["link", "set", "idle1", "up"]);
    // A ring with room for all frames: the merger may have to wait for a core.
    let ring = if scheme == "xdp" { "?frames=16384" } else { "" };
    let job = format!("merge {scheme}:idle0 '{scheme}:{FAR}{ring}'{flags}");
    let live = Live::start(&bed, &directory, &job);
    let sent: u64 = bed.near.run(|| {
        let mut sender = Sender::open(NEAR, true).unwrap();
        // In slices: a merger that waits for a core still finds them all in its ring.
        let slice = || {
            thread::sleep(Duration::from_millis(5));
            Frames::new(FRAMES / SLICES, 100).send(&mut sender).unwrap()
        };
        iter::repeat_with(slice).take(SLICES as usize).sum()
    });
    assert_eq!(sent, FRAMES);
    let delivered = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap_or_default();
        object["delivered"].as_u64().unwrap_or(0)
    };
    // The other interface stays idle.
    wait_until("all frames have come", || {
        live.text().lines().any(|line| delivered(line) >= FRAMES)
    });
    let report = live.stop();
    Some(report)
}

#[test]
fn an_idle_packet_socket_stalls_nobody() {
    let Some(report) = merge_with_an_idle_one(&test_name(), "afpacket", "") else {
        return;
    };
    let (row, merge) = (&report["ports"][1], &report["merge"]);
    // An interface that comes up sends a few packets itself.
    assert!(row["delivered"].as_u64().unwrap() >= FRAMES, "{report}");
    assert_eq!((&merge["order"], &row["unaccounted"]), (&"packet".into(), &0.into()));
    assert_eq!(report["timestamp"]["source"], "kernel");
}

#[test]
fn an_idle_packet_socket_stalls_no_shared_merge() {
    let Some(report) = merge_with_an_idle_one(&test_name(), "afpacket", " --share") else {
        return;
    };
    let row = &report["ports"][1];
    assert!(row["delivered"].as_u64().unwrap() >= FRAMES, "{report}");
    assert_eq!(row["unaccounted"], 0, "{report}");
    assert_eq!(report["stages"][2]["name"], "merge");
}

#[test]
fn an_idle_queue_stalls_nobody() {
    let Some(report) = merge_with_an_idle_one(&test_name(), "xdp", "") else {
        return;
    };
    assert!(report["total"]["delivered"].as_u64().unwrap() >= FRAMES, "{report}");
    assert_eq!(report["merge"]["order"], "packet");
}
