//! The positions of packets in records, checked with tshark and the file's own bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::collectors::ask;
use crate::support::{Directory, command, other, other_or_skip, run_json};
use serde_json::Value;

/// Size of a segment here, and the offset of its trailer. Source: docs/format.md.
const SEGMENT_BYTES: usize = 64 << 10;
const TRAILER_AT: usize = SEGMENT_BYTES - 144;

/// A record's ID and its first packet's file, segment and number.
struct Placed {
    id: String,
    file: Option<String>,
    segment: Option<u64>,
    number: u64,
}

/// Returns the records of a job that ends before its conversations do, or `None` without DuckDB.
fn placed(directory: &Directory, tree: &str, arguments: &[&str]) -> Option<Vec<Placed>> {
    let tree = directory.file(tree);
    let long = ["--idle", "10h", "--active", "10h", "--sensor", "s", "-o", &tree];
    run_json(&[&["flows"], arguments, &long[..]].concat(), 0);
    placed_in(&tree)
}

fn placed_in(tree: &str) -> Option<Vec<Placed>> {
    let rows = ask(tree, "SELECT flow_id, file, segment, packet_number FROM flows")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let of = |row: &Value| Placed {
        id: text(&row[0]).unwrap(),
        file: text(&row[1]),
        segment: row[2].as_u64(),
        number: row[3].as_u64().unwrap(),
    };
    Some(rows.iter().map(of).collect())
}

/// Returns each frame's conversation by number, by tshark, of frames that `filter` accepts.
fn ids(file: &str, filter: &str) -> Option<BTreeMap<u64, String>> {
    let fields = ["-T", "fields", "-e", "frame.number", "-e", "communityid", "-Y", filter];
    let read = ["-r", file, "--enable-protocol", "communityid"];
    let tshark = other("tshark", &[&read[..], &fields].concat())?;
    assert_eq!(tshark.code, Some(0), "{}", tshark.stderr);
    let lines = tshark.stdout.lines().map(|line| line.split_once('\t').unwrap());
    Some(lines.map(|(number, id)| (number.parse().unwrap(), id.to_owned())).collect())
}

/// Returns the number of each conversation's first frame.
fn first_frames(file: &str, filter: &str) -> Option<BTreeMap<String, u64>> {
    let all = ids(file, filter)?;
    // Insert from last to first, so that the first frame of a name stays.
    Some(all.into_iter().rev().map(|(number, id)| (id, number)).collect())
}

/// Fails unless each record's first packet is where the record says.
fn check(records: &[Placed], file: &str, filter: &str) {
    let path = fs::canonicalize(file).unwrap();
    assert!(records.len() > 20, "{}", records.len());
    for Placed { file, .. } in records {
        assert_eq!(file.as_deref().map(Path::new), Some(&*path));
    }
    let Some(first) = first_frames(file, filter) else { return };
    for Placed { id, number, .. } in records {
        assert_eq!(first.get(id), Some(number), "{id}");
    }
    assert_eq!(records.len(), first.len());
}

#[test]
fn tshark_and_the_trailers_have_each_first_packet_where_its_record_says() {
    let directory = Directory::new("flows-places");
    let load = "gen:?packets=4000&size=imix&flows=300&ip=mix&protocol=mix";
    let (recording, plain) = (directory.file("r.pcapng"), directory.file("p.pcap"));
    let segmented = format!("{recording}?segment=64k");
    run_json(&["capture", load, "-o", &segmented], 0);
    run_json(&["capture", &recording, "-w", &plain], 0);
    let bytes = fs::read(&recording).unwrap();
    for (tree, filter, shown) in [("all", "", "ip or ipv6"), ("some", "udp", "udp")] {
        let filters = [&[&recording[..]][..], &["--filter", filter]].concat();
        let arguments = if filter.is_empty() { &filters[..1] } else { &filters[..] };
        let Some(records) = placed(&directory, tree, arguments) else { return };
        check(&records, &recording, shown);
        let mut segments = BTreeMap::new();
        for Placed { segment, number, .. } in &records {
            let segment = segment.unwrap();
            *segments.entry(segment).or_insert(0) += 1;
            let trailer = &bytes[segment as usize * SEGMENT_BYTES + TRAILER_AT..];
            let word = |at: usize| u64::from_le_bytes(*trailer[at..].first_chunk().unwrap());
            let packets = u32::from_le_bytes(*trailer[16..].first_chunk().unwrap());
            assert_eq!((&trailer[..8], word(24)), (&b"BurstSeg"[..], segment));
            // Trailers count from 0.
            let numbers = word(32) + 1..word(32) + 1 + u64::from(packets);
            assert!(
                numbers.contains(number),
                "{number} is not in {numbers:?} of segment {segment}"
            );
        }
        assert!(segments.len() > 1, "{segments:?}");
        let Some(records) = placed(&directory, &format!("{tree}-plain"), &[&plain]) else { return };
        assert!(records.iter().all(|record| record.segment.is_none()));
        check(&records, &plain, "ip or ipv6");
    }
}

