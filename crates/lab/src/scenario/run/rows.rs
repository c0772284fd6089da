//! Converts samples to rows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{BEFORE, Cell, NO_TURN, Run};
use crate::contenders::Sample;
use crate::distribution::Distribution;
use crate::record::{Metric, Row, Stage, Status};
use crate::scenario::Scenario;
use crate::statistics::Quartiles;

/// Why a system that only the document measured has no figures here.
const DOCUMENT_ONLY: &str = "it is not a contender here: the figure is from the document";
/// Names that a row has at most.
const SYMBOLS: usize = 10;

impl Run<'_> {
    /// Returns a row for each contender at each point, including those that did not run.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            for (number, entrant) in self.entrants.iter().enumerate() {
                let (name, cell) = (entrant.adapter.name(), &self.cells[at][number]);
                let status = self.status(at, number);
                rows.push(Row {
                    point: point.keys.clone(),
                    distance_ns: self.distances[at].filter(|_| status == Status::Run),
                    status,
                    document: self.scenario.figures_of(name, &point.keys),
                    ..Row::of(name, &cell.samples)
                });
            }
            rows.extend(self.rows_of_document_only(&point.keys));
        }
        rows
    }

    /// The document's figures for systems that are not contenders here, at one point.
    fn rows_of_document_only(&self, point: &Map<String, Value>) -> Vec<Row> {
        let Scenario { figures, contenders, .. } = self.scenario;
        let names: BTreeSet<&str> = figures.iter().map(|figure| &*figure.contender).collect();
        let others = names.into_iter().filter(|name| !contenders.iter().any(|known| known == name));
        let row = |name| {
            Some(Row {
                point: point.clone(),
                status: Status::NotRun(DOCUMENT_ONLY.to_owned()),
                document: Some(self.scenario.figures_of(name, point)?),
                ..Row::of(name, &[])
            })
        };
        others.filter_map(row).collect()
    }

    fn status(&self, at: usize, number: usize) -> Status {
        let Cell { samples, failed } = &self.cells[at][number];
        let why = match (&self.entrants[number].not_run, &self.places[at], samples.first()) {
            (Some(why), _, _) | (None, Err(why), _) => why.clone(),
            (None, Ok(_), Some(sample)) if sample.is_model => return Status::Model,
            (None, Ok(_), Some(_)) => return Status::Run,
            (None, Ok(_), None) => failed.clone().unwrap_or_else(|| self.why_ended()),
        };
        Status::NotRun(why)
    }

    fn why_ended(&self) -> String {
        self.ended.as_ref().map_or(NO_TURN.to_owned(), |why| format!("{why}{BEFORE}"))
    }
}

impl Row {
    /// Creates the row of a contender that ran, in a run with a single point.
    pub(crate) fn of(contender: &str, samples: &[Sample]) -> Self {
        Self {
            contender: contender.to_owned(),
            point: Map::new(),
            status: Status::Run,
            metrics: metrics(samples),
            distributions: distributions(samples),
            stages: stages(samples),
            symbols: symbols(samples),
            losses: losses(samples),
            distance_ns: None,
            rfc2544: samples.iter().filter_map(|sample| sample.rfc2544.clone()).collect(),
            document: None,
        }
    }
}

/// Returns the metrics that all samples have.
fn metrics(samples: &[Sample]) -> BTreeMap<String, Metric> {
    let Some(first) = samples.first() else { return BTreeMap::new() };
    let mut metrics = BTreeMap::new();
    for (name, figure) in &first.figures {
        let values = samples.iter().map(|sample| Some(sample.figures.get(name)?.value));
        let Some(values) = values.collect::<Option<Vec<f64>>>() else { continue };
        let mut metric = Metric::new(figure.unit, values);
        metric.basis = figure.basis.map(str::to_owned);
        metrics.insert((*name).to_owned(), metric);
    }
    let seconds: Vec<f64> =
        samples.iter().flat_map(|sample| sample.lost_each_second.clone()).collect();
    if seconds.iter().any(|&lost| lost > 0.0) {
        metrics.insert("lost_each_second".to_owned(), Metric::new("packets", seconds));
    }
    for (at, figure) in first.each_second.iter().enumerate() {
        let values = samples.iter().filter_map(|sample| sample.each_second.get(at));
        let values: Vec<f64> = values.flat_map(|figure| figure.values.clone()).collect();
        metrics.insert(figure.name.to_owned(), Metric::new(figure.unit, values));
    }
    metrics
}

/// Merges the distributions of all samples.
fn distributions(samples: &[Sample]) -> BTreeMap<String, Distribution> {
    let mut all: BTreeMap<String, Distribution> = BTreeMap::new();
    for (name, distribution) in samples.iter().flat_map(|sample| &sample.distributions) {
        all.entry((*name).to_owned()).or_default().add(distribution);
    }
    all
}

/// Returns the most frequent names by means over all samples; medians of rare names are often 0.
fn symbols(samples: &[Sample]) -> Vec<Stage> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, percent) in samples.iter().flat_map(|sample| &sample.symbols) {
        *sums.entry(name).or_default() += percent;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let line = line_gbps(samples);
    let stage = |(name, sum): (&str, f64)| {
        let cpu_percent = sum / samples.len() as f64;
        let rho = if line > 0.0 { cpu_percent / line } else { 0.0 };
        Stage { name: name.to_owned(), cpu_percent, rho }
    };
    sums.into_iter().take(SYMBOLS).map(stage).collect()
}

/// Returns the median of the line rate.
fn line_gbps(samples: &[Sample]) -> f64 {
    let line = |sample: &Sample| sample.figures.get("line_gbps").map_or(0.0, |line| line.value);
    let lines: Vec<f64> = samples.iter().map(line).collect();
    if lines.is_empty() { 0.0 } else { Quartiles::of(&lines).median }
}

/// Returns the medians of stages that all samples have.
fn stages(samples: &[Sample]) -> Vec<Stage> {
    let Some(first) = samples.first() else { return Vec::new() };
    let median = |values: Vec<f64>| Quartiles::of(&values).median;
    let line = line_gbps(samples);
    let stage = |(name, _): &(String, f64)| {
        let percent = |sample: &Sample| {
            sample.stages.iter().find(|(known, _)| known == name).map(|&(_, percent)| percent)
        };
        let cpu_percent = median(samples.iter().map(percent).collect::<Option<_>>()?);
        let rho = if line > 0.0 { cpu_percent / line } else { 0.0 };
        Some(Stage { name: name.clone(), cpu_percent, rho })
    };
    first.stages.iter().filter_map(stage).collect()
}

/// Returns the sums over all samples.
fn losses(samples: &[Sample]) -> BTreeMap<String, u64> {
    let mut losses = BTreeMap::new();
    for (name, packets) in samples.iter().flat_map(|sample| &sample.losses) {
        *losses.entry(name.clone()).or_insert(0) += packets;
    }
    losses
}
