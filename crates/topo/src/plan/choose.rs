//! Chooses nodes, and cores on them.

use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;

use super::{Place, PlanRequest};
use crate::inventory::{Attached, Core, Inventory};
use crate::{Placement, PlanError};

/// Chooses one core after another.
pub(super) struct Chooser<'a> {
    inventory: &'a Inventory,
    pub(super) request: &'a PlanRequest,
    /// The cores that the sources' cards interrupt, and the interface.
    interrupted: Vec<(CoreId, &'a str)>,
    /// The cores that this plan already uses.
    given: Vec<CoreId>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(inventory: &'a Inventory, request: &'a PlanRequest) -> Self {
        let interfaces = request.sources.iter().filter_map(|source| source.interface.as_deref());
        let interrupted = interfaces
            .filter_map(|name| inventory.interface(name))
            .flat_map(|card| card.interrupt_cores().map(|core| (core, card.name.as_str())))
            .collect();
        Self { inventory, request, interrupted, given: Vec::new() }
    }

    /// Returns the node that receive thread `index` should be on, and why.
    pub(super) fn receive_node(
        &self,
        index: usize,
        receivers: usize,
        notes: &mut Vec<String>,
    ) -> Result<(NodeId, String), PlanError> {
        if let Some(node) = self.request.receive_node {
            return match self.has_cores(node) {
                true => Ok((node, format!("node {node} was requested"))),
                false => Err(self.without_cores(node)),
            };
        }
        if self.inventory.nodes.len() == 1 {
            return Ok((self.inventory.nodes[0].id, "the only node".to_owned()));
        }
        for source in self.request.sources_of(index, receivers) {
            let Some(name) = &source.interface else { continue };
            let Some(card) = self.inventory.interface(name) else { continue };
            match card.attached {
                Attached::Node(node) => return Ok(self.near_card(name, node, notes)),
                Attached::Unknown => notes.push(format!(
                    "the kernel does not know the node of {name} (numa_node is -1); its \
                     firmware or virtual machine sets it; if you know it, use --node N"
                )),
                Attached::Software => {}
            }
            if let Some(node) = self.interrupted_node(name) {
                return Ok((node, format!("{name} interrupts cores of node {node}")));
            }
        }
        let roomiest = self.inventory.nodes.iter().max_by_key(|node| {
            (node.has_memory(), self.physical_cores(node.id), std::cmp::Reverse(node.id))
        });
        match roomiest.filter(|node| self.has_cores(node.id)) {
            Some(node) => {
                Ok((node.id, format!("its sources require no node other than {}", node.id)))
            }
            None => Err(self.without_cores(self.inventory.nodes[0].id)),
        }
    }

    /// Returns the card's node, or the nearest one with cores this process may use.
    fn near_card(&self, name: &str, node: NodeId, notes: &mut Vec<String>) -> (NodeId, String) {
        let nearest = self.inventory.nearest(node);
        let nearest = nearest.iter().find(|node| self.has_cores(node.id)).map(|node| node.id);
        match nearest.filter(|nearest| *nearest != node) {
            None => (node, format!("{name} is at node {node}")),
            Some(nearest) => {
                let note = format!("{name} is at node {node}, which has no core for this process");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                (nearest, format!("the nearest node to {name} with cores for this process"))
            }
        }
    }

    /// Returns the node whose cores a card interrupts, if it is a single one.
    fn interrupted_node(&self, name: &str) -> Option<NodeId> {
        let own = self.interrupted.iter().filter(|(_, interface)| *interface == name);
        let mut nodes: Vec<NodeId> =
            own.filter_map(|(core, _)| Some(self.inventory.core(*core)?.node)).collect();
        nodes.dedup();
        match nodes[..] {
            [node] if self.has_cores(node) => Some(node),
            _ => None,
        }
    }

    /// Returns the nodes that the letters of a placement stand for.
    pub(super) fn letters(
        &self,
        placement: &Placement,
        first: NodeId,
    ) -> Result<Vec<NodeId>, PlanError> {
        let nearest = self.inventory.nearest(first).into_iter().map(|node| node.id);
        let nodes: Vec<NodeId> = nearest.filter(|node| self.has_cores(*node)).collect();
        let needed = placement.nodes();
        if nodes.len() < needed {
            let (placement, present) = (placement.to_string(), nodes);
            return Err(PlanError::TooFewNodes { placement, needed, present });
        }
        for (letter, node) in nodes.iter().enumerate() {
            let threads = placement.receivers.iter().chain(&placement.workers);
            let threads = threads.filter(|&&named| usize::from(named) == letter).count();
            let cores = self.physical_cores(*node);
            let is_enough = cores >= threads || self.request.may_share_cores;
            if letter < needed && !is_enough {
                return Err(PlanError::TooFewCores { threads, cores, node: Some(*node) });
            }
        }
        Ok(nodes)
    }

    /// Chooses the best free core on `node`.
    pub(super) fn choose(&mut self, node: NodeId, why: String) -> Result<Place, PlanError> {
        let threads = self.given.len() + 1;
        self.best(node).map(|core| self.give(core, why)).ok_or(PlanError::TooFewCores {
            threads,
            cores: self.physical_cores(node),
            node: Some(node),
        })
    }

    /// Chooses the best free core, on `node` or else on the nearest node with one. `threads` is the
    /// number of all threads of the job.
    pub(super) fn choose_near(
        &mut self,
        node: NodeId,
        why: String,
        threads: usize,
        notes: &mut Vec<String>,
    ) -> Result<Place, PlanError> {
        let nearest: Vec<NodeId> = match self.request.receive_node {
            // The user requested this node: stay on it.
            Some(node) => vec![node],
            None => self.inventory.nearest(node).into_iter().map(|node| node.id).collect(),
        };
        for other in &nearest {
            let Some(core) = self.best(*other) else { continue };
            if *other == node {
                return Ok(self.give(core, why));
            }
            let note = format!("node {node} has no free physical core: continues on node {other}");
            if !notes.contains(&note) {
                notes.push(note);
            }
            return Ok(self.give(core, format!("the nearest node to {node} with a free core")));
        }
        let cores = nearest.iter().map(|node| self.physical_cores(*node)).sum();
        let node = self.request.receive_node;
        Err(PlanError::TooFewCores { threads, cores, node })
    }

    /// Takes a named core.
    pub(super) fn take(&mut self, id: CoreId, notes: &mut Vec<String>) -> Result<Place, PlanError> {
        let known = self.inventory.core(id);
        let Some(core) = known.filter(|core| core.is_usable) else {
            let why = match known {
                Some(_) => "not allowed to this process (taskset, cpuset)",
                None if self.inventory.offline.contains(&id) => "offline",
                None => "not present",
            };
            return Err(PlanError::Core { core: id, why, usable: self.usable() });
        };
        if let Some(other) = self.given.iter().find(|given| core.siblings.contains(given)) {
            notes.push(format!(
                "cores {other} and {id} are one physical core: each gets only a part of it"
            ));
        }
        Ok(self.give(core, "named".to_owned()))
    }

    fn give(&mut self, core: &Core, why: String) -> Place {
        let reasons = self.reasons(core, why);
        self.given.push(core.id);
        Place { core: core.id, node: core.node, reasons }
    }

    /// Returns the best free core of a node: on an unused physical core, or on any if the request
    /// allows sharing.
    fn best(&self, node: NodeId) -> Option<&'a Core> {
        let is_free = |core: &&Core| !self.given.contains(&core.id);
        let is_alone = |core: &&Core| !core.siblings.iter().any(|id| self.given.contains(id));
        let cores = || self.inventory.usable_on(node);
        let alone = cores().filter(is_alone).min_by_key(|core| self.merit(core));
        let shared = || cores().filter(is_free).min_by_key(|core| self.merit(core));
        alone.or_else(|| shared().filter(|_| self.request.may_share_cores))
    }

    /// Rates a core; lower is better.
    fn merit(&self, core: &Core) -> impl Ord + use<> {
        let is_interrupted = |id: &CoreId| self.interrupted.iter().any(|(core, _)| core == id);
        let has_taken = core.siblings.iter().any(|id| self.inventory.taken.contains(id));
        let interruption = match is_interrupted(&core.id) {
            true => 2,
            false => u8::from(core.siblings.iter().any(is_interrupted)),
        };
        let first = self.given.first().and_then(|id| self.inventory.core(*id));
        let is_near = first.is_none_or(|first| share_cache(first, core));
        // Core 0 runs the kernel's own work.
        let is_housekeeper = core.siblings.contains(&CoreId(0));
        (has_taken, interruption, !core.is_isolated, !is_near, is_housekeeper, core.id)
    }

    fn reasons(&self, core: &Core, why: String) -> Vec<String> {
        let mut reasons = vec![why];
        if core.is_isolated {
            reasons.push("isolated from the scheduler".to_owned());
        }
        if let [.., _, _] = core.siblings[..] {
            let others = core.siblings.iter().filter(|id| **id != core.id);
            let others: Vec<String> = others.map(CoreId::to_string).collect();
            let ids = others.join(", ");
            if !core.siblings.iter().any(|id| self.given.contains(id)) {
                reasons.push(match others.len() {
                    1 => format!("its sibling {ids} stays free"),
                    _ => format!("its siblings {ids} stay free"),
                });
            }
        }
        let here: Vec<_> = self.interrupted.iter().filter(|(id, _)| *id == core.id).collect();
        match here.first() {
            Some((_, name)) => {
                reasons.push(format!("{name} interrupts this core, no other core available"))
            }
            None => {
                let mut others = self.interrupted.iter();
                let on_node = others.find(|(id, _)| {
                    self.inventory.core(*id).is_some_and(|other| other.node == core.node)
                });
                reasons.extend(on_node.map(|(id, name)| format!("{name} interrupts core {id}")));
            }
        }
        let first = self.given.first().and_then(|id| self.inventory.core(*id));
        if let Some((first, cache)) = first.zip(core.last_cache())
            && share_cache(first, core)
            && cache.shared_with.len() > core.siblings.len()
        {
            let (level, size) = (cache.level, cache.bytes >> 20);
            reasons.push(format!("shares {size} MiB of L{level} with core {}", first.id));
        }
        if core.siblings.iter().any(|id| self.inventory.taken.contains(id)) {
            reasons.push("another burstline is pinned to it, no other core available".to_owned());
        }
        reasons
    }

    fn physical_cores(&self, node: NodeId) -> usize {
        let mut first: Vec<CoreId> = Vec::new();
        for core in self.inventory.usable_on(node) {
            if !core.siblings.iter().any(|id| first.contains(id)) {
                first.push(core.id);
            }
        }
        first.len()
    }

    fn has_cores(&self, node: NodeId) -> bool {
        self.inventory.usable_on(node).next().is_some()
    }

    fn without_cores(&self, node: NodeId) -> PlanError {
        let present = self.inventory.node(node).map(|node| node.cores.clone()).unwrap_or_default();
        PlanError::NodeWithoutCores { node, present, usable: self.usable() }
    }

    fn usable(&self) -> Vec<CoreId> {
        self.inventory.cores.iter().filter(|core| core.is_usable).map(|core| core.id).collect()
    }
}

fn share_cache(first: &Core, second: &Core) -> bool {
    let cache = first.last_cache();
    cache.is_some_and(|cache| cache.shared_with.contains(&second.id))
}
