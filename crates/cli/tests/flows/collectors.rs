//! Collectors of flow records, and readers of their files.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use burstline_skip::skip;
use burstline_testbed::{Killed, signal};
use serde_json::Value;

use crate::support::live::wait_until;
use crate::support::{other_or_skip, run, started};

/// A program that is ended when this is dropped.
pub(crate) struct Ending(Killed);

impl Ending {
    /// Asks it to end, like a service manager does, and waits.
    pub(crate) fn end(self) {
        self.end_by("-TERM");
    }

    /// The same with another signal: pmacct blocks SIGTERM until a datagram arrives.
    pub(crate) fn end_by(mut self, name: &str) {
        signal(self.0.id(), name).unwrap();
        self.0.wait().unwrap();
    }
}

/// Returns a free port.
pub(crate) fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until a program listens at a UDP port.
pub(crate) fn await_listener(port: u16) {
    let began = Instant::now();
    let wanted = format!(":{port:04X} ");
    while !fs::read_to_string("/proc/net/udp").unwrap().contains(&wanted) {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody listens at {port}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the program that listens at a UDP port has read every datagram. Source: proc(5),
/// `/proc/net/udp`: the queues are in the fifth column, the one for reading behind the colon.
pub(crate) fn await_reader(port: u16) {
    let listens = format!(":{port:04X}");
    wait_until("every datagram is read", || {
        let sockets = fs::read_to_string("/proc/net/udp").unwrap();
        let columns = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut own = columns.filter(|columns| columns[1].ends_with(&listens));
        own.all(|columns| columns[4].ends_with(":00000000"))
    });
    // It may still handle the last one.
    thread::sleep(Duration::from_secs(1));
}

/// Starts a program. Returns `None` if it is not installed, after counting the test as skipped;
/// `scripts/setup STEP` installs it.
pub(crate) fn start(program: &str, arguments: &[&str], step: &str) -> Option<Ending> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = started(program, step, command.spawn()).map_err(skip).ok()?;
    Some(Ending(Killed(child)))
}

/// Returns the records that a collector wrote into a folder, or `None` without nfdump, after
/// counting the test as skipped.
pub(crate) fn nfdump(folder: &str) -> Option<Vec<Value>> {
    let read = other_or_skip("nfdump", &["-R", folder, "-o", "json", "-q"])?;
    assert_eq!(read.code, Some(0), "{}", read.stderr);
    let records = serde_json::from_str(&format!("[{}]", read.stdout));
    Some(records.unwrap_or_else(|error| panic!("{error}: {}", read.stdout)))
}

/// Returns the rows that `burstline query` finds in a tree, or `None` without DuckDB, after
/// counting the test as skipped.
pub(crate) fn ask(tree: &str, sql: &str) -> Option<Vec<Value>> {
    let asked = run(&["query", sql, tree, "--json"]);
    if asked.stderr.contains("DuckDB is not installed") {
        skip("DuckDB is not installed: scripts/setup query");
        return None;
    }
    assert_eq!(asked.code, Some(0), "{sql}: {}", asked.stderr);
    let answer: Value = serde_json::from_str(&asked.stdout).unwrap();
    Some(answer["rows"].as_array().unwrap().clone())
}
