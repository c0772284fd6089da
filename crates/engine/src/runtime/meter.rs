//! The cost of a thread, and of a whole job.

use burstline_sys::clock;
use burstline_sys::usage::{self, CpuUsage};

use crate::ledger::line_bits;
use crate::report::{StageReport, rho};

use super::tally::Tally;
use super::waiting::Sleeps;

/// Measures the calling thread, from `start` to the last `so_far`.
pub(super) struct StageMeter {
    cpu_start_ns: u64,
    /// Time of polls that found nothing, in ns.
    empty_ns: u64,
    /// Time of polls that found packets, in ns.
    busy_ns: u64,
}

/// The cost of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageCost {
    pub(crate) cpu_ns: u64,
    pub(crate) empty_ns: u64,
    pub(crate) busy_ns: u64,
    pub(crate) sleeps: Sleeps,
}

/// Resources used so far by this process and the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) process: CpuUsage,
    /// Time in softirqs, on all cores and for all processes, in ns; `None` if unknown.
    pub(crate) softirq_ns: Option<u64>,
}

impl Usage {
    pub(crate) fn now() -> Self {
        Self { process: usage::process(), softirq_ns: usage::machine_softirq_ns() }
    }

    /// Returns the usage since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let softirq_ns = self.softirq_ns.zip(earlier.softirq_ns);
        Self {
            process: self.process.since(&earlier.process),
            softirq_ns: softirq_ns.map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

impl StageMeter {
    pub(super) fn start() -> Self {
        Self { cpu_start_ns: clock::thread_cpu_ns(), empty_ns: 0, busy_ns: 0 }
    }

    /// Adds the time of polls that found packets, or of polls that found none.
    pub(super) fn pass(&mut self, span_ns: u64, was_busy: bool) {
        match was_busy {
            true => self.busy_ns += span_ns,
            false => self.empty_ns += span_ns,
        }
    }

    /// Returns the thread's cost so far; `sleeps`: how often it has slept. Cost: a system call.
    pub(super) fn so_far(&self, sleeps: Sleeps) -> StageCost {
        let cpu_ns = clock::thread_cpu_ns() - self.cpu_start_ns;
        // A preempted poll takes more wall time than processor time.
        let (empty_ns, busy_ns) = (self.empty_ns.min(cpu_ns), self.busy_ns);
        StageCost { cpu_ns, empty_ns, busy_ns, sleeps }
    }
}

impl StageCost {
    /// Returns the report of a stage that passed on `through`.
    pub(crate) fn report(&self, name: &str, elapsed_ns: u64, through: &Tally) -> StageReport {
        let gigabits = line_bits(through.packets, through.wire_bytes) / 1e9;
        StageReport {
            name: name.to_owned(),
            cpu_percent: self.cpu_ns as f64 * 100.0 / elapsed_ns.max(1) as f64,
            rho: rho(self.cpu_ns, gigabits),
            rho_busy: rho(self.cpu_ns - self.empty_ns, gigabits),
            busy_ns: self.busy_ns,
            packets_in: through.packets,
            packets_out: through.packets,
            lost: 0,
            high_water: 0,
            sleeps: self.sleeps.sleeps,
            wakes: self.sleeps.wakes,
        }
    }
}
