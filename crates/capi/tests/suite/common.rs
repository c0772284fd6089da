//! Shared helpers of the tests: temporary directories, logs, other processes.

use std::env;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Appended, Log, LogConfig, Meta, Writer};
use burstline_sys::memory::PageChoice;
use burstline_sys::temporary::TemporaryFolder;

const SEGMENT_BYTES: usize = 64 << 10;
/// Number of ports of the packets that [`append`] makes.
pub(crate) const PORTS: u64 = 3;

pub(crate) struct Directory(TemporaryFolder);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(TemporaryFolder::create("burstline-capi-").unwrap())
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.0.file(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn log() -> (Log, Writer) {
    let (log, writer) = Log::create(LogConfig {
        name: "capi".into(),
        bytes: 32 * SEGMENT_BYTES,
        segment_bytes: SEGMENT_BYTES,
        pages: PageChoice::Size4K,
        max_readers: 8,
        ..LogConfig::default()
    })
    .unwrap();
    (0..PORTS as u8).for_each(|port| log.name_port(port, 1, &format!("eth{port}")));
    (log, writer)
}

pub(crate) fn packet(number: u64) -> Vec<u8> {
    (0..60 + number % 200).map(|at| (number * 13 + at) as u8).collect()
}

/// Arrival time of packet `number`: every hundredth is 10 s late, which does not fit into a desc.
pub(crate) fn time_ns(number: u64) -> u64 {
    1_700_000_000_000_000_000 + number * 1000 + number / 100 * 10_000_000_000
}

pub(crate) fn is_cut(number: u64) -> bool {
    number % 50 == 7
}

/// Packets written, as counted by the writer and by the loop that makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) sum: u64,
    pub(crate) cut_short: u64,
    pub(crate) of_ports: [u64; PORTS as usize],
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, bytes, sum, cut_short, of_ports: [a, b, c] } = self;
        write!(f, "{packets} {bytes} {sum} {cut_short} {a} {b} {c}")
    }
}

impl FromStr for Ledger {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let [packets, bytes, sum, cut_short, of_ports @ ..] = words?.try_into().unwrap_or([0; 7]);
        Ok(Self { packets, bytes, sum, cut_short, of_ports })
    }
}

/// Appends packets `[from, to)`, publishes them, and returns their ledger.
pub(crate) fn append(writer: &mut Writer, from: u64, to: u64) -> Ledger {
    let before = writer.statistics();
    let mut ledger = Ledger::default();
    for number in from..to {
        let bytes = packet(number);
        let port = number % PORTS;
        let mut meta = Meta::new(time_ns(number), bytes.len() as u32, port as u8);
        meta.original_length += if is_cut(number) { 1000 } else { 0 };
        meta.hash = number as u32;
        while writer.append(&bytes, &meta) == Appended::Full {
            thread::yield_now();
        }
        ledger.sum += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        ledger.cut_short += u64::from(is_cut(number));
        ledger.of_ports[port as usize] += 1;
        if number % 32 == 0 {
            writer.publish();
        }
    }
    writer.publish();
    let after = writer.statistics();
    (ledger.packets, ledger.bytes) = (after.packets - before.packets, after.bytes - before.bytes);
    ledger
}

/// Waits for a condition that must become true eventually.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Another process that exchanges lines with the test.
pub(crate) struct Talker {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Talker {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdout, stdin }
    }

    /// Starts this test program again, to run one ignored test, the role.
    pub(crate) fn role(role: &str, arguments: &[&str]) -> Self {
        Self::start(
            Command::new(env::current_exe().unwrap())
                .args([&format!("roles::{role}"), "--exact", "--ignored", "--nocapture"])
                .env("ROLE_ARGUMENTS", arguments.join("\n")),
        )
    }

    /// Returns the rest of the next line that begins with this word, or with it after `say`.
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it ended before {word}");
            let said = line.split_once("say ").map_or(line.as_str(), |(_, said)| said);
            if let Some(rest) = said.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Waits for its end, and returns its remaining output.
    pub(crate) fn end(mut self) -> String {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Talker {
    /// A failing test leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
