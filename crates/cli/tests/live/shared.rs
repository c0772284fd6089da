//! Published logs and programs that read them: real processes, exact counts.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Command;

use crate::support::rights::{can_trace, traced};
use crate::support::sharing::{Names, pcap_header, pcap_packets, reader_of};
use crate::support::{Directory, PROGRAM, REAL, REAL_PACKETS, is_root, judged_packets, other};
use burstline_skip::skip;
use serde_json::Value;

/// Publishes packets from a pipe; a small log keeps the tests short.
const FROM_PIPE: [&str; 8] =
    ["count", "-", "--pages", "4k", "--buffer", "8m", "--publish", "tap?lossless=forever"];

#[test]
fn every_verb_reads_what_is_published() {
    let names = Names::new("shared-verbs");
    let mut publisher = names.start(&FROM_PIPE);
    names.wait_for_readers("tap", 0);
    let file = names.0.file("copy.pcapng");
    let packets = REAL_PACKETS.to_string();
    let count = names.start(&["count", "log:tap"]);
    let untrusting = names.start(&["count", "log:tap?lossless&untrusted"]);
    let capture = names.start(&["capture", "log:tap?lossless", "-w", &file]);
    // A job with its own log.
    let second = names.0.file("second.pcapng");
    let log = ["--segment", "256k", "--pages", "4k", "--buffer", "4m", "--packets", &packets];
    let copy = names.start(&[&["capture", "log:tap?lossless", "-w", &second][..], &log].concat());
    let pipe = names.0.file("pipe.pcapng");
    let piped = names
        .command(&["capture", "log:tap", "-w", "-", "--packets", "7"])
        .stdout(fs::File::create(&pipe).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn();
    names.wait_for_readers("tap", 5);
    publisher.feed(&fs::read(REAL).unwrap());
    publisher.close_input();
    let published = publisher.end();
    assert!(piped.unwrap().wait().unwrap().success());
    assert_eq!(published["published"]["ending"], "final");
    assert_eq!(published["published"]["packets"], serde_json::json!([REAL_PACKETS]));
    for (job, copies) in [(count, false), (untrusting, false), (capture, true), (copy, true)] {
        let pid = job.pid();
        let report = job.end();
        let total = &report["total"];
        let seen = (&total["offered"], &total["delivered"], &total["lost_total"]);
        assert_eq!(seen, (&REAL_PACKETS.into(), &REAL_PACKETS.into(), &0.into()), "{report}");
        assert_eq!(total["bytes_copied"] != 0, copies, "{report}");
        assert_eq!(report["timestamp"]["source"], "file");
        let told = reader_of(&published, pid);
        assert_eq!((&told["delivered"], &told["missed"]), (&REAL_PACKETS.into(), &0.into()));
    }
    let listed = |path: &str| Some(other("tcpdump", &["-tt", "-nn", "-r", path])?.stdout);
    for path in [&file, &second] {
        for (who, packets) in judged_packets(path) {
            assert_eq!(packets, REAL_PACKETS, "{who}");
        }
        assert_eq!(listed(path), listed(REAL), "the same packets at the same times");
    }
    assert!(judged_packets(&pipe).iter().all(|&(_, packets)| packets == 7));
}

#[test]
fn a_filter_and_a_length_are_this_readers_own() {
    let names = Names::new("shared-filter");
    let mut publisher = names.start(&FROM_PIPE);
    names.wait_for_readers("tap", 0);
    let count =
        |source: &str| names.start(&["count", source, "--filter", "udp or arp", "--snaplen", "20"]);
    let readers = [count("log:tap?lossless"), count("log:tap?untrusted&lossless")];
    names.wait_for_readers("tap", 2);
    publisher.feed(&fs::read(REAL).unwrap());
    publisher.close_input();
    publisher.end();
    let wanted = names.run(&["count", REAL, "--filter", "udp or arp", "--snaplen", "20", "--json"]);
    let wanted = crate::support::last_object(&wanted.stdout);
    for reader in readers {
        let report = reader.end();
        for key in ["offered", "delivered", "bytes", "wire_bytes", "truncated", "lost_total"] {
            assert_eq!(report["total"][key], wanted["total"][key], "{key}: {report}");
        }
    }
}

#[test]
fn a_reader_follows_its_writers_and_says_how_often_one_was_down() {
    let names = Names::new("shared-restart");
    let mut readers = Vec::new();
    let (mut first, mut begun) = (None, 0);
    for (number, packets) in [(1_u32, 1000_u32), (2, 500), (3, 250)] {
        let mut publisher = names.start(&FROM_PIPE);
        names.wait_for_readers("tap", if number == 1 { 0 } else { 2 });
        if number == 1 {
            readers.push(names.start(&["count", "log:tap?lossless"]));
            readers.push(names.start(&["count", "log:tap?untrusted"]));
            first = Some(names.start(&["count", "log:tap?follow=no"]));
        }
        let found = names.wait_for_readers("tap", if number == 1 { 3 } else { 2 });
        let epoch = found["epoch"].as_u64().unwrap();
        begun = if number == 1 { epoch } else { begun };
        assert_eq!(epoch, begun + u64::from(number) - 1);
        publisher.feed(&pcap_header());
        publisher.feed(&pcap_packets(0, packets));
        names.wait_until_read("tap", packets.into());
        match number {
            1 => {
                publisher.signal("-TERM");
                let report = publisher.end();
                assert_eq!(report["published"]["ending"], "stopped", "{report}");
            }
            2 => publisher.kill(),
            _ => {
                publisher.close_input();
                assert_eq!(publisher.end()["published"]["ending"], "final");
            }
        }
    }
    for reader in readers {
        let report = reader.end();
        let row = &report["ports"][0];
        let seen = (&row["offered"], &row["delivered"], &row["writer_down"]);
        assert_eq!(seen, (&1750.into(), &1750.into(), &2.into()), "{report}");
        let notes = report["notes"].to_string();
        for (epoch, how) in
            (begun..).zip(["was stopped; waiting", "died; waiting", "attached after"])
        {
            let said = format!("epoch {epoch}, {how}");
            assert!(notes.contains(&said), "{said}: {notes}");
        }
    }
    let report = first.unwrap().end();
    let row = &report["ports"][0];
    assert_eq!((&row["delivered"], &row["writer_down"]), (&1000.into(), &1.into()), "{report}");
}

#[test]
fn a_reader_that_comes_late_to_a_writer_says_what_it_never_had() {
    let names = Names::new("shared-late");
    let small = ["count", "-", "--pages", "4k", "--buffer", "1m", "--segment", "64k"];
    let publishing = [&small[..], &["--publish", "tap"]].concat();
    let mut first = names.start(&publishing);
    names.wait_for_readers("tap", 0);
    let reader = names.start(&["count", "log:tap"]);
    names.wait_for_readers("tap", 1);
    first.feed(&pcap_header());
    first.feed(&pcap_packets(0, 100));
    names.wait_until_read("tap", 100);
    reader.signal("-STOP");
    first.kill();
    let mut second = names.start(&publishing);
    names.wait_for_readers("tap", 0);
    // More than fits into the log.
    second.feed(&pcap_header());
    second.feed(&pcap_packets(0, 20_000));
    names.wait_until_published("tap", 20_000);
    reader.signal("-CONT");
    names.wait_for_readers("tap", 1);
    names.wait_for("tap", "the rest is read", |found| found["readers"][0]["lag"] == 0);
    second.close_input();
    second.end();
    let report = reader.end();
    let notes = report["notes"].to_string();
    let before = notes.split_once("after its first ").and_then(|(_, text)| text.split_once(' '));
    let before: u64 = before.unwrap_or_else(|| panic!("{notes}")).0.parse().unwrap();
    assert!(before > 10_000, "{notes}");
    assert_eq!(report["total"]["delivered"], 100 + 20_000 - before, "{report}");
}

#[test]
fn a_reader_can_be_ended_while_it_waits_for_a_writer() {
    let names = Names::new("shared-waiting");
    let mut publisher = names.start(&FROM_PIPE);
    names.wait_for_readers("tap", 0);
    let reader = names.start(&["count", "log:tap"]);
    let limited = names.start(&["count", "log:tap", "--packets", "60"]);
    names.wait_for_readers("tap", 2);
    publisher.feed(&pcap_header());
    publisher.feed(&pcap_packets(0, 100));
    let report = limited.end();
    assert_eq!(report["total"]["delivered"], 60, "a limit is exact, the rest is in flight");
    names.wait_until_read("tap", 100);
    publisher.kill();
    let stale = names.run(&["doctor", "logs"]).stdout;
    let mend = format!("tap: its publisher has gone; fix: rm {}", names.0.file("tap"));
    assert!(stale.starts_with(&mend), "{stale}");
    reader.signal("-INT");
    let report = reader.end();
    assert_eq!(report["total"]["delivered"], 100, "{report}");
}

#[test]
fn names_that_are_taken_or_missing_are_told_with_what_mends_it() {
    let names = Names::new("shared-names");
    let publisher = names.start(&FROM_PIPE);
    let found = names.wait_for_readers("tap", 0);
    assert_eq!((&found["pid"], &found["logs"][0]["packets"]), (&publisher.pid().into(), &0.into()));
    let taken = names.run(&["count", "gen:?packets=1", "--publish", "tap"]);
    let said = format!("published by process {0} already: choose another name", publisher.pid());
    assert!(taken.code == Some(1) && taken.stderr.contains(&said), "{}", taken.stderr);
    // A job that cannot begin leaves no file behind.
    let file = names.0.file("x.pcapng");
    let refused = names.run(&["capture", "gen:?packets=1", "-w", &file, "--publish", "tap"]);
    assert!(refused.code == Some(1) && !fs::exists(&file).unwrap());
    for source in ["log:tab", "log:tab?wait=200ms"] {
        let missing = names.run(&["count", source]);
        assert_eq!(missing.code, Some(1));
        assert!(missing.stderr.starts_with("burstline: no log is published as tab"));
        assert!(missing.stderr.ends_with("there is tap\n"), "{}", missing.stderr);
    }
    for (source, code, said) in [
        ("log:tap@1", 1, "it has 1 log, numbered from 0; there is no log 1"),
        ("log:tap?window=99", 2, "must be 1-8"),
        ("log:a b", 2, "is not a name for a log"),
        (&format!("log:{REAL}"), 1, "not a socket"),
    ] {
        let run = names.run(&["count", source]);
        assert!(run.code == Some(code) && run.stderr.contains(said), "{source}: {}", run.stderr);
    }
    assert_eq!(names.run(&["doctor", "logs", "a b"]).code, Some(2), "as for any other verb");
    publisher.signal("-INT");
    publisher.end();
    let plain = names.start(&["count", "gen:?rate=1k", "--publish", "plain", "--pages", "4k"]);
    names.wait_for_readers("plain", 0);
    let lossless = names.run(&["count", "log:plain?lossless"]);
    assert!(lossless.stderr.contains("publish 'NAME?lossless=5s'"), "{}", lossless.stderr);
    plain.signal("-TERM");
    plain.end();
    assert_eq!(names.run(&["doctor", "logs"]).stdout.lines().count(), 1, "nothing is left");
}

#[test]
fn a_socket_is_for_whom_it_was_made_for() {
    if !is_root() {
        return skip("needs root, for another user");
    }
    let names = Names::new("shared-users");
    let program = names.0.file("burstline");
    assert_eq!(other("cp", &[PROGRAM, &program]).unwrap().code, Some(0));
    let as_nobody = |source: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &program, "count"]);
        command.args([source, "--packets", "100", "--json"]).env("BURSTLINE_RUN", &names.0.0);
        let output = command.output().unwrap();
        crate::support::Run::from(output)
    };
    for (publish, mode, uid, can_read) in [
        ("tap", 0o600, 0, false),
        ("tap?mode=0666", 0o666, 0, true),
        ("tap?group=65534", 0o660, 0, true),
        ("tap?owner=65534", 0o600, 65534, true),
    ] {
        let job = ["count", "gen:?rate=10k", "--publish", publish, "--pages", "4k"];
        let publisher = names.start(&job);
        names.wait_for_readers("tap", 0);
        let socket = fs::metadata(names.0.file("tap")).unwrap();
        assert!(socket.file_type().is_socket());
        assert_eq!((socket.mode() & 0o777, socket.uid()), (mode, uid), "{publish}");
        let run = as_nobody("log:tap");
        if can_read {
            // The writer is root, who could harm any process anyway.
            assert_eq!(run.code, Some(0), "{publish}: {}", run.stderr);
            let report: Value = crate::support::last_object(&run.stdout);
            assert_eq!(report["total"]["delivered"], 100);
        } else {
            assert_eq!(run.code, Some(1));
            assert!(run.stderr.contains("user 65534 may not"), "{}", run.stderr);
        }
        publisher.signal("-INT");
        publisher.end();
    }
}

#[test]
fn a_request_to_the_helper_that_the_kernel_refuses_once_leaves_no_name() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("refused");
    // The job's first message has the name made, its second one has it removed.
    let refused = ["-e", "trace=sendmsg", "-e", "inject=sendmsg:error=ENOBUFS:when=2"];
    let job = ["count", REAL, "--publish", "tap", "--pages", "4k", "--buffer", "4m"];
    let lines = traced(&directory, &refused, &job);
    assert!(lines.contains("INJECTED"), "{lines}");
    assert!(!fs::exists(directory.file("tap")).unwrap(), "{lines}");
}
