//! Turns the user's request into a plan, and the plan into places for a job's threads and logs.
//!
//! A job follows a plan where a plan beats the kernel: on machines with several nodes, and if cores
//! are isolated for this work. A user can also ask for it (a node, planned cores, a placement, a
//! node for logs or stacks). Otherwise the kernel places the threads. Cores by name replace the
//! plan; combined with one of the last three, they are the cores that the plan uses.

use burstline_port::{Address, Queues};
use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;
use burstline_sys::topology::TopologyError;
use burstline_topo::{
    Inventory, LogSharing, Outline, Placement, Plan, PlanError, PlanRequest, PlannedLog,
    SourceRequest, plan,
};

use crate::{LogHome, Threads};

/// The user's request for a job's threads and memory.
#[derive(Clone, Debug, Default)]
pub struct PlacementRequest {
    /// The settings of each thread wherever it runs: scheduling class, wait mode, privileges.
    pub threads: Threads,
    /// Cores by name, one per thread; empty if the plan chooses them.
    pub cores: Vec<CoreId>,
    /// Whether to pin each thread to a core even if the kernel would do as well.
    pub wants_cores: bool,
    /// The node for memory and threads.
    pub node: Option<NodeId>,
    /// The nodes of receive threads and workers, one letter each.
    pub placement: Option<Placement>,
    /// The node of all logs.
    pub pool_node: Option<NodeId>,
    /// The node of all stacks.
    pub stack_node: Option<NodeId>,
}

/// The worker threads of a job; none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// The name of each.
    pub name: &'static str,
    /// The memory of a log, in bytes; 0 if there is no log.
    pub log_bytes: usize,
    /// How workers share logs.
    pub sharing: LogSharing,
}

/// The place of a job's threads and memory.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its threads.
    pub threads: Threads,
    /// The node of its logs; `None` if the kernel chooses.
    pub log_node: Option<NodeId>,
    /// The planned place of each worker's log, by receive thread and then by worker.
    log_homes: Vec<LogHome>,
    /// The nodes of the cores that the user named, if each worker's log goes to its worker's node.
    core_nodes: Vec<NodeId>,
    /// Whether the kernel may place the threads if there turn out to be more threads than cores.
    is_flexible: bool,
}

/// Why a job cannot be placed as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The system does not describe the machine's topology.
    #[error(transparent)]
    Machine(#[from] TopologyError),
    /// No plan satisfies the request.
    #[error(transparent)]
    Plan(PlanError),
    /// The request needs more cores than the machine has.
    #[error("{0}, or let the kernel place them: omit --placement, --pool-node and --stack-node")]
    TooFewCores(PlanError),
    /// The placement is for a different number of workers.
    #[error("--placement {placement} names {named} workers, this job has {}", workers(*count))]
    Workers {
        /// The placement.
        placement: Placement,
        /// Workers that it names.
        named: usize,
        /// Workers that the job has.
        count: usize,
    },
}

fn workers(count: usize) -> String {
    match count {
        0 => "none".to_owned(),
        1 => "one".to_owned(),
        count => format!("{count}"),
    }
}

impl Placed {
    /// Returns the node of each worker's log, by receive thread and then by worker, for a job with
    /// `receivers` and `workers`. If empty, all logs go to `log_node`.
    pub fn log_homes(&self, receivers: usize, workers: usize) -> Vec<LogHome> {
        // The receive threads have the first cores, the workers the next ones.
        let (from, to) = match self.core_nodes.get(receivers..receivers + workers) {
            Some(to) if !self.core_nodes.is_empty() => (&self.core_nodes[..receivers], to),
            _ => return self.log_homes.clone(),
        };
        let home = |from: NodeId| move |&node: &NodeId| LogHome { node, is_far: node != from };
        from.iter().flat_map(|&from| to.iter().map(home(from))).collect()
    }

