//! The fate of flow records.

use std::fmt::Write;

use burstline_engine::FlowsReport;
use burstline_flow::{Compacted, LostRecords, NotWritten, SinkAccount};
use serde_json::{Map, Value, json};

use crate::foreign::one_line;
use crate::words::{bytes_text, count_text, counted_text, packets_text};

/// Returns the lines of the text report.
pub(super) fn text(flows: &FlowsReport) -> String {
    let mut text = String::new();
    let counts = &flows.counts;
    let (records, packets) = (count_text(counts.records), packets_text(counts.packets_in_records));
    let open = count_text(counts.open_most);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "records  {records} of {packets}; at most {open} open at a time");
    for (reason, packets) in flows.without_flow().filter(|(_, packets)| *packets > 0) {
        let _ = writeln!(text, "no flow  {} {reason}", count_text(packets));
    }
    for sink in &flows.sinks {
        let (how, what) = if sink.sends { ("sent   ", "message") } else { ("written", "file") };
        let (records, parts) = (records_text(sink.records), counted_text(sink.parts, what));
        let _ = writeln!(text, "{how}  {records}, {parts}, {}", bytes_text(sink.bytes));
        spooled(&mut text, sink);
        for note in sink.notes.iter().filter(|_| sink.sends) {
            let _ = writeln!(text, "note     {}", one_line(note));
        }
    }
    for LostRecords { name, records, packets } in flows.lost_by_name() {
        let (records, packets) = (records_text(records), packets_text(packets));
        let _ = writeln!(text, "lost     {records} of {packets}: {name}");
    }
    if flows.unaccounted != 0 {
        let sign = if flows.unaccounted < 0 { "-" } else { "" };
        let missing = packets_text(flows.unaccounted.unsigned_abs());
        let _ = writeln!(text, "missing  {sign}{missing} in no record");
    }
    text
}

/// Appends the records that a bus has not acknowledged, from this and earlier starts.
fn spooled(text: &mut String, sink: &SinkAccount) {
    let (kind, spooled, earlier) = (sink.kind, &sink.spooled, &sink.earlier);
    if spooled.records > 0 {
        let (records, packets) = (records_text(spooled.records), packets_text(spooled.packets));
        let _ = writeln!(text, "spooled  {records} of {packets} wait for {kind} on disk");
    }
    if earlier.found > 0 {
        let found = records_text(earlier.found);
        let [sent, lost] = [earlier.acknowledged, earlier.lost].map(count_text);
        let _ = writeln!(
            text,
            "earlier  {found} of earlier starts in the spool: {sent} sent, {lost} lost"
        );
    }
    if let Some(last) = &earlier.last {
        let _ = writeln!(text, "earlier  {}", not_written(last));
    }
}

/// Formats `1 record`, `12,345 records`.
fn records_text(records: u64) -> String {
    counted_text(records, "record")
}

/// Returns the JSON object.
pub(super) fn object(flows: &FlowsReport) -> Value {
    let counts = &flows.counts;
    let reasons = flows.without_flow().map(|(reason, packets)| (reason.to_owned(), packets.into()));
    let (mut dropped, mut packets_dropped) = (Map::new(), 0);
    for LostRecords { name, records, packets } in flows.lost_by_name() {
        let before = dropped.get(name).and_then(Value::as_u64).unwrap_or(0);
        dropped.insert(name.to_owned(), (before + records).into());
        packets_dropped += packets;
    }
    json!({
        "records": counts.records,
        "packets_in_records": counts.packets_in_records,
        "packets_without_flow": counts.packets_without_flow(),
        "without_flow": reasons.collect::<Map<_, _>>(),
        "unaccounted": flows.unaccounted,
        "records_dropped": flows.records_lost(),
        "records_dropped_by": dropped,
        "packets_in_records_dropped": packets_dropped,
        "open_most": counts.open_most,
        "flows": flows.flows,
        "state_bytes": flows.state_bytes,
        "sinks": flows.sinks.iter().map(sink).collect::<Vec<_>>(),
        "last_start": flows.last.as_ref().map(last_start),
    })
}

fn last_start(last: &NotWritten) -> Value {
    json!({
        "boot_id": last.boot_id,
        "records_not_written": last.records,
        "packets_not_written": last.packets,
    })
}

fn sink(sink: &SinkAccount) -> Value {
    let earlier = &sink.earlier;
    json!({
        "kind": sink.kind,
        "records": sink.records,
        "packets": sink.packets,
        "bytes": sink.bytes,
        "parts": sink.parts,
        "sends": sink.sends,
        "records_spooled": sink.spooled.records,
        "packets_spooled": sink.spooled.packets,
        "earlier": {
            "records": earlier.found,
            "records_sent": earlier.acknowledged,
            "records_lost": earlier.lost,
            "last_start": earlier.last.as_ref().map(last_start),
        },
        "notes": sink.notes,
    })
}

/// Returns a note on what a killed start has not written.
pub(crate) fn not_written(last: &NotWritten) -> String {
    let (records, packets) = (records_text(last.records), packets_text(last.packets));
    let boot = &last.boot_id;
    format!("the start before, {boot}, was killed: {packets} and {records} not written")
}

/// Returns the result and errors of a compaction.
pub(crate) fn compacted(done: &Compacted, errors: &[String], is_json: bool) -> String {
    if is_json {
        let object = json!({
            "command": "flows compact",
            "folders": done.folders,
            "files_before": done.files_before,
            "files_after": done.files_after,
            "files_left": done.files_left,
            "records": done.records,
            "errors": errors,
            "success": errors.is_empty(),
        });
        return format!("{object}\n");
    }
    let before = counted_text(done.files_before, "file");
    let verb = if done.files_before == 1 { "is" } else { "are" };
    let (after, records) = (count_text(done.files_after), records_text(done.records));
    let mut text = format!("{before} {verb} now {after}, with {records}\n");
    if done.files_left > 0 {
        let left = counted_text(done.files_left, "file");
        let damaged = if errors.is_empty() { " " } else { ": damaged, or " };
        text += &format!("left {left}{damaged}with the schema of another version\n");
    }
    text
}
