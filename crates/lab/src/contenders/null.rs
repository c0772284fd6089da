//! Whole programs on one core over net_null, a DPDK device that creates and accepts packets. Also
//! programs that create packets, for a log or for net_null.
//!
//! testpmd's rxonly mode only frees packets; ours counts packets and bytes and takes a timestamp
//! for each. Rates are by each program's own clock: for ours over the whole job, for testpmd over
//! the last second.

mod generator;
mod instructions;

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::dpdk::is_built;
use super::shapes::{best_of, key};
use super::{Adapter, Job, Sample, timed};
use crate::live::{missing, watched};
use crate::pages::{PAGES_OF_A_START, Reservation};
use crate::programs::{self, Device, Memory, Mode, Report};
use crate::record::Pages;
use crate::scenario::Work;

pub(super) use generator::Generator;
pub(crate) use instructions::about_programs;

/// Interval between checks of a program's pages; a check takes some ms of another core.
const LOOK: Duration = Duration::from_millis(500);

/// Ways to run testpmd: its own settings, and pools as large as ours. Without huge pages, no mbuf
/// crosses a page that it fits into. So mbufs of the default size all use the same few sets of the
/// L1 cache. Mbufs a cache line longer than a page are spread.
const SETTINGS: [&str; 4] = [
    "",
    "--burst=32 --total-num-mbufs=8191",
    "--burst=32 --mbuf-size=3968 --total-num-mbufs=8191",
    "--burst=64 --mbuf-size=3968 --total-num-mbufs=8191",
];

/// Our program over net_null.
pub(super) struct Null;

/// testpmd over net_null.
pub(super) struct Testpmd;

impl Adapter for Null {
    fn name(&self) -> &'static str {
        "burstline-null"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Null]
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn can_run(&self) -> Result<(), String> {
        is_built()
    }

    fn command(&self, job: &Job<'_>) -> String {
        format!("{} --duration {}s", ours(job), seconds(job))
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let began = Instant::now();
        let (said, pages) = run(&self.command(job))?;
        let all_s = began.elapsed().as_secs_f64();
        if said.contains("make dpdk") {
            return Err(format!("{} was built without DPDK: make dpdk", job.program.display()));
        }
        let report = Report::of_its_own(&said)?;
        let mpps = report.delivered as f64 / report.elapsed_seconds / 1e6;
        let mut sample = Sample { pages: Some(pages), ..rates(job, mpps) };
        sample.set("packets", "packets", report.delivered as f64);
        // Its start and its end: its report does not tell one from the other.
        sample.set("ready_s", "s", all_s - report.elapsed_seconds);
        Ok(sample)
    }
}

impl Adapter for Testpmd {
    fn name(&self) -> &'static str {
        "testpmd-null"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Null, Work::Make]
    }

    fn version(&self) -> String {
        super::testpmd::version()
    }

    fn can_run(&self) -> Result<(), String> {
        missing(programs::Testpmd::needs()).map_or(Ok(()), Err)
    }

    fn command(&self, job: &Job<'_>) -> String {
        let memory = if job.work == Work::Make { Memory::of_a_start() } else { Memory::Small };
        programs::Launch::command(&testpmd(job, ""), memory)
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let is_making = job.work == Work::Make;
        let settings = if is_making { &SETTINGS[..] } else { &SETTINGS[1..] };
        let rate = |setting| {
            // Over net_null both run without huge pages.
            let _pages = is_making.then(|| Reservation::take(PAGES_OF_A_START));
            let memory = if is_making { Memory::now() } else { Memory::Small };
            testpmd(job, setting).rate_after(seconds(job), memory)
        };
        // A turn with a fixed number of packets measures nothing, so one setting is enough.
        let settings = if job.packets.is_some() { &settings[..1] } else { settings };
        let tried = |setting| Ok(rate(setting)?.pps / 1e6);
        let setting = best_of(1, &key(self.name(), job), settings, tried)?;
        let programs::Rated { pps, packets, pages, ready } = rate(setting)?;
        let mut sample = Sample { pages: Some(pages), ..rates(job, pps / 1e6) };
        sample.set("packets", "packets", packets as f64);
        if let Some(ready) = ready {
            sample.set("ready_s", "s", ready.as_secs_f64());
        }
        Ok(sample)
    }
}

/// Returns the metrics of one core that is always busy.
fn rates(job: &Job<'_>, mpps: f64) -> Sample {
    timed::spinning(mpps, 1.0, job.size_bytes)
}

/// Returns the whole seconds of a turn.
fn seconds(job: &Job<'_>) -> usize {
    job.time.as_secs().max(1) as usize
}

/// Our program's command, without a run time. net_null's packets have 64 bytes by default.
fn ours(job: &Job<'_>) -> String {
    let size = format!("size={}", job.size_bytes);
    let devices = match job.case {
        Some("bounce") => {
            format!("bounce 'dpdk:net_null0,{size}?huge=no' 'dpdk:net_null1,{size}?huge=no' --both")
        }
        _ => format!("count 'dpdk:net_null0,{size}?huge=no'"),
    };
    let (program, core) = (job.program.display(), job.core_list());
    format!("'{program}' {devices} --poll busy --cores {core} --json")
}

fn testpmd(job: &Job<'_>, setting: &str) -> programs::Testpmd {
    let (mode, devices, more) = match (job.work, job.case) {
        (Work::Make, Some("256")) => (Mode::Send(job.frame_bytes()), 1, "--txonly-multi-flow"),
        (Work::Make, _) => (Mode::Send(job.frame_bytes()), 1, ""),
        (_, Some("bounce")) => (Mode::Forward, 2, ""),
        _ => (Mode::Receive, 1, ""),
    };
    programs::Testpmd {
        main: job.places.generator,
        cores: job.places.contender[..1].to_vec(),
        ports: vec![Device::Null { bytes: job.size_bytes }; devices],
        mode,
        has_rates: true,
        more: format!("{setting} {more}").trim().to_owned(),
    }
}

/// Runs a command. Returns both its output streams and its pages.
fn run(command: &str) -> Result<(String, Pages), String> {
    let fail = |error: io::Error| format!("{command}: {error}");
    let script = format!("exec {command} 2>&1");
    let started = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn();
    let running = started.map_err(fail)?;
    let process = running.id();
    let (output, pages) = watched(LOOK, move || vec![process], || running.wait_with_output());
    let output = output.map_err(fail)?;
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), pages))
}
