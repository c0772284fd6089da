//! Sets that are read while their recorders write them: `set:FOLDER?follow=yes`.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::endless::{Endless, end, signal, spawn, start};
use crate::support::live::wait_until;
use crate::support::{Directory, assert_closed, command, last_object, run_json};

/// Starts a job that follows the captures of a folder, which may have none.
fn follow(folder: &str, verb: &[&str]) -> Endless {
    let set = format!("set:{folder}?follow=yes");
    spawn(command(&[&verb[..1], &[&set], &verb[1..]].concat()))
}

/// Waits until the job has delivered this many packets, and ends it. The last packet of a pcap
/// comes with the one behind it, or at the end.
fn end_after(mut job: Endless, packets: u64) -> Value {
    job.wait_for(|interval| interval["delivered"].as_u64() >= Some(packets.max(2) - 1));
    let report = end(job, "-INT");
    assert_closed(&report);
    report
}

#[test]
fn the_files_of_a_rotation_are_read_while_it_is_written() {
    let directory = Directory::new("followed");
    for (name, flags) in [
        ("x.pcapng", &["-b", "packets:1000"][..]),
        ("x.pcapng", &["-b", "filesize:3000", "--format", "segmented", "--flush", "20ms,64KiB"]),
        ("x.pcapng.zst", &["-b", "packets:3000"]),
        ("x.pcap", &["-b", "packets:1500", "--format", "pcap-ns"]),
        ("x.pcap", &["-C", "1"]),
    ] {
        let folder = directory.file("r");
        fs::create_dir(&folder).unwrap();
        let (to, copied) = (format!("{folder}/{name}"), directory.file("copied.pcap"));
        let count = follow(&folder, &["count"]);
        let copy = follow(&folder, &["capture", "-w", &copied]);
        let load = "gen:?packets=20000&rate=20000&size=500&pace=yes";
        let written = run_json(&[&["capture", load, "-w", &to], flags].concat(), 0);
        assert_eq!(written["total"]["delivered"], 20000, "{name}: {written}");
        let report = end_after(count, 20000);
        assert_eq!(report["total"]["delivered"], 20000, "{flags:?}: {report}");
        let report = end_after(copy, 20000);
        assert_eq!(report["total"]["delivered"], 20000, "{flags:?}: {report}");
        // The same packets, once and in the same order.
        let (set, read) = (format!("set:{folder}"), directory.file("read.pcap"));
        run_json(&["capture", &set, "-w", &read], 0);
        let [copied, read] = [&copied, &read].map(|path| fs::read(path).unwrap());
        assert!(copied == read, "{flags:?}: {} and {} bytes", copied.len(), read.len());
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// Packets of a file come before it is closed. At the end, what is safe is read.
#[test]
fn a_file_is_read_as_it_grows() {
    let directory = Directory::new("growing");
    for (name, format) in [("x.pcapng", "segmented"), ("x.pcapng", "pcapng"), ("x.pcap", "pcap-ns")]
    {
        let folder = directory.file("r");
        fs::create_dir(&folder).unwrap();
        let to = format!("{folder}/{name}");
        let load = "gen:?rate=10000&size=1000&pace=yes";
        let flags = ["--format", format, "--flush", "20ms,64KiB"];
        let recorder = start(&[&["capture", load, "-w", &to][..], &flags].concat());
        let mut count = follow(&folder, &["count"]);
        count.wait_for_packets();
        let early = follow(&folder, &["count"]);
        let early = end_after(early, 1);
        assert!(early["total"]["delivered"].as_u64() > Some(0), "{early}");
        let written = end(recorder, "-INT")["total"]["delivered"].as_u64().unwrap();
        let report = end_after(count, written);
        assert_eq!(report["total"]["delivered"], written, "{format}: {report}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// Returns the number of the newest file of a ring.
fn newest(folder: &str) -> u64 {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let number = |name: OsString| name.to_str()?.split('_').nth(1)?.parse().ok();
    names.filter_map(number).max().unwrap_or(0)
}

/// The ring goes on while the reader sleeps.
#[test]
fn what_a_ring_has_removed_before_it_was_read_is_counted_by_name() {
    let directory = Directory::new("overtaken");
    let folder = directory.file("r");
    fs::create_dir(&folder).unwrap();
    let to = format!("{folder}/x.pcapng");
    let mut count = follow(&folder, &["count"]);
    let load = "gen:?rate=4000&size=500&pace=yes";
    let recorder = start(&["capture", load, "-w", &to, "-b", "packets:500", "-b", "files:2"]);
    count.wait_for_packets();
    signal(&count.child, "-STOP");
    let stopped = newest(&folder);
    wait_until("the ring has gone on", || newest(&folder) > stopped + 5);
    let written = end(recorder, "-INT")["total"]["delivered"].as_u64().unwrap();
    signal(&count.child, "-CONT");
    signal(&count.child, "-INT");
    let mut rest = String::new();
    count.lines.read_to_string(&mut rest).unwrap();
    let report = last_object(&rest);
    assert_closed(&report);
    let total = &report["total"];
    let missing = total["lost"]["missing_segments"].as_u64().unwrap_or(0);
    assert!(missing >= 1500, "{report}");
    // Only what was removed before the reader came is in no count.
    let offered = total["offered"].as_u64().unwrap();
    let is_from_first = report["notes"].to_string().contains("_00001_");
    assert!(offered == written || offered < written && !is_from_first, "{written}: {report}");
    assert_eq!(count.child.wait().unwrap().code(), Some(1), "{report}");
}

/// Writes packets to a file of the folder as another program does: without a lock.
fn write_unlocked(to: &str, pause: &str) -> Child {
    let load = "gen:?packets=300&rate=100&size=500&pace=yes";
    let writer = command(&["capture", load, "-w", "-", "--format", "pcap-ns", "--flush", "10ms"]);
    let program = writer.get_program().to_str().unwrap();
    let words: Vec<_> = writer.get_args().map(|word| word.to_str().unwrap()).collect();
    let line = format!("sleep {pause}; {program} '{}' | cat > '{to}'", words.join("' '"));
    Command::new("sh").args(["-c", &line]).stderr(Stdio::null()).spawn().unwrap()
}

/// The file that was begun first is not finished when the other one is there.
#[test]
fn the_files_of_two_other_programs_are_read_to_their_ends() {
    let directory = Directory::new("two-writers");
    let folder = directory.file("r");
    fs::create_dir(&folder).unwrap();
    let count = follow(&folder, &["count"]);
    let writers = [("a.pcap", "0"), ("b.pcap", "1")];
    let writers = writers.map(|(name, pause)| write_unlocked(&format!("{folder}/{name}"), pause));
    writers.into_iter().for_each(|mut writer| assert!(writer.wait().unwrap().success()));
    let report = end(count, "-INT");
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 600, "{report}");
}

/// The job's own files lie in the folder that it follows.
#[test]
fn a_set_does_not_read_what_its_job_writes() {
    let directory = Directory::new("own-output");
    let folder = directory.file("r");
    fs::create_dir(&folder).unwrap();
    let to = format!("{folder}/out.pcap");
    let mut copy = follow(&folder, &["capture", "-w", &to, "-b", "packets:500"]);
    let load = "gen:?packets=3000&rate=3000&size=500&pace=yes";
    let from = format!("{folder}/in.pcapng");
    run_json(&["capture", load, "-w", &from, "-b", "packets:700"], 0);
    copy.wait_for(|interval| interval["delivered"].as_u64() >= Some(2999));
    thread::sleep(Duration::from_millis(500));
    let report = end(copy, "-INT");
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 3000, "{report}");
}
