//! Compares two records: ratios, and whether they are significant. For two runs of one scenario,
//! also whether the ratios between contenders agree.

pub mod pairs;

use pairs::Repeated;
use serde_json::{Map, Value, json};

use super::points::words;
use crate::record::{Metric, Record, Row};

/// A comparison of two records.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Scenario names of the first and the second record.
    pub names: [String; 2],
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Contenders and points of both records.
    pub ratios: Vec<Ratio>,
    /// Descriptions of rows that only one record has.
    pub alone: Vec<String>,
    /// Ratios of two contenders in both runs, if both are of one scenario.
    pub repeated: Vec<Repeated>,
}

/// One contender at one point in both records.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The contender.
    pub contender: String,
    /// The parameters.
    pub point: Map<String, Value>,
    /// Medians of the first and the second.
    pub medians: [f64; 2],
    /// The second divided by the first.
    pub ratio: f64,
    /// The smallest and the largest ratio of samples of both.
    pub range: [f64; 2],
    /// Whether the sample ranges overlap, so that the ratio is not significant.
    pub overlaps: bool,
}

/// Compares the second record with the first by `metric`, or by the chart's metric of the first.
///
/// # Errors
/// If they have no common row with the metric.
pub fn compare(a: &Record, b: &Record, metric: Option<&str>) -> Result<Comparison, String> {
    let name = metric.unwrap_or(&a.chart.y);
    let of = |record: &Record, row: &Row| {
        let is_same = |other: &&Row| other.contender == row.contender && other.point == row.point;
        record.rows.iter().find(is_same).and_then(|row| row.metrics.get(name).cloned())
    };
    let (mut ratios, mut alone, mut unit) = (Vec::new(), Vec::new(), String::new());
    for row in &a.rows {
        let Some(first) = row.metrics.get(name) else { continue };
        match of(b, row) {
            Some(second) => {
                unit.clone_from(&first.unit);
                ratios.push(ratio(row, first, &second));
            }
            None => alone.push(format!("{} only: {}", a.scenario, title(row))),
        }
    }
    let others = b.rows.iter().filter(|row| row.metrics.contains_key(name) && of(a, row).is_none());
    alone.extend(others.map(|row| format!("{} only: {}", b.scenario, title(row))));
    if ratios.is_empty() {
        return Err(format!(
            "{} and {} have no contender at the same point with `{name}`",
            a.scenario, b.scenario
        ));
    }
    let names = [a.scenario.clone(), b.scenario.clone()];
    let repeated = Repeated::all(a, b, name);
    Ok(Comparison { names, metric: name.to_owned(), unit, ratios, alone, repeated })
}

