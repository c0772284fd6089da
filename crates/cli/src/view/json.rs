//! The JSON contract: keys, units and rounding are an interface and change only with a version.

use burstline_engine::{
    FlightFile, FlightReport, PortReport, PublishedReport, Report, StageReport, ThreadPlace,
};
use burstline_sys::affinity::format_cores;
use serde_json::{Value, json};

use super::line::Moment;
use super::logs::reader_json;
use super::values::{losses, pages_json};
use crate::outcome::Outcome;

/// Returns the object at the end of a job.
pub(super) fn report(command: &str, report: &Report, outcome: &Outcome) -> Value {
    let total = &report.total;
    let usage = report.cpu.usage;
    let seconds = |ns: u64| ns as f64 / 1e9;
    json!({
        "command": command,
        "elapsed_s": seconds(report.elapsed_ns),
        "ports": report.ports.iter().map(port).collect::<Vec<_>>(),
        "total": {
            "offered": total.offered,
            "delivered": total.delivered,
            "bytes": total.bytes,
            "wire_bytes": total.wire_bytes,
            "lost": losses(&total.lost),
            "lost_total": total.lost_total,
            "in_flight": total.in_flight,
            "unaccounted": total.unaccounted,
            "truncated": total.truncated,
            "fragments_unmatched": total.fragments_unmatched,
            "pps": total.packets_per_s,
            "l2_bits_per_s": total.l2_bits_per_s,
            "line_bits_per_s": total.line_bits_per_s,
            "bytes_copied": total.bytes_copied,
            "lost_first_second": total.lost_first_second,
        },
        "poll": report.poll.name(),
        "stages": report.stages.iter().map(stage).collect::<Vec<_>>(),
        "placement": {
            "allowed_cores": format_cores(&report.placement.allowed_cores),
            "threads": report.placement.threads.iter().map(thread).collect::<Vec<_>>(),
            "notes": report.placement.notes,
        },
        "memory": memory(report),
        "timestamp": {
            "source": report.timestamp.source,
            "clock": "realtime",
            "resolution_ns": 1,
        },
        "flight": report.flight.as_ref().map(flight),
        "merge": report.merge.as_ref().map(super::merge::object),
        "flows": report.flows.as_ref().map(super::flows::object),
        "balance": report.balance.as_ref().map(super::balance::object),
        "packet_times_ns": report.packet_times_ns.map(|(first, last)| json!([first, last])),
        "cpu": {
            "user_s": seconds(usage.user_ns),
            "system_s": seconds(usage.system_ns),
            // Over all cores and processes; null if the kernel does not report it.
            "softirq_s": report.cpu.softirq_ns.map(seconds),
            "rho_total": report.cpu.rho_total,
            "rho_busy": report.cpu.rho_busy,
            "context_switches": usage.voluntary_switches + usage.involuntary_switches,
        },
        "published": report.published.as_ref().map(published),
        "damaged": report.is_damaged,
        "outcome": outcome.json(),
        "notes": report.notes,
        "errors": report.errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Returns the object at the end of an interval.
pub(super) fn interval(moment: &Moment<'_>) -> Value {
    let (now, last) = moment.counts();
    let rates = moment.rates();
    let mut object = json!({
        "command": moment.command,
        "interval": moment.number,
        "elapsed_s": moment.elapsed.as_secs_f64(),
        "interval_s": moment.interval.as_secs_f64(),
        "delivered": now.packets,
        "bytes": now.bytes,
        "interval_delivered": now.packets.saturating_sub(last.packets),
        "interval_bytes": now.bytes.saturating_sub(last.bytes),
        "pps": rates.packets_per_s,
        "l2_bits_per_s": rates.l2_bits_per_s,
        "line_bits_per_s": rates.line_bits_per_s,
        "lost": losses(&moment.now.lost),
        "lost_total": moment.now.lost.total(),
    });
    if moment.now.log_bytes > 0 {
        object["received"] = moment.now.received.packets.into();
        object["segments"] = moment.now.segments.into();
        object["log_percent"] = moment.log_percent().into();
    }
    if let Some(kept_ns) = moment.now.kept_ns {
        // With `--keep` the log is always as full as the history is long.
        object["log_percent"] = Value::Null;
        object["kept_s"] = (kept_ns as f64 / 1e9).into();
        object["files"] = moment.now.files.into();
        object["writing"] = moment.now.is_writing.into();
    }
    object
}

fn flight(flight: &FlightReport) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let file = |file: &FlightFile| {
        json!({
            "name": file.name,
            "packets": file.packets,
            "kept_s": seconds(file.kept_ns),
            "triggers": file.triggers,
        })
    };
    json!({
        "asked_s": seconds(flight.asked_ns),
        "kept_s": seconds(flight.kept_ns),
        "shortest_s": flight.shortest_ns.map(seconds),
        "wanted_buffer": flight.wanted_bytes,
        "files": flight.files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn port(row: &PortReport) -> Value {
    json!({
        "port": row.port,
        "offered": row.offered,
        "delivered": row.delivered,
        "bytes": row.bytes,
        "wire_bytes": row.wire_bytes,
        "lost": losses(&row.lost),
        "in_flight": row.in_flight,
        "unaccounted": row.unaccounted,
        "truncated": row.truncated,
        "fragments_unmatched": row.fragments_unmatched,
        "writer_down": row.writer_down,
    })
}

pub(super) fn published(published: &PublishedReport) -> Value {
    let there = published.there.iter().map(|reader| reader_json(reader, true));
    let gone = published.gone.iter().map(|reader| reader_json(reader, false));
    json!({
        "name": published.name,
        "socket": published.socket,
        "epoch": published.epoch,
        "ending": if published.is_stopped { "stopped" } else { "final" },
        "packets": published.packets,
        "readers_total": published.readers_total,
        "readers_peak": published.readers_peak,
        "readers": gone.chain(there).collect::<Vec<_>>(),
        "readers_omitted": published.gone_omitted,
    })
}

fn stage(stage: &StageReport) -> Value {
    json!({
        "name": stage.name,
        "cpu_percent": stage.cpu_percent,
        "rho": stage.rho,
        "rho_busy": stage.rho_busy,
        "busy_s": stage.busy_ns as f64 / 1e9,
        "in": stage.packets_in,
        "out": stage.packets_out,
        "lost": stage.lost,
        "high_water": stage.high_water,
        "sleeps": stage.sleeps,
        "wakes": stage.wakes,
    })
}

fn thread(place: &ThreadPlace) -> Value {
    let mut thread = where_it_runs(place);
    thread["stack_pages"] = pages_json(&place.stack);
    thread["rights"] = json!({
        "user": place.rights.user,
        "capabilities": place.rights.capabilities.count_ones(),
        "bounding": place.rights.bounding.count_ones(),
        "no_new_privileges": place.rights.has_no_new_privileges,
        "filtered": place.rights.is_filtered,
        "landlock": place.rights.landlock,
    });
    thread
}

/// Returns a thread's placement, which is known while it runs.
pub(super) fn where_it_runs(place: &ThreadPlace) -> Value {
    json!({
        "stage": place.name,
        "core": place.pinned_to.map(|core| core.0),
        "node": place.node.map(|node| node.0),
        "class": place.class.to_string(),
        "stack_node": place.stack_node.map(|node| node.0),
    })
}

fn memory(report: &Report) -> Value {
    let memory = &report.memory;
    json!({
        "page_size": memory.page_bytes,
        "page_kind": memory.page_kind,
        "node": memory.node.map(|node| node.0),
        "log_bytes": memory.log_bytes,
        "segment_bytes": memory.segment_bytes,
        "handoff": {
            "asked": memory.handoff.asked.to_string(),
            "segments": memory.handoff.segments,
            "far_segments": memory.handoff.far_segments,
        },
        "resident_bytes": memory.resident.total_bytes(),
        "notes": report.memory_notes,
    })
}
