//! The nodes and cores of a machine, without details: enough for a job that needs no plan.

use std::path::Path;

use burstline_sys::affinity::{CoreId, parse_cores};
use burstline_sys::memory::NodeId;
use burstline_sys::topology::{TopologyError, node_cores};

use crate::files::Files;

/// The nodes and cores of a machine, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The nodes, at least one.
    pub nodes: Vec<NodeId>,
    /// The cores that are online.
    pub cores: Vec<OutlineCore>,
    /// The cores that this process runs on by default: all online ones if that is unknown.
    pub allowed: Vec<CoreId>,
}

/// An online core (logical CPU).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlineCore {
    /// Its number.
    pub id: CoreId,
    /// Its node.
    pub node: NodeId,
    /// Whether a thread of this process can be pinned to it.
    pub is_usable: bool,
    /// Whether the scheduler reserves it for explicitly pinned threads (`isolcpus=`).
    pub is_isolated: bool,
}

impl Outline {
    /// Reads this machine. Cost: reads three files, and one for each node.
    ///
    /// # Errors
    /// See [`Inventory::read_from`](super::Inventory::read_from).
    pub fn read() -> Result<Self, TopologyError> {
        Self::below(&Files::below(Path::new("/")))
    }

    pub(super) fn below(files: &Files) -> Result<Self, TopologyError> {
        let nodes = node_cores(&files.path("sys"))?;
        let mut homes: Vec<(CoreId, NodeId)> = (nodes.iter())
            .flat_map(|(node, cores)| cores.iter().map(|&core| (core, *node)))
            .collect();
        homes.sort_unstable_by_key(|&(core, _)| core);
        let isolated = files.list("sys/devices/system/cpu/isolated").unwrap_or_default();
        let listed = files.field("proc/self/status", "Cpus_allowed_list");
        let listed = listed.and_then(|list| parse_cores(&list).ok());
        // The list may include cores that are not present yet.
        let is_allowed = |core: &CoreId| listed.as_ref().is_none_or(|list| list.contains(core));
        let allowed: Vec<CoreId> = homes.iter().map(|&(core, _)| core).filter(is_allowed).collect();
        // Isolated cores are not in a process's default set, but it can pin threads to them. A
        // process with fewer cores than all others was limited on purpose, and must stay within
        // that limit.
        let mut others = homes.iter().filter(|(core, _)| !isolated.contains(core));
        let is_limited = others.any(|(core, _)| !allowed.contains(core));
        let core = |&(id, node): &(CoreId, NodeId)| {
            let is_isolated = isolated.contains(&id);
            let is_usable = allowed.contains(&id) || (is_isolated && !is_limited);
            OutlineCore { id, node, is_usable, is_isolated }
        };
        let cores = homes.iter().map(core).collect();
        Ok(Self { nodes: nodes.iter().map(|(node, _)| *node).collect(), cores, allowed })
    }

    /// Returns the node of an online core.
    pub fn node_of(&self, id: CoreId) -> Option<NodeId> {
        self.cores.iter().find(|core| core.id == id).map(|core| core.node)
    }
}
