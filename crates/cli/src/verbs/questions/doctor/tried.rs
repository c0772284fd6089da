//! Tries on each node whether threads, stacks and logs end up where the plan puts them, according
//! to the kernel.
//!
//! A healthy machine can still refuse: a container's profile may forbid mbind(2) or move_pages(2),
//! or the parent process may have set a memory policy.

use burstline_engine::rehearse;
use burstline_sys::memory::NodeId;
use burstline_topo::{FAR_SOURCE, Finding, Inventory, PlanRequest, plan};

/// Returns a finding for each node with cores and memory that this process may use.
pub(super) fn findings(inventory: &Inventory) -> Vec<Finding> {
    let nodes = inventory.nodes.iter().filter(|node| node.has_memory()).map(|node| node.id);
    let nodes = nodes.filter(|&node| inventory.usable_on(node).next().is_some());
    nodes.map(|node| finding(node, &faults(inventory, node))).collect()
}

/// Returns the deviations from the plan on a node.
fn faults(inventory: &Inventory, node: NodeId) -> Vec<String> {
    let request =
        |workers| PlanRequest { workers, receive_node: Some(node), ..PlanRequest::default() };
    // A node with one core has room for one thread and no log.
    let plan = plan(inventory, &request(Some(1))).or_else(|_| plan(inventory, &request(None)));
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return vec![error.to_string()],
    };
    match rehearse(&plan) {
        Ok(rehearsal) => rehearsal.faults(&plan),
        Err(error) => vec![error.to_string()],
    }
}

fn finding(node: NodeId, faults: &[String]) -> Finding {
    let name = "tried";
    if faults.is_empty() {
        let what = format!("node {node}: threads, stacks and a log are where the plan puts them");
        return Finding::fine(name, what);
    }
    Finding::defect(
        name,
        format!("node {node}: {}", faults.join("; ")),
        "packets may be far from their reader: that cut 40 Gbit/s to 38, and 24 to 13 with \
         scattered bursts",
        FAR_SOURCE,
        Vec::new(),
    )
}
