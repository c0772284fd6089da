//! Whether threads, stacks and logs go where they are sent: tried on each node, and the kernel
//! asked.
//!
//! A correct machine can still refuse: a container's profile forbids mbind(2) or move_pages(2), or
//! the process that started us has a policy.

use burstline_engine::rehearse;
use burstline_sys::memory::NodeId;
use burstline_topo::{FAR_SOURCE, Finding, Inventory, PlanRequest, plan};

/// A finding for each node that has cores and memory for us.
pub(super) fn findings(inventory: &Inventory) -> Vec<Finding> {
    let nodes = inventory.nodes.iter().filter(|node| node.has_memory()).map(|node| node.id);
    let nodes = nodes.filter(|&node| inventory.usable_on(node).next().is_some());
    nodes.map(|node| finding(node, &faults(inventory, node))).collect()
}

/// What did not come out as planned on a node.
fn faults(inventory: &Inventory, node: NodeId) -> Vec<String> {
    let request =
        |workers| PlanRequest { workers, receive_node: Some(node), ..PlanRequest::default() };
    // A node with one core has room for a thread without a log.
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
        "packets may be far from their reader: that left 38 of 40 Gbit/s, with scattered bursts \
         13 of 24",
        FAR_SOURCE,
        Vec::new(),
    )
}
