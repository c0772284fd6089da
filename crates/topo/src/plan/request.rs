//! The request for a plan.

use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;

use super::Feed;
use crate::inventory::Inventory;
use crate::{Placement, PlanError};

/// A job to place. The planner decides everything that is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRequest {
    /// The sources of packets.
    pub sources: Vec<SourceRequest>,
    /// Receive threads. The default is one with logs, or one per source without.
    pub receivers: Option<usize>,
    /// Threads that read logs. The default is the number in the placement. With 0, each receive
    /// thread does all the work (run to completion).
    pub workers: Option<usize>,
    /// Name of a worker: `worker`, `record`.
    pub worker_name: String,
    /// How workers share logs.
    pub sharing: LogSharing,
    /// The required placement.
    pub placement: Option<Placement>,
    /// The node that A stands for.
    pub receive_node: Option<NodeId>,
    /// The node of all logs.
    pub pool_node: Option<NodeId>,
    /// The node of all stacks.
    pub stack_node: Option<NodeId>,
    /// The cores, in the order of the threads: those that receive, then the workers.
    pub cores: Vec<CoreId>,
    /// Whether two threads may share a physical core if there are too few.
    pub may_share_cores: bool,
    /// The size of a log in bytes, which determines its pages.
    pub log_bytes: u64,
}

/// A source of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRequest {
    /// Its name.
    pub name: String,
    /// The interface of its packets, if any.
    pub interface: Option<String>,
    /// Its queues that are separate ports; empty for a single port.
    pub queues: Vec<u32>,
}

/// How workers share logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogSharing {
    /// Each worker has its own log from each receive thread, and packets are copied into it.
    #[default]
    Copy,
    /// All workers read the single log of each receive thread.
    Share,
}

impl PlanRequest {
    /// Returns the numbers of receive threads and workers.
    pub(super) fn thread_counts(&self) -> Result<(usize, usize), PlanError> {
        let ports: usize = self.sources.iter().map(|source| source.queues.len().max(1)).sum();
        let Some(placement) = &self.placement else {
            let workers = self.workers.unwrap_or(0);
            let by_itself = if workers > 0 { 1 } else { ports.max(1) };
            return match self.receivers.unwrap_or(by_itself) {
                0 => Err(PlanError::NoThreads),
                receivers => Ok((receivers, workers)),
            };
        };
        let named = (placement.receivers.len(), placement.workers.len());
        let asked = [(self.receivers, named.0, "receivers"), (self.workers, named.1, "workers")];
        for (asked, named, what) in asked {
            if let Some(asked) = asked.filter(|&asked| asked != named) {
                return Err(PlanError::Contradiction {
                    first: format!("--placement {placement}"),
                    second: format!("--{what} {asked}"),
                    why: format!("{placement} names {named}"),
                });
            }
        }
        Ok(named)
    }

    /// Checks everything that does not depend on choices.
    pub(super) fn check(
        &self,
        inventory: &Inventory,
        receivers: usize,
        workers: usize,
    ) -> Result<(), PlanError> {
        let present = || inventory.nodes.iter().map(|node| node.id).collect();
        for node in [self.receive_node, self.pool_node, self.stack_node].into_iter().flatten() {
            if inventory.node(node).is_none() {
                return Err(PlanError::NoSuchNode { node, present: present() });
            }
        }
        for node in [self.pool_node, self.stack_node].into_iter().flatten() {
            if !inventory.node(node).is_some_and(crate::Node::has_memory) {
                let with_memory = inventory.nodes.iter().filter(|node| node.has_memory());
                let others = with_memory.map(|node| node.id).collect();
                return Err(PlanError::NodeWithoutMemory { node, others });
            }
        }
        if let Some(node) = self.pool_node.filter(|_| workers == 0) {
            return Err(PlanError::Contradiction {
                first: format!("--pool-node {node}"),
                second: "no workers".to_owned(),
                why: "run to completion has no log".to_owned(),
            });
        }
        let ports: usize = self.sources.iter().map(|source| source.queues.len().max(1)).sum();
        if ports > 0 && receivers > ports {
            return Err(PlanError::Contradiction {
                first: format!("{receivers} receive threads"),
                second: format!("{ports} sources and queues"),
                why: "a queue has one receive thread".to_owned(),
            });
        }
        Ok(())
    }

    /// Assigns sources to receive threads: port i goes to thread i modulo their number, as in the
    /// engine.
    pub(super) fn feeds(&self, receivers: usize) -> Vec<Feed> {
        let ports = self.sources.iter().flat_map(|source| {
            let queues: Vec<Option<u32>> = match source.queues.is_empty() {
                true => vec![None],
                false => source.queues.iter().copied().map(Some).collect(),
            };
            queues.into_iter().map(|queue| (source.name.clone(), queue))
        });
        let feed = |(index, (source, queue))| Feed { source, queue, thread: index % receivers };
        ports.enumerate().map(feed).collect()
    }

    /// Returns the sources of receive thread `index`.
    pub(super) fn sources_of(&self, index: usize, receivers: usize) -> Vec<&SourceRequest> {
        let feeds = self.feeds(receivers);
        let own = feeds.iter().filter(|feed| feed.thread == index);
        let mut sources: Vec<&SourceRequest> = own
            .filter_map(|feed| self.sources.iter().find(|source| source.name == feed.source))
            .collect();
        sources.dedup();
        sources
    }

    /// Returns the name that the engine gives to the stage.
    pub(super) fn receiver_name(&self, index: usize, receivers: usize, workers: usize) -> String {
        match (workers, receivers) {
            (0, _) => format!("poll-{index}"),
            (_, 1) => "receive".to_owned(),
            _ => format!("receive-{index}"),
        }
    }

    pub(super) fn worker_name(&self, index: usize, workers: usize) -> String {
        let name = if self.worker_name.is_empty() { "worker" } else { &self.worker_name };
        match workers {
            1 => name.to_owned(),
            _ => format!("{name}-{index}"),
        }
    }
}
