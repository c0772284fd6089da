//! Jobs that run until a signal comes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use burstline_testbed::Killed;
use serde_json::Value;

use super::{command, last_object};

/// A running job and its output.
pub(crate) struct Endless {
    pub(crate) child: Killed,
    pub(crate) lines: BufReader<ChildStdout>,
    /// The command, for messages.
    started: String,
}

impl Endless {
    /// Waits until it has delivered packets.
    pub(crate) fn wait_for_packets(&mut self) {
        self.wait_for(|interval| interval["delivered"].as_u64() > Some(0));
    }

    /// Waits for an interval that satisfies a condition.
    pub(crate) fn wait_for(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "{} has ended", self.started);
            let interval: Value = serde_json::from_str(&line).unwrap();
            if is_wanted(&interval) {
                return interval;
            }
        }
    }
}

/// Starts an endless job.
pub(crate) fn spawn(mut command: Command) -> Endless {
    command.args(["--json", "--stats", "20ms"]).stdout(Stdio::piped());
    let started = format!("{command:?}");
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Endless { child: Killed(child), lines, started }
}

/// Starts an endless job and waits until it has delivered packets, so that it surely runs.
pub(crate) fn start(arguments: &[&str]) -> Endless {
    let mut command = command(arguments);
    command.stderr(Stdio::piped());
    let mut job = spawn(command);
    job.wait_for_packets();
    job
}

pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id();
    burstline_testbed::signal(pid, name).unwrap();
}

/// Sends a signal, checks that the program succeeds, and returns the last object printed.
pub(crate) fn end(job: Endless, name: &str) -> Value {
    signal(&job.child, name);
    ended(job)
}

/// Checks that the program succeeds, and returns the last object printed.
pub(crate) fn ended(mut job: Endless) -> Value {
    let mut rest = String::new();
    job.lines.read_to_string(&mut rest).unwrap();
    assert_eq!(job.child.wait().unwrap().code(), Some(0), "{rest}");
    last_object(&rest)
}
