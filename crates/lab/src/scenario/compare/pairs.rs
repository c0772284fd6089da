//! Compares two contenders at one point: their ratio, and how well it repeats.
//!
//! A machine's speed drifts, but it cancels in the ratio of contenders that take turns. So ratios
//! must repeat within [`WITHIN_PERCENT`] when a scenario runs again.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::points::words;
use crate::record::{Metric, Record, Row};
use crate::statistics::Quartiles;

/// Maximum difference of the ratios of two runs, or of the turns of one, in per cent.
pub const WITHIN_PERCENT: f64 = 5.0;

/// Two contenders with a metric at the same point.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Both rows, in the order of the record.
    rows: [&'a Row; 2],
    /// The metric of each.
    metrics: [&'a Metric; 2],
}

impl<'a> Pair<'a> {
    /// Returns all pairs in some rows.
    pub fn all(rows: &[&'a Row], metric: &str) -> Vec<Self> {
        let with: Vec<(&Row, &Metric)> =
            rows.iter().filter_map(|row| Some((*row, row.metrics.get(metric)?))).collect();
        let mut pairs = Vec::new();
        for (at, (first, metric)) in with.iter().enumerate() {
            let same = with[at + 1..].iter().filter(|(other, _)| other.point == first.point);
            pairs.extend(
                same.map(|(second, others)| Self {
                    rows: [first, second],
                    metrics: [metric, others],
                }),
            );
        }
        pairs
    }

    /// Returns their names.
    pub fn contenders(&self) -> [&'a str; 2] {
        self.rows.map(|row| row.contender.as_str())
    }

    /// Returns the first median divided by the second, or `None` if that is undefined.
    fn ratio(&self) -> Option<f64> {
        let [first, second] = self.metrics;
        finite(first.median / second.median)
    }

    /// Returns the quartiles of the ratios of turns, and their distance in per cent of the median.
    /// `None` if the numbers of turns differ or are less than `least`.
    pub fn spread(&self, least: usize) -> Option<(Quartiles, f64)> {
        let [first, second] = self.metrics.map(|metric| &metric.samples);
        if first.len() != second.len() || first.len() < least {
            return None;
        }
        let turns = first.iter().zip(second).map(|(first, second)| finite(first / second));
        let quartiles = Quartiles::of(&turns.collect::<Option<Vec<f64>>>()?);
        let percent = 100.0 * (quartiles.third - quartiles.first) / quartiles.median;
        Some((quartiles, finite(percent)?))
    }

    /// Describes the contenders and the point.
    pub fn title(&self) -> String {
        let [first, second] = self.rows;
        format!("{} by {} at {}", first.contender, second.contender, words(&first.point))
    }
}

/// Returns the ratio if it is finite and not 0.
fn finite(ratio: f64) -> Option<f64> {
    (ratio.is_finite() && ratio != 0.0).then_some(ratio)
}

/// A ratio of two contenders in two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// The contenders of the ratio: the first divided by the second.
    pub contenders: [String; 2],
    /// The parameters.
    pub point: Map<String, Value>,
    /// The ratios in the first and the second run.
    pub ratios: [f64; 2],
    /// The second ratio less the first, in per cent of the first.
    pub percent: f64,
}

impl Repeated {
    /// Returns the pairs of both records if they are of one scenario, else none.
    pub fn all(a: &Record, b: &Record, metric: &str) -> Vec<Self> {
        if a.scenario != b.scenario {
            return Vec::new();
        }
        let [first, second] = [a, b].map(|record| record.rows.iter().collect::<Vec<_>>());
        let others: BTreeMap<String, f64> = Pair::all(&second, metric)
            .iter()
            .filter_map(|pair| Some((pair.title(), pair.ratio()?)))
            .collect();
        let repeated = |pair: &Pair<'_>| {
            let ratios = [pair.ratio()?, *others.get(&pair.title())?];
            Some(Self {
                contenders: pair.rows.map(|row| row.contender.clone()),
                point: pair.rows[0].point.clone(),
                ratios,
                percent: 100.0 * (ratios[1] / ratios[0] - 1.0),
            })
        };
        // Contenders with different roles are not compared.
        let is_fair = |pair: &&Pair<'_>| {
            let [first, second] = pair.contenders();
            a.role(first) == a.role(second)
        };
        Pair::all(&first, metric).iter().filter(is_fair).filter_map(repeated).collect()
    }

    /// Returns whether both ratios agree.
    pub fn is_within(&self) -> bool {
        self.percent.abs() <= WITHIN_PERCENT
    }

    /// Formats a line of a table.
    pub fn line(&self) -> String {
        let [first, second] = &self.contenders;
        let [a, b] = self.ratios;
        let mark = if self.is_within() { "" } else { "  <" };
        format!(
            "{:<42} {:<28} {a:>10.3} {b:>10.3} {:>+8.1} %{mark}",
            format!("{first} by {second}"),
            words(&self.point),
            self.percent
        )
    }

    /// Describes how many agree and which differs most; `None` without pairs.
    pub fn verdict(all: &[Self]) -> Option<String> {
        let worst = all.iter().max_by(|a, b| a.percent.abs().total_cmp(&b.percent.abs()))?;
        let within = all.iter().filter(|repeated| repeated.is_within()).count();
        let ([first, second], [a, b]) = (&worst.contenders, worst.ratios);
        Some(format!(
            "{within} of {} ratios within {WITHIN_PERCENT} % of each other; the worst: {first} by \
             {second} at {}, {a:.3} and {b:.3}, {:+.1} %",
            all.len(),
            words(&worst.point),
            worst.percent
        ))
    }
}
