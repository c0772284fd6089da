//! From samples to rows.

use std::collections::BTreeMap;

use super::{Cell, Run};
use crate::contenders::Sample;
use crate::record::{Metric, Row, Stage, Status};
use crate::statistics::Quartiles;

impl Run<'_> {
    /// One for each contender at each point, also for those that did not run.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            for (number, entrant) in self.entrants.iter().enumerate() {
                let (name, cell) = (entrant.adapter.name(), &self.cells[at][number]);
                rows.push(Row {
                    contender: name.to_owned(),
                    point: point.keys.clone(),
                    status: self.status(at, number),
                    metrics: metrics(&cell.samples),
                    stages: stages(&cell.samples),
                    losses: losses(&cell.samples),
                    document: self.scenario.figures_of(name, &point.keys),
                });
            }
        }
        rows
    }

    fn status(&self, at: usize, number: usize) -> Status {
        let Cell { samples, failed } = &self.cells[at][number];
        let why = match (&self.entrants[number].not_run, &self.places[at], samples.first()) {
            (Some(why), _, _) | (None, Err(why), _) => why.clone(),
            (None, Ok(_), Some(sample)) if sample.is_model => return Status::Model,
            (None, Ok(_), Some(_)) => return Status::Run,
            (None, Ok(_), None) => {
                failed.clone().unwrap_or_else(|| "the user wanted an end before".to_owned())
            }
        };
        Status::NotRun(why)
    }
}

/// Figures that all samples have.
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
    metrics
}

/// Medians, of stages that all samples have.
fn stages(samples: &[Sample]) -> Vec<Stage> {
    let Some(first) = samples.first() else { return Vec::new() };
    let median = |values: Vec<f64>| Quartiles::of(&values).median;
    let line = |sample: &Sample| sample.figures.get("line_gbps").map_or(0.0, |line| line.value);
    let line = median(samples.iter().map(line).collect());
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

/// Sums over all samples.
fn losses(samples: &[Sample]) -> BTreeMap<String, u64> {
    let mut losses = BTreeMap::new();
    for (name, packets) in samples.iter().flat_map(|sample| &sample.losses) {
        *losses.entry(name.clone()).or_insert(0) += packets;
    }
    losses
}
