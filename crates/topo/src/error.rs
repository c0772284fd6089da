//! The reasons why a job cannot be placed as requested.

use burstline_sys::affinity::{CoreId, format_cores};
use burstline_sys::memory::NodeId;

/// Why the job cannot be placed. Each message is one line with the numbers and the alternatives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No receive thread was requested.
    #[error("0 receive threads: a job needs at least one")]
    NoThreads,
    /// The node does not exist.
    #[error("no node {node}; this machine has {}", list(present))]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// The existing nodes.
        present: Vec<NodeId>,
    },
    /// No thread can be pinned to a core of the node.
    #[error(
        "node {node} has no core for this process: it has {}, allowed are {}",
        cores(present),
        cores(usable)
    )]
    NodeWithoutCores {
        /// The node.
        node: NodeId,
        /// Its cores.
        present: Vec<CoreId>,
        /// The cores that threads can be pinned to.
        usable: Vec<CoreId>,
    },
    /// A log or a stack cannot be on the node.
    #[error("node {node} has no memory for this process; {} {} some", list(others), has(others))]
    NodeWithoutMemory {
        /// The node.
        node: NodeId,
        /// The nodes with memory.
        others: Vec<NodeId>,
    },
    /// A placement names more nodes than exist.
    #[error(
        "placement {placement} needs {needed} nodes with usable cores; there {}",
        there(present)
    )]
    TooFewNodes {
        /// The placement.
        placement: String,
        /// Number of nodes it names.
        needed: usize,
        /// The nodes with usable cores.
        present: Vec<NodeId>,
    },
    /// More threads than physical cores.
    #[error(
        "{threads} threads for {cores} physical core{} that this process may use{}: fewer workers",
        if *cores == 1 { "" } else { "s" },
        node.map(|node| format!(" on node {node}")).unwrap_or_default()
    )]
    TooFewCores {
        /// Threads to be placed there.
        threads: usize,
        /// Physical cores there.
        cores: usize,
        /// The node, if it was required.
        node: Option<NodeId>,
    },
    /// Two requests contradict each other.
    #[error("{first} and {second} contradict each other: {why}")]
    Contradiction {
        /// The first request.
        first: String,
        /// The second request.
        second: String,
        /// The contradiction.
        why: String,
    },
    /// A named core cannot be used.
    #[error("core {core} cannot be used: it is {why}; there are {}", cores(usable))]
    Core {
        /// The core.
        core: CoreId,
        /// The reason.
        why: &'static str,
        /// The cores that threads can be pinned to.
        usable: Vec<CoreId>,
    },
    /// A source names an interface that does not exist.
    #[error("{source_name}: no interface {interface}; there {}", interfaces(present))]
    NoSuchInterface {
        /// The source.
        source_name: String,
        /// The interface.
        interface: String,
        /// The existing interfaces.
        present: Vec<String>,
    },
}

fn cores(cores: &[CoreId]) -> String {
    match cores.is_empty() {
        true => "none".to_owned(),
        false => format_cores(cores),
    }
}

fn list(nodes: &[NodeId]) -> String {
    let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    match names.is_empty() {
        true => "no node".to_owned(),
        false => format!("node{} {}", if names.len() > 1 { "s" } else { "" }, names.join(", ")),
    }
}

fn there(present: &[NodeId]) -> String {
    match present {
        [one] => format!("is one, node {one}"),
        _ => format!("are {}", list(present)),
    }
}

fn has(nodes: &[NodeId]) -> &'static str {
    if nodes.len() > 1 { "have" } else { "has" }
}

fn interfaces(names: &[String]) -> String {
    match names.is_empty() {
        true => "is none".to_owned(),
        false => format!("are {}", names.join(", ")),
    }
}