    /// Unpins a job that has more threads than planned cores, because its sources have several
    /// queues. Cores that the user named are kept.
    pub fn fit(&mut self, threads: usize) {
        if self.is_flexible && self.threads.cores.len() < threads {
            self.threads.cores.clear();
            self.threads.stack_nodes.clear();
        }
    }
}

impl PlacementRequest {
    /// Places a job with a thread for each of `ports`, and its workers: as the user requests, by a
    /// plan, or not at all. Cost: reads the nodes from the system; for a plan, all that it uses.
    ///
    /// # Errors
    /// If the machine lacks what was requested, or its topology cannot be read.
    pub fn place(&self, ports: &[Address], workers: &Workers) -> Result<Placed, PlaceError> {
        self.place_receiving(ports, workers, 1)
    }

    /// As [`place`](Self::place), for a job whose log or logs are filled by this many threads.
    ///
    /// # Errors
    /// As [`place`](Self::place).
    pub fn place_receiving(
        &self,
        ports: &[Address],
        workers: &Workers,
        receivers: usize,
    ) -> Result<Placed, PlaceError> {
        // Most jobs need no plan. What only a plan uses is read only then.
        let outline = Outline::read()?;
        self.check(workers)?;
        if !self.cores.is_empty() && !self.is_forced() {
            return Ok(self.on_cores(&outline, workers));
        }
        let has_isolated = outline.cores.iter().any(|core| core.is_isolated && core.is_usable);
        let has_cores = self.wants_cores || !self.cores.is_empty();
        let is_asked = has_cores || self.node.is_some() || self.is_forced();
        if !is_asked && outline.nodes.len() == 1 && !has_isolated {
            return Ok(self.unplaced(Vec::new()));
        }
        let inventory = Inventory::read_for(&interface_names(ports))?;
        match plan(&inventory, &self.plan_request(ports, &inventory, workers, receivers)) {
            Ok(plan) => Ok(self.followed(&plan, &inventory)),
            // With more threads than cores, the kernel distributes them better than a plan.
            Err(error @ PlanError::TooFewCores { .. }) if !self.is_forced() => {
                let note = format!("the kernel places the threads: {error}");
                Ok(self.unplaced(vec![note]))
            }
            Err(error @ PlanError::TooFewCores { .. }) => Err(PlaceError::TooFewCores(error)),
            Err(error) => Err(PlaceError::Plan(error)),
        }
    }

    /// Returns whether the request overrides anything that a plan would choose.
    fn is_forced(&self) -> bool {
        self.placement.is_some() || self.pool_node.is_some() || self.stack_node.is_some()
    }

    /// Refuses a placement for a different number of workers than this job has.
    fn check(&self, workers: &Workers) -> Result<(), PlaceError> {
        let count = workers.count;
        match &self.placement {
            Some(placement) if placement.workers.len() != count => Err(PlaceError::Workers {
                placement: placement.clone(),
                named: placement.workers.len(),
                count,
            }),
            _ => Ok(()),
        }
    }

    /// Places the job on the cores that the user named.
    fn on_cores(&self, outline: &Outline, workers: &Workers) -> Placed {
        // The last cores are for the workers; without workers `receivers` has no meaning.
        let receivers = self.cores.len().saturating_sub(workers.count).max(1);
        let last = self.cores.last().and_then(|core| outline.node_of(*core));
        let is_each = self.node.is_none() && workers.sharing == LogSharing::Copy;
        let core_nodes =
            self.cores.iter().map(|core| outline.node_of(*core)).collect::<Option<_>>();
        Placed {
            threads: Threads { cores: self.cores.clone(), receivers, ..self.threads.clone() },
            log_node: self.node.or(last),
            log_homes: Vec::new(),
            core_nodes: core_nodes.filter(|_| is_each).unwrap_or_default(),
            is_flexible: false,
        }
    }

