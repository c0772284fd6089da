//! From what the user asks to a plan, and from a plan to where a job's threads and logs go.
//!
//! A job follows a plan where it can do better than the kernel: on machines of several nodes, and
//! where cores are isolated for this work. A user can also ask for it (a node, planned cores, a
//! placement, a node for logs or stacks). Elsewhere the kernel moves threads out of each other's
//! way, and is left to it. Cores by name are the user's own plan; with one of the last three they
//! are the cores of ours.

use burstline_port::{Address, Queues};
use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;
use burstline_sys::topology::TopologyError;
use burstline_topo::{
    Inventory, LogSharing, Placement, Plan, PlanError, PlanRequest, PlannedLog, SourceRequest, plan,
};

use crate::{LogHome, Threads};

/// What the user asks of a job's threads and memory.
#[derive(Clone, Debug, Default)]
pub struct PlacementRequest {
    /// What holds for each thread wherever it runs: class, waiting, rights.
    pub threads: Threads,
    /// Cores by name, one a thread; empty leaves them to us.
    pub cores: Vec<CoreId>,
    /// Whether each thread is to have a core, though the kernel would do as well.
    pub wants_cores: bool,
    /// The node for memory and threads.
    pub node: Option<NodeId>,
    /// Where receive threads and workers go: by a letter each.
    pub placement: Option<Placement>,
    /// The node of all logs.
    pub pool_node: Option<NodeId>,
    /// The node of all stacks.
    pub stack_node: Option<NodeId>,
}

/// What a job's threads do besides receiving; by itself nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// What each is called.
    pub name: &'static str,
    /// The memory of a log, in bytes; 0 where there is none.
    pub log_bytes: usize,
    /// Whose a log is.
    pub sharing: LogSharing,
}

/// Where a job goes.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its threads.
    pub threads: Threads,
    /// The node of its logs; `None` leaves it to the kernel.
    pub log_node: Option<NodeId>,
    /// Where each worker's log goes, by receive thread and then by worker, as planned.
    log_homes: Vec<LogHome>,
    /// The nodes of the cores that the user named, where each worker's log goes to its own.
    core_nodes: Vec<NodeId>,
    /// Whether threads that turn out too many for the cores may go where the kernel puts them.
    is_flexible: bool,
}

/// Why a job cannot go where it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The system does not say what the machine has.
    #[error(transparent)]
    Machine(#[from] TopologyError),
    /// There is no such plan.
    #[error(transparent)]
    Plan(PlanError),
    /// What was asked for takes more cores than there are.
    #[error("{0}, or leave them to the kernel: without --placement, --pool-node and --stack-node")]
    TooFewCores(PlanError),
    /// The placement is one of another job.
    #[error("--placement {placement} names {named} workers, this job has {}", workers(*count))]
    Workers {
        /// The placement.
        placement: Placement,
        /// Workers that it names.
        named: usize,
        /// Workers that there are.
        count: usize,
    },
}

fn workers(count: usize) -> String {
    match count {
        0 => "no workers behind its receive threads".to_owned(),
        1 => "one".to_owned(),
        count => format!("{count}"),
    }
}

impl Placed {
    /// The node of each worker's log, by receive thread and then by worker, for a job with
    /// `receivers` and `workers`. Empty leaves them all to `log_node`.
    pub fn log_homes(&self, receivers: usize, workers: usize) -> Vec<LogHome> {
        // The receive threads have the first cores, the workers those behind.
        let (from, to) = match self.core_nodes.get(receivers..receivers + workers) {
            Some(to) if !self.core_nodes.is_empty() => (&self.core_nodes[..receivers], to),
            _ => return self.log_homes.clone(),
        };
        let home = |from: NodeId| move |&node: &NodeId| LogHome { node, is_far: node != from };
        from.iter().flat_map(|&from| to.iter().map(home(from))).collect()
    }

    /// Unpins a job that turned out to have more threads than cores were planned for: its sources
    /// are ports of several queues. Cores that the user named stay.
    pub fn fit(&mut self, threads: usize) {
        if self.is_flexible && self.threads.cores.len() < threads {
            self.threads.cores.clear();
            self.threads.stack_nodes.clear();
        }
    }
}

