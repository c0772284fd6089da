//! A program that receives what is injected.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{fs, thread};

use burstline_sys::usage::{self, CpuUsage};
use burstline_testbed::Program;

use super::Road;
use crate::pages::Reservation;

/// Within this time every contender is ready, or something is wrong.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long a contender may take for what is in its ring, after the last frame.
const SETTLE: Duration = Duration::from_millis(200);

/// Huge pages of 2 MiB, enough for either side's frames: DPDK is told to take 512 MiB.
const PAGES: u64 = 320;

/// A running contender. Dropping it kills it.
pub struct Contender<'a> {
    road: &'a Road,
    program: Program,
    output: PathBuf,
    before: CpuUsage,
}

impl<'a> Contender<'a> {
    /// Starts `command`, words separated by spaces, on the far host and on the cores of `cores`,
    /// and returns when it has printed `ready` (on either stream).
    ///
    /// # Errors
    /// It does not get so far: with what it has printed.
    pub fn start(
        road: &'a Road,
        cores: &str,
        command: &str,
        ready: &str,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        let pages = Reservation::take(PAGES);
        let output = PathBuf::from(road.file("output"));
        let script = format!("exec stdbuf -oL taskset -c {cores} {command} > \"$0\" 2>&1");
        let before = usage::children();
        let program = road.bed.far.start("sh", &["-c", &script, &road.file("output")], &[]);
        let program = program.map_err(|error| error.to_string())?;
        let this = Self { road, program, output, before };
        let began = Instant::now();
        while !this.printed().contains(ready) {
            // The flag carries no memory.
            if stop.load(Relaxed) || began.elapsed() > READY_WITHIN {
                return Err(format!("`{command}` was not ready: {}", this.printed().trim()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        drop(pages);
        // It says so a moment before.
        thread::sleep(SETTLE);
        Ok(this)
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What it has in memory now, huge pages included; 0 if that cannot be known.
    pub fn memory_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.program.process_id());
        let status = fs::read_to_string(status).unwrap_or_default();
        let kibibytes = |key: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(key));
            let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0_u64)
        };
        (kibibytes("VmRSS:") + kibibytes("HugetlbPages:")) << 10
    }

    /// Ends it as a user would, once it has had time for the last frames. Returns what it has
    /// printed and what it has cost, start and end included.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn end(self) -> Result<(String, CpuUsage), String> {
        thread::sleep(SETTLE);
        let process = self.program.process_id().to_string();
        let interrupt = self.road.bed.far.command("kill", &["-INT", &process]);
        interrupt.map_err(|error| format!("{error}: {}", self.printed()))?;
        self.program.finish().map_err(|error| error.to_string())?;
        let bytes = fs::read(&self.output).map_err(|error| error.to_string())?;
        let used = usage::children().since(&self.before);
        Ok((String::from_utf8_lossy(&bytes).into_owned(), used))
    }
}
