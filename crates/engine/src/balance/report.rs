//! The report of a balancer, besides the ledger of its sources.

use burstline_port::Losses;
use burstline_sys::memory::NodeId;

use super::{Distribution, Elephant, Mode};

/// Packets by group and worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceReport {
    /// The log that a worker read.
    pub mode: Mode,
    /// How packets were spread.
    pub distribution: Distribution,
    /// The groups; each should get every packet once.
    pub groups: Vec<GroupReport>,
    /// The flows that carried most of the traffic, if any, the largest first.
    pub elephants: Vec<Elephant>,
}

/// One group's ledger: offered = delivered + lost + unaccounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Packets meant for the group.
    pub offered: u64,
    /// Packets that its workers took.
    pub delivered: u64,
    /// Packets that its workers did not take, by cause.
    pub lost: Losses,
    /// The remainder: 0 unless something is wrong.
    pub unaccounted: i64,
    /// Its workers.
    pub workers: Vec<WorkerReport>,
}

/// One worker's ledger, with the same equation as a group's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Number through all groups: log NUMBER of a published name.
    pub number: usize,
    /// Name of its sink; `None` if it only counts, or is another program.
    pub sink: Option<String>,
    /// Packets meant for it, by the receive threads' count.
    pub offered: u64,
    /// Packets that it took, by its own count; for another program, packets in its log.
    pub delivered: u64,
    /// Captured bytes of these packets, without FCS.
    pub bytes: u64,
    /// Packets that it did not take, by cause.
    pub lost: Losses,
    /// The remainder: 0 unless something is wrong. Includes the difference to its sink's count.
    pub unaccounted: i64,
    /// The node of all pages of the logs that it reads, as reported by the kernel. `None` if they
    /// are on several nodes, or the node is unknown.
    pub log_node: Option<NodeId>,
}
