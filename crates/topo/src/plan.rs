//! Plans where each queue, thread, log and page is placed, with reasons.
//!
//! ```text
//!   1. letters   what was forced (a placement, cores, a node), else near the network card
//!   2. nodes     A is the node of the first receive thread; B the nearest other one, ...
//!   3. cores     on each node: not where the card interrupts, isolated ones first, one thread per
//!                physical core, near each other in the caches                        (choose.rs)
//!   4. memory    a log at its reader, a stack at its thread                            (memory.rs)
//! ```
//!
//! A log is on its reader's node, not on its writer's. Stores to another node wait in the core's
//! buffers; loads from there stall the core. So each packet crosses once, when it is copied, and
//! every later access is local. `--pool-node` overrides that. With the receive thread's node it
//! gives the pool of the document that the notation comes from.

mod choose;
mod memory;
mod request;

use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;

use crate::inventory::Inventory;
use crate::notation::Placement;
use crate::{Attached, PlanError};
use choose::Chooser;
pub use request::{LogSharing, PlanRequest, SourceRequest};

/// A complete plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The placement of its threads.
    pub placement: Placement,
    /// The nodes that A, B, ... stand for.
    pub nodes: Vec<NodeId>,
    /// Which thread receives from which queue.
    pub feeds: Vec<Feed>,
    /// The threads: receive threads, then workers.
    pub threads: Vec<PlannedThread>,
    /// The logs between them; empty for run to completion.
    pub logs: Vec<PlannedLog>,
    /// Assumptions of the plan, because the machine does not show or cannot provide something.
    pub notes: Vec<String>,
}

/// A source, or one of its queues, and the thread that receives from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The source.
    pub source: String,
    /// The queue, if the source has several.
    pub queue: Option<u32>,
    /// The thread's index in [`Plan::threads`].
    pub thread: usize,
}

/// The role of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Receives from sources.
    Receive,
    /// Reads logs.
    Work,
}

/// A thread and its placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedThread {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its core.
    pub core: CoreId,
    /// The node of that core.
    pub node: NodeId,
    /// The node of its stack.
    pub stack_node: NodeId,
    /// The reasons for its core.
    pub reasons: Vec<String>,
}

/// A log and its placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLog {
    /// Its name.
    pub name: String,
    /// The index in [`Plan::threads`] of the thread that writes it.
    pub writer: usize,
    /// The indices of the threads that read it.
    pub readers: Vec<usize>,
    /// The node of its memory.
    pub node: NodeId,
    /// The pages that it would currently get.
    pub pages: String,
    /// The reasons for its node.
    pub reasons: Vec<String>,
}

/// Places a job on a machine.
///
/// # Errors
/// [`PlanError`], with the numbers, if the request cannot be met or contradicts itself.
pub fn plan(inventory: &Inventory, request: &PlanRequest) -> Result<Plan, PlanError> {
    let mut notes = Vec::new();
    let (receivers, workers) = request.thread_counts()?;
    request.check(inventory, receivers, workers)?;
    let mut chooser = Chooser::new(inventory, request);
    let places = match request.cores.is_empty() {
        true => automatic(&mut chooser, receivers, workers, &mut notes)?,
        false => named(&mut chooser, receivers + workers, &mut notes)?,
    };
    let nodes: Vec<NodeId> = places.iter().map(|place| place.node).collect();
    let (placement, letters) = Placement::of(&nodes[..receivers], &nodes[receivers..]);
    if let Some(wanted) = request.placement.as_ref().filter(|wanted| **wanted != placement) {
        return Err(PlanError::Contradiction {
            first: format!("--placement {wanted}"),
            second: format!("--cores {}", burstline_sys::affinity::format_cores(&request.cores)),
            why: format!("these cores are {placement}"),
        });
    }
    let mut threads = Vec::new();
    for (index, place) in places.into_iter().enumerate() {
        let is_receiver = index < receivers;
        let stack_node = memory::stack_node(inventory, request, place.node, &mut notes)?;
        threads.push(PlannedThread {
            name: match is_receiver {
                true => request.receiver_name(index, receivers, workers),
                false => request.worker_name(index - receivers, workers),
            },
            role: if is_receiver { Role::Receive } else { Role::Work },
            core: place.core,
            node: place.node,
            stack_node,
            reasons: place.reasons,
        });
    }
    let logs = memory::logs(inventory, request, &threads, &mut notes)?;
    for source in &request.sources {
        remark_far(inventory, source, &threads, &request.feeds(receivers), &mut notes);
    }
    notes.dedup();
    let feeds = request.feeds(receivers);
    Ok(Plan { placement, nodes: letters, feeds, threads, logs, notes })
}

/// A thread's core, and the reasons.
pub(crate) struct Place {
    core: CoreId,
    node: NodeId,
    reasons: Vec<String>,
}

/// Takes the named cores, in their order.
fn named(
    chooser: &mut Chooser<'_>,
    threads: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Place>, PlanError> {
    let cores = &chooser.request.cores;
    if cores.len() < threads {
        return Err(PlanError::Contradiction {
            first: format!("--cores {}", burstline_sys::affinity::format_cores(cores)),
            second: format!("{threads} threads"),
            why: format!("{} of them have no core", threads - cores.len()),
        });
    }
    cores[..threads].iter().map(|&core| chooser.take(core, notes)).collect()
}

/// Chooses the cores.
fn automatic(
    chooser: &mut Chooser<'_>,
    receivers: usize,
    workers: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Place>, PlanError> {
    let request = chooser.request;
    let near = chooser.receive_node(0, receivers, notes)?;
    let mut places = Vec::new();
    if let Some(placement) = &request.placement {
        let nodes = chooser.letters(placement, near.0)?;
        for letter in placement.receivers.iter().chain(&placement.workers) {
            let node = nodes[usize::from(*letter)];
            let why = match *letter {
                0 => near.1.clone(),
                letter => format!("{} of {placement}", crate::notation::name(letter)),
            };
            places.push(chooser.choose(node, why)?);
        }
        return Ok(places);
    }
    for index in 0..receivers {
        let (node, why) = chooser.receive_node(index, receivers, notes)?;
        places.push(chooser.choose_near(node, why, receivers + workers, notes)?);
    }
    let first = places.first().map_or(near.0, |place| place.node);
    for _ in 0..workers {
        let why = format!("node {first} is the receive thread's");
        places.push(chooser.choose_near(first, why, receivers + workers, notes)?);
    }
    Ok(places)
}

/// Notes cards whose packets arrive on a different node than their receive thread's.
fn remark_far(
    inventory: &Inventory,
    source: &SourceRequest,
    threads: &[PlannedThread],
    feeds: &[Feed],
    notes: &mut Vec<String>,
) {
    let interface = source.interface.as_deref().and_then(|name| inventory.interface(name));
    let Some(Attached::Node(node)) = interface.map(|interface| interface.attached) else { return };
    for feed in feeds.iter().filter(|feed| feed.source == source.name) {
        let Some(thread) = threads.get(feed.thread).filter(|thread| thread.node != node) else {
            continue;
        };
        let note = format!(
            "{} is at node {node}, {} on node {}: each packet crosses between them",
            source.name, thread.name, thread.node
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

#[cfg(test)]
mod tests;
