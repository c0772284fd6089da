//! The conditions of a measurement, and the doubts that follow from them.

use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, thread};

use burstline_sys::{clock, scheduling};

use crate::threads::Cores;

/// Other load below this many cores raises no doubt.
const QUIET_CORES: f64 = 0.1;

/// Measures how busy the machine is with other work.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    cores: Cores,
    start: Option<Ticks>,
}

/// Time in units of the kernel's user-visible clock tick.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// Busy time of all cores.
    busy: u64,
    /// Total time of all cores.
    all: u64,
    /// Number of cores.
    cores: u64,
    /// Time of this process and its children, ended or running.
    own: u64,
}

impl Conditions {
    /// Starts to watch.
    pub fn watch(cores: Cores) -> Self {
        Self { cores, start: ticks() }
    }

    /// Returns one line of conditions, and one for each doubt.
    pub fn report(&self) -> Vec<String> {
        let Cores { producer, consumer } = self.cores;
        let nice = scheduling::nice().map_or("unknown".to_owned(), |nice| nice.to_string());
        let mut lines = vec![format!("cores {producer} and {consumer}, nice {nice}")];
        if !self.cores.are_two() {
            lines.push("doubt: fewer than 2 cores allowed, the threads share one".to_owned());
        }
        match self.other_cores() {
            Some(busy) if busy >= QUIET_CORES => {
                lines.push(format!("doubt: other load: {busy:.2} cores busy with other programs"));
            }
            Some(_) => {}
            None => lines.push("doubt: other load: unknown, /proc/stat is unreadable".to_owned()),
        }
        lines
    }

    /// Returns the average number of cores busy with other work since the start.
    fn other_cores(&self) -> Option<f64> {
        let (start, now) = (self.start?, ticks()?);
        let all = now.all.saturating_sub(start.all);
        let busy = now.busy.saturating_sub(start.busy);
        let other = busy.saturating_sub(now.own.saturating_sub(start.own));
        (all > 0).then(|| other as f64 * now.cores as f64 / all as f64)
    }
}

fn ticks() -> Option<Ticks> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    let mut ticks = parse(&machine, &own)?;
    ticks.own += ticks_of_children();
    Some(ticks)
}

/// Returns the ticks of this process and its children, ended or running.
pub(crate) fn own_ticks() -> Option<u64> {
    let (_, own) = spent(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(own + ticks_of_children())
}

/// Returns the ticks of running children; those of ended ones are in the process's own account.
fn ticks_of_children() -> u64 {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats =
        processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| spent(&stat)).filter(|&(parent, _)| parent == own).map(|of| of.1).sum()
}

/// Parses the counters. Source: proc_stat(5), proc_pid_stat(5).
fn parse(machine: &str, own: &str) -> Option<Ticks> {
    let total = machine.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is included in the first two.
    let fields: Vec<u64> =
        total.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let all = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let cores = machine.lines().filter(is_core).count() as u64;
    let (_, own) = spent(own)?;
    Some(Ticks { busy: all - idle, all, cores, own })
}

/// Parses a process's parent, and its ticks with those of the children it has waited for.
fn spent(stat: &str) -> Option<(u32, u64)> {
    // The program's name is in parentheses and may hold anything; state is the next field.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let spent = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>());
    Some((parent, spent.sum::<Result<u64, _>>().ok()?))
}

/// Returns the frequency of the time stamp counter in Hz. Cost: 50 ms, once.
pub fn cycles_per_second() -> f64 {
    static HZ: OnceLock<f64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let (start, start_ns) = (cycles_now(), clock::monotonic_ns());
        thread::sleep(Duration::from_millis(50));
        let (end, end_ns) = (cycles_now(), clock::monotonic_ns());
        (end - start) as f64 * 1e9 / (end_ns - start_ns) as f64
    })
}

/// Reads the time stamp counter, or nanoseconds if there is none.
fn cycles_now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    return clock::cycles();
    #[cfg(not(target_arch = "x86_64"))]
    return clock::monotonic_ns();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_machine_and_of_this_process_and_its_children() {
        let machine = "cpu  10 1 5 100 4 1 2 3 7 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        let own = "42 (a ) b) R 1 1 1 0 -1 0 0 0 0 0 20 3 200 30 20 0 1 0";
        let ticks = parse(machine, own).unwrap();
        assert_eq!((ticks.all, ticks.busy, ticks.cores, ticks.own), (126, 22, 2, 253));
        assert!(parse("intr 5\n", own).is_none());
    }
}
