//! A job of the program on the far host of a test bed.
#![allow(dead_code)] // each test file uses a part

use std::fs;
use std::time::Duration;

use burstline_afpacket::Sender;
use burstline_testbed::{Bed, Frames, Host, NEAR, Program};
use serde_json::Value;

use super::{Directory, PROGRAM, assert_closed, last_object};

/// A job on the far host, with its output in files.
pub(crate) struct Live {
    pub(crate) program: Program,
    pub(crate) output: String,
    report: String,
}

impl Live {
    /// Starts a job, and returns after its first interval.
    pub(crate) fn start(bed: &Bed, directory: &Directory, arguments: &str) -> Self {
        Self::start_on(&bed.far, directory, arguments)
    }

    /// The same on any host.
    pub(crate) fn start_on(host: &Host, directory: &Directory, arguments: &str) -> Self {
        let (output, report) = (directory.file("output"), directory.file("report"));
        let _ = fs::remove_file(&report);
        // With `-w -` the report is on standard error, together with messages.
        let to = if arguments.ends_with("-w -") { "> $0 2> $1" } else { "> $1 2> $0" };
        let script = format!("exec {PROGRAM} {arguments} --json --stats 20ms {to}");
        let program = host.start("sh", &["-c", &script, &output, &report], &[]).unwrap();
        let live = Self { program, output, report };
        wait_until("it has started", || live.text().contains("\"interval\":1,"));
        live
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.report).unwrap_or_default()
    }

    /// Returns a field of every thread's status.
    pub(crate) fn statuses(&self, field: &str) -> Vec<String> {
        statuses(self.program.process_id(), field)
    }

    /// Waits until all `threads` threads and the signal thread have dropped their capabilities.
    pub(crate) fn wait_without_rights(&self, threads: usize) {
        for field in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            let is_nothing = |value: &String| value.chars().all(|digit| digit == '0');
            wait_until(field, || {
                let values = self.statuses(field);
                values.len() == threads + 1 && values.iter().all(is_nothing)
            });
        }
        wait_until("NoNewPrivs", || self.statuses("NoNewPrivs").iter().all(|value| value == "1"));
    }

    /// Waits for its end, and returns its success and its report.
    pub(crate) fn end(self) -> (bool, Value) {
        let (is_success, _) = self.program.finish().unwrap();
        let report = last_object(&fs::read_to_string(&self.report).unwrap());
        assert_closed(&report);
        (is_success, report)
    }

    /// Interrupts it, and returns its report if it succeeded.
    pub(crate) fn stop(self) -> Value {
        self.interrupt();
        let (is_success, report) = self.end();
        assert!(is_success, "{report}");
        report
    }

    pub(crate) fn interrupt(&self) {
        let process = self.program.process_id();
        burstline_testbed::signal(process, "-INT").unwrap();
    }
}

/// Returns a field of the status of every thread of a process.
pub(crate) fn statuses(process: u32, field: &str) -> Vec<String> {
    let value = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().trim().to_owned()
    };
    whole_statuses(process).into_iter().map(value).collect()
}

/// Returns the text of `status` of each thread.
pub(crate) fn whole_statuses(process: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // A thread may end while its status is read.
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).ok();
    threads.flatten().filter_map(status).collect()
}

/// Sends numbered frames of 100 bytes from the near host, and returns how many its device accepted.
pub(crate) fn send_frames(bed: &Bed, count: u64) -> u64 {
    send_frames_from(bed, NEAR, count)
}

/// Like [`send_frames`], from another interface of the near host.
pub(crate) fn send_frames_from(bed: &Bed, interface: &str, count: u64) -> u64 {
    send_from(&bed.near, interface, true, Frames::new(count, 100))
}

/// Sends frames from an interface of a host, and returns how many its device accepted.
/// `bypasses_queue`: as for [`Sender::open`]; a device that drops what it has no room for then
/// gets the same frame again, forever.
pub(crate) fn send_from(host: &Host, interface: &str, bypasses_queue: bool, frames: Frames) -> u64 {
    let interface = interface.to_owned();
    host.run(move || {
        let mut sender = Sender::open(&interface, bypasses_queue).unwrap();
        frames.send(&mut sender).unwrap()
    })
}

/// Waits for a condition; the timeout is long enough for the slowest machine.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not within a minute: {what}");
}

/// Returns the children of a process. Source: proc(5), `/proc/PID/task/TID/children`.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    list.unwrap_or_default().split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// Returns a process's child with this name.
pub(crate) fn child(process: u32, name: &str) -> Option<u32> {
    let is_named = |child: &u32| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    children(process).into_iter().find(is_named)
}
