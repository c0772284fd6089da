//! Jobs that run until a signal comes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::{command, last_object};

/// A running job and its output.
pub(crate) struct Endless {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
}

/// Starts an endless job and waits for its first interval line, so that it surely runs.
pub(crate) fn start(arguments: &[&str]) -> Endless {
    let arguments = [arguments, &["--json", "--stats", "20ms"]].concat();
    let mut child =
        command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut delivered = 0;
    while delivered == 0 {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "{arguments:?} ended at once");
        let interval: Value = serde_json::from_str(&line).unwrap();
        delivered = interval["delivered"].as_u64().unwrap();
    }
    Endless { child, lines }
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
