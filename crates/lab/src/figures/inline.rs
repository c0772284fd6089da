//! Measures the cost of a verdict: `bounce` with two workers that pass all, and without.
//!
//! ```text
//! this process --pipe--> burstline bounce - null: [--inline NAME?workers=2]
//!                             | ^
//!                          logs | verdicts          two processes, this program once more
//! ```
//!
//! It compares the processor time per packet of all processes but this one. Both sides read the
//! same bytes from a pipe and sleep when it is empty, because busy polling would add to the time.
//!
//! A second part replaces the pipe by a paced generator at half the measured rate. It shows how
//! long a packet waits for its verdict. There, bounce and workers poll all the time, and each
//! worker has a core.

use std::cell::Cell;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use burstline_sys::temporary::TemporaryFolder;
use serde_json::Value;

use super::Context;
use super::count_file::run;
use crate::compared::{Better, Outcome};
use crate::conditions::cycles_per_second;
use crate::contenders::Sample;
use crate::programs::Report;
use crate::programs::our_program;
use crate::sharing::Other;
use crate::sharing::giver::{BUSY, GIVER_OPTION, GIVING, Given};

const PACKETS: u64 = 3_000_000;
const SMOKE_PACKETS: u64 = 2_000;
const WORKERS: usize = 2;
/// The metric that is compared.
const NS: &str = "ns";
/// Long, because a worker may wait for a core; only its processor time counts.
const DEADLINE: &str = "1s";
/// Duration of the measurement of waiting times.
const WAITS_SECONDS: f64 = 3.0;
/// Maximum time for a publisher to start.
const START: Duration = Duration::from_secs(30);

/// `inline-cost`.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    let program = our_program()?;
    let packets = if context.smoke { SMOKE_PACKETS } else { PACKETS };
    let folder = TemporaryFolder::create("burstline-inline-").map_err(|error| error.to_string())?;
    let traffic = traffic(&program, &folder, packets)?;
    let comparison = context.begin();
    let last = Cell::new(Done::default());
    let rounds = context.turns(
        context.process_runs(),
        || {
            let done = inline(&program, &folder, &traffic, packets)?;
            last.set(done);
            Ok(sample(done.bounce_ns + done.workers_ns, done.rate_pps))
        },
        || bounce(&program, &traffic, packets),
    )?;
    let seconds = if context.smoke { 0.1 } else { WAITS_SECONDS };
    let waits = waits(&program, &folder, last.get().rate_pps / 2.0, seconds)?;
    let ((ours, peer), last) = (rounds.values_of(NS).medians(), last.get());
    let (over_ns, ghz) = (ours - peer, cycles_per_second() / 1e9);
    let details = vec![
        format!(
            "ours: burstline bounce - null: --poll interrupt --inline NAME?workers={WORKERS}, and \
             {WORKERS} processes that pass each packet; peer: the same bounce alone"
        ),
        format!("{packets} packets of 64 bytes, 64 flows, from a pipe; none lost, all passed"),
        format!(
            "over bounce: {over_ns:.1} ns a packet, {:.0} cycles of the time stamp counter at \
             {ghz:.2} GHz; at most 300 were the target",
            over_ns * ghz
        ),
        format!(
            "the last run: {:.1} ns in the bounce, {:.1} ns in both workers",
            last.bounce_ns, last.workers_ns
        ),
        "ns: processor time of all processes but this one; mpps: packets a second of the bounce, \
         by the clock"
            .to_owned(),
        waits,
    ];
    Ok(comparison.outcome_of_samples(NS, Better::Lower, rounds, details))
}

/// Returns a turn's processor time per packet, and its rate by the clock.
fn sample(each_ns: f64, rate_pps: f64) -> Sample {
    let mut sample = Sample::default();
    sample.set(NS, "ns", each_ns);
    sample.set("mpps", "Mpps", rate_pps / 1e6);
    sample
}

/// Returns the bytes of a capture with that many packets.
fn traffic(program: &Path, folder: &TemporaryFolder, packets: u64) -> Result<Vec<u8>, String> {
    let file = folder.file("traffic.pcap");
    let count = packets.to_string();
    run(Command::new(program)
        .args(["generate", "-q", "-o", &file, "--packets", &count])
        .args(["--size", "64", "--flows", "64"]))?;
    let bytes = fs::read(&file).map_err(|error| format!("{file}: {error}"));
    let _ = fs::remove_file(&file); // if this fails, it is removed with the folder
    bytes
}

/// The result of a run.
#[derive(Clone, Copy, Default)]
struct Done {
    /// Processor time per packet of the bounce, in ns.
    bounce_ns: f64,
    /// The same of all workers together.
    workers_ns: f64,
    rate_pps: f64,
}

