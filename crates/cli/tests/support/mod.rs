//! Shared helpers of the program's tests: running it, temporary directories, other programs.
#![allow(dead_code)] // each test file uses a part

pub(crate) mod buses;
pub(crate) mod endless;
pub(crate) mod live;
pub(crate) mod rights;
pub(crate) mod sensors;
pub(crate) mod service;
pub(crate) mod sharing;
pub(crate) mod ssh;
pub(crate) mod talk;
pub(crate) mod verdicts;
pub(crate) mod virtual_port;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use burstline_skip::{skip, without};
use burstline_sys::affinity::{allowed_cores, format_cores};
use burstline_sys::temporary::random_name;
use serde_json::Value;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_burstline");
/// Real packets, and their number.
pub(crate) const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/real-traffic.pcap");
pub(crate) const REAL_PACKETS: u64 = 149;

/// The output and the exit code of a run.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    command(arguments).output().unwrap().into()
}

/// Runs the program, and checks the exit code.
#[track_caller]
pub(crate) fn run_with_code(arguments: &[&str], code: i32) -> Run {
    let run = run(arguments);
    assert_eq!(run.code, Some(code), "{arguments:?}: {}{}", run.stderr, run.stdout);
    run
}

/// Runs the program, and checks the exit code and a part of what it says on stderr.
#[track_caller]
pub(crate) fn assert_says(arguments: &[&str], code: i32, said: &str) {
    let stderr = run_with_code(arguments, code).stderr;
    assert!(stderr.contains(said), "{arguments:?}: '{said}' is not in {stderr}");
}

/// Runs the program with `--json`, checks the exit code, and returns the last object.
pub(crate) fn run_json(arguments: &[&str], code: i32) -> Value {
    last_object(&run_with_code(&[arguments, &["--json"]].concat(), code).stdout)
}

/// Returns the number of a file's packets that a filter selects.
pub(crate) fn selected(file: &str, filter: &str) -> u64 {
    let words = [&["count", file][..], &filter.split(' ').collect::<Vec<_>>()].concat();
    run_json(&words, 0)["total"]["delivered"].as_u64().unwrap()
}

pub(crate) fn last_object(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Fails unless every row of a report closes and the total is the sum of the rows.
pub(crate) fn assert_closed(report: &Value) {
    let number =
        |row: &Value, key: &str| row[key].as_i64().unwrap_or_else(|| panic!("{key}: {row}"));
    let rows = report["ports"].as_array().unwrap();
    for row in rows.iter().chain([&report["total"]]) {
        let lost: i64 =
            row["lost"].as_object().unwrap().values().map(|n| n.as_i64().unwrap()).sum();
        let sum = number(row, "delivered") + lost + number(row, "in_flight");
        assert_eq!((number(row, "offered"), number(row, "unaccounted")), (sum, 0), "{row}");
    }
    for key in ["offered", "delivered", "bytes", "wire_bytes", "in_flight", "truncated"] {
        let sum: i64 = rows.iter().map(|row| number(row, key)).sum();
        assert_eq!(number(&report["total"], key), sum, "{key}: {report}");
    }
}

/// A directory, removed when the test ends.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let name = name.rsplit("::").next().unwrap(); // of a test, without its module's
        // Nobody else may put something there before; some tests let other users in.
        let name = random_name(&format!("burstline-cli-{name}-"));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs another program, a judge. `None` if it is not installed, after counting it as missing in
/// this test. Where the test is nothing without the program, use [`other_or_skip`].
pub(crate) fn other(program: &str, arguments: &[&str]) -> Option<Run> {
    installed(program, arguments).map_err(without).ok()
}

/// Runs another program. `None` if it is not installed, after counting the test as skipped.
pub(crate) fn other_or_skip(program: &str, arguments: &[&str]) -> Option<Run> {
    installed(program, arguments).map_err(skip).ok()
}

/// Returns whether another program is installed, and counts nothing.
pub(crate) fn is_there(program: &str) -> bool {
    installed(program, &["--version"]).is_ok()
}

/// Runs another program, or returns that it is not installed.
fn installed(program: &str, arguments: &[&str]) -> Result<Run, String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    started(program, "test", output).map(Run::from)
}

