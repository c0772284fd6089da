//! The report of a job: plain data, which the caller prints.

use std::collections::BTreeMap;

use burstline_log::{Handoff, Log};
use burstline_port::{Loss, Port};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::memory::NodeId;
use burstline_sys::privileges::Held;
use burstline_sys::scheduling::SchedulingClass;
use burstline_sys::stack;
use burstline_sys::usage::{self, CpuUsage, ResidentMemory};

use crate::ledger::line_bits;
use crate::runtime::{Done, Span, Usage};
use crate::{
    BalanceReport, EngineError, FlowsReport, Inlet, MergeReport, PollMode, PortReport,
    PublishedReport, Total,
};

/// The complete report of a job.
#[derive(Debug, Default)]
pub struct Report {
    /// Time from the start of the threads until the last one ended, in ns.
    pub elapsed_ns: u64,
    /// A row for each source.
    pub ports: Vec<PortReport>,
    /// The sum of the rows.
    pub total: Total,
    /// How its threads waited for packets.
    pub poll: PollMode,
    /// Work and cost of each thread.
    pub stages: Vec<StageReport>,
    /// Where the threads ran.
    pub placement: PlacementReport,
    /// The memory that held the packets.
    pub memory: MemoryReport,
    /// The clock of the packets' times.
    pub timestamp: TimestampReport,
    /// The history and its files, in a job that keeps one.
    pub flight: Option<FlightReport>,
    /// The outcome of a merge.
    pub merge: Option<MergeReport>,
    /// Packets of each worker, in a job that spreads packets over workers.
    pub balance: Option<BalanceReport>,
    /// The outcome of flow records, in a job that makes some.
    pub flows: Option<FlowsReport>,
    /// The cost of the job.
    pub cpu: CpuReport,
    /// The earliest and the latest packet time, in ns since 1970, if there was a packet.
    pub packet_times_ns: Option<(u64, u64)>,
    /// Notes for the user: damage with its place, adapted settings.
    pub notes: Vec<String>,
    /// Those notes that explain how ports work, or were printed while the job ran.
    pub hints: Vec<String>,
    /// Memory that was not available, and how to fix that.
    pub memory_notes: Vec<String>,
    /// Errors that ended a part of the job early.
    pub errors: Vec<EngineError>,
    /// The published name of its logs, and their readers.
    pub published: Option<PublishedReport>,
    /// Whether some input could not be parsed.
    pub is_damaged: bool,
}

/// One thread of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageReport {
    /// Name of the stage.
    pub name: String,
    /// Processor time, as a percentage of one core over the job.
    pub cpu_percent: f64,
    /// `cpu_percent` for each Gbit/s of line rate.
    pub rho: f64,
    /// The same without the time of polls that found nothing.
    pub rho_busy: f64,
    /// Wall time of polls that found packets, in ns.
    pub busy_ns: u64,
    /// Packets it was given.
    pub packets_in: u64,
    /// Packets it passed on.
    pub packets_out: u64,
    /// Packets lost in it.
    pub lost: u64,
    /// The most segments that waited for it, 0 if none can wait.
    pub high_water: u64,
    /// How often the thread slept.
    pub sleeps: u64,
    /// Sleeps that ended because there was work, not because their time was up.
    pub wakes: u64,
}

/// Where one thread ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Name of the stage.
    pub name: String,
    /// The core it was pinned to, if any.
    pub pinned_to: Option<CoreId>,
    /// The node of the core it started on.
    pub node: Option<NodeId>,
    /// Its scheduling class.
    pub class: SchedulingClass,
    /// The node that its stack was moved to, if any.
    pub stack_node: Option<NodeId>,
    /// Pages of its stack by node, as reported by the kernel at the end; empty if unknown.
    pub stack: BTreeMap<NodeId, usize>,
    /// Privileges that it still had at the end.
    pub rights: Held,
}

impl ThreadPlace {
    /// Reads where the calling thread's stack is, and which privileges it has. The place must be
    /// that thread's. Cost: a system call for some hundred pages, and a text file of the kernel.
    pub(crate) fn look(&mut self) {
        self.stack = stack::nodes().unwrap_or_default();
        self.rights = Held::read();
    }

    /// Returns the pages of the stack that are not on their planned node.
    pub fn stray_pages(&self) -> usize {
        let Some(planned) = self.stack_node else { return 0 };
        self.stack.iter().filter(|(node, _)| **node != planned).map(|(_, pages)| pages).sum()
    }
}

