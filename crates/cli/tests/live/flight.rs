//! The flight recorder: nothing is written until a trigger, then the history is written, too. The
//! ledger closes over packets kept, written and expired.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use crate::support::endless::{self, Endless};
use crate::support::live::{Live, send_frames, wait_until};
use crate::support::{Directory, assert_closed, command, is_root, judged_packets, run};
use burstline_testbed::{Bed, FAR};
use serde_json::Value;

const FRAMES: u64 = 5_000;

/// Starts a recorder of paced packets.
fn start(arguments: &[&str]) -> Endless {
    endless::spawn(command(&[&["capture", "--pages", "4k"], arguments].concat()))
}

fn end(job: Endless, name: &str) -> Value {
    let report = endless::end(job, name);
    assert_closed(&report);
    report
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn is_received(packets: u64) -> impl Fn(&Value) -> bool {
    move |interval| interval["received"].as_u64() >= Some(packets)
}

/// Returns the packets of all files of a report, after other programs have counted them, too.
fn packets_written(report: &Value) -> u64 {
    let mut sum = 0;
    for file in report["flight"]["files"].as_array().unwrap() {
        let (path, packets) = (file["name"].as_str().unwrap(), number(&file["packets"]));
        for (who, count) in judged_packets(path) {
            assert_eq!(count, packets, "{who} on {path}");
        }
        let counted = crate::support::run_json(&["count", path], 0);
        assert_eq!(number(&counted["total"]["delivered"]), packets, "{path}");
        sum += packets;
    }
    sum
}

#[test]
fn without_a_trigger_there_is_no_file_and_all_has_expired() {
    let directory = Directory::new("flight-none");
    let file = directory.file("a.pcapng");
    let source = "gen:?rate=20k&pace=yes";
    let mut job = start(&[source, "--keep", "1h", "--buffer", "8m", "-w", &file]);
    job.wait_for(is_received(1000));
    let interval = job.wait_for(|interval| interval["kept_s"].as_f64() > Some(0.0));
    assert_eq!(interval["files"], 0, "{interval}");
    let report = end(job, "-INT");
    let total = &report["total"];
    assert_eq!((&total["delivered"], &total["lost"]["expired"]), (&0.into(), &total["offered"]));
    assert_eq!(report["flight"]["files"], Value::Array(Vec::new()));
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn a_trigger_writes_what_was_before_it_and_an_end_in_between_ends_the_file_well() {
    let directory = Directory::new("flight-one");
    for (how, format) in [("-INT", "segmented"), ("-TERM", "pcapng"), ("-INT", "pcap")] {
        let file = directory.file(format);
        let job = ["gen:?rate=20k&pace=yes", "--keep", "1h", "--after", "1h", "--buffer", "32m"];
        let mut job = start(&[&job[..], &["-w", &file, "--format", format]].concat());
        job.wait_for(is_received(1000));
        endless::signal(&job.child, "-USR1");
        let at = job.wait_for(|interval| interval["delivered"].as_u64() >= Some(1000));
        endless::signal(&job.child, "-USR1");
        job.wait_for(is_received(number(&at["received"]) + 1000));
        let report = end(job, how);
        // Everything was kept, from the first packet on, and the job ended before the file.
        assert_eq!(report["total"]["delivered"], report["total"]["offered"], "{report}");
        let flight = &report["flight"];
        assert_eq!(flight["files"][0]["triggers"], 2, "{flight}");
        assert_eq!(packets_written(&report), number(&report["total"]["offered"]));
    }
}

#[test]
fn what_came_before_the_time_asked_for_is_not_in_the_file() {
    let directory = Directory::new("flight-trim");
    let file = directory.file("a.pcapng");
    // A segment has room for all packets.
    let job = ["gen:?rate=2k&pace=yes", "--keep", "200ms", "--after", "1h", "--buffer", "64m"];
    let mut job = start(&[&job[..], &["-w", &file]].concat());
    let old = number(&job.wait_for(is_received(200))["received"]);
    std::thread::sleep(Duration::from_secs(1));
    endless::signal(&job.child, "-USR1");
    job.wait_for(|interval| interval["delivered"].as_u64() > Some(0));
    let report = end(job, "-INT");
    let total = &report["total"];
    let (delivered, expired) = (number(&total["delivered"]), number(&total["lost"]["expired"]));
    assert!(expired >= old, "{expired} of {old} packets of a second ago");
    assert_eq!(delivered + expired, number(&total["offered"]));
    assert_eq!(packets_written(&report), delivered);
    assert_eq!(report["flight"]["files"][0]["kept_s"], 0.2, "{report}");
}

/// A segment has room for the packets of minutes.
#[test]
fn a_killed_recorder_leaves_the_history_and_what_came_after() {
    let directory = Directory::new("flight-killed");
    let file = directory.file("a.pcapng");
    let job = ["gen:?rate=50&pace=yes", "--keep", "1h", "--after", "1h", "--buffer", "8m"];
    let mut job = start(&[&job[..], &["-w", &file, "--format", "segmented"]].concat());
    let before = number(&job.wait_for(is_received(50))["received"]);
    endless::signal(&job.child, "-USR1");
    // The header and one segment.
    wait_until("a flush", || fs::metadata(&file).is_ok_and(|found| found.len() == 2 << 20));
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    let counted = crate::support::run_json(&["count", &file], 1);
    let left = number(&counted["total"]["delivered"]);
    assert!(left >= before, "{left} of {before} before the trigger: {counted}");
}

#[test]
fn each_trigger_has_its_file_and_no_packet_is_in_two() {
    let directory = Directory::new("flight-two");
    let file = directory.file("a.pcapng");
    fs::write(&file, "somebody's").unwrap();
    let job = ["gen:?rate=20k&pace=yes", "--keep", "1h", "--after", "100ms", "--buffer", "64m"];
    let mut job = start(&[&job[..], &["-w", &file]].concat());
    let mut received = 0;
    for files in 1..=2 {
        job.wait_for(is_received(received + 1000));
        endless::signal(&job.child, "-USR1");
        job.wait_for(|interval| interval["files"] == files);
        let written = job.wait_for(|interval| interval["writing"] == false);
        received = number(&written["received"]);
    }
    job.wait_for(is_received(received + 1000));
    let report = end(job, "-INT");
    let written = packets_written(&report);
    assert_eq!(number(&report["total"]["delivered"]), written);
    assert_eq!(fs::read_to_string(&file).unwrap(), "somebody's", "nothing is overwritten");
    let names = ["a-2.pcapng", "a-3.pcapng"].map(|name| directory.file(name));
    let files = report["flight"]["files"].as_array().unwrap();
    assert!(files.iter().map(|file| &file["name"]).eq(&names), "{files:?}");
    let mode = |name| fs::metadata(name).unwrap().permissions().mode() & 0o7777;
    assert_eq!(names.each_ref().map(mode), [0o600; 2], "packets are their owner's");
    // The second file continues where the first ended; packets expire only after it.
    let expired = number(&report["total"]["lost"]["expired"]);
    assert!(expired >= 1000 && expired + written == number(&report["total"]["offered"]));
}

#[test]
fn too_little_memory_is_said_with_what_would_be_enough() {
    let directory = Directory::new("flight-small");
    let file = directory.file("a.pcapng");
    let source = "gen:?packets=100000&size=256";
    let keep = ["--keep", "1h", "--buffer", "2m", "--pages", "4k"];
    let job = [&["capture", source, "-w", &file], &keep[..]].concat();
    let report = crate::support::run_json(&job, 0);
    assert_closed(&report);
    let flight = &report["flight"];
    assert!(flight["shortest_s"].as_f64() < Some(3600.0), "{flight}");
    assert!(number(&flight["wanted_buffer"]) > 2 << 20, "{flight}");
    assert_eq!(report["total"]["lost"]["expired"], 100_000);
    let text = run(&job).stdout;
    assert!(text.contains("left out 100,000 expired: "), "{text}");
    assert!(text.contains(" would hold all"), "{text}");
}

#[test]
fn what_cannot_be_written_is_said_before_it_begins() {
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let run = run(&[&["capture", "gen:?packets=1"], arguments].concat());
        assert_eq!(run.code, Some(code), "{}", run.stderr);
        assert!(run.stderr.contains(word), "{}", run.stderr);
    };
    refused(&["--keep", "1s", "-w", "-"], 2, "--keep writes a file");
    refused(&["--trigger", "drop", "-w", "x"], 2, "--keep <TIME>");
    refused(&["--after", "1s", "-w", "x"], 2, "--keep <TIME>");
    refused(&["--keep", "1s", "-w", "/nowhere/x"], 1, "create /nowhere/x: ");
    let directory = Directory::new("flight-refused");
    if is_root() {
        // A folder of another user that only the owner can write: root without capabilities cannot.
        let theirs = directory.file("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&theirs, Some(65534), Some(65534)).unwrap();
        let file = format!("{theirs}/x");
        refused(&["--keep", "1s", "-w", &file], 1, "--keep-privileges");
        let kept = ["capture", "gen:?packets=9", "--keep", "1s", "-w", &file, "--keep-privileges"];
        assert_eq!(run(&kept).code, Some(0));
    }
}

fn signal(live: &Live, name: &str) {
    let process = live.program.process_id();
    burstline_testbed::signal(process, name).unwrap();
}

/// Returns the last complete interval line, if there is one.
fn latest(live: &Live) -> Option<Value> {
    let text = live.text();
    let whole = &text[..text.rfind('\n')?];
    serde_json::from_str(whole.lines().last()?).ok()
}

fn wait_for(live: &Live, key: &str, packets: u64) {
    wait_until(key, || latest(live).is_some_and(|now| now[key].as_u64() >= Some(packets)));
}

#[test]
fn live_packets_from_before_the_trigger_are_in_the_file() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("flight-live");
    let file = directory.file("a.pcapng");
    let options = "--keep 1h --after 1h --buffer 32m --pages 4k";
    let live = Live::start(&bed, &directory, &format!("capture {FAR} {options} -w {file}"));
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    wait_for(&live, "received", FRAMES);
    assert!(!fs::exists(&file).unwrap(), "nothing is written before");
    signal(&live, "-USR1");
    wait_for(&live, "delivered", FRAMES);
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    wait_for(&live, "delivered", 2 * FRAMES);
    let report = live.stop();
    assert_eq!(report["total"]["delivered"], 2 * FRAMES);
    assert_eq!((report["total"]["offered"].clone(), packets_written(&report)), {
        (Value::from(2 * FRAMES), 2 * FRAMES)
    });
}

#[test]
fn a_drop_is_a_trigger() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("flight-drop");
    let file = directory.file("a.pcapng");
    let source = format!("'afpacket:{FAR}?block=128k&blocks=2'");
    let options = "--keep 1h --trigger drop --after 50ms --buffer 32m --pages 4k";
    let live = Live::start(&bed, &directory, &format!("capture {source} {options} -w {file}"));
    signal(&live, "-USR1"); // not a trigger here, but it must not end the program either
    // A stopped program does not empty the ring, so it overflows.
    signal(&live, "-STOP");
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    signal(&live, "-CONT");
    wait_for(&live, "files", 1);
    // A loss that is explained is no failure.
    let report = live.stop();
    let lost = number(&report["total"]["lost"]["rx_ring_full"]);
    assert!(lost > 0, "{report}");
    assert_eq!(number(&report["total"]["offered"]), FRAMES);
    assert!(packets_written(&report) > 0);
    assert_eq!(packets_written(&report), number(&report["total"]["delivered"]));
}
