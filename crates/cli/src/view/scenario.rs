//! Scenarios and their records as text and JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use burstline_lab::contenders::{self, Adapter};
use burstline_lab::readiness::{self, Outcome, Trial};
use burstline_lab::record::{Record, Row, Status};
use burstline_lab::rfc2544::Found;
use burstline_lab::scenario::Scenario;
use serde_json::{Value, json};

/// A scenario and its contenders on this machine.
pub(crate) struct Listed {
    scenario: Scenario,
    /// Names, and reasons why they cannot run.
    contenders: Vec<(String, Option<String>)>,
}

impl Listed {
    /// Checks the scenario's contenders.
    pub(crate) fn of(scenario: Scenario) -> Self {
        let ask = |name: &String| {
            let adapter = contenders::named(name)?;
            Some((name.clone(), contenders::can_do(adapter, scenario.work).err()))
        };
        let contenders = scenario.contenders.iter().filter_map(ask).collect();
        Self { scenario, contenders }
    }

    fn can_run(&self) -> bool {
        self.contenders.iter().any(|(_, why)| why.is_none())
    }
}

/// Returns each scenario with the contenders that can and cannot run.
pub(crate) fn list_text(all: &[Listed]) -> String {
    let mut text = String::new();
    for listed in all {
        let scenario = &listed.scenario;
        let document = scenario.document.as_deref().unwrap_or("-");
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{:<16} {document:<3} {}", scenario.name, scenario.title);
        let here: Vec<&str> = listed
            .contenders
            .iter()
            .filter(|(_, why)| why.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        let here = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
        let _ = writeln!(text, "{:20} {}: {here}", "", scenario.work);
        for (name, why) in &listed.contenders {
            if let Some(why) = why {
                let _ = writeln!(text, "{:20} not {name}: {why}", "");
            }
        }
    }
    text
}

/// Returns how many of all known contenders can run, and for the others the reason and the fix. If
/// turns were tried, also how many succeeded.
pub(crate) fn who_can_run(trials: Option<&[Trial]>) -> String {
    let reason = |adapter: &dyn Adapter| {
        // A contender that can do any work can run.
        let reasons = adapter.works().iter().map(|&work| contenders::can_do(adapter, work).err());
        reasons.reduce(Option::and).flatten()
    };
    let reasons: BTreeMap<&str, Option<String>> =
        contenders::all().map(|adapter| (adapter.name(), reason(adapter))).collect();
    let here = reasons.values().filter(|why| why.is_none()).count();
    let mut text = format!("{here} of {} contenders can run here\n", reasons.len());
    let wide = reasons.keys().map(|name| name.len()).max().unwrap_or(0);
    for (name, why) in &reasons {
        let Some(why) = why else { continue };
        text += &not_here(name, wide, why);
    }
    text + &trials.map_or(String::new(), trials_text)
}

/// Returns the line of a contender that cannot run.
fn not_here(name: &str, wide: usize, why: &str) -> String {
    format!("not here  {name:wide$}  {}\n", readiness::why_then_fix(why))
}

/// Returns how many turns succeeded, and which failed.
fn trials_text(trials: &[Trial]) -> String {
    let is_ready = |trial: &&Trial| matches!(trial.outcome, Outcome::Ready { .. });
    let has_failed = |trial: &&Trial| matches!(trial.outcome, Outcome::Failed(_));
    let failed: String = trials.iter().filter(has_failed).map(trial_text).collect();
    let ready = trials.iter().filter(is_ready).count();
    format!("{ready} of {} turns were ready and got packets\n{failed}", trials.len())
}

/// Returns a turn as a line.
pub(crate) fn trial_text(trial: &Trial) -> String {
    let Trial { contender, work, outcome } = trial;
    let outcome = match outcome {
        Outcome::Ready { ready_s, packets } => {
            format!("ready in {ready_s:.2} s, {packets} packets")
        }
        Outcome::NotHere(why) => format!("not here: {why}"),
        Outcome::Failed(why) => format!("FAILED: {why}"),
    };
    format!("{contender} {work}: {outcome}\n")
}

/// Returns the scenarios and turns as JSON.
pub(crate) fn list_json(all: &[Listed], trials: Option<&[Trial]>) -> Value {
    let one = |listed: &Listed| {
        let scenario = &listed.scenario;
        let contender = |(name, why): &(String, Option<String>)| {
            let not_run = why.as_ref().map(|why| format!("because {why}"));
            json!({"name": name, "not_run": not_run})
        };
        json!({
            "name": scenario.name, "title": scenario.title, "document": scenario.document,
            "about": scenario.about, "work": scenario.work.name(), "can_run": listed.can_run(),
            "contenders": listed.contenders.iter().map(contender).collect::<Vec<_>>(),
        })
    };
    let mut list =
        json!({"command": "lab list", "scenarios": all.iter().map(one).collect::<Vec<_>>()});
    if let Some(trials) = trials {
        list["tried"] = trials.iter().map(trial_json).collect();
    }
    list
}

fn trial_json(trial: &Trial) -> Value {
    let mut json = json!({"contender": trial.contender, "work": trial.work.name()});
    match &trial.outcome {
        Outcome::Ready { ready_s, packets } => {
            json["ready_s"] = json!(ready_s);
            json["packets"] = json!(packets);
        }
        Outcome::NotHere(why) => json["not_run"] = json!(format!("because {why}")),
        Outcome::Failed(why) => json["failed"] = json!(why),
    }
    json
}

/// Returns the record as one line.
pub(crate) fn compact(record: &Record) -> String {
    let value: Value = serde_json::from_str(&record.to_text()).unwrap_or_default();
    value.to_string()
}

/// Columns of a table, if the rows have them; the chart's own figure comes first.
const COLUMNS: [&str; 35] = [
    "mpps",
    "line_gbps",
    "latency_p50_us",
    "latency_p99_us",
    "latency_max_us",
    "back_to_back",
    "lost_percent",
    "cpu_ns",
    "rho",
    "context_switches",
    // From --simulate.
    "instructions",
    "l1d_misses",
    "llc_misses",
    "dtlb_misses",
    // Of simulated cards: the rates and limits, and the bytes on the bus.
    "run_mpps",
    "link_mpps",
    "bus_mpps",
    "host_mpps",
    "bus_up_bytes",
    "bus_down_bytes",
    "bus_paper_bytes",
    // Memory pinned by kept packets.
    "kept",
    "pinned_bytes",
    "refused",
    // The paper's figures for bus bytes, and where slots are full.
    "bus_bytes",
    "saved_percent",
    "utilisation_percent",
    "ceiling_line_gbps_2x8",
    "ceiling_line_gbps_3x8",
    "ceiling_line_gbps_3x16",
    "ceiling_line_gbps_4x8",
    "ceiling_line_gbps_4x16",
    "ceiling_line_gbps_5x8",
    "ceiling_line_gbps_5x16",
    "ns",
];

/// Returns a table of the rows with the document's figures, then doubts and notes.
pub(crate) fn text(record: &Record) -> String {
    let mut text = String::new();
    let document = record.document.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let _ = writeln!(text, "{}{document}: {}", record.scenario, record.title);
    let columns = columns(record);
    let labels = record.rows.iter().map(|row| record.label(&row.contender).len());
    let width = labels.max().unwrap_or(0).max(20);
    let _ = write!(text, "{:<width$} {:<22}", "contender", "point");
    for column in &columns {
        let _ = write!(text, " {column:>14}");
    }
    let _ = writeln!(text, "  the document, remarks");
    for row in record.rows.iter().filter(|row| !matches!(row.status, Status::NotRun(_))) {
        let _ = write!(text, "{:<width$} {:<22}", record.label(&row.contender), point(row));
        for column in &columns {
            let median = row.metrics.get(*column).map(|metric| metric.median);
            let median = median.map_or("-".to_owned(), number);
            let _ = write!(text, " {median:>width$}", width = column.len().max(14));
        }
        let _ = writeln!(text, "  {}", figures(row));
    }
    not_run(&mut text, record);
    if let Some(generator) = &record.generator {
        let _ = writeln!(text, "generator on {}, by {}", generator.host, generator.port);
        for clock in &generator.clocks {
            let _ = writeln!(text, "its clock less this one: {clock}");
        }
    }
    for doubt in &record.doubts {
        let _ = writeln!(text, "doubt: {}: {}", doubt.name, doubt.text);
    }
    text
}

/// Formats three decimals, or as many as give three significant digits.
fn number(value: f64) -> String {
    let zeros = -value.abs().log10().floor();
    let decimals = if zeros.is_finite() { zeros.clamp(1.0, 7.0) as usize + 2 } else { 3 };
    format!("{value:.decimals$}")
}

fn columns(record: &Record) -> Vec<&str> {
    let is_there = |name: &&str| record.rows.iter().any(|row| row.metrics.contains_key(*name));
    let first = record.chart.y.as_str();
    let rest = COLUMNS.into_iter().filter(|name| *name != first);
    [first].into_iter().chain(rest).filter(is_there).collect()
}

fn point(row: &Row) -> String {
    let value = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    row.point.values().map(value).collect::<Vec<_>>().join(" ")
}

fn figures(row: &Row) -> String {
    let figures = row.document.iter().flatten();
    let figures = figures.map(|(name, figure)| format!("{name} {figure}"));
    let remarks = row.rfc2544.iter().filter_map(Found::remarks);
    figures.chain(remarks).collect::<Vec<_>>().join(", ")
}

/// Appends a line for each contender and reason, with the document's figures for the first row.
fn not_run(text: &mut String, record: &Record) {
    let mut told: Vec<(&str, &str)> = Vec::new();
    for row in &record.rows {
        let Status::NotRun(why) = &row.status else { continue };
        if told.contains(&(&row.contender, why)) {
            continue;
        }
        told.push((&row.contender, why));
        let figures = match figures(row) {
            none if none.is_empty() => none,
            some => format!(" (the document at {}: {some})", point(row)),
        };
        let _ = writeln!(text, "{}: not run because {why}{figures}", row.contender);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_lab::figures::{self, Done};
    use burstline_lab::programs;
    use burstline_lab::scenario::Work;

    /// The guest of `make guest-lab` parses the lists of this program and of the bench.
    #[test]
    fn the_guest_looks_for_words_that_are_printed() {
        let script = include_str!("../../../../scripts/guest-lab.init");
        let looked_for: Vec<&str> =
            script.lines().filter_map(|line| line.strip_prefix("said_")).collect();
        let trial = |outcome| Trial { contender: "testpmd", work: Work::Count, outcome };
        let trials = [
            Outcome::Ready { ready_s: 1.0, packets: 200 },
            Outcome::NotHere("no core is allowed".to_owned()),
            Outcome::Failed("it ended".to_owned()),
        ]
        .map(trial);
        let turns: String = trials.iter().map(trial_text).collect();
        let lack = programs::TRAFGEN.needs[0].lack();
        let list = turns + &who_can_run(Some(&trials)) + &not_here("trafgen", 7, &lack);
        let bench = figures::table(&[("generate-afpacket-trafgen", Done::NotHere(lack))], "bench");
        for line in &looked_for {
            let (name, word) = line.split_once('=').expect("an assignment");
            let printed = if name == "bench" { &bench } else { &list };
            assert!(printed.contains(word.trim_matches('\'')), "said_{line}: {printed}");
        }
        assert_eq!(looked_for.len(), 8);
        assert!(bench.contains("not run "), "{bench}");
    }
}
