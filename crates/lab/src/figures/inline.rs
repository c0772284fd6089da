//! What a verdict costs: `bounce` with two workers that pass all, against `bounce` without.
//!
//! ```text
//! this process --pipe--> burstline bounce - null: [--inline NAME?workers=2]
//!                             | ^
//!                          logs | verdicts          two processes, this program once more
//! ```
//!
//! Processor time of all processes but this one, for each packet. Both sides read the same bytes
//! from a pipe, and sleep as soon as there is nothing: a spin would be in the figure.
//!
//! Then the same at half the rate that was reached: how long a packet waits for its verdict.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

use burstline_sys::clock;
use serde_json::Value;

use super::Context;
use super::count_file::{our_program, run};
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::programs::Report;
use crate::sharing::giver::{GIVER_OPTION, GIVING, Given};

const PACKETS: u64 = 3_000_000;
const SMOKE_PACKETS: u64 = 2_000;
const WORKERS: usize = 2;
/// Bytes of a capture file before its first record: pcap, IETF draft-ietf-opsawg-pcap.
const PCAP_HEADER: usize = 24;
/// A worker that waits for a core is late, and not slow: it is its processor time that counts.
const DEADLINE: &str = "1s";
/// How long the pipe is fed at half the rate, and between two writes of it.
const HALF_TIME: Duration = Duration::from_secs(3);
const FEED_EVERY: Duration = Duration::from_micros(200);
/// How long a publisher takes at most until it is there.
const START: Duration = Duration::from_secs(30);

/// `inline-cost`.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    let program = our_program()?;
    let packets = if context.smoke { SMOKE_PACKETS } else { PACKETS };
    let folder = Folder::new()?;
    let traffic = traffic(&program, &folder, packets)?;
    let conditions = Conditions::watch(context.cores);
    let (shares, rate) = (Cell::new((0.0, 0.0)), Cell::new(0.0));
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || {
            let done = inline(&program, &folder, &traffic, packets, None)?;
            shares.set((done.bounce_ns, done.workers_ns));
            rate.set(done.report.delivered as f64 / done.report.elapsed_seconds);
            Ok(done.bounce_ns + done.workers_ns)
        },
        || bounce(&program, &traffic, packets, &[]),
    )?;
    if context.smoke {
        waits_at_half(&program, &folder, &traffic, packets, 20_000.0)?;
        return Ok(Outcome::Smoke);
    }
    let ((ours, peer), (bounce, workers)) = (rounds.medians(), shares.get());
    let (over_ns, ghz) = (ours - peer, cycles_each_ns());
    let mut details = vec![
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
        format!("the last run: {bounce:.1} ns in the bounce, {workers:.1} ns in both workers"),
        waits_at_half(&program, &folder, &traffic, packets, rate.get() / 2.0)?,
    ];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of("ns", Better::Lower, rounds, details)))
}

/// A folder of our own; it goes with us.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = env::temp_dir().join(format!("burstline-inline-{}", process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // a socket's lock, and what a failed run left
    }
}

/// The bytes of a capture of that many packets.
fn traffic(program: &Path, folder: &Folder, packets: u64) -> Result<Vec<u8>, String> {
    let file = folder.file("traffic.pcap");
    let count = packets.to_string();
    run(Command::new(program)
        .args(["generate", "-q", "-o", &file, "--packets", &count])
        .args(["--size", "64", "--flows", "64"]))?;
    let bytes = fs::read(&file).map_err(|error| format!("{file}: {error}"));
    let _ = fs::remove_file(&file); // with the folder, at the latest
    bytes
}

/// A sentence on how long packets wait for a verdict at a rate.
fn waits_at_half(
    program: &Path,
    folder: &Folder,
    traffic: &[u8],
    packets: u64,
    rate_pps: f64,
) -> Result<String, String> {
    let most = (rate_pps * HALF_TIME.as_secs_f64()) as u64;
    let count = packets.min(most);
    // The file's header, and a record each.
    let each = (traffic.len() - PCAP_HEADER) / packets as usize;
    let part = &traffic[..PCAP_HEADER + count as usize * each];
    let done = inline(program, folder, part, count, Some(rate_pps * each as f64))?;
    let waits = &done.value["bounce"]["inline"]["wait_ns"];
    let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3).ok_or("no times of verdicts");
    let at = &waits["percentiles"];
    Ok(format!(
        "at half the rate, {rate_pps:.0} packets a second, a packet waits {:.0} us for its verdict \
         (p50), {:.0} us (p99), {:.0} us (most); 100 us at p99 were the target",
        us(&at["p50"])?,
        us(&at["p99"])?,
        us(&waits["max"])?
    ))
}

/// What a run has come to.
struct Done {
    /// Processor time a packet, in ns.
    bounce_ns: f64,
    /// Of all workers together.
    workers_ns: f64,
    report: Report,
    /// The report as it is.
    value: Value,
}