    /// Leaves the threads to the kernel.
    fn unplaced(&self, notes: Vec<String>) -> Placed {
        let threads = Threads { notes, ..self.threads.clone() };
        let (log_homes, core_nodes) = (Vec::new(), Vec::new());
        Placed { threads, log_node: self.node, log_homes, core_nodes, is_flexible: true }
    }

    /// Places the job as planned.
    fn followed(&self, plan: &Plan, inventory: &Inventory) -> Placed {
        // With one node, no stack needs to be moved.
        let has_nodes = inventory.nodes.len() > 1;
        let stacks = plan.threads.iter().filter(|_| has_nodes).map(|thread| thread.stack_node);
        let threads = Threads {
            cores: plan.threads.iter().map(|thread| thread.core).collect(),
            stack_nodes: stacks.collect(),
            receivers: plan.placement.receivers.len(),
            notes: plan.notes.clone(),
            ..self.threads.clone()
        };
        Placed {
            threads,
            log_node: (plan.logs.first().map(|log| log.node))
                .or(self.node)
                .or_else(|| plan.threads.first().map(|thread| thread.stack_node)),
            log_homes: plan.logs.iter().map(|log| home_of(log, plan)).collect(),
            core_nodes: Vec::new(),
            is_flexible: !self.is_forced(),
        }
    }

    /// Returns the request to the planner.
    fn plan_request(
        &self,
        ports: &[Address],
        inventory: &Inventory,
        workers: &Workers,
        receivers: usize,
    ) -> PlanRequest {
        let (has_log, cores) = (workers.log_bytes > 0, self.cores.len());
        // Threads write a log, even if this job has no reader for it.
        let receivers = match (&self.placement, cores) {
            (Some(_), _) => None,
            (None, 0) => has_log.then_some(receivers),
            (None, cores) => has_log.then_some(cores.saturating_sub(workers.count).max(1)),
        };
        // With a placement, `node` is only the node of letter A.
        let takes_all = workers.count > 0 && self.placement.is_none();
        PlanRequest {
            sources: source_requests(ports, inventory),
            receivers,
            workers: Some(workers.count),
            worker_name: workers.name.to_owned(),
            sharing: workers.sharing,
            placement: self.placement.clone(),
            receive_node: self.node.filter(|_| cores == 0),
            pool_node: self.pool_node.or(self.node.filter(|_| takes_all)),
            stack_node: self.stack_node,
            cores: self.cores.clone(),
            log_bytes: workers.log_bytes as u64,
            ..PlanRequest::default()
        }
    }
}

fn home_of(log: &PlannedLog, plan: &Plan) -> LogHome {
    LogHome { node: log.node, is_far: plan.threads[log.writer].node != log.node }
}

/// Returns the names that interfaces of these ports may have.
fn interface_names(ports: &[Address]) -> Vec<&str> {
    let bare = ports.iter().filter(|address| address.is_bare()).map(Address::target);
    bare.chain(ports.iter().filter_map(|address| Some(address.interface()?.0))).collect()
}

/// Describes sources for a plan: the interface, and the queues that are separate ports.
pub fn source_requests(sources: &[Address], inventory: &Inventory) -> Vec<SourceRequest> {
    let request = |address: &Address| {
        let name = address.to_string();
        // Looked up in the inventory, because the plan may be for another machine.
        let is_known = address.is_bare() && inventory.interface(address.target()).is_some();
        let found = if is_known { address.as_interface() } else { address.clone() };
        let Some((interface, queues)) = found.interface() else {
            return SourceRequest { name, ..SourceRequest::default() };
        };
        let queues = match queues {
            None => Vec::new(),
            Some(Queues::One(queue)) => queue.parse().ok().into_iter().collect(),
            Some(Queues::All) => {
                let known = inventory.interface(interface).into_iter();
                known.flat_map(|known| known.receive.iter().map(|queue| queue.number)).collect()
            }
        };
        SourceRequest { name, interface: Some(interface.to_owned()), queues }
    };
    sources.iter().map(request).collect()
}
