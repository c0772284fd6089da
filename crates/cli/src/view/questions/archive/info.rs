//! The output of `info`: the content of a file.

use std::fmt::Write as _;

use burstline_engine::Survey;
use burstline_wire::files::{Interface, Resolution, Section};
use serde_json::{Map, Value, json};

use super::{fault_lines, file_object, format_text, line};
use crate::foreign::{one_line, path_text};
use crate::words::{bytes_text, count_text, rate_text, time_text};

/// Width of the graph of the rate.
const COLUMNS: usize = 60;

/// Eighths of a character's height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn seconds_text(ns: u64) -> String {
    format!("{}.{:09} s", count_text(ns / 1_000_000_000), ns % 1_000_000_000)
}

fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

/// What is known of a file.
pub(crate) struct Described {
    pub(crate) survey: Survey,
    /// What its first section header says.
    pub(crate) section: Option<Section>,
}

/// Returns the text about one file.
pub(crate) fn text(described: &Described) -> String {
    let Described { survey, section } = described;
    let file = &survey.scanned;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<16}{value}");
    };
    let damage = if file.is_sound() { "" } else { ", DAMAGED" };
    let end = if file.is_being_written() { ", still being written" } else { "" };
    row("file", path_text(&file.path));
    row("format", format!("{}, {}{damage}{end}", format_text(file), bytes_text(file.bytes)));
    row("packets", packets_text(survey));
    row("bytes", bytes_row(survey));
    if let Some((earliest, latest)) = survey.times_ns {
        row("first", time_text(earliest));
        row("last", time_text(latest));
        row("duration", seconds_text(survey.duration_ns()));
        let ns = survey.duration_ns();
        let packets = rate_text(per_second(file.packets, ns), "pps");
        let bits = rate_text(per_second(8 * survey.wire_bytes, ns), "bit/s");
        row("rate", format!("{packets}, {bits}"));
    }
    let more = if survey.has_more_flows { "at least " } else { "" };
    let not_ip = count_text(survey.not_ip);
    row("flows", format!("{more}{}, {not_ip} packets are not IP", count_text(survey.flows)));
    row("order", order_text(survey));
    if let Some((ns, packet)) = survey.longest_gap {
        row("longest gap", format!("{} before packet {}", seconds_text(ns), count_text(packet)));
    }
    row("lost", losses_text(survey));
    if let Some(section) = section {
        section_rows(section, &mut row);
    }
    for (interface, packets) in file.interfaces.iter().zip(&file.interface_packets) {
        row("interface", interface_text(interface, *packets));
    }
    let columns = survey.rate.columns(COLUMNS);
    if columns.len() > 1 {
        let most = columns.iter().max().copied().unwrap_or(0);
        let ns = survey.duration_ns() / columns.len() as u64;
        let each = format!("up to {} packets in {}", count_text(most), seconds_text(ns));
        row("rate over time", format!("{} {each}", picture(&columns)));
    }
    text + &fault_lines(file) + "\n"
}

/// Adds a row for each text of a section.
fn section_rows(section: &Section, mut row: impl FnMut(&str, String)) {
    for comment in section.comment.lines() {
        row("comment", one_line(comment).into());
    }
    for (name, text) in [
        ("application", &section.application),
        ("system", &section.os),
        ("hardware", &section.hardware),
    ] {
        if !text.is_empty() {
            row(name, one_line(text).into());
        }
    }
}

fn packets_text(survey: &Survey) -> String {
    let file = &survey.scanned;
    let mut text = count_text(file.packets);
    for (what, count) in [
        ("cut short", survey.truncated),
        ("corrupt", file.lost.corrupt),
        ("in missing segments", file.lost.missing),
    ] {
        if count > 0 {
            let _ = write!(text, ", {} {what}", count_text(count));
        }
    }
    text
}

fn bytes_row(survey: &Survey) -> String {
    let mut text = bytes_text(survey.wire_bytes);
    if survey.captured_bytes != survey.wire_bytes {
        let _ = write!(text, ", {} captured", bytes_text(survey.captured_bytes));
    }
    let Survey { shortest, longest, .. } = survey;
    let average = survey.wire_bytes as f64 / survey.scanned.packets.max(1) as f64;
    let _ = write!(text, "; a packet has {shortest} to {longest}, {average:.2} on average");
    text
}

fn order_text(survey: &Survey) -> String {
    match survey.disorder.packets {
        0 => "strict order of time".to_owned(),
        packets => format!(
            "{} packets are older than the one before, by up to {}; the first is packet {}",
            count_text(packets),
            seconds_text(survey.disorder.most_ns),
            count_text(survey.disorder.first)
        ),
    }
}

fn losses_text(survey: &Survey) -> String {
    let recorded = &survey.scanned.recorded;
    let marked = match survey.marked_lost {
        0 => String::new(),
        marked => format!("; {} marked at packets", count_text(marked)),
    };
    // The closing counts of an interface also have what was lost after its last packet.
    let counters = survey.scanned.interfaces.iter().map(|interface| &interface.counters);
    let losses = counters.flat_map(|counters| [counters.missed, counters.lost]);
    let counted = losses.flatten().reduce(|sum, lost| sum.saturating_add(lost));
    let counted_text = |lost: u64| format!("{} by closing counts", count_text(lost));
    if recorded.segments == 0 {
        return match counted {
            Some(lost) => counted_text(lost) + &marked,
            None => format!("this file does not say{marked}"),
        };
    }
    let causes: String = recorded
        .named_losses()
        .filter(|(_, lost)| *lost > 0)
        .map(|(cause, lost)| format!(", {} {}", cause.name(), count_text(lost)))
        .collect();
    let (lost, offered) = (count_text(recorded.lost()), count_text(recorded.offered()));
    let more = counted.filter(|&counted| counted > recorded.lost());
    let more = more.map_or(String::new(), |counted| counted_text(counted) + "; ");
    format!("{more}{lost} of {offered} offered, by trailers{causes}{marked}")
}

