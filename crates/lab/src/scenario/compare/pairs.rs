//! Two contenders at one point: how one does by the other, and how that repeats.
//!
//! A machine's speed drifts; a ratio of two contenders that take turns forgives it. So a ratio is
//! what a scenario has to give again when it is run again, within [`WITHIN_PERCENT`].

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::points::words;
use crate::record::{Metric, Record, Row};
use crate::statistics::Quartiles;

/// How far ratios of two runs, or of the turns of one, may lie apart, in per cent.
pub const WITHIN_PERCENT: f64 = 5.0;

/// Two contenders that have a figure at the same point.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Both rows, in the order of the record.
    rows: [&'a Row; 2],
    /// The figure of each.
    metrics: [&'a Metric; 2],
}

impl<'a> Pair<'a> {
    /// All that some rows have.
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

    /// Who they are.
    pub fn contenders(&self) -> [&'a str; 2] {
        self.rows.map(|row| row.contender.as_str())
    }

    /// The first's median by the second's; `None`: there is no such ratio.
    fn ratio(&self) -> Option<f64> {
        let [first, second] = self.metrics;
        finite(first.median / second.median)
    }

    /// How far ratios of turns lie apart: their quartiles, and the distance of those in per cent
    /// of the median. `None` where turns cannot be laid beside each other, or are fewer than
    /// `least`.
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

    /// In words: who, and where.
    pub fn title(&self) -> String {
        let [first, second] = self.rows;
        format!("{} by {} at {}", first.contender, second.contender, words(&first.point))
    }
}

/// Not 0, and not by 0.
fn finite(ratio: f64) -> Option<f64> {
    (ratio.is_finite() && ratio != 0.0).then_some(ratio)
}

/// A ratio of two contenders in two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// The contenders: the first by the second.
    pub contenders: [String; 2],
    /// What varies.
    pub point: Map<String, Value>,
    /// In the first run and in the second.
    pub ratios: [f64; 2],
    /// The second ratio less the first, in per cent of the first.
    pub percent: f64,
}

impl Repeated {
    /// All pairs that both records have, if both are of one scenario; none otherwise.
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
        // Who does less than the other has no ratio to it.
        let is_fair = |pair: &&Pair<'_>| {
            let [first, second] = pair.contenders();
            a.role(first) == a.role(second)
        };
        Pair::all(&first, metric).iter().filter(is_fair).filter_map(repeated).collect()
    }

    /// Whether both ratios say the same.
    pub fn is_within(&self) -> bool {
        self.percent.abs() <= WITHIN_PERCENT
    }

    /// A line of a table.
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

    /// How many say the same, and which says it least; `None` of none.
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