/// Runs a bounce with its workers. Its pipe is fed at once, or so many bytes a second.
fn inline(
    program: &Path,
    folder: &Folder,
    traffic: &[u8],
    packets: u64,
    rate_bytes: Option<f64>,
) -> Result<Done, String> {
    let socket = folder.file("ips");
    let inline = format!("{socket}?workers={WORKERS}&deadline={DEADLINE}");
    let mut workers = Vec::new();
    let mut job = Job::start(program, &["--inline", &inline])?;
    let until = Instant::now() + START;
    while !Path::new(&socket).exists() {
        if Instant::now() > until {
            return Err(format!("{socket} is not there after {} s", START.as_secs()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    for log in 0..WORKERS {
        workers.push(Worker::start(&socket, log)?);
    }
    let (report, value) = job.finish(traffic, packets, rate_bytes)?;
    let mut cpu_ns = 0;
    let mut passed = 0;
    for worker in workers {
        let given = worker.end()?;
        cpu_ns += given.cpu_ns;
        passed += given.packets;
    }
    match passed == packets {
        true => Ok(Done {
            bounce_ns: cpu_each_ns(&report),
            workers_ns: cpu_ns as f64 / packets as f64,
            report,
            value,
        }),
        false => Err(format!("{passed} of {packets} packets were passed")),
    }
}

fn bounce(program: &Path, traffic: &[u8], packets: u64, flags: &[&str]) -> Result<f64, String> {
    Ok(cpu_each_ns(&Job::start(program, flags)?.finish(traffic, packets, None)?.0))
}

/// Processor time a packet, in ns.
fn cpu_each_ns(report: &Report) -> f64 {
    report.cpu_seconds * 1e9 / report.delivered as f64
}

/// A bounce whose input is a pipe.
struct Job(Child);

impl Job {
    fn start(program: &Path, flags: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(["bounce", "-", "null:", "--poll", "interrupt", "--json"]).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map(Self).map_err(|error| format!("{}: {error}", program.display()))
    }

    /// Feeds it, at once or so many bytes a second, and waits for its end. Returns its report, also
    /// as it is.
    fn finish(
        &mut self,
        traffic: &[u8],
        packets: u64,
        rate_bytes: Option<f64>,
    ) -> Result<(Report, Value), String> {
        let input = self.0.stdin.take().ok_or("it has no input")?;
        feed(input, traffic, rate_bytes).map_err(|error| format!("to a bounce: {error}"))?;
        let mut said = String::new();
        let mut output = self.0.stdout.take().ok_or("it has no output")?;
        output.read_to_string(&mut said).map_err(|error| format!("of a bounce: {error}"))?;
        let status = self.0.wait().map_err(|error| error.to_string())?;
        let report = Report::parse(&said, packets)?;
        if !status.success() || report.delivered != packets {
            return Err(format!("a bounce delivered {} of {packets}: {said}", report.delivered));
        }
        Ok((report, Report::last(&said)?))
    }
}

/// Writes all of it. At a rate, what is due since the last write: late writes are made up for.
fn feed(mut input: impl Write, traffic: &[u8], rate_bytes: Option<f64>) -> io::Result<()> {
    let Some(rate_bytes) = rate_bytes else { return input.write_all(traffic) };
    let (begun, mut sent) = (Instant::now(), 0);
    while sent < traffic.len() {
        thread::sleep(FEED_EVERY);
        let due = (begun.elapsed().as_secs_f64() * rate_bytes) as usize;
        let due = due.clamp(sent, traffic.len());
        input.write_all(&traffic[sent..due])?;
        sent = due;
    }
    Ok(())
}

impl Drop for Job {
    fn drop(&mut self) {
        // It has ended, or something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that passes what waits.
struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(socket: &str, log: usize) -> Result<Self, String> {
        let bench = env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(bench);
        command.args([GIVER_OPTION, socket, &log.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = BufReader::new(child.stdout.take().ok_or("it has no output")?);
        let mut worker = Self { child, output };
        match worker.hear()?.trim() == GIVING {
            true => Ok(worker),
            false => Err("the process that gives verdicts did not start".to_owned()),
        }
    }

    fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line)
    }

    fn end(mut self) -> Result<Given, String> {
        let line = self.hear()?;
        Given::parse(&line).ok_or_else(|| format!("who gives verdicts said `{}`", line.trim()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has ended, or something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ticks of the time stamp counter in a ns.
fn cycles_each_ns() -> f64 {
    let (ns, cycles) = (clock::monotonic_ns(), clock::cycles());
    thread::sleep(Duration::from_millis(50));
    (clock::cycles() - cycles) as f64 / (clock::monotonic_ns() - ns) as f64
}
