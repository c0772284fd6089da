//! The results of a merge.

use std::fmt::Write;

use burstline_engine::{MergeReport, MergedPort};
use serde_json::{Value, json};

use crate::foreign::one_line;
use crate::words::{count_text, rate_text};

/// Returns the lines of the text report.
pub(super) fn text(merge: &MergeReport) -> String {
    let mut text = String::new();
    let unit = if merge.is_per_packet { "packet" } else { "poll" };
    let (late, lateness) = (count_text(merge.late), milliseconds(merge.lateness_ns));
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "merged   in order of time per {unit}, {late} late; waits {lateness} ms at most for an \
         idle source"
    );
    let is_odd = |port: &&MergedPort| port.late + port.overdue > 0 || port.offset_ns != 0;
    for MergedPort { port, offset_ns, late, late_most_ns, overdue } in
        merge.ports.iter().filter(is_odd)
    {
        let (port, late, most) = (one_line(port), count_text(*late), milliseconds(*late_most_ns));
        let _ = write!(text, "         {port}: {late} late, by {most} ms at most");
        if *overdue > 0 {
            let _ = write!(text, "; {} waits timed out", count_text(*overdue));
        }
        if *offset_ns != 0 {
            let _ = write!(text, "; {offset_ns:+} ns");
        }
        let _ = writeln!(text);
    }
    let (line, l2) = (merge.line_bits_per_core_s, merge.l2_bits_per_core_s);
    let _ = writeln!(
        text,
        "cores    {:.2} used; per core {} line, {} l2",
        merge.cores_used,
        rate_text(line, "bit/s"),
        rate_text(l2, "bit/s"),
    );
    text
}

/// Returns the JSON object.
pub(super) fn object(merge: &MergeReport) -> Value {
    let port = |port: &MergedPort| {
        json!({
            "port": port.port,
            "offset_ns": port.offset_ns,
            "late": port.late,
            "late_most_ns": port.late_most_ns,
            "overdue": port.overdue,
        })
    };
    json!({
        "order": if merge.is_per_packet { "packet" } else { "poll" },
        "lateness_ns": merge.lateness_ns,
        "late": merge.late,
        "ports": merge.ports.iter().map(port).collect::<Vec<_>>(),
        "cores_used": merge.cores_used,
        "line_bits_per_core_s": merge.line_bits_per_core_s,
        "l2_bits_per_core_s": merge.l2_bits_per_core_s,
    })
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}
