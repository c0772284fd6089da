//! A running job as JSON, with the names of the final report wherever that has them.

use burstline_engine::{LogNow, Place, Snapshot, StageNow};
use burstline_port::RingFill;
use serde_json::{Value, json};

use super::json::{published, where_it_runs};
use super::values::losses;
use crate::live::{Live, delivered, log_percent};

/// Returns the object that the page and `top` get while a job runs.
pub(crate) fn running(live: &Live) -> Value {
    let whole = &live.whole;
    let total = delivered(whole);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let threads = live.stages.iter().map(|stage| where_it_runs(&stage.place));
    json!({
        "command": live.about.command,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "state": if whole.is_started { "running" } else { "starting" },
        "begun_s": live.about.begun_s,
        "elapsed_s": live.elapsed_s(),
        "sink": live.about.sink,
        "ports": live.places(true).map(port).collect::<Vec<_>>(),
        "workers": live.places(false).map(worker).collect::<Vec<_>>(),
        "total": {
            "delivered": total.packets,
            "bytes": total.bytes,
            "wire_bytes": total.wire_bytes,
            "lost": losses(&whole.lost),
            "lost_total": whole.lost.total(),
            "missing": whole.lost.missing(),
        },
        "stages": live.stages.iter().map(|one| stage(live, one)).collect::<Vec<_>>(),
        "placement": { "threads": threads.collect::<Vec<_>>() },
        "memory": {
            "log_bytes": whole.log_bytes,
            "resident_bytes": live.resident_bytes,
        },
        "logs": live.logs.iter().map(log).collect::<Vec<_>>(),
        "log_percent": fill(whole),
        "flight": whole.kept_ns.map(|kept_ns| json!({
            "kept_s": seconds(kept_ns),
            "files": whole.files,
            "writing": whole.is_writing,
        })),
        "published": live.published.as_ref().map(published),
        "cpu": {
            "user_s": seconds(live.cpu.user_ns),
            "system_s": seconds(live.cpu.system_ns),
            "rho_total": live.rho(),
        },
    })
}

/// Returns null if there is no log, or with `--keep`, when it is as full as the history is long.
fn fill(whole: &Snapshot) -> Option<f64> {
    (whole.log_bytes > 0 && whole.kept_ns.is_none()).then(|| log_percent(whole))
}

fn port(place: &Place) -> Value {
    let standing = &place.standing;
    let accounted = place.lost.total() + standing.in_flight;
    json!({
        "port": place.name,
        "number": place.number,
        "offered": standing.offered,
        // Derived from the account, so that it matches the losses of the same moment.
        "delivered": standing.offered.saturating_sub(accounted),
        "lost": losses(&place.lost),
        "bytes": place.counts.bytes,
        "wire_bytes": place.counts.wire_bytes,
        "in_flight": standing.in_flight,
        "ring_bytes": standing.ring_bytes,
        "rings": standing.rings.iter().map(ring).collect::<Vec<_>>(),
    })
}

fn ring(ring: &RingFill) -> Value {
    json!({
        "ring": ring.ring.name(),
        "unit": ring.unit,
        "filled": ring.filled,
        "size": ring.size,
    })
}

fn worker(place: &Place) -> Value {
    json!({
        "worker": place.name,
        "number": place.number,
        "delivered": place.counts.packets,
        "bytes": place.counts.bytes,
        "lost": losses(&place.lost),
        "file": place.standing.file,
    })
}

fn stage(live: &Live, stage: &StageNow) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let elapsed_s = live.elapsed_s().max(1e-9);
    json!({
        "name": stage.place.name,
        "cpu_percent": seconds(stage.cpu_ns) * 100.0 / elapsed_s,
        "cpu_s": seconds(stage.cpu_ns),
        "busy_s": seconds(stage.busy_ns),
        "empty_s": seconds(stage.empty_ns),
        "sleeps": stage.sleeps,
        "wakes": stage.wakes,
        "age_s": (stage.ages.total() > 0).then(|| seconds(stage.ages.last_ns)),
    })
}

fn log(log: &LogNow) -> Value {
    json!({
        "packets": log.packets,
        "segments": log.segments,
        "far_segments": log.far_segments,
        "log_bytes": log.bytes,
        "segment_bytes": log.segment_bytes,
        "pool_segments": log.pool_segments,
        "held_segments": log.held_segments,
        "seats_taken": log.readers,
        "own_lag": log.own.iter().map(|reader| reader.lag_packets).max(),
        "kept_s": log.kept_ns.map(|ns| ns as f64 / 1e9),
    })
}

/// The end of a job.
pub(crate) enum End {
    /// The job has a report.
    Report { is_success: bool, report: Value },
    /// The job has no report, for this reason.
    Failed(String),
}

impl End {
    /// Adds the end to the last state of the running job.
    pub(crate) fn added_to(self, running: Value) -> Value {
        let Value::Object(mut object) = running else { return self.added_to(json!({})) };
        match self {
            Self::Failed(error) => {
                object.insert("state".to_owned(), "failed".into());
                object.insert("errors".to_owned(), json!([error]));
            }
            Self::Report { is_success, report } => {
                let state = if is_success { "ended" } else { "failed" };
                object.insert("state".to_owned(), state.into());
                object.extend(report.as_object().cloned().unwrap_or_default());
            }
        }
        Value::Object(object)
    }
}
