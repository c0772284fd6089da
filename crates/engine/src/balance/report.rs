//! What a balancer returns besides the ledger of its sources.

use burstline_port::Losses;
use burstline_sys::memory::NodeId;

use super::{Distribution, Elephant, Mode};

/// Who got what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceReport {
    /// What workers read.
    pub mode: Mode,
    /// How packets were spread.
    pub distribution: Distribution,
    /// The groups; each should have seen every packet once.
    pub groups: Vec<GroupReport>,
    /// The flows that carried most, if there were such, the largest first.
    pub elephants: Vec<Elephant>,
}

/// One group's ledger: offered = delivered + lost + unaccounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Packets for it.
    pub offered: u64,
    /// Packets that its workers took.
    pub delivered: u64,
    /// Packets that they did not, by cause.
    pub lost: Losses,
    /// What does not add up: 0.
    pub unaccounted: i64,
    /// Its workers.
    pub workers: Vec<WorkerReport>,
}

/// One worker's ledger, as a group's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Its number through all groups: log NUMBER of a published name.
    pub number: usize,
    /// Its sink; none where it counts, or is another program.
    pub sink: Option<String>,
    /// Packets that were to go to it, by the receive threads' count.
    pub offered: u64,
    /// Packets that it took, by its own; where it is another program, packets in its log.
    pub delivered: u64,
    /// Their bytes that are here, without FCS.
    pub bytes: u64,
    /// Packets that it did not take, by cause.
    pub lost: Losses,
    /// What does not add up: 0. What it took by its own count is held against its sink's, too.
    pub unaccounted: i64,
    /// The node of all pages of the logs that it reads, by the kernel's account. `None` if they are
    /// on several nodes, or the node is unknown.
    pub log_node: Option<NodeId>,
}
