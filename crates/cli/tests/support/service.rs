//! A running service and its log.
#![allow(dead_code)] // each test file uses a part

use std::fs::{self, File};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use burstline_testbed::{Killed, signal};
use serde_json::Value;

use super::live::wait_until;
use super::{Directory, command};

/// A service with a JSON log in a file. It is killed when the test ends.
pub(crate) struct Service {
    child: Killed,
    log: String,
    pub(crate) site: String,
}

impl Service {
    pub(crate) fn start(directory: &Directory, site: &str) -> Self {
        Self::start_with(directory, site, &[], &[])
    }

    pub(crate) fn start_with(
        directory: &Directory,
        site: &str,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let (path, log) = (directory.file("site.toml"), directory.file("log"));
        fs::write(&path, site).unwrap();
        let mut command = command(&["run", &path, "--log-format", "json"]);
        command.args(flags);
        command.env("BURSTLINE_RUN", &directory.0).envs(variables.iter().copied());
        let errors = File::create(directory.file("errors")).unwrap();
        command.stdout(File::create(&log).unwrap()).stderr(Stdio::from(errors));
        Self { child: Killed(command.spawn().unwrap()), log, site: path }
    }

    /// Returns the process of the service.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process that writes the log, once there is one.
    pub(crate) fn journal(&self) -> u32 {
        let mut found = None;
        wait_until("a process writes the log", || {
            found = journal_of(self.id());
            found.is_some()
        });
        found.unwrap()
    }

    /// Returns the log as it is.
    pub(crate) fn log(&self) -> Vec<u8> {
        fs::read(&self.log).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        events(&self.log)
    }

    /// Waits for the first event that satisfies a condition, and returns it.
    pub(crate) fn wait_for(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(&format!("{what}: {:?}", self.site), || {
            found = self.events().into_iter().find(|event| is_it(event));
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until there are this many events with a name.
    pub(crate) fn wait_for_count(&self, name: &str, count: usize) {
        let of_name = |event: &&Value| event["event"] == name;
        wait_until(name, || self.events().iter().filter(of_name).count() >= count);
    }

    pub(crate) fn reload(&self, site: &str) {
        fs::write(&self.site, site).unwrap();
        self.signal("-HUP");
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name).unwrap();
    }

    /// Returns a job's current process.
    pub(crate) fn pid(&self, job: &str) -> u32 {
        let started = |event: &Value| event["job"] == job && event["event"] == "started";
        let events = self.events();
        let event = events.iter().rev().find(|event| started(event)).unwrap();
        event["pid"].as_u64().unwrap() as u32
    }

    pub(crate) fn end(mut self) -> (ExitStatus, Vec<Value>) {
        let status = self.child.wait().unwrap();
        (status, self.events())
    }

    pub(crate) fn stop(self) -> (ExitStatus, Vec<Value>) {
        self.signal("-TERM");
        self.end()
    }

    /// Kills only the service, and reaps it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) fn events(log: &str) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    // The last line may be incomplete.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the report of a job's last process.
pub(crate) fn ledger<'e>(events: &'e [Value], job: &str) -> &'e Value {
    let is_it = |event: &&&Value| event["job"] == job && event["event"] == "ledger";
    let events: Vec<_> = events.iter().collect();
    &events.iter().rev().find(is_it).unwrap_or_else(|| panic!("no ledger of {job}"))["report"]
}

/// Matches events with this name and job.
pub(crate) fn is(name: &'static str, job: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["event"] == name && event["job"] == job
}

/// Returns whether a process exists and has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    // The state follows the name's bracket: proc_pid_stat(5).
    status.is_ok_and(|text| text.rsplit(") ").next().is_some_and(|rest| !rest.starts_with('Z')))
}

/// Returns the process that writes the log of a service.
pub(crate) fn journal_of(service: u32) -> Option<u32> {
    let children = fs::read_dir("/proc").unwrap().filter_map(|process| {
        let process = process.ok()?;
        let status = fs::read_to_string(process.path().join("status")).ok()?;
        let words = fs::read(process.path().join("cmdline")).ok()?;
        let is_child = status.contains(&format!("\nPPid:\t{service}\n"));
        let is_it = is_child && words.split(|byte| *byte == 0).any(|word| word == b"--journal");
        process.file_name().to_str()?.parse().ok().filter(|_| is_it)
    });
    children.filter(|pid| is_alive(*pid)).max()
}
