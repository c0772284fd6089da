//! The part of the ledger that a balancer adds: the packets of each worker.

use std::fmt::Write;

use burstline_engine::{BalanceReport, Distribution, Elephant, GroupReport, Mode, WorkerReport};
use serde_json::{Value, json};

use super::values::losses;
use crate::args::values::ROUND_ROBIN;
use crate::foreign::one_line;
use crate::words::{bytes_text, count_text, packets_text};

fn distribution(distribution: Distribution) -> String {
    match distribution {
        Distribution::Hash(kind) => kind.to_string(),
        Distribution::RoundRobin => ROUND_ROBIN.to_owned(),
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Copy => "copy",
        Mode::Share => "share",
    }
}

/// Returns the object for a job's JSON.
pub(super) fn object(balance: &BalanceReport) -> Value {
    json!({
        "mode": mode(balance.mode),
        "hash": distribution(balance.distribution),
        "groups": balance.groups.iter().map(group).collect::<Vec<_>>(),
        "elephants": balance.elephants.iter().map(elephant).collect::<Vec<_>>(),
    })
}

fn group(group: &GroupReport) -> Value {
    json!({
        "offered": group.offered,
        "delivered": group.delivered,
        "lost": losses(&group.lost),
        "unaccounted": group.unaccounted,
        "workers": group.workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn worker(worker: &WorkerReport) -> Value {
    json!({
        "worker": worker.number,
        "sink": worker.sink,
        "offered": worker.offered,
        "delivered": worker.delivered,
        "bytes": worker.bytes,
        "lost": losses(&worker.lost),
        "unaccounted": worker.unaccounted,
        "log_node": worker.log_node.map(|node| node.0),
    })
}

fn elephant(elephant: &Elephant) -> Value {
    json!({
        "flow": elephant.name,
        "hash": elephant.hash,
        "packets": elephant.packets,
        "bytes": elephant.bytes,
        "workers": elephant.workers,
    })
}

/// Appends the lines of the ledger.
pub(super) fn text(text: &mut String, balance: &BalanceReport) {
    let has_groups = balance.groups.len() > 1;
    // If all logs are on one node, the memory line names it.
    let nodes = balance.groups.iter().flat_map(|group| &group.workers);
    let mut nodes: Vec<_> = nodes.map(|worker| worker.log_node).collect();
    nodes.dedup();
    let has_nodes = nodes.len() > 1;
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "spread   by {}, {}",
        distribution(balance.distribution),
        mode(balance.mode)
    );
    for (number, group) in balance.groups.iter().enumerate() {
        let all = group.offered.max(1) as f64 / 100.0;
        if has_groups {
            let (offered, lost) = (count_text(group.offered), count_text(group.lost.total()));
            let delivered = count_text(group.delivered);
            let _ = writeln!(text, "group {number}  {offered} = {delivered} + {lost} lost");
        }
        for worker in &group.workers {
            let offered = count_text(worker.offered);
            let (delivered, bytes) = (count_text(worker.delivered), bytes_text(worker.bytes));
            let part = worker.offered as f64 / all;
            let lost: Vec<_> = worker
                .lost
                .iter()
                .map(|(cause, packets)| format!(", {} {cause}", count_text(packets)))
                .collect();
            let sink = worker.sink.as_deref().filter(|sink| *sink != "null:");
            let sink = sink.map(|sink| format!(" > {}", one_line(sink))).unwrap_or_default();
            let node = worker.log_node.filter(|_| has_nodes);
            let node = node.map(|node| format!(", log on node {node}")).unwrap_or_default();
            let (number, total) = (worker.number, count_text(worker.lost.total()));
            let _ = writeln!(
                text,
                "worker {number:<2} {offered} ({part:.1}%) = {delivered} + {total} lost{}, {bytes}\
                 {node}{sink}",
                lost.concat()
            );
        }
    }
    for elephant in &balance.elephants {
        let name = elephant.name.clone().unwrap_or_else(|| format!("{:#010x}", elephant.hash));
        let (packets, bytes) = (packets_text(elephant.packets), bytes_text(elephant.bytes));
        let workers: Vec<_> = elephant.workers.iter().map(ToString::to_string).collect();
        let to = workers.join(", ");
        let _ = writeln!(text, "elephant {name}: {packets}, {bytes}, to worker {to}");
    }
}
