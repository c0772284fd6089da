//! The JSON contract: keys, arithmetic, intervals.

use crate::support::{
    Directory, REAL, REAL_PACKETS, assert_closed, last_object, run, run_json, run_with_code,
};
use serde_json::Value;

/// Every key of the contract; additional keys are allowed.
const KEYS: &[&str] = &[
    "/command",
    "/elapsed_s",
    "/ports/0/port",
    "/ports/0/offered",
    "/ports/0/delivered",
    "/ports/0/bytes",
    "/ports/0/lost",
    "/ports/0/in_flight",
    "/ports/0/unaccounted",
    "/total/offered",
    "/total/delivered",
    "/total/bytes",
    "/total/lost",
    "/total/lost_total",
    "/total/in_flight",
    "/total/unaccounted",
    "/total/pps",
    "/total/l2_bits_per_s",
    "/total/line_bits_per_s",
    "/total/bytes_copied",
    "/total/lost_first_second",
    "/stages/0/name",
    "/stages/0/cpu_percent",
    "/stages/0/rho",
    "/stages/0/in",
    "/stages/0/out",
    "/stages/0/lost",
    "/stages/0/high_water",
    "/stages/0/sleeps",
    "/stages/0/wakes",
    "/poll",
    "/placement/threads/0/node",
    "/memory/page_size",
    "/memory/node",
    "/memory/resident_bytes",
    "/timestamp/source",
    "/timestamp/clock",
    "/timestamp/resolution_ns",
    "/cpu/user_s",
    "/cpu/system_s",
    "/cpu/softirq_s",
    "/cpu/rho_total",
    "/cpu/rho_busy",
    "/cpu/context_switches",
];

fn assert_contract(report: &Value) {
    for key in KEYS {
        assert!(report.pointer(key).is_some(), "{key} is missing: {report}");
    }
    assert_closed(report);
    let number = |key| report.pointer(key).and_then(Value::as_f64).unwrap();
    let seconds = number("/elapsed_s");
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    assert!(near(number("/total/pps") * seconds, number("/total/delivered")), "{report}");
    let bits = number("/total/bytes") * 8.0;
    assert!(near(number("/total/l2_bits_per_s") * seconds, bits), "{report}");
    let bits = bits + number("/total/delivered") * 24.0 * 8.0;
    assert!(near(number("/total/line_bits_per_s") * seconds, bits), "{report}");
}

#[test]
fn count_keeps_the_contract() {
    let report = run_json(&["count", REAL, "gen:?packets=1000&size=64"], 0);
    assert_contract(&report);
    assert_eq!(report["command"], "count");
    assert_eq!(report["ports"][0]["delivered"], REAL_PACKETS);
    assert_eq!(report["ports"][1]["bytes"], 60_000);
    assert_eq!(report["total"]["bytes_copied"], 0);
    assert_eq!(report["timestamp"]["source"], "file+synthetic");
}

#[test]
fn capture_keeps_the_contract() {
    let directory = Directory::new("json");
    let file = directory.file("a.pcapng");
    let report = run_json(&["capture", REAL, "-w", &file, "--buffer", "4m"], 0);
    assert_contract(&report);
    assert_eq!(report["total"]["delivered"], REAL_PACKETS);
    assert_eq!(report["memory"]["log_bytes"], 4 << 20);
    let names: Vec<_> = report["stages"].as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["receive", "record"]);
    assert!(report["total"]["bytes_copied"].as_u64() >= report["total"]["bytes"].as_u64());
}

#[test]
fn packets_cut_by_a_snapshot_length_keep_their_length_on_the_wire() {
    let whole = run_json(&["count", REAL], 0);
    let cut = run_json(&["count", REAL, "--snaplen", "60"], 0);
    assert_closed(&cut);
    assert_eq!(cut["total"]["wire_bytes"], whole["total"]["bytes"]);
    assert!(cut["total"]["bytes"].as_u64() < Some(REAL_PACKETS * 60 + 1));
    assert!(cut["total"]["truncated"].as_u64() > Some(0));
}

#[test]
fn fragments_that_did_not_follow_their_flow_are_told() {
    let directory = Directory::new("json-fragments");
    let file = directory.file("parts.pcap");
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    bytes.extend([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]].as_flattened());
    // Datagram 7: its end without its beginning. Datagram 8: both, in order.
    for (datagram, offset) in [(7, 3), (8, 0), (8, 3)] {
        let more = if offset == 0 { 0x20 } else { 0 };
        let mut packet = vec![2; 12];
        packet.extend([8, 0, 0x45, 0, 0, 44, 0, datagram, more, offset, 64, 17, 0, 0]);
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([0; 24]);
        let length = packet.len() as u32;
        bytes.extend([0, 0, length, length].map(u32::to_le_bytes).as_flattened());
        bytes.extend(packet);
    }
    std::fs::write(&file, bytes).unwrap();
    let report = run_json(&["count", &file, "--hash", "five-tuple"], 0);
    assert_closed(&report);
    for place in ["/total", "/ports/0"] {
        assert_eq!(report.pointer(place).unwrap()["fragments_unmatched"], 1, "{report}");
    }
    let text = run(&["count", &file, "--hash", "five-tuple"]).stdout;
    let line = "hash     1 fragment without the first one of the packet: not hashed with its flow";
    assert!(text.lines().any(|found| found == line), "{text}");
    let text = run(&["count", &file]).stdout;
    assert!(!text.contains("without the first"), "{text}");
}

#[test]
fn intervals_are_lines_before_the_object() {
    let arguments = ["count", "gen:?rate=100k", "--duration", "1s", "--stats", "50ms", "--json"];
    let run = run_with_code(&arguments, 0);
    let lines: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (report, intervals) = lines.split_last().unwrap();
    assert!(report.get("interval").is_none() && !intervals.is_empty());
    let mut sum = 0;
    for (index, interval) in intervals.iter().enumerate() {
        assert_eq!(interval["interval"], index + 1);
        sum += interval["interval_delivered"].as_u64().unwrap();
        assert_eq!(interval["delivered"], sum);
    }
    assert!(Some(sum) <= report["total"]["delivered"].as_u64());
    assert_contract(report);
}

#[test]
fn text_and_json_never_mix() {
    let run = run(&["count", REAL, "--json", "--quiet"]);
    assert_eq!(run.stdout.lines().count(), 1);
    assert_closed(&last_object(&run.stdout));
    let run = crate::support::run(&["count", REAL, "--quiet"]);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
    let run = crate::support::run(&["count", REAL, "gen:?packets=5"]);
    assert!(
        run.stdout.contains("154") && run.stdout.ends_with("0 unaccounted\n"),
        "{}",
        run.stdout
    );
}
