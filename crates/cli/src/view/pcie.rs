//! What the bus carries: tables, or JSON.

use std::fmt::Write;

use burstline_nicsim::Mode;
use burstline_nicsim::pcie::{
    Batch, Bus, Ceiling, Direction, Entry, EthernetRate, PaperRules, ceiling,
};
use serde_json::{Value, json};

use crate::args::PcieArgs;

/// A frame's check sequence, which stays on the card.
const FCS_BYTES: u32 = 4;

/// The lengths of the curve, without FCS.
const CURVE: std::ops::RangeInclusive<u64> = 60..=1514;

/// The tables.
pub(crate) fn text(args: &PcieArgs, slots: &[Bus], line: EthernetRate) -> String {
    let mut text = String::new();
    paper_text(&mut text, args);
    if let Some(first) = slots.first() {
        complete_text(&mut text, args, first);
    }
    ceilings_text(&mut text, args, slots, line);
    text
}

fn rules(args: &PcieArgs) -> PaperRules {
    PaperRules { max_payload: args.payload, ..PaperRules::default() }
}

fn lengths(args: &PcieArgs) -> impl Iterator<Item = (u32, u64)> + '_ {
    args.sizes.iter().map(|&size| (size, u64::from(size - FCS_BYTES)))
}

fn paper_text(text: &mut String, args: &PcieArgs) {
    let rules = rules(args);
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "as the paper counts: up only, TLP headers of {} bytes, filled up to {}, max payload {}",
        rules.header, rules.alignment, rules.max_payload
    );
    let columns = ["bytes", "writeback", "inline", "saved %", "contiguous", "saved %"];
    let _ = writeln!(
        text,
        "{:>6} {:>10} {:>10} {:>8} {:>10} {:>8}",
        columns[0], columns[1], columns[2], columns[3], columns[4], columns[5]
    );
    for (size, length) in lengths(args) {
        let bytes = |mode| rules.upload(mode, length);
        let saved = |mode| rules.saved_percent(mode, length);
        let _ = writeln!(
            text,
            "{size:>6} {:>10.0} {:>10.0} {:>8.1} {:>10.1} {:>8.1}",
            bytes(Mode::Writeback),
            bytes(Mode::Inline),
            saved(Mode::Inline),
            bytes(Mode::Contiguous),
            saved(Mode::Contiguous)
        );
    }
}

fn complete_text(text: &mut String, args: &PcieArgs, bus: &Bus) {
    let (batch, work) = (Batch::default(), args.work.work());
    let _ = writeln!(
        text,
        "\ncomplete, {}: bytes a packet up + down, {} packets a batch, max request {}",
        args.work.name(),
        batch.descriptors,
        bus.max_request
    );
    let _ =
        writeln!(text, "{:>6} {:>17} {:>17} {:>17}", "bytes", "writeback", "inline", "contiguous");
    for (size, length) in lengths(args) {
        let _ = write!(text, "{size:>6}");
        for mode in Mode::ALL {
            let (up, down) = batch.bytes_a_packet(bus, mode, work, length);
            let both = format!("{up:.1} + {down:.1}");
            let _ = write!(text, " {both:>17}");
        }
        text.push('\n');
    }
}

fn ceilings_text(text: &mut String, args: &PcieArgs, slots: &[Bus], line: EthernetRate) {
    let gigabits = line.0 / 1e9;
    let _ = writeln!(
        text,
        "\nceilings, {}: Mpps (Gbit/s of line rate); * a line of {gigabits} Gbit/s fits",
        args.work.name()
    );
    let _ = writeln!(
        text,
        "{:>7} {:>6} {:>17} {:>17} {:>17} {:>10}",
        "slot", "bytes", "writeback", "inline", "contiguous", "line Mpps"
    );
    for bus in slots {
        for (size, length) in lengths(args) {
            let _ = write!(text, "{:>7} {size:>6}", bus.link.to_string());
            for mode in Mode::ALL {
                let most = ceiling(bus, &Batch::default(), mode, args.work.work(), length);
                let mark = if fits(&most, line, length) { "*" } else { " " };
                let megas = most.packets_per_s / 1e6;
                let line_gigabits = most.line_bits_per_s(length) / 1e9;
                let both = format!("{megas:.2} ({line_gigabits:.1}){mark}");
                let _ = write!(text, " {both:>17}");
            }
            let _ = writeln!(text, " {:>10.2}", line.packets_per_s(length) / 1e6);
        }
    }
}

fn fits(most: &Ceiling, line: EthernetRate, length: u64) -> bool {
    most.packets_per_s >= line.packets_per_s(length)
}

/// The same as JSON, with every transaction and the curve of every length.
pub(crate) fn json(args: &PcieArgs, slots: &[Bus], line: EthernetRate) -> Value {
    let rules = rules(args);
    let curve = CURVE.map(|length| {
        let bytes = Mode::ALL.map(|mode| rules.upload(mode, length));
        let saved = rules.saved_percent(Mode::Inline, length);
        json!({
            "length": length, "writeback": bytes[0], "inline": bytes[1], "contiguous": bytes[2],
            "inline_saved_percent": saved,
        })
    });
    json!({
        "command": "lab pcie",
        "max_payload": args.payload,
        "max_request": args.request,
        "work": args.work.name(),
        "paper": {
            "tlp_header": rules.header, "alignment": rules.alignment,
            "lengths": curve.collect::<Vec<_>>(),
        },
        "line_bits_per_s": line.0,
        "slots": slots.iter().map(|bus| slot(args, bus, line)).collect::<Vec<_>>(),
    })
}

fn slot(args: &PcieArgs, bus: &Bus, line: EthernetRate) -> Value {
    let (batch, work) = (Batch::default(), args.work.work());
    let row = |(size, length): (u32, u64), mode: Mode| {
        let most = ceiling(bus, &batch, mode, work, length);
        let entries = batch.entries(bus, mode, work, length);
        json!({
            "size": size, "mode": mode.name(), "up_bytes": most.up_bytes,
            "down_bytes": most.down_bytes, "full": direction(most.full),
            "pps": most.packets_per_s, "line_bits_per_s": most.line_bits_per_s(length),
            "fits_line": fits(&most, line, length), "batch_packets": batch.descriptors,
            "transactions": entries.iter().map(transaction).collect::<Vec<_>>(),
        })
    };
    let rows = lengths(args).flat_map(|size| Mode::ALL.map(|mode| row(size, mode)));
    json!({
        "pcie": bus.link.to_string(),
        "link_bits_per_s": bus.link.bits_per_s(),
        "tlp_bits_per_s": bus.bytes_per_s() * 8.0,
        "rows": rows.collect::<Vec<_>>(),
    })
}

fn transaction(entry: &Entry) -> Value {
    let cost = &entry.cost;
    json!({
        "kind": entry.kind.name(), "direction": direction(entry.kind.direction()),
        "tlps": cost.tlps, "payload": cost.payload, "header": cost.header,
        "framing": cost.framing, "padding": cost.padding, "bytes": cost.bytes(),
    })
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}
