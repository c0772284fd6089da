//! The records of `lab dma` and `lab retention`: as those of `lab run`.

use std::collections::BTreeMap;

use burstline_lab::record::{Chart, ContenderInfo, Metric, Record, Row, Status};
use burstline_lab::scenario::{Begun, doubts};
use burstline_nicsim::Mode;
use burstline_nicsim::pcie::{Bus, Direction};
use serde_json::{Map, Value};

use super::scenarios::typed;
use super::{DmaRow, RetentionRow, Turns};
use crate::args::{DmaArgs, RetentionArgs};
use crate::view::dma::{Bounds, paper_gigabits};

/// What the metrics of [`forwarding`] are.
const FORWARDING_NOTES: [&str; 4] = [
    "measured: host_ns and instructions, of the driver's part of a packet, device and driver in \
     turns on one core; run_mpps, of bounce between two simulated cards, both ways together",
    "counted: bus_up_bytes, bus_down_bytes and bus_paper_bytes, what the devices moved for a \
     packet, as it is and as the paper counts",
    "worked out: link_mpps, bus_mpps and host_mpps, what link, bus and host (a core for each \
     direction) carry, both ways together; mpps and line_gbps, the least of the three",
    "the paper's 13.3 and 18.7 Gbit/s are of its own card, which wrote metadata in front of \
     packets (inline); whether they are line rates, it does not say",
];

/// The paper's experiment.
pub(super) fn forwarding(
    begun: Begun,
    args: &DmaArgs,
    (bus, line_bits): (&Bus, f64),
    rows: &[Turns<DmaRow>],
) -> Record {
    let rows = rows.iter().map(|turns| forwarding_row(turns, (bus, line_bits))).collect();
    let chart = chart("size", "host_ns", ["frame size, bytes with FCS", "ns of the driver"]);
    let mut record = finished(begun, "dma", rows, chart);
    record.title = "What forwarding costs host, bus and link in three modes of DMA".to_owned();
    record.about = format!(
        "A simulated card's driver forwards packets both ways between 2 ports of {} Gbit/s in a \
         slot {}, max payload {}, max request {}.",
        line_bits / 1e9,
        bus.link,
        args.payload,
        args.request
    );
    record.notes = FORWARDING_NOTES.map(str::to_owned).to_vec();
    record
}

fn forwarding_row(turns: &Turns<DmaRow>, (bus, line_bits): (&Bus, f64)) -> Row {
    let first = &turns.0[0];
    let mut metrics = BTreeMap::new();
    let mut set = |name: &str, unit: &str, value: &dyn Fn(&DmaRow) -> f64| {
        let samples = turns.0.iter().map(value).collect();
        metrics.insert(name.to_owned(), Metric::new(unit, samples));
    };
    let bounds = |row: &DmaRow| Bounds::of(row, bus, line_bits);
    set("host_ns", "ns per packet", &|row| row.host_ns);
    set("bus_up_bytes", "bytes per packet", &|row| row.bus_bytes(Direction::Up));
    set("bus_down_bytes", "bytes per packet", &|row| row.bus_bytes(Direction::Down));
    set("bus_paper_bytes", "bytes per packet", &|row| row.paper_bytes());
    set("run_mpps", "Mpps", &|row| row.run_pps / 1e6);
    set("link_mpps", "Mpps", &|row| bounds(row).link_pps / 1e6);
    set("bus_mpps", "Mpps", &|row| bounds(row).bus_pps / 1e6);
    set("host_mpps", "Mpps", &|row| bounds(row).host_pps / 1e6);
    set("mpps", "Mpps", &|row| bounds(row).binds().1 / 1e6);
    let instructions: Option<Vec<f64>> = turns.0.iter().map(|row| row.instructions).collect();
    let instructions = instructions.map(|samples| Metric::new("per packet", samples));
    metrics.extend(instructions.map(|metric| ("instructions".to_owned(), metric)));
    let line = turns.0.iter().map(|row| bounds(row).line_bits_per_s(row) / 1e9).collect();
    metrics.insert("line_gbps".to_owned(), Metric::new("Gbit/s", line).on("line"));
    let lost: u64 = turns.0.iter().map(|row| row.run_lost).sum();
    let unaccounted: i64 = turns.0.iter().map(|row| row.run_unaccounted).sum();
    let losses = [("run", lost), ("run, unaccounted for", unaccounted.unsigned_abs())];
    let losses = losses.into_iter().filter(|(_, packets)| *packets > 0);
    let paper = paper_gigabits(&first.size).filter(|_| first.mode == Mode::Inline);
    Row {
        losses: losses.map(|(name, packets)| (name.to_owned(), packets)).collect(),
        document: paper.map(|gigabits| [("line_gbps".to_owned(), gigabits)].into()),
        ..row(format!("dma-{}", first.mode), ("size", first.size.as_str().into()), metrics)
    }
}

