//! Readers that give verdicts, as processes: this test program again.
#![allow(dead_code)] // each test file uses a part

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use burstline_log::{Verdict, VerdictError, VerdictGiver};
use burstline_share::{AttachConfig, Follower, Next, Offer};
use burstline_testbed::Killed;
use serde_json::Value;

/// How many packets back a `twice` worker decides a packet again.
const BEFORE: u64 = 1000;

const WORKER: &str = "BURSTLINE_TEST_WORKER";

/// A reader that runs until its log ends or it is dropped.
pub(crate) struct Worker {
    child: Killed,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a reader of log `log` of a name in `names` that decides according to `what`: see
    /// [`run`], which the test `worker` calls. It gives verdicts when this returns.
    pub(crate) fn start(names: &Path, name: &str, log: u32, what: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["worker", "--exact", "--ignored", "--nocapture"])
            .env("BURSTLINE_RUN", names)
            .env(WORKER, format!("{name}\n{log}\n{what}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut worker = Self { child: Killed(child), output };
        worker.hear("ready");
        worker
    }

    /// Returns the rest of the next output line that begins with this word.
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended before {word}");
            if let Some((_, rest)) = line.split_once(&format!("say {word}")) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Waits for its end, which follows the end of its log. Returns how many verdicts it gave.
    pub(crate) fn end(mut self) -> u64 {
        let given = self.hear("given").parse().unwrap();
        assert!(self.child.wait().unwrap().success());
        given
    }

    pub(crate) fn signal(&self, name: &str) {
        burstline_testbed::signal(self.child.id(), name).unwrap();
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Returns the sum of a count over all workers of a bounce or switch with `--inline`.
pub(crate) fn sum(report: &Value, key: &str) -> u64 {
    let job = ["bounce", "switch"].map(|job| &report[job]).into_iter().find(|job| job.is_object());
    let workers = job.unwrap()["inline"]["workers"].as_array().unwrap();
    workers.iter().map(|worker| worker[key].as_u64().unwrap()).sum()
}

/// The behaviours of a started reader:
/// - `pass`, `pass-on` (also those of the next bounce)
/// - `flow`
/// - `reject` (IPv4 packets)
/// - `late`
/// - `twice` (pass, and then drop; and drop for an old one)
/// - `mad`
/// - `drop:K` (each packet whose number is a multiple of K)
/// - `replace:SUFFIX`
/// - `stall:N` (after N verdicts it gives none)
pub(crate) fn run() {
    let text = env::var(WORKER).expect("started by a test");
    let [name, log, what]: [&str; 3] =
        text.split('\n').collect::<Vec<_>>().try_into().expect("three lines");
    let log = log.parse().unwrap();
    let config = AttachConfig { gives_verdicts: true, log: Some(log), ..AttachConfig::default() };
    if what == "mad" {
        return scribble(name, &config);
    }
    let mut follower = Follower::open(name, &config, what == "pass-on").unwrap();
    println!("say ready");
    let mut given = 0;
    loop {
        let held = match follower.next(u64::MAX, || false).unwrap() {
            Next::Burst { held, .. } => held,
            Next::End => break,
            _ => continue,
        };
        let (burst, verdicts) = (held.burst(), follower.verdicts(log).unwrap());
        for (number, packet) in (burst.first_packet()..).zip(burst.packets()) {
            decide(verdicts, number, packet.bytes(), what, given);
            given += 1;
        }
    }
    println!("say given {given}");
}

fn decide(verdicts: &VerdictGiver, number: u64, packet: &[u8], what: &str, given: u64) {
    let (word, argument) = what.split_once(':').unwrap_or((what, ""));
    let count = || argument.parse::<u64>().unwrap();
    let verdict = match word {
        "pass" | "pass-on" => Verdict::Pass,
        "flow" => Verdict::PassFlow,
        "reject" if packet.get(12..14) == Some(&[8, 0]) => Verdict::Reject,
        "reject" => Verdict::Pass,
        "drop" if number.is_multiple_of(count()) => Verdict::Drop,
        "drop" => Verdict::Pass,
        "late" => {
            std::thread::sleep(Duration::from_millis(3));
            Verdict::Drop
        }
        "twice" => {
            verdicts.give(number, Verdict::Pass).unwrap();
            if number >= BEFORE {
                verdicts.give(number - BEFORE, Verdict::Drop).unwrap();
            }
            Verdict::Drop
        }
        "stall" if given < count() => Verdict::Pass,
        "stall" => loop {
            std::thread::park();
        },
        "replace" => {
            let bytes = [packet, argument.as_bytes()].concat();
            // If older replacements occupy the room, those packets already have their verdicts.
            while let Err(error) = verdicts.give(number, Verdict::Replace(&bytes)) {
                assert!(matches!(error, VerdictError::NoRoom { .. }), "{error}");
                std::thread::yield_now();
            }
            return;
        }
        _ => panic!("what is {what}?"),
    };
    verdicts.give(number, verdict).unwrap();
}

/// Overwrites its whole column with invalid verdicts, again and again.
fn scribble(name: &str, config: &AttachConfig) {
    let mut offer = Offer::ask(name, config).unwrap();
    let column = File::from(offer.logs[0].verdicts.take().unwrap());
    println!("say ready");
    let words = 16_384_u64;
    while !offer.link.is_gone() {
        for number in 0..words {
            // An unknown code, a replacement at an invalid place, a word for another packet.
            let word =
                [number << 8 | 77, number << 8 | 3, (number + words) << 8 | 1][number as usize % 3];
            column.write_all_at(&word.to_ne_bytes(), number * 8).unwrap();
            column.write_all_at(&u64::MAX.to_ne_bytes(), (words + number) * 8).unwrap();
        }
    }
    println!("say given 0");
}
