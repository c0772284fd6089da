//! A plan as text or JSON: its placement, then each queue, thread and log with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write;

use burstline_engine::Rehearsal;
use burstline_sys::memory::NodeId;
use burstline_topo::{Plan, PlannedThread, Role};
use serde_json::{Value, json};

use crate::view::values::pages_json;

/// Returns the text for people.
pub(crate) fn plan_text(plan: &Plan) -> String {
    let letters = plan.nodes.iter().enumerate().map(|(at, node)| {
        let letter = char::from(b'A' + at as u8);
        format!("{letter} is node {node}")
    });
    let mut text =
        format!("placement {}: {}\n\n", plan.placement, letters.collect::<Vec<_>>().join(", "));
    let names = plan.threads.iter().map(|thread| &thread.name);
    let columns = names.chain(plan.logs.iter().map(|log| &log.name)).map(String::len).max();
    let columns = columns.unwrap_or(0);
    for feed in &plan.feeds {
        let queue = feed.queue.map(|queue| format!(" queue {queue}")).unwrap_or_default();
        // Writing to a string cannot fail, here and below.
        let _ =
            writeln!(text, "feed    {}{queue} -> {}", feed.source, plan.threads[feed.thread].name);
    }
    for thread in &plan.threads {
        let stack = match thread.stack_node == thread.node {
            true => String::new(),
            false => format!(", stack on node {}", thread.stack_node),
        };
        let (name, core, node) = (&thread.name, thread.core, thread.node);
        let why = thread.reasons.join("; ");
        let _ = writeln!(text, "thread  {name:<columns$}  core {core}, node {node}{stack}: {why}");
    }
    for log in &plan.logs {
        let (name, node, why) = (&log.name, log.node, log.reasons.join("; "));
        let pages = &log.pages;
        let _ = writeln!(text, "log     {name:<columns$}  node {node}, {pages} pages: {why}");
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note    {note}");
    }
    text
}

/// Returns one object; keys are an interface.
pub(crate) fn plan_json(plan: &Plan) -> Value {
    let name = |index: usize| plan.threads[index].name.clone();
    json!({
        "placement": plan.placement.to_string(),
        "nodes": plan.nodes.iter().map(|node| node.0).collect::<Vec<_>>(),
        "feeds": plan.feeds.iter().map(|feed| json!({
            "source": feed.source,
            "queue": feed.queue,
            "thread": name(feed.thread),
        })).collect::<Vec<_>>(),
        "threads": plan.threads.iter().map(thread).collect::<Vec<_>>(),
        "logs": plan.logs.iter().map(|log| json!({
            "name": log.name,
            "writer": name(log.writer),
            "readers": log.readers.iter().map(|&reader| name(reader)).collect::<Vec<_>>(),
            "node": log.node.0,
            "pages": log.pages,
            "reasons": log.reasons,
        })).collect::<Vec<_>>(),
        "notes": plan.notes,
    })
}

/// Returns what the kernel reported when the plan was tried, as text.
pub(crate) fn rehearsal_text(plan: &Plan, rehearsal: &Rehearsal) -> String {
    let pages = |pages: &BTreeMap<NodeId, usize>| match pages.is_empty() {
        true => "unknown place".to_owned(),
        false => {
            let nodes = pages.iter().map(|(node, pages)| format!("{pages} pages on node {node}"));
            nodes.collect::<Vec<_>>().join(", ")
        }
    };
    let mut text = String::from("\n");
    for (planned, found) in plan.threads.iter().zip(&rehearsal.threads) {
        let stack = pages(&found.stack);
        let node = found.node.map(|node| format!("node {node}")).unwrap_or_default();
        let _ = writeln!(text, "tried   {} ran on {node}; its stack: {stack}", planned.name);
    }
    for (planned, found) in plan.logs.iter().zip(&rehearsal.logs) {
        let _ = writeln!(text, "tried   log {}: {}", planned.name, pages(found));
    }
    let verdict = match rehearsal.faults(plan).is_empty() {
        true => "all as planned, the kernel confirms",
        false => "not as planned",
    };
    let (sent, seen) = (rehearsal.packets_sent, rehearsal.packets_seen);
    let _ = writeln!(text, "tried   {seen} of {sent} packets read; {verdict}");
    text
}

/// Returns the same as an object; keys are an interface.
pub(crate) fn rehearsal_json(plan: &Plan, rehearsal: &Rehearsal) -> Value {
    let threads = rehearsal.threads.iter().map(|place| {
        json!({
            "name": place.name,
            "core": place.pinned_to.map(|core| core.0),
            "node": place.node.map(|node| node.0),
            "stack_pages": pages_json(&place.stack),
        })
    });
    let logs = plan.logs.iter().zip(&rehearsal.logs);
    let logs = logs.map(|(log, pages)| json!({ "name": log.name, "pages": pages_json(pages) }));
    json!({
        "threads": threads.collect::<Vec<_>>(),
        "logs": logs.collect::<Vec<_>>(),
        "packets_sent": rehearsal.packets_sent,
        "packets_seen": rehearsal.packets_seen,
        "faults": rehearsal.faults(plan),
    })
}

fn thread(thread: &PlannedThread) -> Value {
    json!({
        "name": thread.name,
        "role": match thread.role { Role::Receive => "receive", Role::Work => "work" },
        "core": thread.core.0,
        "node": thread.node.0,
        "stack_node": thread.stack_node.0,
        "reasons": thread.reasons,
    })
}
