//! The results of network tests: how packets were sent, and what happened to them.

use std::fmt::Write;

use burstline_engine::{FlowVerdict, Generated, Latency, Limit, Verdict, WINDOW};
use burstline_lab::distribution::latency_json;
use serde_json::{Value, json};

use super::{Findings, bounce, inline, switch};
use crate::words::{count_text, counted_text, rate_text};

/// Maximum number of flows listed in text.
const FLOWS_SHOWN: usize = 16;

/// Returns the findings as text; if `is_whole`, including what the short report omits.
pub(super) fn text(findings: &Findings, is_whole: bool) -> String {
    let mut text = String::new();
    if let Some(bounced) = &findings.bounced {
        bounce::text(&mut text, bounced, &findings.counted, is_whole);
    }
    if let Some(status) = &findings.switched {
        text += &switch::totals_text(&switch::json(status));
    }
    if let Some(inline) = &findings.inline {
        inline::text(&mut text, inline, is_whole);
    }
    if let Some(generated) = &findings.generated {
        generated_text(&mut text, generated, is_whole);
    }
    if let Some(verdict) = &findings.verdict {
        verdict_text(&mut text, verdict);
    }
    text
}

/// Adds the findings to a report.
pub(super) fn add_to(report: &mut Value, findings: &Findings) {
    if let Some(bounced) = &findings.bounced {
        report["bounce"] = bounce::json(bounced, &findings.counted);
    }
    if let Some(status) = &findings.switched {
        report["switch"] = switch::json(status);
        report["switch"]["inline"] = findings.inline.as_ref().map(inline::json).into();
    }
    if let Some(generated) = &findings.generated {
        let mut lateness = generated.lateness.as_ref().map(latency_json);
        if let (Some(object), Some(known)) = (&mut lateness, &generated.lateness) {
            object["steps"] = known.steps.iter().map(|step| json!([step.0, step.1])).collect();
        }
        report[generated.stage] = json!({
            "asked_pps": generated.asked_pps,
            "reached_pps": generated.reached_pps,
            "limit": generated.limit.map(limit_name),
            "lateness_ns": lateness,
        });
    }
    if let Some(verdict) = &findings.verdict {
        let mut latency_ns = latency_json(&verdict.latency);
        latency_ns["buckets"] = json!(verdict.latency.buckets);
        report["verify"] = json!({
            "good": verdict.is_good(),
            "packets": verdict.packets,
            "unique": verdict.unique,
            "lost": verdict.lost,
            "lost_at_start": verdict.lost_at_start,
            "duplicates": verdict.duplicates,
            "reordered": verdict.reordered,
            "too_late": verdict.too_late,
            "corrupted": verdict.corrupted,
            "unmarked": verdict.unmarked,
            "cut": verdict.cut,
            "beyond": verdict.beyond,
            "clock_behind": verdict.clock_behind,
            "latency_ns": latency_ns,
            "flows": verdict.flows.iter().map(flow).collect::<Vec<_>>(),
        });
    }
}

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Core => "core",
        Limit::Sink => "sink",
    }
}

fn generated_text(text: &mut String, generated: &Generated, is_whole: bool) {
    // Writing to a string cannot fail, here and below.
    if let Some(asked) = generated.asked_pps {
        let (asked, reached) = (rate_text(asked, "pps"), rate_text(generated.reached_pps, "pps"));
        let limit = match generated.limit {
            None => "kept",
            Some(Limit::Core) => "the core's limit",
            Some(Limit::Sink) => "the sink's limit",
        };
        let _ = writeln!(text, "pace     asked {asked}, reached {reached}: {limit}");
    }
    if let Some(lateness) = &generated.lateness {
        let _ = writeln!(text, "late     {}", latency_text(lateness));
        if lateness.packets > 0 && is_whole {
            let _ = writeln!(text, "         {}", steps_text(lateness));
        }
    }
}

fn verdict_text(text: &mut String, verdict: &Verdict) {
    let n = count_text;
    let _ = writeln!(
        text,
        "verify   {} intact, {} lost ({} at the start), {}, {} reordered, {} corrupted",
        n(verdict.unique),
        n(verdict.lost),
        n(verdict.lost_at_start),
        counted_text(verdict.duplicates, "duplicate"),
        n(verdict.reordered),
        n(verdict.corrupted),
    );
    let others = [
        (verdict.unmarked, "without a mark: not generated, or too short for one".to_owned()),
        (verdict.cut, "truncated: cannot be checked".to_owned()),
        (verdict.beyond, format!("from flows after the first {}", n(verdict.flows.len() as u64))),
        (verdict.too_late, format!("more than {WINDOW} behind: late or duplicates")),
        (verdict.clock_behind, "arrived before they were due: the two clocks differ".to_owned()),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "         {} {what}", n(count));
    }
    let _ = writeln!(text, "latency  {}", latency_text(&verdict.latency));
    if verdict.flows.len() > 1 {
        let _ = writeln!(
            text,
            "{:<12} {:>13} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "flow", "intact", "missing", "duplicates", "reordered", "corrupted", "p99 us"
        );
    }
    for flow in verdict.flows.iter().filter(|_| verdict.flows.len() > 1).take(FLOWS_SHOWN) {
        let p99 = flow.latency.as_ref().map_or("-".to_owned(), |known| micros(known.at(99.0)));
        let name = format!("{}.{}", flow.stream.run(), flow.stream.flow());
        let _ = writeln!(
            text,
            "{name:<12} {:>13} {:>11} {:>11} {:>11} {:>11} {p99:>11}",
            n(flow.unique),
            n(flow.missing),
            n(flow.duplicates),
            n(flow.reordered),
            n(flow.corrupted),
        );
    }
    if verdict.flows.len() > FLOWS_SHOWN {
        let more = count_text((verdict.flows.len() - FLOWS_SHOWN) as u64);
        let _ = writeln!(text, "         and {more} more flows; --json has them all");
    }
}

fn micros(time_ns: u64) -> String {
    format!("{:.1}", time_ns as f64 / 1e3)
}

pub(super) fn latency_text(latency: &Latency) -> String {
    if latency.packets == 0 {
        return "no packets".to_owned();
    }
    let percentiles: Vec<_> = latency
        .percentiles
        .iter()
        .map(|(percent, time_ns)| format!("p{percent} {}", micros(*time_ns)))
        .collect();
    let (least, most) = (micros(latency.least_ns), micros(latency.most_ns));
    format!("min {least}, {}, max {most} us", percentiles.join(", "))
}

/// Formats the histogram as percentages of all packets.
fn steps_text(latency: &Latency) -> String {
    let step = |&(end_ns, packets): &(Option<u64>, u64)| {
        let part = packets as f64 * 100.0 / latency.packets as f64;
        match end_ns {
            Some(end_ns) => format!("{part:.2}% to {} us", end_ns as f64 / 1e3),
            None => format!("{part:.2}% more"),
        }
    };
    latency.steps.iter().map(step).collect::<Vec<_>>().join(", ")
}

fn flow(flow: &FlowVerdict) -> Value {
    json!({
        "run": flow.stream.run(),
        "flow": flow.stream.flow(),
        "unique": flow.unique,
        "missing": flow.missing,
        "missing_at_start": flow.missing_at_start,
        "duplicates": flow.duplicates,
        "reordered": flow.reordered,
        "too_late": flow.too_late,
        "corrupted": flow.corrupted,
        "latency_ns": flow.latency.as_ref().map(latency_json),
    })
}