/// What keeping packets pins and costs.
pub(super) fn keeping(begun: Begun, args: &RetentionArgs, rows: &[Turns<RetentionRow>]) -> Record {
    let rows = rows.iter().map(keeping_row).collect();
    let chart = chart("every", "mpps", ["1 packet in so many is kept", "Mpps"]);
    let mut record = finished(begun, "retention", rows, chart);
    record.title = "What an application that keeps packets pins, and what it costs".to_owned();
    record.about = format!(
        "A simulated card's driver and an application on one core: of {} packets of size {} a \
         turn, 1 in so many is kept until {} more have come.",
        args.packets, args.size, args.span
    );
    let note = "a kept scattered packet keeps its buffer of 2 KiB; a contiguous one keeps its \
                segment, or is copied out; a reader of a log holds at most 8 segments, and what \
                had to go before its time is refused";
    record.notes = vec![note.to_owned()];
    record
}

fn keeping_row(turns: &Turns<RetentionRow>) -> Row {
    let first = &turns.0[0];
    let mut metrics = BTreeMap::new();
    let mut set = |name: &str, unit: &str, value: &dyn Fn(&RetentionRow) -> f64| {
        let samples = turns.0.iter().map(value).collect();
        metrics.insert(name.to_owned(), Metric::new(unit, samples));
    };
    set("ns", "ns per packet", &|row| row.retained.cost.ns_a_packet());
    set("mpps", "Mpps", &|row| 1e3 / row.retained.cost.ns_a_packet());
    set("packets", "packets", &|row| row.retained.cost.packets as f64);
    set("kept", "packets", &|row| row.retained.kept as f64);
    set("pinned_bytes", "bytes", &|row| row.retained.pinned_bytes as f64);
    set("refused", "packets", &|row| row.retained.refused as f64);
    row(format!("keep-{}", first.keeping.name()), ("every", first.every.into()), metrics)
}

fn row(contender: String, (key, value): (&str, Value), metrics: BTreeMap<String, Metric>) -> Row {
    Row {
        contender,
        point: Map::from_iter([(key.to_owned(), value)]),
        status: Status::Run,
        metrics,
        distributions: BTreeMap::new(),
        stages: Vec::new(),
        symbols: Vec::new(),
        losses: BTreeMap::new(),
        rfc2544: Vec::new(),
        document: None,
    }
}

/// Of a metric over what varies, a series for each contender.
fn chart(x: &str, y: &str, [x_label, y_label]: [&str; 2]) -> Chart {
    let kind = if x == "size" { "bars" } else { "lines" };
    let [kind, x, y, series, x_label, y_label] =
        [kind, x, y, "contender", x_label, y_label].map(str::to_owned);
    Chart { kind, x, y, series, y_label, x_label }
}

/// With its rows, who took part, and what speaks against it.
fn finished(begun: Begun, name: &str, rows: Vec<Row>, chart: Chart) -> Record {
    let mut record = begun.record(name, &typed());
    record.document = Some("D2".to_owned());
    for row in &rows {
        if record.contenders.iter().any(|info| info.name == row.contender) {
            continue;
        }
        let (name, version) = (row.contender.clone(), format!("burstline {}", record.version));
        let command = record.command.clone();
        record.contenders.push(ContenderInfo { name, version, command, ..Default::default() });
    }
    record.doubts.extend(doubts::of_samples(&chart.y, &rows));
    (record.rows, record.chart) = (rows, chart);
    record
}
