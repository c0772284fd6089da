//! A job of ours at one end of a connection, with its output in files.

use std::fs;
use std::process::Stdio;

use crate::support::{Directory, assert_closed, command, last_object};
use burstline_testbed::Killed;
use serde_json::Value;

/// A running job, killed if the test does not wait for its end.
pub(crate) struct Ours {
    child: Killed,
    report: String,
    errors: String,
}

impl Ours {
    /// Starts a job that publishes names in the directory.
    pub(crate) fn start(directory: &Directory, words: &[&str]) -> Self {
        let (report, errors) = (directory.file("report"), directory.file("errors"));
        let to = |path: &str| Stdio::from(fs::File::create(path).unwrap());
        let mut program = command(words);
        program.env("BURSTLINE_RUN", &directory.0).arg("--json");
        let child = program.stdout(to(&report)).stderr(to(&errors)).spawn().unwrap();
        Self { child: Killed(child), report, errors }
    }

    /// Returns its standard output so far.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.report).unwrap()
    }

    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    pub(crate) fn interrupt(&self) {
        burstline_testbed::signal(self.child.id(), "-INT").unwrap();
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Returns the report of a job that has ended, after checking that its ledger closes.
    pub(crate) fn report(&self) -> Value {
        let text = self.text();
        assert!(text.contains('{'), "{}", self.errors());
        let report = last_object(&text);
        assert_closed(&report);
        report
    }
}
