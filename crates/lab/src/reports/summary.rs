//! The summary of a report: the machines, the ratios between contenders, and the doubts.

use crate::record::{Cache, Generator, Machine, Record, Row};

use super::collect::Collection;
use super::numbers;
use super::select::{self, CONTENDER};
use super::table::{Cell, Column, Table};

/// One of ours against one peer, over all points for which both have values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Our contender.
    pub(super) ours: String,
    /// The peer.
    pub(super) peer: String,
    /// The ratios in increasing order; above 1 ours is better.
    ratios: Vec<f64>,
}

impl Ratio {
    /// Returns the median.
    pub(super) fn median(&self) -> f64 {
        crate::statistics::Quartiles::of(&self.ratios).median
    }
}

/// Compares each of ours with each peer by the chart's metric. Skips values of 0 and pairs with
/// different roles, because a contender that does less is not faster at the same work.
pub(super) fn ratios(record: &Record) -> Vec<Ratio> {
    let names = select::words(record, CONTENDER);
    let (ours, peers): (Vec<_>, Vec<_>) = names.iter().partition(|name| select::is_ours(name));
    let pairs = ours.iter().flat_map(|ours| peers.iter().map(move |peer| (*ours, *peer)));
    let mut all = Vec::new();
    for (ours, peer) in pairs.filter(|(ours, peer)| record.role(ours) == record.role(peer)) {
        let mut ratios: Vec<f64> = Vec::new();
        for row in record.rows.iter().filter(|row| row.contender == *ours) {
            let is_other = |other: &&Row| other.contender == *peer && other.point == row.point;
            let other = record.rows.iter().find(is_other);
            ratios.extend(other.and_then(|other| ratio(record, row, other)));
        }
        ratios.sort_by(f64::total_cmp);
        if !ratios.is_empty() {
            all.push(Ratio { ours: ours.clone(), peer: peer.clone(), ratios });
        }
    }
    all
}

fn ratio(record: &Record, ours: &Row, peer: &Row) -> Option<f64> {
    let metric = &record.chart.y;
    let (ours, peer) = (select::measured(ours, metric)?, select::measured(peer, metric)?);
    if ours <= 0.0 || peer <= 0.0 {
        return None;
    }
    let ratio = if select::more_is_better(record, metric) { ours / peer } else { peer / ours };
    ratio.is_finite().then_some(ratio)
}

/// Returns all ratios of all records.
pub(super) fn ratio_table(collection: &Collection) -> Option<Table> {
    let mut rows = Vec::new();
    for entry in &collection.entries {
        let record = &entry.record;
        for found in ratios(record) {
            let ends = (found.ratios.first(), found.ratios.last());
            let (least, most) = (ends.0.map_or(0.0, |r| *r), ends.1.map_or(0.0, |r| *r));
            let metric = match record.chart.y_label.as_str() {
                "" => select::titled(record, &record.chart.y),
                label => label.to_owned(),
            };
            let range = match [least, most].map(numbers::ratio) {
                [least, most] if least == most => String::new(),
                [least, most] => format!("{least} to {most}"),
            };
            let ratio = Cell::with_small(numbers::ratio(found.median()), range);
            let [ours, peer] = [&found.ours, &found.peer].map(|name| Cell::new(name.as_str()));
            let points = Cell::new(found.ratios.len().to_string());
            let scenario = Cell::new(record.scenario.as_str());
            let cells = vec![scenario, ratio, ours, peer, Cell::new(metric), points];
            rows.push(cells);
        }
    }
    let head = vec![
        Column::words("experiment"),
        Column::numbers("ratio"),
        Column::words("ours"),
        Column::words("against"),
        Column::words("by"),
        Column::numbers("points"),
    ];
    let caption = "Ours against others; above 1 ours is better".to_owned();
    (!rows.is_empty()).then_some(Table { caption, head, rows })
}

/// Returns the machines of the records, with the scenarios that ran there if not all did.
pub(super) fn machines(collection: &Collection) -> Vec<(Machine, Vec<String>)> {
    let mut found: Vec<(Machine, Vec<String>)> = Vec::new();
    for entry in &collection.entries {
        let record = &entry.record;
        match found.iter_mut().find(|(machine, _)| *machine == record.machine) {
            Some((_, scenarios)) => scenarios.push(record.scenario.clone()),
            None => found.push((record.machine.clone(), vec![record.scenario.clone()])),
        }
    }
    found
}