fn interface_text(interface: &Interface, packets: u64) -> String {
    let name = one_line(if interface.name.is_empty() { "without a name" } else { &interface.name });
    let mut text = format!("{name}, link type {}", interface.link.0);
    if let Some(link) = interface.link.name() {
        let _ = write!(text, " ({link})");
    }
    let _ = write!(text, ", times in {}", unit_text(interface.resolution));
    if interface.snapshot_length > 0 {
        let _ = write!(text, ", snaplen {}", count_text(interface.snapshot_length.into()));
    }
    let _ = write!(text, ", {} packets", count_text(packets));
    for (what, count) in closing_counts(interface) {
        if let Some(count) = count {
            let _ = write!(text, ", {what} {}", count_text(count));
        }
    }
    text
}

/// Returns the unit of timestamps.
fn unit_text(resolution: Resolution) -> String {
    let base = if resolution.binary { 2 } else { 10 };
    match (base, resolution.exponent) {
        (_, 0) => "s".to_owned(),
        (10, 3) => "ms".to_owned(),
        (10, 6) => "us".to_owned(),
        (10, 9) => "ns".to_owned(),
        (base, exponent) => format!("{base}^-{exponent} s"),
    }
}

/// Returns a bar for each column, or a blank where there is no packet.
fn picture(columns: &[u64]) -> String {
    let most = columns.iter().max().copied().unwrap_or(0).max(1);
    let bar = |&packets: &u64| match packets {
        0 => ' ',
        _ => {
            let eighths = (u128::from(packets) * 8).div_ceil(u128::from(most)) as usize;
            BARS[eighths.clamp(1, 8) - 1]
        }
    };
    columns.iter().map(bar).collect()
}

/// Returns the object of `info`.
pub(crate) fn object(described: &[Described], is_success: bool) -> String {
    let files: Vec<Value> = described.iter().map(described_object).collect();
    line(&json!({ "command": "info", "files": files, "success": is_success }))
}

fn described_object(described: &Described) -> Value {
    let Described { survey, section } = described;
    let file = &survey.scanned;
    let ns = survey.duration_ns();
    let mut object = file_object(file);
    let more = json!({
        "wire_bytes": survey.wire_bytes,
        "captured_bytes": survey.captured_bytes,
        "shortest": survey.shortest,
        "longest": survey.longest,
        "average": survey.wire_bytes as f64 / file.packets.max(1) as f64,
        "truncated": survey.truncated,
        "packet_times_ns": survey.times_ns.map(|(earliest, latest)| json!([earliest, latest])),
        "duration_s": ns as f64 / 1e9,
        "pps": per_second(file.packets, ns),
        "l2_bits_per_s": per_second(8 * survey.wire_bytes, ns),
        "flows": survey.flows,
        "flows_complete": !survey.has_more_flows,
        "not_ip": survey.not_ip,
        "disorder": {
            "packets": survey.disorder.packets,
            "most_s": survey.disorder.most_ns as f64 / 1e9,
            "first": survey.disorder.first,
        },
        "longest_gap_s": survey.longest_gap.map(|(ns, _)| ns as f64 / 1e9),
        "recorded": recorded_object(survey),
        "marked_lost": survey.marked_lost,
        "section": section_object(&section.clone().unwrap_or_default()),
        "interfaces": file
            .interfaces
            .iter()
            .zip(&file.interface_packets)
            .map(|(interface, packets)| interface_object(interface, *packets))
            .collect::<Vec<_>>(),
        "rate": survey.rate.columns(COLUMNS),
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut object, more) {
        all.extend(more);
    }
    object
}

/// Returns what trailers say, or null if there are none.
fn recorded_object(survey: &Survey) -> Value {
    let recorded = &survey.scanned.recorded;
    if recorded.segments == 0 {
        return Value::Null;
    }
    let losses = recorded.named_losses();
    let losses: Map<_, _> =
        losses.map(|(cause, lost)| (cause.name().to_owned(), lost.into())).collect();
    json!({
        "offered": recorded.offered(),
        "packets": recorded.packets,
        "lost": losses,
    })
}

fn section_object(section: &Section) -> Value {
    json!({
        "comment": section.comment,
        "application": section.application,
        "os": section.os,
        "hardware": section.hardware,
    })
}

fn interface_object(interface: &Interface, packets: u64) -> Value {
    let mut object = json!({
        "name": interface.name,
        "link": interface.link.0,
        "encapsulation": interface.link.name().unwrap_or_default(),
        "unit": unit_text(interface.resolution),
        "snaplen": interface.snapshot_length,
        "packets": packets,
    });
    for (what, count) in closing_counts(interface) {
        object[what] = count.into();
    }
    object
}

/// Returns the counts of an Interface Statistics Block, by the names of its options.
fn closing_counts(interface: &Interface) -> [(&'static str, Option<u64>); 5] {
    let counters = &interface.counters;
    [
        ("ifrecv", counters.received),
        ("ifdrop", counters.missed),
        ("filteraccept", counters.accepted),
        ("osdrop", counters.lost),
        ("usrdeliv", counters.delivered),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bar_for_each_column() {
        assert_eq!(picture(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(picture(&[1_000_000, 1]), "█▁");
    }
}
