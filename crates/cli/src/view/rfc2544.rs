//! What a device's test has found: a table, or JSON.

use std::fmt::Write;

use burstline_engine::Latency;
use serde_json::{Value, json};

use super::test::{latency, micros};
use super::words::{count_text, rate_text};
use crate::args::Rfc2544Args;
use crate::verbs::{SizeResult, Step, Throughput, Trial};

/// What RFC 2544, section 24, asks of a trial.
const TRIAL_NS: u64 = 60_000_000_000;

/// The table, with what one has to know to doubt it.
pub(crate) fn text(
    args: &Rfc2544Args,
    link_bits: f64,
    results: &[SizeResult],
    is_whole: bool,
) -> String {
    let mut text = String::new();
    // Writing to a string does not fail, here and below.
    let (tx, rx, link) = (&args.tx, &args.rx, rate_text(link_bits, "bit/s"));
    let _ = writeln!(text, "rfc2544  {tx} > {rx}, link {link}, {}", trial_text(args));
    let _ = writeln!(
        text,
        "{:>6} {:>13} {:>7} {:>10} {:>10} {:>10} {:>13}  remark",
        "bytes", "throughput", "line %", "p50 us", "p99 us", "max us", "back-to-back"
    );
    for result in results {
        row_text(&mut text, result);
    }
    for result in results.iter().filter(|result| !result.loss.is_empty()) {
        let points = result.loss.iter().map(|step| {
            format!(
                "{} {:.3}%",
                rate_text(step.trial.offered_pps, "pps"),
                step.trial.loss_percent()
            )
        });
        let points: Vec<_> = points.collect();
        let _ = writeln!(text, "loss     {} bytes: {}", result.size, points.join(", "));
    }
    let _ = writeln!(
        text,
        "{}",
        if is_whole { "done" } else { "NOT DONE: the rows above are what was finished" }
    );
    text
}

fn trial_text(args: &Rfc2544Args) -> String {
    let seconds = args.trial as f64 / 1e9;
    match args.trial < TRIAL_NS {
        true => format!("trials of {seconds} s: SHORTER than the 60 s of RFC 2544"),
        false => format!("trials of {seconds} s"),
    }
}

fn row_text(text: &mut String, result: &SizeResult) {
    let (rate, part) = match &result.throughput {
        None => ("-".to_owned(), "-".to_owned()),
        Some(found) => {
            (rate_text(found.pps, "pps"), format!("{:.2}", found.pps * 100.0 / result.line_pps))
        }
    };
    let known = result.latency.as_ref().map(|trial| &trial.latency);
    let time = |of: fn(&Latency) -> u64| known.map_or("-".to_owned(), |known| micros(of(known)));
    let burst = result.back_to_back.map_or("-".to_owned(), |burst| {
        let more = if burst.is_longest_tried { ">=" } else { "" };
        format!("{more}{}", count_text(burst.frames))
    });
    let mut remarks = Vec::new();
    if let Some(limited) = result.throughput.as_ref().and_then(|found| found.limited) {
        remarks.push(limited.name().to_owned());
    }
    if let Some(lost) = result.latency.as_ref().map(|trial| trial.lost).filter(|lost| *lost > 0) {
        remarks.push(format!("{} lost while latency was measured", count_text(lost)));
    }
    let _ = writeln!(
        text,
        "{:>6} {rate:>13} {part:>7} {:>10} {:>10} {:>10} {burst:>13}  {}",
        result.size,
        time(|known| known.at(50.0)),
        time(|known| known.at(99.0)),
        time(|known| known.most_ns),
        remarks.join(", ")
    );
}

/// The same as JSON.
pub(crate) fn json(
    args: &Rfc2544Args,
    link_bits: f64,
    results: &[SizeResult],
    is_whole: bool,
) -> Value {
    json!({
        "command": "lab rfc2544",
        "tx": args.tx.to_string(),
        "rx": args.rx.to_string(),
        "link_bits_per_s": link_bits,
        "trial_s": args.trial as f64 / 1e9,
        "trial_is_short": args.trial < TRIAL_NS,
        "resolution_percent": args.resolution,
        "whole": is_whole,
        "sizes": results.iter().map(size).collect::<Vec<_>>(),
    })
}

fn size(result: &SizeResult) -> Value {
    json!({
        "size": result.size,
        "line_pps": result.line_pps,
        "throughput": result.throughput.as_ref().map(|found| throughput(found, result)),
        "latency_ns": result.latency.as_ref().map(|trial| latency(&trial.latency)),
        "latency_trial": result.latency.as_ref().map(trial),
        "loss": result.loss.iter().map(step).collect::<Vec<_>>(),
        "back_to_back": result.back_to_back.map(|burst| json!({
            "frames": burst.frames,
            "longest_tried": burst.is_longest_tried,
            "trials": burst.trials,
        })),
    })
}

fn throughput(found: &Throughput, result: &SizeResult) -> Value {
    json!({
        "pps": found.pps,
        "line_percent": found.pps * 100.0 / result.line_pps,
        "line_bits_per_s": found.pps * f64::from((result.size + 20) * 8),
        "frames": found.frames,
        "lost": 0,
        "trials": found.trials,
        "limited": found.limited.map(|limited| limited.name()),
    })
}

fn step(step: &Step) -> Value {
    let mut point = trial(&step.trial);
    point["tenths"] = step.tenths.into();
    point
}

fn trial(trial: &Trial) -> Value {
    json!({
        "asked_pps": trial.asked_pps,
        "offered_pps": trial.offered_pps,
        "sent": trial.sent,
        "received": trial.received,
        "lost": trial.lost,
        "lost_percent": trial.loss_percent(),
        "lost_by_receiver": trial.lost_by_receiver,
        "reordered": trial.reordered,
        "duplicates": trial.duplicates,
        "corrupted": trial.corrupted,
    })
}
