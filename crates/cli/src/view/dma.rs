//! What forwarding costs in three modes of DMA, and what keeping packets does: tables, or JSON.

use std::fmt::Write;

use burstline_nicsim::pcie::{Bus, Direction};
use serde_json::{Value, json};

use crate::args::{DmaArgs, RetentionArgs};
use crate::verbs::{DmaRow, RetentionRow, Turns};

/// Bytes that a frame takes on the wire beside its own: FCS 4, preamble 8, gap 12.
const WIRE_BYTES: f64 = 24.0;

/// Ports of the paper's card, and so directions, each with a core.
const PORTS: f64 = 2.0;

/// What binds a row: packets a second, both ways together.
pub(crate) struct Bounds {
    pub(crate) link_pps: f64,
    pub(crate) bus_pps: f64,
    pub(crate) host_pps: f64,
}

impl Bounds {
    pub(crate) fn of(row: &DmaRow, bus: &Bus, line_bits: f64) -> Self {
        let fuller = row.bus_bytes(Direction::Up).max(row.bus_bytes(Direction::Down));
        Self {
            link_pps: PORTS * line_bits / line_bits_a_packet(row),
            bus_pps: bus.bytes_per_s() / fuller,
            host_pps: PORTS * 1e9 / row.host_ns,
        }
    }

    /// What is the least, and how much.
    pub(crate) fn binds(&self) -> (&'static str, f64) {
        let all = [("link", self.link_pps), ("bus", self.bus_pps), ("host", self.host_pps)];
        all.into_iter().fold(("link", f64::INFINITY), |least, one| match one.1 < least.1 {
            true => one,
            false => least,
        })
    }

    /// What binds, in bits of line rate.
    pub(crate) fn line_bits_per_s(&self, row: &DmaRow) -> f64 {
        self.binds().1 * line_bits_a_packet(row)
    }
}

fn line_bits_a_packet(row: &DmaRow) -> f64 {
    (row.mean_length + WIRE_BYTES) * 8.0
}

/// What the paper measured, in Gbit/s over two ports of 10.
/// Source: Bi and Wang, DPDK-based Improvement of Packet Forwarding, section 5.
pub(crate) fn paper_gigabits(size: &str) -> Option<f64> {
    match size {
        "64" => Some(13.3),
        "random:64-1518" => Some(18.7),
        _ => None,
    }
}

/// The turn that is shown of several.
fn typical(turns: &Turns<DmaRow>) -> &DmaRow {
    turns.median(|row| row.host_ns)
}

fn typical_kept(turns: &Turns<RetentionRow>) -> &RetentionRow {
    turns.median(|row| row.retained.cost.ns_a_packet())
}

/// What ends a table that is not whole.
const NOT_DONE: &str = "NOT DONE: the rows above are what was finished\n";

/// The table.
pub(crate) fn text(
    args: &DmaArgs,
    (bus, line_bits): (&Bus, f64),
    rows: &[Turns<DmaRow>],
    is_whole: bool,
) -> String {
    let (mut text, gigabits) = (String::new(), line_bits / 1e9);
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "forwarding both ways, 2 ports of {gigabits} Gbit/s at {}, max payload {}, max request {}",
        bus.link, args.payload, args.request
    );
    let _ = writeln!(
        text,
        "{:<15} {:<10} {:>6} {:>6} {:>14} {:>6} {:>22} {:>9} {:>14} {:>6}",
        "", "", "host", "host", "bus", "paper", "link / bus / host", "run", "binds", "paper"
    );
    let _ = writeln!(
        text,
        "{:<15} {:<10} {:>6} {:>6} {:>14} {:>6} {:>22} {:>9} {:>14} {:>6}",
        "size", "mode", "ns", "instr", "bytes up+down", "bytes", "Mpps", "Mpps", "Gbit/s", "Gbit/s"
    );
    for row in rows.iter().map(typical) {
        let bounds = Bounds::of(row, bus, line_bits);
        let (what, pps) = bounds.binds();
        let instructions = row.instructions.map_or("-".to_owned(), |count| format!("{count:.0}"));
        let (up, down) = (row.bus_bytes(Direction::Up), row.bus_bytes(Direction::Down));
        let megas = [bounds.link_pps, bounds.bus_pps, bounds.host_pps].map(|pps| pps / 1e6);
        let all = format!("{:.1} / {:.1} / {:.1}", megas[0], megas[1], megas[2]);
        let bound = format!("{:.1} ({what})", pps * line_bits_a_packet(row) / 1e9);
        let paper = paper_gigabits(&row.size).map_or("-".to_owned(), |paper| paper.to_string());
        let _ = writeln!(
            text,
            "{:<15} {:<10} {:>6.1} {:>6} {:>14} {:>6.0} {:>22} {:>9.2} {:>14} {:>6}",
            row.size,
            row.mode.name(),
            row.host_ns,
            instructions,
            format!("{up:.1}+{down:.1}"),
            row.paper_bytes(),
            all,
            row.run_pps / 1e6,
            bound,
            paper
        );
    }
    text.push_str(
        "host and run: measured here, of a packet and both ways; bus: counted from what devices\n\
         moved; link: computed. Gbit/s of line rate. The paper's card wrote metadata in front\n\
         (inline); whether its 13.3 and 18.7 are line rates, it does not say.\n",
    );
    if !is_whole {
        text.push_str(NOT_DONE);
    }
    text
}