/// Describes a machine in lines of name and value.
pub(super) fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let many = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    let kind = if machine.is_virtual { "virtual machine" } else { "hardware" };
    let (cores, nodes) = (many(machine.cores, "core"), many(machine.nodes, "node"));
    let memory = numbers::value(machine.memory_gib);
    vec![
        ("machine", format!("{}, {cores}, {nodes}, {memory} GiB, {kind}", machine.cpu)),
        ("system", format!("{}, Linux {}", machine.os, machine.kernel)),
        ("frequency", machine.governor.clone().unwrap_or_else(|| "nothing known".to_owned())),
        ("counters", machine.counters.clone()),
        ("caches", machine.caches.iter().map(Cache::to_string).collect::<Vec<_>>().join("; ")),
        ("memory speed", machine.memory_speed.clone()),
    ]
}

/// Describes when records were made, by which versions, and the elapsed time.
pub(super) fn origin(collection: &Collection) -> Vec<(&'static str, String)> {
    let records = || collection.entries.iter().map(|entry| &entry.record);
    let mut started: Vec<&str> = records().map(|record| record.started.as_str()).collect();
    started.sort_unstable();
    let version = |record: &Record| match &record.commit {
        Some(commit) => format!("burstline {} ({commit})", record.version),
        None => format!("burstline {} (commit unknown)", record.version),
    };
    let versions = select::distinct(records().map(version)).join(", ");
    let elapsed_s: f64 = records().map(|record| record.elapsed_s.max(0.0)).sum();
    let when = match (started.first(), started.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (first, _) => first.map_or_else(String::new, |first| (*first).to_owned()),
    };
    let builds = records().map(|record| &record.build).filter(|build| !build.is_unknown());
    let builds = select::distinct(builds.map(ToString::to_string));
    let quick = records().filter(|record| record.is_quick).count();
    let count = collection.entries.len();
    let kind = match quick {
        0 => "full runs".to_owned(),
        _ if quick == count => "quick runs: short, so their spread is wide".to_owned(),
        _ => format!("{quick} of {count} are quick runs"),
    };
    let mut lines = vec![
        ("begun", when),
        ("took", format!("{}, {kind}", numbers::seconds(elapsed_s))),
        ("program", versions),
        ("compiled", builds.join("; or ")),
    ];
    let generators = records().filter_map(|record| record.generator.as_ref());
    lines.extend(generators.map(|generator| ("generator", elsewhere(generator))));
    lines
}

/// Describes a generator on another machine.
fn elsewhere(generator: &Generator) -> String {
    let Generator { host, machine, core, port, back, clocks, .. } = generator;
    let facts: Vec<String> = facts(machine).into_iter().take(2).map(|(_, text)| text).collect();
    let back = back.as_ref().map_or(String::new(), |back| format!(", back by {back}"));
    let clocks: Vec<String> = clocks.iter().map(ToString::to_string).collect();
    format!(
        "generator on {host}: {}; core {core}, by {port}{back}; its clocks less this machine's: {}",
        facts.join(", "),
        clocks.join("; ")
    )
}

/// A doubt with its scenarios, because many share the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedDoubt {
    /// The scenarios' names.
    pub(super) scenarios: Vec<String>,
    /// Its name.
    pub(super) name: String,
    /// A sentence.
    pub(super) text: String,
}

/// Returns each doubt once.
pub(super) fn doubts(collection: &Collection) -> Vec<SharedDoubt> {
    let mut all: Vec<SharedDoubt> = Vec::new();
    for record in collection.entries.iter().map(|entry| &entry.record) {
        for doubt in &record.doubts {
            let is_same =
                |other: &&mut SharedDoubt| other.name == doubt.name && other.text == doubt.text;
            match all.iter_mut().find(is_same) {
                Some(shared) => shared.scenarios.push(record.scenario.clone()),
                None => all.push(SharedDoubt {
                    scenarios: vec![record.scenario.clone()],
                    name: doubt.name.clone(),
                    text: doubt.text.clone(),
                }),
            }
        }
    }
    all
}

/// Summarizes what ran in a few words.
pub(super) fn state(record: &Record) -> String {
    let ran = select::distinct(
        record.rows.iter().filter(|row| select::not_run(row).is_none()).map(|row| &row.contender),
    );
    let all = select::words(record, CONTENDER).len().max(record.contenders.len());
    match (ran.len(), all) {
        (0, _) => "not run".to_owned(),
        (ran, all) if ran < all => format!("{ran} of {all} contenders ran"),
        (1, _) => "ran".to_owned(),
        (ran, _) => format!("{ran} contenders ran"),
    }
}