/// Where the threads ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementReport {
    /// The cores that this process may use.
    pub allowed_cores: Vec<CoreId>,
    /// One place for each stage.
    pub threads: Vec<ThreadPlace>,
    /// Reasons for the placement: assumptions, and what was not available.
    pub notes: Vec<String>,
}

/// The memory that held the packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// The size of its pages, in bytes.
    pub page_bytes: usize,
    /// Kind of the pages.
    pub page_kind: String,
    /// The node of all checked pages; `None` if they are on several nodes, or it is unknown.
    pub node: Option<NodeId>,
    /// The log's packet memory, in bytes; 0 without a log.
    pub log_bytes: usize,
    /// Size of a segment, in bytes.
    pub segment_bytes: usize,
    /// How packets were handed to their readers.
    pub handoff: HandoffReport,
    /// Resident memory of the process at the end of the job.
    pub resident: ResidentMemory,
}

impl Default for MemoryReport {
    /// The memory of a job without a log: ports keep packets in ordinary pages.
    fn default() -> Self {
        Self {
            page_bytes: 4096,
            page_kind: "4 KiB".to_owned(),
            node: None,
            log_bytes: 0,
            segment_bytes: 0,
            handoff: HandoffReport::default(),
            resident: ResidentMemory::default(),
        }
    }
}

/// How packets were handed from core to core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffReport {
    /// The requested hand-off.
    pub asked: Handoff,
    /// Segments of all logs.
    pub segments: u64,
    /// How many of them bypassed the caches.
    pub far_segments: u64,
}

impl HandoffReport {
    /// Returns the hand-off of a job's logs, of which there is at least one.
    fn of(logs: &[Log]) -> Self {
        Self {
            asked: logs.first().map(|log| log.config().handoff).unwrap_or_default(),
            segments: logs.iter().map(Log::segments).sum(),
            far_segments: logs.iter().map(Log::far_segments).sum(),
        }
    }
}

/// The history of a job that keeps it until a trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightReport {
    /// The requested length of the history, in ns.
    pub asked_ns: u64,
    /// How far back the log went at the end, in ns, at most as requested; the shortest of several.
    pub kept_ns: u64,
    /// The shortest history that the memory had room for, in ns, if it was ever too small.
    pub shortest_ns: Option<u64>,
    /// The size of each log that would have been enough, in bytes, if this one was too small.
    pub wanted_bytes: Option<u64>,
    /// The files written, in order.
    pub files: Vec<FlightFile>,
}

/// One file of a flight recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightFile {
    /// Its name.
    pub name: String,
    /// Packets given to it.
    pub packets: u64,
    /// How far back before its trigger the log went, in ns, at most as requested: older packets are
    /// not in the file.
    pub kept_ns: u64,
    /// Triggers that it answers.
    pub triggers: u64,
}

/// The clock of the packets' times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimestampReport {
    /// The sources' kinds of clock, each once, joined with `+`.
    pub source: String,
}

/// The cost of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuReport {
    /// Processor time of the whole process during the job.
    pub usage: CpuUsage,
    /// Time in softirqs during the job, in ns, in ticks of 10 ms. It covers the whole machine,
    /// because the kernel does not attribute it. `None` if unknown.
    pub softirq_ns: Option<u64>,
    /// Percent of one core for each Gbit/s of line rate.
    pub rho_total: f64,
    /// The same without the time of polls that found nothing.
    pub rho_busy: f64,
}

/// The base of a job's report, besides its rows and stages.
pub(crate) struct Ending {
    pub(crate) elapsed_ns: u64,
    pub(crate) usage: Usage,
    /// Time of polls that found nothing, over all threads, in ns.
    pub(crate) empty_ns: u64,
    pub(crate) span: Span,
    pub(crate) lost_first_second: u64,
    pub(crate) bytes_copied: u64,
}

impl Ending {
    /// Starts the summary of a job in which nothing was counted yet.
    pub(crate) fn of(elapsed_ns: u64, usage: Usage) -> Self {
        Self {
            elapsed_ns,
            usage,
            empty_ns: 0,
            span: Span::default(),
            lost_first_second: 0,
            bytes_copied: 0,
        }
    }

    /// Adds the cost and losses of one thread.
    pub(crate) fn add<T>(&mut self, done: &Done<T>) {
        self.empty_ns += done.cost.empty_ns;
        self.lost_first_second += done.lost_first_second;
    }
}

