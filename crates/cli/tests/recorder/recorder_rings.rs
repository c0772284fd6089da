//! Recordings that are opened while packets come write by rings from before. A thread that has
//! given up its rights makes none: a call for one would end the job.

use std::fs;
use std::process::{Command, Stdio};

use crate::recorder_kept::link_types;
use crate::support::live::wait_until;
use crate::support::rights::{can_trace, reads_without_rights, traced};
use crate::support::{Directory, PROGRAM, assert_closed, last_object, run_json};
use burstline_testbed::signal;
use serde_json::Value;

const SIGUSR1: u32 = 10;

const CALLS: [&str; 2] = ["-e", "trace=io_uring_setup,io_uring_enter,seccomp,clone,clone3"];

/// Checks that the trace of a job has this many calls for rings, and that only threads without
/// rights wrote by them.
fn assert_rings(lines: &str, rings: usize) {
    let calls: Vec<_> = lines.lines().filter(|line| line.contains("io_uring_setup(")).collect();
    if calls.iter().any(|line| line.contains(" = -1 ")) {
        return burstline_skip::without("no io_uring here: recordings are whole, and use none");
    }
    assert_eq!(calls.len(), rings, "{lines}");
    let writes = reads_without_rights(lines, "io_uring_enter(");
    assert!(writes.is_ok_and(|writes| writes > 0), "{writes:?}");
}

#[test]
fn a_file_for_each_link_type_has_a_ring_from_before() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rings-split");
    // More than a segment of 1 MiB each.
    let (file, out) = (link_types(&directory, [3000, 1500], 1400), directory.file("x.pcapng"));
    let job = ["capture", &file, "-w", &out, "--link-types", "split", "-q"];
    let lines = traced(&directory, &CALLS, &job);
    for (file, packets) in [(out, 3000), (directory.file("x-link113.pcapng"), 1500)] {
        assert_eq!(run_json(&["count", &file], 0)["total"]["delivered"], packets, "{file}");
        assert_eq!(run_json(&["check", &file], 0)["files"][0]["packets"], packets, "{file}");
    }
    // Also that of the first file, which is opened at the start.
    assert_rings(&lines, 5);
}

#[test]
fn the_file_of_a_trigger_has_a_ring_from_before() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rings-keep");
    let (out, trace) = (directory.file("x.pcapng"), directory.file("trace"));
    let mut command = Command::new("strace");
    command.args(["-f", "-o", &trace]).args(CALLS).arg(PROGRAM);
    command.args(["capture", "gen:?rate=20k&pace=yes&size=600", "--keep", "1h", "--after", "1s"]);
    command.args(["--buffer", "64m", "-w", &out, "--json"]).stdout(Stdio::piped());
    let tracer = command.spawn().unwrap();
    let mut job = None;
    wait_until("it handles signals", || {
        job = child_of(tracer.id()).filter(|&job| handles_triggers(job));
        job.is_some()
    });
    let job = job.unwrap();
    wait_until("a trigger makes a file", || {
        signal(job, "-USR1").unwrap();
        fs::metadata(&out).is_ok_and(|file| file.len() > 2 << 20)
    });
    signal(job, "-INT").unwrap();
    let output = tracer.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = last_object(&String::from_utf8_lossy(&output.stdout));
    assert_closed(&report);
    assert_eq!(run_json(&["count", &out], 0)["total"]["delivered"], report["total"]["delivered"]);
    run_json(&["check", &out], 0);
    assert_rings(&fs::read_to_string(&trace).unwrap(), 1);
}

fn child_of(process: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Returns whether a process handles SIGUSR1, which ends others.
fn handles_triggers(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGUSR1 - 1) & 1 == 1)
}
