//! What a device's test has found: a table, or JSON.

use std::fmt::Write;

use burstline_engine::Latency;
use serde_json::{Map, Value, json};

use super::test::{latency, micros};
use super::words::{count_text, rate_text};
use crate::args::{Device, Rfc2544Args};
use crate::verbs::{Measured, SizeResult, Step, Throughput, Trial};

/// What RFC 2544, section 24, asks of a trial.
const TRIAL_NS: u64 = 60_000_000_000;

/// The tables, with what one has to know to doubt them, and how the devices compare.
pub(crate) fn text(args: &Rfc2544Args, all: &[Measured]) -> String {
    let mut text = String::new();
    for measured in all {
        device_text(&mut text, args, measured);
    }
    if all.len() > 1 {
        comparison_text(&mut text, args, all);
    }
    let is_whole = all.iter().all(Measured::is_done);
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "{}",
        if is_whole { "done" } else { "NOT DONE: the rows above are what was finished" }
    );
    text
}

fn device_text(text: &mut String, args: &Rfc2544Args, measured: &Measured) {
    let Measured { tx, rx, results, .. } = measured;
    if let Some(device) = measured.device {
        let _ = writeln!(text, "device   {}: {}", device.name(), measured.note);
    }
    if let Some(why) = &measured.not_run {
        let _ = writeln!(text, "not run, because {why}\n");
        return;
    }
    let link = rate_text(measured.link_bits, "bit/s");
    let _ = writeln!(text, "rfc2544  {tx} > {rx}, link {link}, {}", trial_text(args));
    let _ = writeln!(
        text,
        "{:>6} {:>13} {:>7} {:>10} {:>10} {:>10} {:>13}  remark",
        "bytes", "throughput", "line %", "p50 us", "p99 us", "max us", "back-to-back"
    );
    for result in results {
        row_text(text, result);
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
    for result in results {
        if let Some(half) = &result.half {
            let _ = writeln!(text, "half     {} bytes: {}", result.size, half_text(half));
        }
    }
    if let Some(failure) = &measured.failure {
        let _ = writeln!(text, "FAILED   {failure}");
    }
    if measured.device.is_some() {
        text.push('\n');
    }
}

fn half_text(half: &Trial) -> String {
    let Trial { sent, lost, reordered, duplicates, corrupted, .. } = half;
    let [sent, lost, reordered, doubled, corrupted] =
        [sent, lost, reordered, duplicates, corrupted].map(|count| count_text(*count));
    format!(
        "{sent} sent at {}, {lost} lost, {reordered} reordered, {doubled} duplicated, {corrupted} \
         corrupted",
        rate_text(half.offered_pps, "pps")
    )
}

/// The throughput of each device by size: Mpps, and per cent of the line's.
fn comparison_text(text: &mut String, args: &Rfc2544Args, all: &[Measured]) {
    let _ = write!(text, "{:>6}", "bytes");
    for measured in all {
        let name = measured.device.map_or("", Device::name);
        let _ = write!(text, " {name:>21}");
    }
    text.push('\n');
    for &size in &args.sizes {
        let _ = write!(text, "{size:>6}");
        for measured in all {
            let _ = write!(text, " {:>21}", cell(measured, size));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Mpps without loss, per cent of line rate; * limited by the tester");
}

fn cell(measured: &Measured, size: u32) -> String {
    if measured.not_run.is_some() {
        return "not run".to_owned();
    }
    let result = measured.results.iter().find(|result| result.size == size);
    let found = result.and_then(|result| Some((result.throughput.as_ref()?, result.line_pps)));
    found.map_or("-".to_owned(), |(found, line_pps)| {
        let limited = if found.limited.is_some() { "*" } else { "" };
        format!("{:.4} {:6.2}%{limited}", found.pps / 1e6, found.pps * 100.0 / line_pps)
    })
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

/// The same as JSON: what was found of the one device, or a list of the devices.
pub(crate) fn json(args: &Rfc2544Args, all: &[Measured]) -> Value {
    let mut whole = json!({
        "command": "lab rfc2544",
        "trial_s": args.trial as f64 / 1e9,
        "trial_is_short": args.trial < TRIAL_NS,
        "resolution_percent": args.resolution,
        "whole": all.iter().all(Measured::is_done),
    });
    match (all, whole.as_object_mut()) {
        ([only], Some(whole)) if only.device.is_none() => whole.extend(ports(only)),
        (all, Some(whole)) => {
            let devices = all.iter().map(device).collect();
            whole.insert("devices".to_owned(), Value::Array(devices));
        }
        (_, None) => {}
    }
    whole
}

fn device(measured: &Measured) -> Value {
    let mut device = Map::new();
    device.insert("device".to_owned(), measured.device.map(Device::name).into());
    match &measured.not_run {
        Some(why) => device.extend([("not_run".to_owned(), why.as_str().into())]),
        None => {
            let failure = measured.failure.as_ref().map(ToString::to_string);
            device.extend([
                ("note".to_owned(), measured.note.as_str().into()),
                ("whole".to_owned(), measured.is_done().into()),
                ("failure".to_owned(), failure.into()),
            ]);
            device.extend(ports(measured));
        }
    }
    Value::Object(device)
}

fn ports(measured: &Measured) -> [(String, Value); 4] {
    [
        ("tx", measured.tx.to_string().into()),
        ("rx", measured.rx.to_string().into()),
        ("link_bits_per_s", measured.link_bits.into()),
        ("sizes", measured.results.iter().map(size).collect()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
}

fn size(result: &SizeResult) -> Value {
    json!({
        "size": result.size,
        "line_pps": result.line_pps,
        "throughput": result.throughput.as_ref().map(|found| throughput(found, result)),
        "latency_ns": result.latency.as_ref().map(|trial| latency(&trial.latency)),
        "latency_trial": result.latency.as_ref().map(trial),
        "half": result.half.as_ref().map(trial),
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