/// Runs a bounce, and workers that pass all.
fn inline(
    program: &Path,
    folder: &TemporaryFolder,
    traffic: &[u8],
    packets: u64,
) -> Result<Done, String> {
    let inline = Inline::new(folder, WORKERS);
    let mut job = Job::start(program, FROM_PIPE, &["--inline", &inline.words])?;
    let workers = inline.workers(&[])?;
    let report = job.finish(traffic, packets)?;
    let mut cpu_ns = 0;
    let mut passed = 0;
    for mut worker in workers {
        let given = worker.hear(Given::parse)?;
        cpu_ns += given.cpu_ns;
        passed += given.packets;
    }
    match passed == packets {
        true => Ok(Done {
            bounce_ns: cpu_each_ns(&report),
            workers_ns: cpu_ns as f64 / packets as f64,
            rate_pps: packets as f64 / report.elapsed_seconds,
        }),
        false => Err(format!("{passed} of {packets} packets were passed")),
    }
}

/// Returns a sentence on how long packets wait for a verdict at a rate.
fn waits(
    program: &Path,
    folder: &TemporaryFolder,
    rate_pps: f64,
    seconds: f64,
) -> Result<String, String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let count = cores.saturating_sub(1).clamp(1, WORKERS);
    let source = format!("gen:?rate={rate_pps:.0}&pace=yes&size=64&flows=64");
    let inline = Inline::new(folder, count);
    let time = format!("{:.0}ms", seconds * 1e3);
    let flags = ["-q", "--inline", &inline.words, "--duration", &time];
    let mut job = Job::start(program, &[&source, "null:", "--poll", "busy"], &flags)?;
    for mut worker in inline.workers(&[BUSY])? {
        worker.hear(Given::parse)?;
    }
    let report = Report::last(&job.said()?)?;
    let wait_ns = &report["bounce"]["inline"]["wait_ns"];
    let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3).ok_or("no times of verdicts");
    let at = |name: &str| us(&wait_ns["percentiles"][name]);
    Ok(format!(
        "at half the rate, {rate_pps:.0} packets a second, with --poll busy and workers that \
         poll as well ({count}), a packet waits {:.1} us for its verdict (p50), {:.1} us (p99), \
         {:.0} us (most); at most 100 us at p99 were the target",
        at("p50")?,
        at("p99")?,
        us(&wait_ns["max"])?
    ))
}

/// The published side of an inline bounce.
struct Inline {
    socket: String,
    workers: usize,
    /// The option for the bounce.
    words: String,
}

impl Inline {
    fn new(folder: &TemporaryFolder, workers: usize) -> Self {
        let socket = folder.file("ips");
        let words = format!("{socket}?workers={workers}&deadline={DEADLINE}");
        Self { socket, workers, words }
    }

    /// Starts its workers when it is published.
    fn workers(&self, more: &[&str]) -> Result<Vec<Other>, String> {
        let socket = &self.socket;
        let until = Instant::now() + START;
        while !Path::new(socket).exists() {
            if Instant::now() > until {
                return Err(format!("{socket} is not there after {} s", START.as_secs()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let start = |log: usize| {
            let log = log.to_string();
            let words = [&[GIVER_OPTION, socket, &log], more].concat();
            Other::start("giver of verdicts", &words, GIVING)
        };
        (0..self.workers).map(start).collect()
    }
}

fn bounce(program: &Path, traffic: &[u8], packets: u64) -> Result<Sample, String> {
    let report = Job::start(program, FROM_PIPE, &[])?.finish(traffic, packets)?;
    Ok(sample(cpu_each_ns(&report), packets as f64 / report.elapsed_seconds))
}

/// Returns the processor time per packet, in ns.
fn cpu_each_ns(report: &Report) -> f64 {
    report.cpu_seconds * 1e9 / report.delivered as f64
}

/// A bounce whose input is a pipe.
const FROM_PIPE: &[&str] = &["-", "null:", "--poll", "interrupt"];

/// A running bounce.
struct Job(Child);

impl Job {
    fn start(program: &Path, ends: &[&str], flags: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(["bounce", "--json"]).args(ends).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map(Self).map_err(|error| format!("{}: {error}", program.display()))
    }

    /// Feeds it and waits for its end. Checks that it delivered all packets.
    fn finish(&mut self, traffic: &[u8], packets: u64) -> Result<Report, String> {
        let mut input = self.0.stdin.take().ok_or("it has no input")?;
        input.write_all(traffic).map_err(|error| format!("to a bounce: {error}"))?;
        drop(input);
        let said = self.said()?;
        let report = Report::parse(&said, packets)?;
        if report.delivered != packets {
            return Err(format!("a bounce delivered {} of {packets}: {said}", report.delivered));
        }
        Ok(report)
    }

    /// Waits for its end. Returns its output.
    fn said(&mut self) -> Result<String, String> {
        let mut said = String::new();
        let mut output = self.0.stdout.take().ok_or("it has no output")?;
        output.read_to_string(&mut said).map_err(|error| format!("of a bounce: {error}"))?;
        let status = self.0.wait().map_err(|error| error.to_string())?;
        if status.success() {
            Ok(said)
        } else {
            Err(format!("a bounce ended with {status}: {said}"))
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It has already ended unless an error occurred.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
