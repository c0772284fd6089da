//! Helpers of the tests: a temporary directory, logs, and this program as another process.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Appended, Log, LogConfig, Meta, Writer};
use burstline_share::{
    AttachConfig, Attachment, Feed, PublishConfig, Publisher, Refusal, ShareError, Trust,
};
use burstline_sys::memory::PageChoice;
use burstline_sys::temporary::TemporaryFolder;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use crate::scribbler::memory::Noise;

pub(crate) const SEGMENT_BYTES: usize = 64 << 10;

/// A directory that is removed after the test.
pub(crate) struct Directory(TemporaryFolder);

impl Directory {
    /// Creates a directory that all users may read: some tests act as another user.
    pub(crate) fn new() -> Self {
        let folder = TemporaryFolder::create("burstline-share-").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// Creates one, and returns with it the path of the name `tap` in it.
    pub(crate) fn with_tap() -> (Self, String) {
        let directory = Self::new();
        let name = directory.name("tap");
        (directory, name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.0.file(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns its files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn config() -> LogConfig {
    LogConfig {
        name: "share".into(),
        bytes: 16 * SEGMENT_BYTES,
        segment_bytes: SEGMENT_BYTES,
        pages: PageChoice::Size4K,
        max_readers: 8,
        ..LogConfig::default()
    }
}

pub(crate) fn log() -> (Log, Writer) {
    Log::create(config()).unwrap()
}

pub(crate) fn publish(config: &PublishConfig) -> (Publisher, Log, Writer) {
    let (log, writer) = log();
    (Publisher::start(config, vec![log.clone()]).unwrap(), log, writer)
}

/// Returns the configuration of a reader in place: the publishers of these tests run the same file.
pub(crate) fn in_place() -> AttachConfig {
    AttachConfig { trust: Trust::PROGRAM, ..AttachConfig::default() }
}

pub(crate) fn open(name: &str) -> Result<Attachment, ShareError> {
    Attachment::open(name, &AttachConfig::default())
}

pub(crate) fn refusal(error: ShareError) -> Refusal {
    match error {
        ShareError::Refused { refusal, .. } => refusal,
        error => panic!("{error}"),
    }
}

pub(crate) fn packet(number: u64) -> Vec<u8> {
    (0..60 + number % 200).map(|at| (number * 13 + at) as u8).collect()
}

/// Appends packets `[from, to)` and publishes them.
pub(crate) fn append(writer: &mut Writer, from: u64, to: u64) {
    for number in from..to {
        let bytes = packet(number);
        let meta = Meta::new(number, bytes.len() as u32, 0);
        while writer.append(&bytes, &meta) == Appended::Full {
            thread::yield_now();
        }
        if number % 32 == 0 {
            writer.publish();
        }
    }
    writer.publish();
}

/// Reads and checks the packets published so far.
pub(crate) fn read(reader: &mut Feed) -> u64 {
    let mut read = 0;
    while let Some(burst) = reader.next_burst() {
        for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
            assert_eq!(found.bytes(), packet(number));
            read += 1;
        }
    }
    read
}

/// Reads packets and checks that none is left out or repeated.
#[derive(Default)]
pub(crate) struct Follower {
    /// The number of the next packet, once the first one was read.
    pub(crate) next: Option<u64>,
}

impl Follower {
    /// Reads and checks the packets published so far.
    pub(crate) fn read(&mut self, reader: &mut Feed) {
        while let Some(burst) = reader.next_burst() {
            let first = burst.first_packet();
            assert_eq!(first, self.next.unwrap_or(first));
            for (number, found) in (first..).zip(burst.packets()) {
                assert_eq!(found.bytes(), packet(number));
            }
            self.next = Some(first + burst.len() as u64);
        }
    }
}

/// Waits for an event, without a time limit that matters for the test.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// This test program as another process that runs one ignored test, the role.
pub(crate) struct Role {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stdin: ChildStdin,
}

impl Role {
    pub(crate) fn start(role: &str, arguments: &[&str]) -> Self {
        Self::start_in(role, arguments, &[])
    }

    /// Starts a role with only these of the environment variables for the places of names.
    pub(crate) fn start_in(role: &str, arguments: &[&str], places: &[(&str, &str)]) -> Self {
        Self::start_program(&env::current_exe().unwrap(), role, arguments, places)
    }

    /// Starts a role from another file with the same tests, which counts as another program.
    pub(crate) fn start_program(
        program: &Path,
        role: &str,
        arguments: &[&str],
        places: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(program)
            .env_remove("BURSTLINE_RUN")
            .env_remove("XDG_RUNTIME_DIR")
            .envs(places.iter().copied())
            .args([&format!("roles::{role}"), "--exact", "--ignored", "--nocapture"])
            .env("ROLE_ARGUMENTS", arguments.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take().unwrap();
        Self { child, stdout, stdin }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the rest of the next line that begins with this word.
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it ended before {word}");
            if let Some((_, rest)) = line.split_once(&format!("say {word}")) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Lets it continue from where it waits.
    pub(crate) fn go_on(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}
