//! Reads nodes and cores.

use burstline_sys::affinity::CoreId;
use burstline_sys::caches;
use burstline_sys::memory::NodeId;
use burstline_sys::topology::Topology;

use super::{Core, Node, Outline, OutlineCore};
use crate::files::Files;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

pub(super) fn nodes(files: &Files, topology: &Topology) -> Vec<Node> {
    let allowed = files.field("proc/self/status", "Mems_allowed_list");
    let allowed = allowed.and_then(|list| burstline_sys::affinity::parse_cores(&list).ok());
    let ids: Vec<NodeId> = topology.nodes.iter().map(|node| node.id).collect();
    let node = |node: &burstline_sys::topology::Node| {
        let folder = format!("{NODE}/node{}", node.id);
        let meminfo = match files.path(&folder).exists() {
            true => format!("{folder}/meminfo"),
            // A kernel without NUMA has one node.
            false => "proc/meminfo".to_owned(),
        };
        let distances = files.text(&format!("{folder}/distance")).unwrap_or_default();
        let distances = distances.split_whitespace().filter_map(|number| number.parse().ok());
        Node {
            id: node.id,
            cores: sorted(node.cores.clone()),
            memory_bytes: kibibytes(files, &meminfo, "MemTotal:"),
            free_bytes: kibibytes(files, &meminfo, "MemFree:"),
            is_allowed: allowed.as_ref().is_none_or(|list| list.contains(&CoreId(node.id.0))),
            distances: ids.iter().copied().zip(distances).collect(),
            huge_pages: node.huge_pages.clone(),
        }
    };
    topology.nodes.iter().map(node).collect()
}

pub(super) fn cores(files: &Files, outline: &Outline) -> Vec<Core> {
    let core = |known: &OutlineCore| {
        let id = known.id;
        let folder = format!("{CPU}/cpu{id}");
        let siblings = files.list(&format!("{folder}/topology/thread_siblings_list"));
        let frequency = |name: &str| files.number(&format!("{folder}/cpufreq/cpuinfo_{name}_freq"));
        Core {
            id,
            node: known.node,
            is_usable: known.is_usable,
            is_isolated: known.is_isolated,
            siblings: sorted(siblings.unwrap_or_else(|| vec![id])),
            caches: caches::of_core(&files.path(&folder)),
            governor: files.text(&format!("{folder}/cpufreq/scaling_governor")),
            frequencies_khz: frequency("min").zip(frequency("max")),
        }
    };
    outline.cores.iter().map(core).collect()
}

fn sorted(mut cores: Vec<CoreId>) -> Vec<CoreId> {
    cores.sort_unstable();
    cores
}

/// Reads a field of a meminfo file, in bytes; a node's file has `Node 0` before each field.
fn kibibytes(files: &Files, path: &str, field: &str) -> u64 {
    let text = files.text(path).unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != field);
        words.nth(1)?.parse::<u64>().ok()
    });
    value.unwrap_or(0).saturating_mul(1024)
}
