//! The program on live interfaces: with no more rights than it needs, asleep when nothing comes.
//!
//! Needs root, or `unshare -Urn`; without, each test says that it was skipped.

mod support;

use std::fs;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use burstline_sys::afpacket::Sender;
use burstline_testbed::{Bed, FAR, Frames, NEAR, Program};
use serde_json::Value;
use support::{Directory, PROGRAM, assert_closed, judged_packets, last_object, other};

const FRAMES: u64 = 10_000;

/// A job on the far host, with its output in files.
struct Live {
    program: Program,
    output: String,
    report: String,
}

impl Live {
    /// Starts a job and returns when it has printed its first interval.
    fn start(bed: &Bed, directory: &Directory, arguments: &str) -> Self {
        let (output, report) = (directory.file("output"), directory.file("report"));
        let _ = fs::remove_file(&report);
        // With `-w -` the report is on standard error; otherwise that is empty.
        let to = if arguments.ends_with("-w -") { "> $0 2> $1" } else { "> $1 2> $0" };
        let script = format!("exec {PROGRAM} {arguments} --json --stats 20ms {to}");
        let program = bed.far.start("sh", &["-c", &script, &output, &report], &[]).unwrap();
        let live = Self { program, output, report };
        wait_until("it has started", || live.text().contains('\n'));
        live
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.report).unwrap_or_default()
    }

    /// A field of every thread's status.
    fn statuses(&self, field: &str) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.program.process_id())).unwrap();
        let value = |thread: io::Result<fs::DirEntry>| {
            let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.unwrap().trim().to_owned()
        };
        threads.map(value).collect()
    }

    /// Returns when all `threads` threads have given up what they may do.
    fn wait_without_rights(&self, threads: usize) {
        for field in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            let is_nothing = |value: &String| value.chars().all(|digit| digit == '0');
            wait_until(field, || {
                let values = self.statuses(field);
                values.len() == threads && values.iter().all(is_nothing)
            });
        }
        wait_until("NoNewPrivs", || self.statuses("NoNewPrivs").iter().all(|value| value == "1"));
    }

    /// Waits for its end, and returns whether it ended well and its report.
    fn end(self) -> (bool, Value) {
        let (is_success, _) = self.program.finish().unwrap();
        let report = last_object(&fs::read_to_string(&self.report).unwrap());
        assert_closed(&report);
        (is_success, report)
    }

    fn interrupt(&self) {
        let process = self.program.process_id().to_string();
        assert_eq!(other("kill", &["-INT", &process]).unwrap().code, Some(0));
    }
}

/// Fails only after a time in which the slowest machine would have come so far.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not within a minute: {what}");
}

/// Sends numbered frames from the near host, and returns how many the device took.
fn send(bed: &Bed) -> u64 {
    bed.near.run(|| {
        let mut sender = Sender::open(NEAR, true).unwrap();
        Frames::new(FRAMES, 100).send(&mut sender).unwrap()
    })
}

#[test]
fn a_count_without_any_right_delivers_everything_and_sees_its_interface_go() {
    let name = "a_count_without_any_right_delivers_everything_and_sees_its_interface_go";
    let Some(bed) = Bed::or_skip(name) else { return };
    let directory = Directory::new("live-count");
    let live = Live::start(&bed, &directory, &format!("count afpacket:{FAR}"));
    // The one that prints, the one that waits, the one that polls.
    live.wait_without_rights(3);
    let sent = send(&bed);
    bed.near.command("ip", &["link", "delete", NEAR]).unwrap();
    let (is_success, report) = live.end();
    assert!(!is_success, "an interface that is gone is a failure: {report}");
    assert!(report["errors"][0].as_str().unwrap().contains(FAR), "{report}");
    assert_eq!((sent, &report["total"]["delivered"]), (FRAMES, &FRAMES.into()));
    assert_eq!(report["total"]["offered"], FRAMES);
}

#[test]
fn a_capture_without_any_right_writes_its_file_or_its_pipe_to_the_end() {
    let name = "a_capture_without_any_right_writes_its_file_or_its_pipe_to_the_end";
    let Some(bed) = Bed::or_skip(name) else { return };
    let directory = Directory::new("live-capture");
    let file = directory.file("a.pcapng");
    for write in [&file[..], "-"] {
        let job = format!("capture {FAR} --pages 4k --buffer 8m -w {write}");
        let live = Live::start(&bed, &directory, &job);
        live.wait_without_rights(4);
        let sent = send(&bed);
        live.interrupt();
        let output = live.output.clone();
        let (is_success, report) = live.end();
        assert!(is_success, "{report}");
        assert_eq!((sent, &report["total"]["delivered"]), (FRAMES, &FRAMES.into()));
        let written = if write == "-" { &output } else { &file };
        for (who, count) in judged_packets(written) {
            assert_eq!(count, FRAMES, "{who}");
        }
    }
}

#[test]
fn rights_are_kept_where_that_is_asked_for() {
    let Some(bed) = Bed::or_skip("rights_are_kept_where_that_is_asked_for") else { return };
    let directory = Directory::new("live-kept");
    let live = Live::start(&bed, &directory, &format!("count {FAR} --keep-privileges"));
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    assert_eq!(live.statuses("CapEff"), [own, own, own]);
    live.interrupt();
    assert!(live.end().0);
}

#[test]
fn a_thread_that_has_nothing_to_do_sleeps_and_is_woken_by_packets() {
    let name = "a_thread_that_has_nothing_to_do_sleeps_and_is_woken_by_packets";
    let Some(bed) = Bed::or_skip(name) else { return };
    let directory = Directory::new("live-poll");
    for mode in ["adaptive", "interrupt", "busy"] {
        let live = Live::start(&bed, &directory, &format!("count {FAR} --poll {mode}"));
        let sent = send(&bed);
        let delivered = format!("\"delivered\":{sent},");
        wait_until("all is delivered", || live.text().contains(&delivered));
        live.interrupt();
        let (is_success, report) = live.end();
        assert!(is_success && report["poll"] == mode, "{report}");
        let stage = &report["stages"][0];
        let slept = stage["sleeps"].as_u64().unwrap();
        assert_eq!(slept > 0, mode != "busy", "{stage}");
        // A packet that comes while it sleeps wakes it; the first is one.
        assert_eq!(stage["wakes"].as_u64().unwrap() > 0, mode != "busy", "{stage}");
    }
}

#[test]
fn an_ordinary_user_counts_in_a_network_of_his_own() {
    // Whoever runs the tests, this is user 65534, who has no rights but in his own namespaces.
    let wrapper = ["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urn", "--"];
    let mut probe = Command::new("setpriv");
    probe.args(wrapper).args([PROGRAM, "--version"]);
    let is_possible = probe.output().is_ok_and(|output| output.status.success());
    if !is_possible {
        let what = "skipped: an_ordinary_user_counts_in_a_network_of_his_own: user namespaces are \
                    not permitted here, or another user may not read the program";
        // Nobody is left to tell if this fails; said even where a test's output is captured.
        let _ = writeln!(io::stderr(), "{what}");
        return;
    }
    // Pings until it has its 20 packets, whenever it begins.
    let script = format!(
        "ip link set lo up; {PROGRAM} count lo --packets 20 --json & \
         while kill -0 $! 2> /dev/null; do ping -q -c 1 127.0.0.1 > /dev/null; done; wait $!"
    );
    let output =
        Command::new("setpriv").args(wrapper).args(["sh", "-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report = last_object(&text);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 20, "{report}");
}