impl PlacementRequest {
    /// Places a job with a thread for each of `ports`, and its workers: as the user says, by a
    /// plan, or not at all. Cost: reads what the system says of the machine.
    ///
    /// # Errors
    /// The machine has not what was asked for, or does not say what it has.
    pub fn place(&self, ports: &[Address], workers: &Workers) -> Result<Placed, PlaceError> {
        let inventory = Inventory::read()?;
        self.check(workers)?;
        if !self.cores.is_empty() && !self.is_forced() {
            return Ok(self.on_cores(&inventory, workers));
        }
        let has_isolated = inventory.cores.iter().any(|core| core.is_isolated && core.is_usable);
        let has_cores = self.wants_cores || !self.cores.is_empty();
        let is_asked = has_cores || self.node.is_some() || self.is_forced();
        if !is_asked && inventory.nodes.len() == 1 && !has_isolated {
            return Ok(self.unplaced(Vec::new()));
        }
        match plan(&inventory, &self.plan_request(ports, &inventory, workers)) {
            Ok(plan) => Ok(self.followed(&plan, &inventory)),
            // More threads than cores: the kernel shares them out better than we would.
            Err(error @ PlanError::TooFewCores { .. }) if !self.is_forced() => {
                let note = format!("the kernel places the threads: {error}");
                Ok(self.unplaced(vec![note]))
            }
            Err(error @ PlanError::TooFewCores { .. }) => Err(PlaceError::TooFewCores(error)),
            Err(error) => Err(PlaceError::Plan(error)),
        }
    }

    /// Whether anything is asked for in place of what a plan would choose.
    fn is_forced(&self) -> bool {
        self.placement.is_some() || self.pool_node.is_some() || self.stack_node.is_some()
    }

    /// Refuses a placement of other workers than this job has.
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

    /// On the cores that the user named.
    fn on_cores(&self, inventory: &Inventory, workers: &Workers) -> Placed {
        // The last of several cores are the workers'; without workers the number has no meaning.
        let receivers = self.cores.len().saturating_sub(workers.count).max(1);
        let last = self.cores.last().and_then(|core| Some(inventory.core(*core)?.node));
        let is_each = self.node.is_none() && workers.sharing == LogSharing::Copy;
        let node_of = |core: &CoreId| inventory.core(*core).map(|core| core.node);
        let core_nodes = self.cores.iter().map(node_of).collect::<Option<_>>();
        Placed {
            threads: Threads { cores: self.cores.clone(), receivers, ..self.threads.clone() },
            log_node: self.node.or(last),
            log_homes: Vec::new(),
            core_nodes: core_nodes.filter(|_| is_each).unwrap_or_default(),
            is_flexible: false,
        }
    }

    /// Where the kernel puts it.
    fn unplaced(&self, notes: Vec<String>) -> Placed {
        let threads = Threads { notes, ..self.threads.clone() };
        let (log_homes, core_nodes) = (Vec::new(), Vec::new());
        Placed { threads, log_node: self.node, log_homes, core_nodes, is_flexible: true }
    }

    /// As planned.
    fn followed(&self, plan: &Plan, inventory: &Inventory) -> Placed {
        // Where there is one node, nothing is to be moved.
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

    /// What a plan is asked for.
    fn plan_request(
        &self,
        ports: &[Address],
        inventory: &Inventory,
        workers: &Workers,
    ) -> PlanRequest {
        let (has_log, cores) = (workers.log_bytes > 0, self.cores.len());
        // Logs without a reader here are written by one thread, like others.
        let receivers = match (&self.placement, cores) {
            (Some(_), _) => None,
            (None, 0) => has_log.then_some(1),
            (None, cores) => has_log.then_some(cores.saturating_sub(workers.count).max(1)),
        };
        // In a placement it is only where A is.
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

/// Sources as a plan knows them: the interface, and the queues that are separate ports.
pub fn source_requests(sources: &[Address], inventory: &Inventory) -> Vec<SourceRequest> {
    let request = |address: &Address| {
        let name = address.to_string();
        // Of any machine that the plan is for.
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
