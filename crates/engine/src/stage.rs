//! What one thread of a job costs.

use burstline_sys::clock;

use crate::ledger::line_bits;
use crate::report::{StageReport, rho};
use crate::tally::Tally;

/// Measures the calling thread, from its making to `end`.
pub(crate) struct StageMeter {
    cpu_start_ns: u64,
    /// Time of polls that found nothing, in ns.
    pub(crate) empty_ns: u64,
}

/// What a thread has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageCost {
    pub(crate) cpu_ns: u64,
    pub(crate) empty_ns: u64,
}

impl StageMeter {
    pub(crate) fn start() -> Self {
        Self { cpu_start_ns: clock::thread_cpu_ns(), empty_ns: 0 }
    }

    pub(crate) fn end(self) -> StageCost {
        let cpu_ns = clock::thread_cpu_ns() - self.cpu_start_ns;
        // A preempted poll took longer than it cost.
        StageCost { cpu_ns, empty_ns: self.empty_ns.min(cpu_ns) }
    }
}

impl StageCost {
    /// The report of a stage that passed `through` on.
    pub(crate) fn report(&self, name: &str, elapsed_ns: u64, through: &Tally) -> StageReport {
        let gigabits = line_bits(through.packets, through.wire_bytes) / 1e9;
        StageReport {
            name: name.to_owned(),
            cpu_percent: self.cpu_ns as f64 * 100.0 / elapsed_ns.max(1) as f64,
            rho: rho(self.cpu_ns, gigabits),
            rho_busy: rho(self.cpu_ns - self.empty_ns, gigabits),
            packets_in: through.packets,
            packets_out: through.packets,
            lost: 0,
            high_water: 0,
        }
    }
}