/// The same as JSON.
pub(crate) fn json(
    args: &DmaArgs,
    (bus, line_bits): (&Bus, f64),
    rows: &[Turns<DmaRow>],
    is_whole: bool,
) -> Value {
    let row = |row: &DmaRow| {
        let bounds = Bounds::of(row, bus, line_bits);
        let (what, pps) = bounds.binds();
        json!({
            "size": row.size, "mean_length": row.mean_length, "mode": row.mode.name(),
            "host": {
                "basis": "measured", "ns_a_packet": row.host_ns,
                "instructions_a_packet": row.instructions, "pps": bounds.host_pps,
            },
            "bus": {
                "basis": "counted", "up_bytes": row.bus_bytes(Direction::Up),
                "down_bytes": row.bus_bytes(Direction::Down),
                "paper_bytes": row.paper_bytes(), "pps": bounds.bus_pps,
            },
            "link": { "basis": "computed", "pps": bounds.link_pps },
            "run": {
                "basis": "measured", "pps": row.run_pps, "lost": row.run_lost,
                "unaccounted": row.run_unaccounted,
            },
            "binds": what, "pps": pps, "line_bits_per_s": pps * line_bits_a_packet(row),
            "paper_bits_per_s": paper_gigabits(&row.size).map(|paper| paper * 1e9),
        })
    };
    json!({
        "command": "lab dma", "pcie": bus.link.to_string(), "max_payload": args.payload,
        "max_request": args.request, "ports": PORTS, "line_bits_per_s": line_bits,
        "whole": is_whole,
        "rows": rows.iter().map(typical).map(row).collect::<Vec<_>>(),
    })
}

/// The table of kept packets.
pub(crate) fn retention_text(
    args: &RetentionArgs,
    rows: &[Turns<RetentionRow>],
    is_whole: bool,
) -> String {
    let mut text = format!(
        "1 packet in k of size {} kept until {} more have come; driver and application, measured\n",
        args.size, args.span
    );
    let _ = writeln!(
        text,
        "{:>6} {:<21} {:>8} {:>12} {:>12} {:>7} {:>9}",
        "k", "mode", "kept", "pinned KiB", "a kept one", "Mpps", "refused"
    );
    for RetentionRow { every, keeping, retained } in rows.iter().map(typical_kept) {
        let each = retained.pinned_bytes as f64 / retained.kept.max(1) as f64;
        let _ = writeln!(
            text,
            "{every:>6} {:<21} {:>8} {:>12.1} {each:>12.0} {:>7.2} {:>9}",
            keeping.name(),
            retained.kept,
            retained.pinned_bytes as f64 / 1024.0,
            1e3 / retained.cost.ns_a_packet(),
            retained.refused
        );
    }
    if !is_whole {
        text.push_str(NOT_DONE);
    }
    text
}

/// The same as JSON.
pub(crate) fn retention_json(
    args: &RetentionArgs,
    rows: &[Turns<RetentionRow>],
    is_whole: bool,
) -> Value {
    let row = |row: &RetentionRow| {
        let RetentionRow { every, keeping, retained } = row;
        json!({
            "every": every, "mode": keeping.mode().name(), "keeping": keeping.name(),
            "kept": retained.kept, "pinned_bytes": retained.pinned_bytes,
            "ns_a_packet": retained.cost.ns_a_packet(), "packets": retained.cost.packets,
            "pps": 1e9 / retained.cost.ns_a_packet(), "refused": retained.refused,
        })
    };
    json!({
        "command": "lab retention", "size": args.size, "span": args.span, "whole": is_whole,
        "rows": rows.iter().map(typical_kept).map(row).collect::<Vec<_>>(),
    })
}
