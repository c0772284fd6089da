//! From flags to a plan, and from a plan to what the engine takes.
//!
//! A plan is followed where it can do better than the kernel: on machines of several nodes, where
//! cores are isolated for such work, and where it was asked for (`--node N`, `--cores auto`,
//! `--placement`, `--pool-node`, `--stack-node`). Elsewhere the kernel moves threads out of each
//! other's way, and is left to it. `--cores LIST` is the user's own plan; with one of the last
//! three it is the cores of ours.

use burstline_engine::{LogHome, Threads};
use burstline_port::{Address, Queues};
use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;
use burstline_topo::{
    Inventory, LogSharing, Plan, PlanError, PlanRequest, PlannedLog, SourceRequest, plan,
};

use crate::args::values::{Cores, Node};
use crate::args::{JobArgs, SourceArgs};
use crate::failure::Failure;

/// What a verb's threads do besides receiving; by itself nothing.
#[derive(Default)]
pub(crate) struct Workers {
    pub(crate) count: usize,
    pub(crate) name: &'static str,
    /// The memory of a log; 0 where there is none.
    pub(crate) log_bytes: usize,
    /// Whose a log is.
    pub(crate) sharing: LogSharing,
}

/// Where a job goes.
pub(crate) struct Placed {
    pub(crate) threads: Threads,
    /// The node of its logs; `None` leaves it to the kernel.
    pub(crate) log_node: Option<NodeId>,
    /// Where each worker's log goes, by receive thread and then by worker, as planned.
    log_homes: Vec<LogHome>,
    /// The nodes of the cores that the user named, where each worker's log goes to its own.
    core_nodes: Vec<NodeId>,
    /// Whether threads that turn out too many for the cores may go where the kernel puts them.
    is_flexible: bool,
}

impl Placed {
    /// Where each worker's log goes, by receive thread and then by worker, of a job that has
    /// turned out to have so many; empty leaves them all to `log_node`.
    pub(crate) fn log_homes(&self, receivers: usize, workers: usize) -> Vec<LogHome> {
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
    pub(crate) fn fit(&mut self, threads: usize) {
        if self.is_flexible && self.threads.cores.len() < threads {
            self.threads.cores.clear();
            self.threads.stack_nodes.clear();
        }
    }
}

impl SourceArgs {
    /// Places a job of these sources and workers: by the flags, by a plan, or not at all.
    pub(crate) fn place(&self, workers: &Workers) -> Result<Placed, Failure> {
        self.place_at(&self.sources, workers)
    }
}

impl JobArgs {
    /// As [`SourceArgs::place`], for a job with a thread for each of `ports`.
    pub(crate) fn place_at(&self, ports: &[Address], workers: &Workers) -> Result<Placed, Failure> {
        let threads = Threads {
            class: self.priority,
            poll: self.poll,
            keeps_privileges: self.keep_privileges,
            ..Threads::default()
        };
        let failed = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
        let inventory = Inventory::read().map_err(|error| failed(&error))?;
        self.check_placement(workers)?;
        let cores = match &self.cores {
            Some(Cores::List(cores)) => &cores[..],
            _ => &[],
        };
        if !cores.is_empty() && !self.forced.is_given() {
            // What one core of several names is the worker's; without workers nobody looks.
            let receivers = cores.len().saturating_sub(workers.count).max(1);
            let last = cores.last().and_then(|core| Some(inventory.core(*core)?.node));
            let log_node = self.node_number().or(last);
            let is_each = self.node == Node::Auto && workers.sharing == LogSharing::Copy;
            let node_of = |core: &CoreId| inventory.core(*core).map(|core| core.node);
            let core_nodes = cores.iter().map(node_of).collect::<Option<_>>();
            let core_nodes = core_nodes.filter(|_| is_each).unwrap_or_default();
            let threads = Threads { cores: cores.to_vec(), receivers, ..threads };
            let (log_homes, is_flexible) = (Vec::new(), false);
            return Ok(Placed { threads, log_node, log_homes, core_nodes, is_flexible });
        }
        let has_isolated = inventory.cores.iter().any(|core| core.is_isolated && core.is_usable);
        let is_asked = self.cores.is_some() || self.node != Node::Auto || self.forced.is_given();
        let unplaced = |threads| {
            let (log_node, log_homes, core_nodes) = (self.node_number(), Vec::new(), Vec::new());
            Placed { threads, log_node, log_homes, core_nodes, is_flexible: true }
        };
        if !is_asked && inventory.nodes.len() == 1 && !has_isolated {
            return Ok(unplaced(threads));
        }
        let request = self.request(ports, &inventory, workers, cores);
        match plan(&inventory, &request) {
            Ok(plan) => Ok(Placed {
                threads: followed(&plan, &inventory, threads),
                log_node: (plan.logs.first().map(|log| log.node))
                    .or(self.node_number())
                    .or_else(|| plan.threads.first().map(|thread| thread.stack_node)),
                log_homes: plan.logs.iter().map(|log| home_of(log, &plan)).collect(),
                core_nodes: Vec::new(),
                is_flexible: !self.forced.is_given(),
            }),
            // More threads than cores: the kernel shares them out better than we would.
            Err(error @ PlanError::TooFewCores { .. }) if !self.forced.is_given() => {
                let notes = vec![format!("threads are where the kernel puts them: {error}?")];
                Ok(unplaced(Threads { notes, ..threads }))
            }
            Err(error @ PlanError::TooFewCores { .. }) => Err(Failure::usage(format!(
                "{error}, or leave them to the kernel: without --placement, --pool-node and \
                 --stack-node"
            ))),
            Err(error) => Err(Failure::usage(error.to_string())),
        }
    }

