//! Chooses the nodes and pages of logs and stacks.

use burstline_sys::memory::NodeId;

use super::{LogSharing, PlanRequest, PlannedLog, PlannedThread, Role};
use crate::PlanError;
use crate::inventory::Inventory;

/// Returns the node of a thread's stack: its own, or the nearest with memory.
pub(super) fn stack_node(
    inventory: &Inventory,
    request: &PlanRequest,
    node: NodeId,
    notes: &mut Vec<String>,
) -> Result<NodeId, PlanError> {
    match request.stack_node {
        Some(node) => Ok(node),
        None => near(inventory, node, "stacks", notes),
    }
}

/// Places the logs between the threads.
pub(super) fn logs(
    inventory: &Inventory,
    request: &PlanRequest,
    threads: &[PlannedThread],
    notes: &mut Vec<String>,
) -> Result<Vec<PlannedLog>, PlanError> {
    let of = |role: Role| (0..threads.len()).filter(move |&index| threads[index].role == role);
    let workers: Vec<usize> = of(Role::Work).collect();
    let mut logs = Vec::new();
    for writer in of(Role::Receive).filter(|_| !workers.is_empty()) {
        let groups: Vec<Vec<usize>> = match request.sharing {
            LogSharing::Copy => workers.iter().map(|&worker| vec![worker]).collect(),
            LogSharing::Share => vec![workers.clone()],
        };
        for readers in groups {
            let (wanted, reason) = wanted(request, threads, writer, &readers);
            let node = match request.pool_node {
                Some(node) => node,
                None => near(inventory, wanted, "logs", notes)?,
            };
            let mut reasons = vec![reason];
            if threads[writer].node != node {
                reasons.push(format!(
                    "{} stores from node {}",
                    threads[writer].name, threads[writer].node
                ));
            }
            let far = readers.iter().filter(|&&reader| threads[reader].node != node);
            let far: Vec<&str> = far.map(|&reader| threads[reader].name.as_str()).collect();
            if !far.is_empty() {
                reasons.push(format!("{} loads from another node", far.join(", ")));
            }
            let names: Vec<&str> = readers.iter().map(|&at| threads[at].name.as_str()).collect();
            logs.push(PlannedLog {
                name: format!("{} -> {}", threads[writer].name, names.join(", ")),
                writer,
                readers,
                node,
                pages: pages(inventory, node, request.log_bytes),
                reasons,
            });
        }
    }
    Ok(logs)
}

/// Returns the node that a log should be on, and why.
fn wanted(
    request: &PlanRequest,
    threads: &[PlannedThread],
    writer: usize,
    readers: &[usize],
) -> (NodeId, String) {
    if let Some(node) = request.pool_node {
        return (node, format!("node {node} was requested"));
    }
    let receive = threads[writer].node;
    let readers_on = |node: NodeId| readers.iter().filter(|&&at| threads[at].node == node).count();
    // With equal numbers of readers, the writer's node decides.
    let best = readers
        .iter()
        .map(|&at| threads[at].node)
        .max_by_key(|&node| (readers_on(node), node == receive, std::cmp::Reverse(node)));
    match best {
        Some(node) if readers_on(node) == readers.len() => {
            (node, "its readers are there".to_owned())
        }
        Some(node) => {
            let (here, all) = (readers_on(node), readers.len());
            (node, format!("{here} of its {all} readers are there"))
        }
        None => (receive, "its writer is there".to_owned()),
    }
}

/// Returns `node`, or the nearest one whose memory this process may use.
fn near(
    inventory: &Inventory,
    node: NodeId,
    what: &str,
    notes: &mut Vec<String>,
) -> Result<NodeId, PlanError> {
    let nearest = inventory.nearest(node);
    let Some(found) = nearest.iter().find(|node| node.has_memory()).map(|node| node.id) else {
        return Err(PlanError::NodeWithoutMemory { node, others: Vec::new() });
    };
    if found != node {
        let note = format!(
            "node {node} has no memory for this process: its {what} are on node {found}, the \
             nearest"
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(found)
}

/// Returns the pages that a log of `bytes` on `node` would get with `--pages auto`.
fn pages(inventory: &Inventory, node: NodeId, bytes: u64) -> String {
    let pools = inventory.node(node).map(|node| &node.huge_pages[..]).unwrap_or_default();
    // The largest pages first, as when the log requests its memory.
    for pool in pools.iter().rev().filter(|pool| pool.page_bytes <= bytes.max(1)) {
        if pool.unpromised() >= bytes.div_ceil(pool.page_bytes) {
            return format!("{} reserved", size(pool.page_bytes));
        }
    }
    match inventory.settings.transparent_pages.as_deref() {
        None | Some("never") => "4 KiB".to_owned(),
        Some(_) => "2 MiB transparent".to_owned(),
    }
}

fn size(bytes: u64) -> String {
    match bytes >> 30 {
        0 => format!("{} MiB", bytes >> 20),
        gibibytes => format!("{gibibytes} GiB"),
    }
}
