//! The ledger as text: packets received, their fate, and the cost.

use std::collections::BTreeMap;
use std::fmt::Write;

use burstline_engine::{FlightReport, HandoffReport, PortReport, PublishedReport, Report, Total};
use burstline_log::Handoff;
use burstline_port::Losses;

use super::logs::policy;
use crate::foreign::one_line;
use crate::live::RHO_LEAST_BITS_PER_S;
use crate::words::{
    bytes_text, count_text, counted_text, packets_text, rate_text, size_text, time_text,
};

/// Minimum and maximum width of a port's name.
const NAME_COLUMNS: std::ops::RangeInclusive<usize> = 8..=24;

/// Returns the whole ledger except its last line.
pub(super) fn text(report: &Report, findings: &str) -> String {
    let mut text = String::new();
    table(&mut text, report);
    losses(&mut text, &report.total.lost);
    // Writing to a string cannot fail, here and below.
    if let Some(flows) = &report.flows {
        text += &super::flows::text(flows);
    }
    if let Some(balance) = &report.balance {
        super::balance::text(&mut text, balance);
    }
    let _ = writeln!(text);
    rates(&mut text, report);
    cost(&mut text, report);
    places(&mut text, report);
    memory(&mut text, report);
    if let Some(flight) = &report.flight {
        past(&mut text, flight);
    }
    if let Some((first_ns, last_ns)) = report.packet_times_ns {
        let (first, last) = (time_text(first_ns), time_text(last_ns));
        let span = (last_ns - first_ns) as f64 / 1e9;
        let clock = &report.timestamp.source;
        let _ = writeln!(text, "times    {first} to {last} UTC, {span:.6} s, clock: {clock}");
    }
    if let Some(merge) = &report.merge {
        text += &super::merge::text(merge);
    }
    if let Some(published) = &report.published {
        readers(&mut text, published);
    }
    text += findings;
    for note in &report.notes {
        let _ = writeln!(text, "note     {}", one_line(note));
    }
    text
}

fn table(text: &mut String, report: &Report) {
    let longest =
        report.ports.iter().map(|row| one_line(&row.port).chars().count()).max().unwrap_or(0);
    let columns = longest.clamp(*NAME_COLUMNS.start(), *NAME_COLUMNS.end());
    // Packets excluded by the user have a column separate from losses.
    let has_unwanted = report.total.lost.iter().any(|(cause, _)| cause.is_choice());
    let unwanted = if has_unwanted { format!(" {:>13} +", "unwanted") } else { String::new() };
    let _ = writeln!(
        text,
        "{:<columns$} {:>13} = {:>13} +{unwanted} {:>10} + {:>9} {:>12} {:>10}",
        "port", "offered", "delivered", "lost", "in flight", "unaccounted", "bytes"
    );
    for row in &report.ports {
        line(text, columns, row, has_unwanted);
    }
    if report.ports.len() > 1 {
        let total = &report.total;
        let row = PortReport {
            port: "total".to_owned(),
            offered: total.offered,
            delivered: total.delivered,
            bytes: total.bytes,
            wire_bytes: total.wire_bytes,
            lost: total.lost.clone(),
            in_flight: total.in_flight,
            truncated: total.truncated,
            fragments_unmatched: total.fragments_unmatched,
            writer_down: 0,
            unaccounted: total.unaccounted,
        };
        line(text, columns, &row, has_unwanted);
    }
}

fn line(text: &mut String, columns: usize, row: &PortReport, has_unwanted: bool) {
    let unwanted = match has_unwanted {
        true => format!(" {:>13} +", count_text(row.lost.unwanted())),
        false => String::new(),
    };
    let _ = writeln!(
        text,
        "{:<columns$} {:>13} = {:>13} +{unwanted} {:>10} + {:>9} {:>12} {:>10}",
        shorten(&row.port, columns),
        count_text(row.offered),
        count_text(row.delivered),
        count_text(row.lost.missing()),
        count_text(row.in_flight),
        row.unaccounted,
        bytes_text(row.bytes),
    );
}

/// Shortens a long name: the end of a path, but the start of parameters, identifies it best.
fn shorten(name: &str, columns: usize) -> String {
    let name = one_line(name);
    let length = name.chars().count();
    if length <= columns {
        return name.into_owned();
    }
    let kept = columns - 3;
    match name.contains('?') {
        true => name.chars().take(kept).chain("...".chars()).collect(),
        false => "...".chars().chain(name.chars().skip(length - kept)).collect(),
    }
}

/// Turns a sentence into a part of a line.
pub(super) fn lower_first(sentence: &str) -> String {
    let mut rest = sentence.trim().trim_end_matches('.').chars();
    rest.next().map(|first| first.to_lowercase().chain(rest).collect()).unwrap_or_default()
}