fn ratio(row: &Row, first: &Metric, second: &Metric) -> Ratio {
    let ends = |metric: &Metric| {
        let low = metric.samples.iter().copied().fold(f64::INFINITY, f64::min);
        (low, metric.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((low, high), (second_low, second_high)) = (ends(first), ends(second));
    Ratio {
        contender: row.contender.clone(),
        point: row.point.clone(),
        medians: [first.median, second.median],
        ratio: second.median / first.median,
        range: [second_low / high, second_high / low],
        overlaps: second_low <= high && low <= second_high,
    }
}

fn title(row: &Row) -> String {
    format!("{} at {}", row.contender, words(&row.point))
}

impl Comparison {
    /// Formats a table, followed by the rows that only one record has.
    pub fn to_text(&self) -> String {
        let [a, b] = &self.names;
        let mut lines = vec![
            format!("{} ({}), {b} by {a}; ~ samples overlap", self.metric, self.unit),
            format!(
                "{:<22} {:<28} {:>10} {:>10} {:>7} {:>16}",
                "contender", "point", a, b, "ratio", "from samples"
            ),
        ];
        for ratio in &self.ratios {
            let [low, high] = ratio.range;
            let [first, second] = ratio.medians;
            let mark = if ratio.overlaps { "~" } else { " " };
            // A ratio of zeros, such as no losses, is undefined.
            let ratios = match [ratio.ratio, low, high].iter().all(|ratio| ratio.is_finite()) {
                true => format!("{:>6.3} {low:>7.3} to {high:.3}", ratio.ratio),
                false => format!("{:>6} {:>7}", "-", "-"),
            };
            lines.push(format!(
                "{:<22} {:<28} {first:>10.4} {second:>10.4} {mark}{ratios}",
                ratio.contender,
                words(&ratio.point),
            ));
        }
        lines.extend(self.alone.iter().cloned());
        if let Some(verdict) = Repeated::verdict(&self.repeated) {
            lines.push(format!(
                "\n{:<71} {:>10} {:>10} {:>10}",
                "contenders of one run, by turns", "A", "B", "apart"
            ));
            lines.extend(self.repeated.iter().map(Repeated::line));
            lines.push(verdict);
        }
        lines.join("\n") + "\n"
    }

    /// Formats it as JSON.
    pub fn to_json(&self) -> Value {
        let ratios = self.ratios.iter().map(|ratio| {
            json!({
                "contender": ratio.contender, "point": ratio.point, "medians": ratio.medians,
                "ratio": ratio.ratio, "range": ratio.range, "overlaps": ratio.overlaps,
            })
        });
        let repeated = self.repeated.iter().map(|repeated| {
            json!({
                "contenders": repeated.contenders, "point": repeated.point,
                "ratios": repeated.ratios, "percent": repeated.percent,
                "is_within": repeated.is_within(),
            })
        });
        json!({
            "command": "lab compare", "names": self.names, "metric": self.metric,
            "unit": self.unit, "ratios": ratios.collect::<Vec<_>>(), "alone": self.alone,
            "repeated": repeated.collect::<Vec<_>>(),
            "verdict": Repeated::verdict(&self.repeated),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record::parse(include_str!("../../tests/data/numa-rtc.json")).unwrap()
    }

    fn set(record: &mut Record, row: usize, samples: &[f64]) {
        let metric = Metric::new("Mpps", samples.to_vec());
        record.rows[row].metrics.insert("mpps".to_owned(), metric);
    }

    #[test]
    fn ratios_have_ranges_and_overlaps_are_marked() {
        let (mut a, mut b) = (record(), record());
        set(&mut a, 0, &[2.0, 2.0, 2.5]);
        set(&mut b, 0, &[1.0, 0.5, 1.5]);
        set(&mut b, 1, &[0.75, 0.7, 5.0]);
        let comparison = compare(&a, &b, None).unwrap();
        let first = &comparison.ratios[0];
        assert_eq!((first.ratio, first.range, first.overlaps), (0.5, [0.2, 0.75], false));
        assert!(comparison.ratios[1].overlaps);
        let text = comparison.to_text();
        assert!(text.lines().next().unwrap().starts_with("mpps (Mpps)"), "{text}");
        assert!(text.lines().nth(2).unwrap().contains("  0.500"), "{text}");
        assert!(text.lines().nth(3).unwrap().contains(" ~"), "{text}");
        assert_eq!(comparison.to_json()["ratios"][0]["ratio"], 0.5);
    }

    #[test]
    fn ratios_of_contenders_in_two_runs_have_a_verdict() {
        let (mut a, mut b) = (record(), record());
        let other = a.rows.iter().rposition(|row| row.point == a.rows[0].point).unwrap();
        for (record, samples) in [(&mut a, [2.0, 4.0]), (&mut b, [1.0, 1.8])] {
            record.rows = [0, other].map(|row| record.rows[row].clone()).to_vec();
            set(record, 0, &samples[..1]);
            set(record, 1, &samples[1..]);
        }
        let comparison = compare(&a, &b, None).unwrap();
        let [repeated] = &comparison.repeated[..] else { panic!("{:?}", comparison.repeated) };
        let names = [0, 1].map(|row| a.rows[row].contender.clone());
        // Both are slower, by different amounts: 2 / 4, then 1 / 1.8.
        assert_eq!(repeated.contenders, names);
        assert!((repeated.percent - 100.0 / 9.0).abs() < 1e-9 && !repeated.is_within());
        let text = comparison.to_text();
        let verdict = text.lines().last().unwrap();
        assert!(verdict.starts_with("0 of 1 ratios within 5 % of each other; "), "{verdict}");
        assert!(verdict.contains("0.500 and 0.556, +11.1 %"), "{verdict}");
        assert_eq!(comparison.to_json()["verdict"], verdict);
        b.scenario = "other".to_owned();
        let others = compare(&a, &b, None).unwrap();
        assert!(others.repeated.is_empty() && !others.to_text().contains("ratios within"));
    }

    #[test]
    fn a_run_laid_beside_itself_repeats() {
        let comparison = compare(&record(), &record(), None).unwrap();
        assert!(!comparison.repeated.is_empty());
        assert!(comparison.repeated.iter().all(|pair| pair.percent == 0.0));
    }

    #[test]
    fn what_one_has_alone_is_named() {
        let (a, mut b) = (record(), record());
        b.rows.remove(0);
        b.scenario = "other".to_owned();
        let comparison = compare(&a, &b, Some("rho")).unwrap();
        assert_eq!(comparison.alone.len(), 1);
        assert!(comparison.alone[0].starts_with("numa-rtc only: burstline-xdp at size_bytes 64"));
        assert!(compare(&a, &b, Some("nothing")).unwrap_err().contains("`nothing`"));
    }
}