    /// What a plan is asked for. `cores` are those that the user named, one a thread.
    fn request(
        &self,
        ports: &[Address],
        inventory: &Inventory,
        workers: &Workers,
        cores: &[CoreId],
    ) -> PlanRequest {
        let has_log = workers.log_bytes > 0;
        // Logs that nobody here reads are written by one thread, as others are.
        let receivers = match (&self.forced.placement, cores.len()) {
            (Some(_), _) => None,
            (None, 0) => has_log.then_some(1),
            (None, cores) => has_log.then_some(cores.saturating_sub(workers.count).max(1)),
        };
        let node = self.node_number();
        // In a placement it is only where A is.
        let takes_all = workers.count > 0 && self.forced.placement.is_none();
        PlanRequest {
            sources: source_requests(ports, inventory),
            receivers,
            workers: Some(workers.count),
            worker_name: workers.name.to_owned(),
            sharing: workers.sharing,
            placement: self.forced.placement.clone(),
            receive_node: node.filter(|_| cores.is_empty()),
            pool_node: self.forced.pool_node.or(node.filter(|_| takes_all)),
            stack_node: self.forced.stack_node,
            cores: cores.to_vec(),
            log_bytes: workers.log_bytes as u64,
            ..PlanRequest::default()
        }
    }

    /// Refuses a placement of other workers than this job has.
    fn check_placement(&self, workers: &Workers) -> Result<(), Failure> {
        let Some(placement) = &self.forced.placement else { return Ok(()) };
        let (named, count) = (placement.workers.len(), workers.count);
        if named == count {
            return Ok(());
        }
        let what = match count {
            0 => "no workers behind its receive threads".to_owned(),
            1 => "one".to_owned(),
            count => format!("{count}"),
        };
        Err(Failure::usage(format!(
            "--placement {placement} names {named} workers, this job has {what}"
        )))
    }

    fn node_number(&self) -> Option<NodeId> {
        match self.node {
            Node::Number(node) => Some(node),
            Node::Auto => None,
        }
    }
}

fn home_of(log: &PlannedLog, plan: &Plan) -> LogHome {
    LogHome { node: log.node, is_far: plan.threads[log.writer].node != log.node }
}

/// What the engine takes of a plan.
pub(crate) fn followed(plan: &Plan, inventory: &Inventory, threads: Threads) -> Threads {
    let receivers = plan.placement.receivers.len();
    // Where there is one node, nothing is to be moved.
    let has_nodes = inventory.nodes.len() > 1;
    let stacks = plan.threads.iter().filter(|_| has_nodes).map(|thread| thread.stack_node);
    Threads {
        cores: plan.threads.iter().map(|thread| thread.core).collect(),
        stack_nodes: stacks.collect(),
        receivers,
        notes: plan.notes.clone(),
        ..threads
    }
}

/// Sources as a plan knows them: the interface, and the queues that are ports of their own.
pub(crate) fn source_requests(sources: &[Address], inventory: &Inventory) -> Vec<SourceRequest> {
    let request = |address: &Address| {
        let name = address.to_string();
        // Of whatever machine the plan is for.
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