fn losses(text: &mut String, lost: &Losses) {
    for (cause, packets) in lost.iter().filter(|&(_, packets)| packets > 0) {
        let packets = count_text(packets);
        let help = lower_first(cause.help());
        let _ = match cause.is_choice() {
            true => writeln!(text, "unwanted {packets} {cause}: {help} (not a loss)"),
            false => writeln!(text, "lost     {packets} to {cause}: {help}"),
        };
    }
}

/// Appends the readers of the published log, by their own counts.
pub(super) fn readers(text: &mut String, published: &PublishedReport) {
    let PublishedReport { name, epoch, readers_total, readers_peak, .. } = published;
    let ending = if published.is_stopped { "stopped" } else { "final" };
    let packets = packets_text(published.packets.iter().sum());
    let readers = counted_text(*readers_total, "reader");
    let _ = writeln!(
        text,
        "shared   log:{name}, epoch {epoch}, {packets}, {ending}; {readers}, at most \
         {readers_peak} at a time"
    );
    let there = published.there.iter().map(|reader| (reader, "there"));
    let gone = published.gone.iter().map(|reader| (reader, "gone"));
    for (reader, place) in gone.chain(there) {
        let (read, missed) = (count_text(reader.delivered), count_text(reader.missed));
        let (command, pid, log) = (&reader.command, reader.pid, reader.log);
        let policy = policy(reader);
        let _ = writeln!(
            text,
            "         {command} ({pid}), log {log}, {policy}, {place}: {read} read, {missed} missed"
        );
    }
    if published.gone_omitted > 0 {
        let _ = writeln!(text, "         and {} others, gone", count_text(published.gone_omitted));
    }
}

fn rates(text: &mut String, report: &Report) {
    let total = &report.total;
    let seconds = report.elapsed_ns as f64 / 1e9;
    let _ = writeln!(
        text,
        "rate     {} over {seconds:.3} s, {} l2, {} line",
        rate_text(total.packets_per_s, "pps"),
        rate_text(total.l2_bits_per_s, "bit/s"),
        rate_text(total.line_bits_per_s, "bit/s"),
    );
    incomplete(text, total);
}

/// Appends the counts of packets that are truncated or apart from their flow.
pub(super) fn incomplete(text: &mut String, total: &Total) {
    // Writing to a string cannot fail, here and below.
    if total.truncated > 0 {
        let (cut, wire) = (packets_text(total.truncated), bytes_text(total.wire_bytes));
        let _ = writeln!(text, "cut      {cut} truncated by snaplen; {wire} were on the wire");
    }
    if total.fragments_unmatched > 0 {
        let fragments = counted_text(total.fragments_unmatched, "fragment");
        let _ = writeln!(
            text,
            "hash     {fragments} without the first one of the packet: not hashed with its flow"
        );
    }
}

fn cost(text: &mut String, report: &Report) {
    let usage = report.cpu.usage;
    let (user, system) = (usage.user_ns as f64 / 1e9, usage.system_ns as f64 / 1e9);
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    let switches = counted_text(switches, "context switch");
    let _ = writeln!(text, "cpu      {user:.3} s user, {system:.3} s system, {switches}");
    let (total, busy) = (report.cpu.rho_total, report.cpu.rho_busy);
    let _ = match report.total.line_bits_per_s >= RHO_LEAST_BITS_PER_S {
        true => writeln!(
            text,
            "rho      {total:.2} % of a core per Gbit/s of line rate, {busy:.2} without empty polls"
        ),
        false => writeln!(text, "rho      unknown: less than 10 Mbit/s of line rate"),
    };
    for (stage, place) in report.stages.iter().zip(&report.placement.threads) {
        let core = match place.pinned_to {
            Some(core) => format!("core {core}"),
            None => "any core".to_owned(),
        };
        let _ = writeln!(
            text,
            "stage    {:<9} {:>6.1}% of {core}, {} in, {} out{}{}",
            stage.name,
            stage.cpu_percent,
            count_text(stage.packets_in),
            count_text(stage.packets_out),
            match stage.high_water {
                0 => String::new(),
                segments => format!(", at most {} in use", counted_text(segments, "segment")),
            },
            match stage.sleeps {
                0 => String::new(),
                sleeps => format!(", {}", counted_text(sleeps, "sleep")),
            },
        );
    }
}

fn memory(text: &mut String, report: &Report) {
    let memory = &report.memory;
    let resident = bytes_text(memory.resident.total_bytes());
    let copied = bytes_text(report.total.bytes_copied);
    if memory.log_bytes == 0 {
        let _ = writeln!(text, "memory   {resident} resident, {copied} copied");
        return;
    }
    let node = memory.node.map_or("several nodes".to_owned(), |node| format!("node {node}"));
    let _ = writeln!(
        text,
        "memory   log of {} in segments of {}, {} pages on {node}\n         \
         handed over {}\n         \
         {resident} resident, {copied} copied",
        size_text(memory.log_bytes),
        size_text(memory.segment_bytes),
        memory.page_kind,
        way_text(&memory.handoff),
    );
    for note in &report.memory_notes {
        let _ = writeln!(text, "         {note}");
    }
}