/// Returns what starting a program returned, or that it is not installed; `scripts/setup STEP`
/// installs it. Fails for any other error.
pub(crate) fn started<T>(program: &str, step: &str, outcome: io::Result<T>) -> Result<T, String> {
    match outcome {
        Ok(started) => Ok(started),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{program} is not installed: scripts/setup {step}"))
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Returns the packet counts of tcpdump and capinfos, if they are installed; neither may report an
/// error.
///
/// tshark is not asked, because both it and capinfos read files by Wireshark's wiretap. It takes
/// half a second of CPU time to start, so only its dissection is used.
pub(crate) fn judged_packets(path: &str) -> Vec<(&'static str, u64)> {
    let mut verdicts = Vec::new();
    if let Some(run) = other("tcpdump", &["--count", "-r", path]) {
        let quiet = run.stderr.lines().all(|line| line.starts_with("reading from file"));
        assert!(quiet && run.code == Some(0), "tcpdump {path}: {}", run.stderr);
        verdicts.push(("tcpdump", run.stdout.split_whitespace().next().unwrap().parse().unwrap()));
    }
    verdicts.extend(counted_by_wireshark(path).map(|packets| ("capinfos", packets)));
    verdicts
}

/// Returns the packet count of capinfos, which also reads compressed files. It may not report an
/// error.
pub(crate) fn counted_by_wireshark(path: &str) -> Option<u64> {
    let (run, packets) = capinfos(&["-C", path])?;
    assert!(run.stderr.is_empty() && run.code == Some(0), "capinfos {path}: {}", run.stderr);
    Some(packets)
}

/// Returns the output of capinfos about a file, and its packet count.
pub(crate) fn capinfos(arguments: &[&str]) -> Option<(Run, u64)> {
    let run = other("capinfos", &[&["-c", "-M", "-T", "-r"], arguments].concat())?;
    let packets = run.stdout.split_whitespace().last().unwrap().parse().unwrap();
    Some((run, packets))
}

/// Returns whether the tests run as root.
pub(crate) fn is_root() -> bool {
    other("id", &["-u"]).is_some_and(|run| run.stdout.trim() == "0")
}

/// Returns the first two cores that this process may run on, for `--cores`. `None` if there is only
/// one, after counting the calling test as skipped.
pub(crate) fn two_cores_or_skip() -> Option<String> {
    let cores = allowed_cores().unwrap();
    if cores.len() < 2 {
        skip("it takes a second core");
        return None;
    }
    Some(format_cores(&cores[..2]))
}

/// Returns SIGHUP for the test to send, unless our parent ignores it, which a program respects.
/// Source: proc(5), /proc/pid/status: `SigIgn`, a mask of signals from 1 on.
pub(crate) fn hangup() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    if u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1 {
        without("SIGHUP is ignored here: nohup(1)");
        return None;
    }
    Some("-HUP")
}

/// xorshift64. Source: Marsaglia, "Xorshift RNGs", 2003.
pub(crate) fn xorshift(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Makes a pcap in ns of UDP packets of `length` bytes, one every 10 us, from 40 flows in turn.
pub(crate) fn regular(directory: &Directory, name: &str, packets: u32, length: u32) -> String {
    let mut pcap = [0xA1B2_3C4D_u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for number in 0..packets {
        let (second, ns) = (number / 100_000, number % 100_000 * 10_000);
        let words = [1_700_000_000 + second, ns, length, length];
        pcap.extend(words.map(u32::to_le_bytes).concat());
        let mut packet = vec![2; 12];
        let total = (length as u16 - 14).to_be_bytes();
        packet.extend([8, 0, 0x45, 0, total[0], total[1]]);
        // The number is in the identification, so that all packets differ.
        packet.extend((number as u16).to_be_bytes());
        packet.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, (number % 40) as u8]);
        packet.extend([0, 53, 3, 231]);
        packet.extend((length as u16 - 34).to_be_bytes());
        packet.resize(length as usize, 0);
        pcap.extend(packet);
    }
    let file = directory.file(name);
    fs::write(&file, pcap).unwrap();
    file
}