#[test]
fn each_file_of_a_set_has_its_own_numbers() {
    if other_or_skip("tshark", &["--version"]).is_none() {
        return;
    }
    let directory = Directory::new("flows-places-set");
    let folder = directory.file("set");
    fs::create_dir(&folder).unwrap();
    for name in ["b", "a"] {
        let load =
            format!("gen:?packets=500&flows=40&seed={}", name.len() + usize::from(name == "a"));
        run_json(&["capture", &load, "-w", &format!("{folder}/{name}.pcap")], 0);
    }
    let Some(records) = placed(&directory, "tree", &[&format!("set:{folder}")]) else { return };
    let mut by_file: BTreeMap<String, Vec<Placed>> = BTreeMap::new();
    for record in records {
        by_file.entry(record.file.clone().unwrap()).or_default().push(record);
    }
    assert!(!by_file.is_empty());
    for (file, records) in by_file {
        let Some(first) = first_frames(&file, "ip") else { return };
        for Placed { id, number, .. } in records {
            assert_eq!(first.get(&id), Some(&number), "{file}");
        }
    }
}

#[test]
fn what_lies_in_no_file_names_none() {
    let directory = Directory::new("flows-places-none");
    let Some(records) = placed(&directory, "made", &["gen:?packets=100&flows=9"]) else { return };
    assert!(records.iter().all(|record| record.file.is_none() && record.segment.is_none()));
    let pcap = directory.file("x.pcap");
    run_json(&["capture", "gen:?packets=100&flows=9", "-w", &pcap], 0);
    let tree = directory.file("piped");
    let mut job = command(&["flows", "-", "-o", &tree, "--sensor", "s", "-q"]);
    let done = job.stdin(fs::File::open(&pcap).unwrap()).status().unwrap();
    assert!(done.success());
    // A file as standard input has no name.
    for Placed { file, number, .. } in placed_in(&tree).unwrap() {
        assert_eq!(file, None);
        assert!((1..=100).contains(&number));
    }
}

/// A recorder and `flows` read one published log: numbers are the recording's, and trailers map
/// them to segments.
#[test]
fn beside_a_recorder_numbers_are_those_of_its_recording() {
    if other_or_skip("tshark", &["--version"]).is_none() {
        return;
    }
    let directory = Directory::new("flows-places-log");
    let (recording, tree) = (directory.file("r.pcapng"), directory.file("tree"));
    let run_time = directory.file("run");
    fs::create_dir(&run_time).unwrap();
    let load = "gen:?packets=20000&rate=20000&flows=300";
    // It waits for the recorder, which is there for a second.
    let mut job = command(&["flows", "log:places?wait=60s", "-o", &tree, "--sensor", "s", "-q"]);
    job.args(["--idle", "10h", "--filter", "ip"]).env("BURSTLINE_RUN", &run_time);
    let mut job = job.spawn().unwrap();
    let mut recorder = command(&["capture", load, "--publish", "places", "-q"]);
    let segmented = format!("{recording}?segment=64k");
    recorder.args(["-o", &segmented]).env("BURSTLINE_RUN", &run_time);
    let recorded = recorder.stdout(Stdio::null()).status().unwrap();
    let done = job.wait().unwrap();
    assert!(done.success() && recorded.success());
    let Some(records) = placed_in(&tree) else { return };
    let Some(ids) = ids(&recording, "ip") else { return };
    // The job may have attached late: then a record begins later than its conversation.
    let last_late = records.iter().map(|record| record.number).min().unwrap();
    for Placed { id, number, file, segment } in &records {
        assert_eq!((file, segment), (&None, &None));
        assert_eq!(ids.get(number), Some(id), "{number}");
        let earlier = ids.range(last_late..*number).find(|(_, earlier)| *earlier == id);
        assert_eq!(earlier, None, "{number}");
    }
    assert!(records.len() > 20, "{}", records.len());
}