/// Returns how packets were handed from core to core.
fn way_text(handoff: &HandoffReport) -> String {
    let HandoffReport { asked, segments, far_segments } = *handoff;
    let asked = if asked == Handoff::Auto { "as measured" } else { "as --handoff says" };
    match far_segments {
        0 => format!("through the caches (near), {asked}"),
        some if some == segments => format!("past the caches (far), {asked}"),
        some if 2 * some < segments => {
            format!("through the caches (near) but for {some} of {segments} segments, {asked}")
        }
        some => format!("past the caches (far) in {some} of {segments} segments, {asked}"),
    }
}

/// Appends how much history was kept, and what would keep more.
pub(super) fn past(text: &mut String, flight: &FlightReport) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (kept, asked) = (seconds(flight.kept_ns), seconds(flight.asked_ns));
    let _ = writeln!(text, "past     {kept:.1} s kept at the end, --keep {asked:.1} s");
    if let (Some(least_ns), Some(bytes)) = (flight.shortest_ns, flight.wanted_bytes) {
        let (least, mebibytes) = (seconds(least_ns), bytes >> 20);
        let _ = writeln!(
            text,
            "         at the busiest time the memory held only {least:.1} s: \
             --buffer {mebibytes}m would hold all"
        );
    }
    for file in &flight.files {
        let (packets, kept) = (packets_text(file.packets), seconds(file.kept_ns));
        let name = one_line(&file.name);
        let again = match file.triggers {
            1 => String::new(),
            triggers => format!(", {} triggers", count_text(triggers)),
        };
        let _ = writeln!(text, "wrote    {packets}, {kept:.1} s kept before{again}: {name}");
    }
}

/// Appends where threads and stacks are, if the user or the plan chose that.
fn places(text: &mut String, report: &Report) {
    let placed = report.placement.threads.iter().filter(|place| place.pinned_to.is_some());
    let mut parts: Vec<String> = Vec::new();
    for place in placed {
        let node = place.node.map(|node| format!(" on node {node}")).unwrap_or_default();
        let all: usize = place.stack.values().sum();
        let stack = match (place.stack_node, place.stray_pages()) {
            (None, _) => String::new(),
            (Some(_), _) if all == 0 => ", stack unknown".to_owned(),
            (Some(stack), 0) => format!(", stack on {stack}"),
            (Some(stack), stray) => format!(", {stray} of {all} stack pages not on {stack}"),
        };
        parts.push(format!("{}{node}{stack}", place.name));
    }
    if !parts.is_empty() {
        let _ = writeln!(text, "places   {}", parts.join("; "));
    }
    let mut by_rights: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for place in &report.placement.threads {
        by_rights.entry(place.rights.to_string()).or_default().push(&place.name);
    }
    for (rights, threads) in by_rights {
        let _ = writeln!(text, "rights   {}: {rights}", threads.join(", "));
    }
    for note in &report.placement.notes {
        let _ = writeln!(text, "         {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_port::Loss;

    #[test]
    fn a_long_name_keeps_what_says_most() {
        assert_eq!(shorten("file:a.pcap", 12), "file:a.pcap");
        assert_eq!(shorten("file:/some/where/a.pcap", 12), "...re/a.pcap");
        assert_eq!(shorten("gen:?size=64&flows=16", 12), "gen:?size...");
    }

    #[test]
    fn the_ledger_says_what_was_lost_and_why() {
        let mut report = Report::default();
        report.total.lost.add(Loss::ReaderOverrun, 1234);
        let text = text(&report, "");
        assert!(text.contains("lost     1,234 to reader_overrun: the reader was"), "{text}");
        assert!(!text.contains("unwanted"), "{text}");
    }

    #[test]
    fn what_nobody_asked_for_stands_apart_from_losses() {
        let mut row = PortReport { offered: 30, delivered: 6, ..PortReport::default() };
        row.lost.add(Loss::Filtered, 20);
        row.lost.add(Loss::RxRingFull, 4);
        let mut report = Report::default();
        report.total.lost = row.lost.clone();
        report.ports.push(row);
        let text = text(&report, "");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["30", "=", "6", "+", "20", "+", "4", "+", "0", "0", "0", "B"], "{text}");
        assert!(
            text.contains("\nunwanted 20 filtered: the filter rejected it (not a loss)"),
            "{text}"
        );
    }
}
