//! Memory: requested memory is allocated or refused, and no input makes it grow.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support::{Run, assert_closed, assert_says, command, last_object, run, run_with_code};

/// Memory allowed for the program in addition to its log.
const SLACK_BYTES: u64 = 16 << 20;
const LOG_BYTES: u64 = 8 << 20;

#[test]
fn pages_that_are_not_there_are_refused_with_the_command_that_mends_it() {
    // More huge pages than any test machine has reserved.
    let job = ["capture", "gen:?packets=1", "-w", "-", "--pages", "2m", "--buffer", "200g"];
    let run = run(&job);
    assert!(run.code == Some(1) && run.stdout.is_empty(), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);

    let job = ["capture", "gen:?packets=1", "-w", "-", "--pages", "2m", "--buffer", "1g"];
    let run = crate::support::run(&job);
    let free = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if free.is_ok_and(|free| free.trim().parse().is_ok_and(|free: u64| free < 512)) {
        assert!(run.code == Some(1) && run.stdout.is_empty(), "{}", run.stderr);
        assert!(run.stderr.contains("echo") && run.stderr.contains("needed"), "{}", run.stderr);
    }
}

#[test]
fn a_node_that_is_not_there_is_refused() {
    for job in [&["count", "gen:", "--packets", "1"][..], &["capture", "gen:", "-w", "-"]] {
        let run = run(&[job, &["--node", "63"]].concat());
        assert!(run.code.is_some_and(|code| code > 0), "{}", run.stdout);
        assert!(run.stderr.contains("63") && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
}

/// Returns the peak memory of a process without file pages, in bytes.
fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |line| line.trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024)
    };
    field("VmHWM:") - field("RssFile:") + field("HugetlbPages:")
}

/// Feeds about 300 MB of packets to a job that reads standard input, and returns its peak.
fn feed(arguments: &[&str]) -> u64 {
    let blob = command(&["capture", "gen:?packets=20000&size=1518", "-w", "-"]).output().unwrap();
    assert!(blob.status.success() && blob.stdout.len() > 30_000_000);
    let mut child = command(&[arguments, &["--json"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // Each copy is a section: pcapng files can be concatenated.
    for _ in 0..10 {
        pipe.write_all(&blob.stdout).unwrap();
    }
    let peak = peak_bytes(child.id());
    eprintln!("{arguments:?}: {peak} bytes at most");
    drop(pipe);
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report = last_object(&run.stdout);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 200_000);
    peak
}

#[test]
fn counting_needs_the_same_memory_whatever_comes() {
    let peak = feed(&["count", "-"]);
    assert!(peak <= SLACK_BYTES, "{peak} bytes");
}

#[test]
fn capturing_needs_its_log_and_little_more() {
    for output in ["/dev/null", "segmented"] {
        let directory = crate::support::Directory::new("memory");
        let file = directory.file("a.pcapng");
        let output = if output == "segmented" { &file } else { output };
        let peak = feed(&["capture", "-", "-w", output, "--buffer", "8m", "--pages", "4k"]);
        assert!(peak <= LOG_BYTES + SLACK_BYTES, "{output}: {peak} bytes");
    }
}

/// Through the caches or past them: the same packets arrive, and the report names the way.
#[test]
fn packets_go_the_way_that_is_asked_for_and_the_report_says_which() {
    let directory = crate::support::Directory::new("handoff");
    let file = |name: &str| directory.file(name);
    let job = ["capture", "gen:?packets=50000&size=imix&flows=100", "--json", "-w"];
    for (way, is_far) in [("near", false), ("far", true)] {
        let run = run_with_code(&[&job[..], &[&file(way), "--handoff", way]].concat(), 0);
        let report = last_object(&run.stdout);
        assert_closed(&report);
        let handoff = &report["memory"]["handoff"];
        let segments = handoff["segments"].as_u64().unwrap();
        assert!(segments > 10 && handoff["asked"] == way, "{handoff}");
        assert_eq!(handoff["far_segments"], if is_far { segments } else { 0 }, "{handoff}");
    }
    let digest = |way: &str| {
        let run = run(&["count", &file(way), "--verify", "--expect", "50000"]);
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        run.stdout.lines().filter(|line| line.starts_with("verify")).collect::<String>()
    };
    assert_eq!(digest("near"), digest("far"));
    assert_says(&["capture", "gen:", "-w", "-", "--handoff", "fast"], 2, "fast");
}
