//! The fate of packets that waited for verdicts.

use std::fmt::Write;

use burstline_engine::{InlineReport, InlineWorker};
use burstline_lab::distribution::latency_json;
use serde_json::{Value, json};

use super::test::latency_text;
use crate::words::{count_text, packets_text};

/// Appends a line for the total; if `is_whole`, also one for each worker.
pub(super) fn text(text: &mut String, inline: &InlineReport, is_whole: bool) {
    let sum = |of: fn(&InlineWorker) -> u64| inline.workers.iter().map(of).sum::<u64>();
    let mut said = format!("verdicts {} waited", packets_text(sum(|worker| worker.offered)));
    for (count, what) in [
        (sum(|worker| worker.passed), "passed"),
        (sum(|worker| worker.passed_with_flow), "passed with their flow"),
        (sum(|worker| worker.dropped), "dropped"),
        (sum(|worker| worker.replaced), "replaced"),
        (sum(|worker| worker.rejected), "rejected"),
    ] {
        if count > 0 {
            // Writing to a string cannot fail, here and below.
            let _ = write!(said, ", {} {what}", count_text(count));
        }
    }
    let _ = writeln!(text, "{said}");
    if inline.waits.packets > 0 {
        let _ = writeln!(text, "         waited {}", latency_text(&inline.waits));
    }
    let failed = sum(InlineWorker::failed);
    if failed > 0 {
        let fate = if inline.options.is_open { "went on" } else { "were lost" };
        let causes = [
            (sum(|worker| worker.late), "late"),
            (sum(|worker| worker.no_verdict), "without a worker"),
            (sum(|worker| worker.no_room), "for lack of room"),
            (sum(|worker| worker.invalid), "invalid"),
        ];
        let causes = causes.into_iter().filter(|(count, _)| *count > 0);
        let causes: Vec<_> =
            causes.map(|(count, what)| format!("{} {what}", count_text(count))).collect();
        let count = packets_text(failed);
        let _ = writeln!(text, "         {count} {fate} without a verdict: {}", causes.join(", "));
    }
    if inline.flows > 0 {
        let (flows, skipped) = (count_text(inline.flows), packets_text(inline.skipped));
        let _ =
            writeln!(text, "         {flows} flows passed from then on: {skipped} did not wait");
    }
    if is_whole {
        for worker in &inline.workers {
            let InlineWorker { log, offered, .. } = *worker;
            let _ = writeln!(text, "         log {log}: {}", packets_text(offered));
        }
    }
}

/// Returns the counts as JSON.
pub(super) fn json(inline: &InlineReport) -> Value {
    let workers = inline.workers.iter().map(|worker| {
        json!({
            "log": worker.log,
            "offered": worker.offered,
            "passed": worker.passed,
            "passed_with_flow": worker.passed_with_flow,
            "dropped": worker.dropped,
            "replaced": worker.replaced,
            "rejected": worker.rejected,
            "late": worker.late,
            "no_verdict": worker.no_verdict,
            "no_room": worker.no_room,
            "invalid": worker.invalid,
        })
    });
    json!({
        "name": inline.options.publish.name,
        "open": inline.options.is_open,
        "deadline_ns": inline.options.deadline_ns,
        "workers": workers.collect::<Vec<_>>(),
        "flows": inline.flows,
        "flows_forgotten": inline.flows_forgotten,
        "skipped": inline.skipped,
        "answers": inline.answers,
        "wait_ns": latency_json(&inline.waits),
    })
}
