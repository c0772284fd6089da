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

/// Ticks of all cores since the start of the machine, in the kernel's user-visible unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// user nice system idle iowait irq softirq steal; guest time is included in the first two.
    fields: [u64; 8],
    cores: u64,
    /// The part of this process and its children, ended or running.
    own: u64,
}

impl Conditions {
    /// Starts to watch.
    pub fn watch(cores: Cores) -> Self {
        Self { cores, start: Ticks::now() }
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
        let spent = Ticks::now()?.since(self.start?);
        (spent.all() > 0).then(|| spent.others(spent.busy()))
    }
}

impl Ticks {
    /// Reads them; `None` if the kernel does not tell.
    pub(crate) fn now() -> Option<Self> {
        let machine = fs::read_to_string("/proc/stat").ok()?;
        let (_, own) = spent(&fs::read_to_string("/proc/self/stat").ok()?)?;
        Self::parse(&machine, own + ticks_of_children())
    }

    /// Source: proc_stat(5).
    pub(crate) fn parse(machine: &str, own: u64) -> Option<Self> {
        let total = machine.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields = total.split_whitespace().take(8).map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
        let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        let cores = machine.lines().filter(is_core).count() as u64;
        Some(Self { fields: fields.try_into().ok()?, cores, own })
    }

    /// Returns the ticks since an earlier reading.
    pub(crate) fn since(self, start: Self) -> Self {
        let fields = std::array::from_fn(|at| self.fields[at].saturating_sub(start.fields[at]));
        Self { fields, own: self.own.saturating_sub(start.own), ..self }
    }

    /// Returns all time, including idle.
    pub(crate) fn all(self) -> u64 {
        self.fields.iter().sum()
    }

    /// Returns the time in programs and in the kernel on their behalf.
    pub(crate) fn programs(self) -> u64 {
        self.fields[..3].iter().sum()
    }

    /// Returns the time stolen by the host.
    pub(crate) fn stolen(self) -> u64 {
        self.fields[7]
    }

    /// Returns the time that cores were not idle.
    fn busy(self) -> u64 {
        self.all() - self.fields[3] - self.fields[4]
    }

    /// Returns the average number of cores that this time less our own is. There was some time.
    pub(crate) fn others(self, ticks: u64) -> f64 {
        ticks.saturating_sub(self.own) as f64 * self.cores as f64 / self.all() as f64
    }
}

/// Returns the ticks of running children; those of ended ones are in the process's own account.
fn ticks_of_children() -> u64 {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats =
        processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| spent(&stat)).filter(|&(parent, _)| parent == own).map(|of| of.1).sum()
}

/// Parses a process's parent, and its ticks with those of the children it has waited for.
/// Source: proc_pid_stat(5).
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
        let (parent, own) = spent(own).unwrap();
        let ticks = Ticks::parse(machine, own).unwrap();
        assert_eq!((ticks.all(), ticks.busy(), ticks.cores, parent), (126, 22, 2, 1));
        assert_eq!((ticks.own, Ticks::parse("intr 5\n", own)), (253, None));
    }
}
