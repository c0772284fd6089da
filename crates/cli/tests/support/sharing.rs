//! Publishers and readers as processes, with a private directory of names.
#![allow(dead_code)] // each test file uses a part

use std::fs::{self, File};
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};

use burstline_testbed::Killed;
use serde_json::Value;

use super::live::wait_until;
use super::{Directory, PROGRAM, Run, assert_closed, last_object};

/// A directory for names.
pub(crate) struct Names(pub(crate) Directory);

impl Names {
    pub(crate) fn new(test: &str) -> Self {
        Self(Directory::new(test))
    }

    /// Returns a command of the program, which looks for names only in this directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("BURSTLINE_RUN", &self.0.0).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.command(arguments).output().unwrap().into()
    }

    /// Starts a job that prints JSON, with a pipe as its input.
    pub(crate) fn start(&self, arguments: &[&str]) -> Job {
        let mut command = self.command(&[arguments, &["--json"]].concat());
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        start(&mut command, self.0.file(&format!("report {number}")))
    }

    /// Returns what `doctor logs` reports about a name, if it exists.
    pub(crate) fn look(&self, name: &str) -> Option<Value> {
        let run = self.run(&["doctor", "logs", name, "--json"]);
        (run.code == Some(0)).then(|| last_object(&run.stdout)["names"][0].clone())
    }

    /// Waits until the name has this many readers, and returns what is reported about it.
    pub(crate) fn wait_for_readers(&self, name: &str, count: usize) -> Value {
        let readers = |found: &Value| found["readers"].as_array().map(Vec::len);
        self.wait_for(name, "its readers", |found| readers(found) == Some(count))
    }

    /// Waits until what is reported about a name satisfies a condition, and returns it.
    pub(crate) fn wait_for(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(&format!("{name}: {what}"), || {
            found = self.look(name).filter(&is_so);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until a name's logs have this many packets.
    pub(crate) fn wait_until_published(&self, name: &str, packets: u64) {
        let of = |log: &Value| log["packets"].as_u64().unwrap();
        self.wait_for(name, "all is published", |found| {
            found["logs"].as_array().unwrap().iter().map(of).sum::<u64>() >= packets
        });
    }

    /// Waits until every reader has read or missed `packets`, and none is behind.
    pub(crate) fn wait_until_read(&self, name: &str, packets: u64) {
        let has_read = |reader: &Value| {
            let number = |key: &str| reader[key].as_u64().unwrap();
            number("delivered") + number("missed") == packets && number("lag") == 0
        };
        self.wait_for(name, "all is read", |found| {
            found["readers"].as_array().is_some_and(|readers| readers.iter().all(has_read))
        });
    }
}

/// Starts a job that prints JSON into the file `report`, with a pipe as its input.
pub(crate) fn start(command: &mut Command, report: String) -> Job {
    command.stdin(Stdio::piped()).stdout(File::create(&report).unwrap());
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take();
    Job { child: Killed(child), input, report }
}

/// A running job.
pub(crate) struct Job {
    pub(crate) child: Killed,
    input: Option<ChildStdin>,
    report: String,
}

impl Job {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        burstline_testbed::signal(self.pid(), name).unwrap();
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits for its successful end, and returns its report.
    pub(crate) fn end(self) -> Value {
        let (code, report) = self.end_with_code();
        assert_eq!(code, Some(0), "{report}");
        report
    }

    /// Waits for its end, and returns its exit code and its report.
    pub(crate) fn end_with_code(mut self) -> (Option<i32>, Value) {
        let status = self.child.wait().unwrap();
        let report = last_object(&fs::read_to_string(&self.report).unwrap());
        assert_closed(&report);
        (status.code(), report)
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Returns the header of a classic Ethernet capture with microseconds.
pub(crate) fn pcap_header() -> Vec<u8> {
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Returns a packet of such a capture, with its time in seconds and us.
pub(crate) fn pcap_record(seconds: u32, us: u32, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u32;
    let header = [seconds, us, length, length].map(u32::to_le_bytes);
    [header.as_flattened(), bytes].concat()
}

/// Returns packets `[from, to)` of such a capture: 100 bytes, each the packet's number.
pub(crate) fn pcap_packets(from: u32, to: u32) -> Vec<u8> {
    let packet =
        |number: u32| pcap_record(1_700_000_000 + number, number % 1_000_000, &[number as u8; 100]);
    (from..to).flat_map(packet).collect()
}

/// Returns the row of a reader in its publisher's report.
pub(crate) fn reader_of(publisher: &Value, pid: u32) -> Value {
    let readers = publisher["published"]["readers"].as_array().unwrap();
    readers.iter().find(|reader| reader["pid"] == pid).unwrap().clone()
}