impl Report {
    /// Creates the report; the caller fills in memory, notes and errors.
    pub(crate) fn new(ports: Vec<PortReport>, ending: &Ending) -> Self {
        let mut total = Total::of(&ports, ending.elapsed_ns);
        total.bytes_copied = ending.bytes_copied;
        total.lost_first_second = ending.lost_first_second;
        let gigabits = line_bits(total.delivered, total.wire_bytes) / 1e9;
        let process = ending.usage.process;
        let used_ns = process.user_ns + process.system_ns;
        let cpu = CpuReport {
            usage: process,
            softirq_ns: ending.usage.softirq_ns,
            rho_total: rho(used_ns, gigabits),
            rho_busy: rho(used_ns.saturating_sub(ending.empty_ns), gigabits),
        };
        let allowed_cores = affinity::allowed_cores().unwrap_or_default();
        Self {
            elapsed_ns: ending.elapsed_ns,
            ports,
            total,
            cpu,
            placement: PlacementReport { allowed_cores, ..PlacementReport::default() },
            memory: MemoryReport {
                resident: usage::resident().unwrap_or_default(),
                ..MemoryReport::default()
            },
            packet_times_ns: ending.span.ends(),
            ..Self::default()
        }
    }

    /// Adds the notes and clocks of the sources.
    pub(crate) fn hear(&mut self, sources: &[Inlet]) {
        let mut clocks: Vec<&str> = Vec::new();
        for source in sources {
            self.hear_port(source.port());
            let clock = source.port.info().timestamps.name();
            if !clocks.contains(&clock) {
                clocks.push(clock);
            }
        }
        self.timestamp.source = clocks.join("+");
        if let Some(merge) = &mut self.merge {
            merge.hear(sources.iter().map(|source| source.port.info().timestamps));
        }
    }

    /// Adds errors for the packets that an output cannot hold.
    pub(crate) fn tell_left_out(&mut self) {
        for cause in [Loss::LinkMismatch, Loss::TooLong] {
            let packets = self.total.lost.of(cause);
            if packets > 0 {
                self.errors.push(EngineError::LeftOut { packets, cause });
            }
        }
    }

    /// Adds the notes of one port.
    pub(crate) fn hear_port(&mut self, port: &dyn Port) {
        let account = port.account();
        self.is_damaged |= account.is_damaged;
        let printed = account.warnings.iter().chain(&account.events);
        self.hints.extend(account.hints.iter().chain(printed).cloned());
        for note in account.warnings.into_iter().chain(account.notes) {
            // Ports of one interface report the same notes.
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        if account.notes_omitted > 0 {
            let (name, omitted) = (&port.info().name, account.notes_omitted);
            self.notes.push(format!("{name}: {omitted} more notes like these"));
        }
    }

    /// Describes the logs' memory; if the logs differ, the first one's.
    pub(crate) fn describe_logs(&mut self, logs: &[Log]) {
        let Some(first) = logs.first() else { return };
        let mut nodes: Vec<_> = logs.iter().flat_map(|log| log.placement().nodes.keys()).collect();
        nodes.dedup();
        self.memory = MemoryReport {
            page_bytes: first.placement().page_bytes,
            page_kind: first.placement().page.to_string(),
            node: if let [node] = nodes[..] { Some(*node) } else { None },
            log_bytes: logs.iter().map(|log| log.config().bytes).sum(),
            segment_bytes: first.config().segment_bytes,
            handoff: HandoffReport::of(logs),
            resident: usage::resident().unwrap_or_default(),
        };
        for note in logs.iter().flat_map(|log| &log.placement().notes) {
            if !self.memory_notes.contains(note) {
                self.memory_notes.push(note.clone());
            }
        }
    }

    /// Returns whether the job did its work, with nothing unexplained. Losses are explained.
    pub fn is_success(&self) -> bool {
        self.errors.is_empty()
            && !self.is_damaged
            && self.total.unaccounted == 0
            && self.flows.as_ref().is_none_or(|flows| flows.unaccounted == 0)
    }
}

/// Returns percent of one core for each Gbit/s. Both are over the same time, which cancels out. 0
/// without traffic.
pub(crate) fn rho(cpu_ns: u64, gigabits: f64) -> f64 {
    if gigabits > 0.0 { cpu_ns as f64 / 1e9 * 100.0 / gigabits } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rho_is_percent_of_a_core_for_each_gigabit() {
        // 0.782 s of processor time in one second in which 8.18 Gbit came.
        assert!((rho(782_000_000, 8.18) - 9.56).abs() < 0.005);
        assert_eq!(rho(1, 0.0), 0.0);
    }
}
