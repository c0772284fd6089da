//! Selects keys and values of a record's rows.
//!
//! A chart names a key for the horizontal axis, one for the series, and a metric. Other keys that
//! vary divide it into panels: rows of one panel differ only in what the axes show.

use serde_json::Value;

use crate::record::{Metric, Record, Row, Status};
use crate::statistics::Quartiles;

use super::numbers;

/// The key that stands for the contender's name.
pub(super) const CONTENDER: &str = "contender";

/// Prefix of our own contenders' names.
const OURS: &str = "burstline";

/// Returns whether this contender is ours.
pub(super) fn is_ours(contender: &str) -> bool {
    contender.starts_with(OURS)
}

/// Returns the value of a key as a word; empty if the row does not have it.
pub(super) fn word(row: &Row, key: &str) -> String {
    if key == CONTENDER {
        return row.contender.clone();
    }
    match row.point.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.as_f64().map_or(number.to_string(), numbers::tick),
        Some(other) => other.to_string(),
    }
}

/// Returns the value of a key as a number, if it is one.
pub(super) fn number(row: &Row, key: &str) -> Option<f64> {
    row.point.get(key).and_then(Value::as_f64)
}

/// Returns all keys of points, in order of appearance.
pub(super) fn keys(record: &Record) -> Vec<&str> {
    distinct(record.rows.iter().flat_map(|row| row.point.keys().map(String::as_str)))
}

/// Returns all keys of metrics, in order of appearance.
pub(super) fn metrics(record: &Record) -> Vec<&str> {
    distinct(record.rows.iter().flat_map(|row| row.metrics.keys().map(String::as_str)))
}

/// Returns the values of a key, in order of appearance.
pub(super) fn words(record: &Record, key: &str) -> Vec<String> {
    distinct(record.rows.iter().map(|row| word(row, key)))
}

/// Returns the keys of points and contenders with more than one value, except those in `but`.
pub(super) fn varying<'a>(record: &'a Record, but: &[&str]) -> Vec<&'a str> {
    let all = keys(record).into_iter().chain([CONTENDER]);
    all.filter(|key| !but.contains(key) && words(record, key).len() > 1).collect()
}

/// Describes a row by these keys, for headings: `64 bytes, A_AB, node 1`.
pub(super) fn described(row: &Row, keys: &[&str]) -> String {
    let parts = keys.iter().map(|key| named(row, key)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the value of a key with its meaning, because a bare number says nothing.
pub(super) fn named(row: &Row, key: &str) -> String {
    let word = word(row, key);
    match (number(row, key), key) {
        (None, _) => word,
        (Some(_), "size_bytes") => format!("{word} bytes"),
        (Some(_), "rate_pps") => format!("{word} packets a second"),
        (Some(_), key) => format!("{} {word}", plain(key)),
    }
}

/// Returns a key in words: `size_bytes` is `size bytes`.
pub(super) fn plain(key: &str) -> String {
    key.replace('_', " ")
}

/// Returns the median of a metric's samples, or the recorded one without samples.
pub(super) fn median(metric: &Metric) -> f64 {
    let samples = finite(metric);
    if samples.is_empty() { metric.median } else { Quartiles::of(&samples).median }
}

/// Returns the smallest and the largest sample, if there are several.
pub(super) fn spread(metric: &Metric) -> Option<(f64, f64)> {
    let samples = finite(metric);
    if samples.len() < 2 {
        return None;
    }
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((least, most))
}

/// Returns the finite samples of a metric.
pub(super) fn finite(metric: &Metric) -> Vec<f64> {
    metric.samples.iter().copied().filter(|sample| sample.is_finite()).collect()
}

/// Returns the median of a metric by its key, if the row has it.
pub(super) fn measured(row: &Row, metric: &str) -> Option<f64> {
    row.metrics.get(metric).map(median).filter(|value| value.is_finite())
}

/// Returns the document's value of a metric by its key.
pub(super) fn documented(row: &Row, metric: &str) -> Option<f64> {
    row.document.as_ref()?.get(metric).copied()
}

/// Returns why the row has no metrics, if it has none.
pub(super) fn not_run(row: &Row) -> Option<&str> {
    match &row.status {
        Status::NotRun(why) => Some(why),
        Status::Run | Status::Model => None,
    }
}

/// Returns the unit of a metric with its basis, for an axis: `Gbit/s, line`.
pub(super) fn unit(record: &Record, metric: &str) -> String {
    let mut rows = record.rows.iter();
    let Some(found) = rows.find_map(|row| row.metrics.get(metric)) else { return String::new() };
    match &found.basis {
        Some(basis) => format!("{}, {basis}", found.unit),
        None => found.unit.clone(),
    }
}

/// Returns a metric's title with its unit, for headers and axes, without words that the unit
/// repeats. `mpps` in Mpps is `Mpps`, `cpu_ns` in ns is `cpu (ns)`.
pub(super) fn titled(record: &Record, metric: &str) -> String {
    titled_in(metric, &unit(record, metric))
}

/// Returns the same for a metric in that unit.
pub(super) fn titled_in(metric: &str, unit: &str) -> String {
    let (plain_unit, basis) = unit.split_once(", ").unwrap_or((unit, ""));
    let same = |word: &str| match word {
        "mpps" => plain_unit == "Mpps",
        "gbps" => plain_unit == "Gbit/s",
        "percent" => plain_unit == "%",
        _ => word == plain_unit || word == basis,
    };
    let words: Vec<&str> = metric.split('_').filter(|word| !same(word)).collect();
    match (words.is_empty(), unit.is_empty()) {
        (true, _) if plain_unit == "%" && !basis.is_empty() => format!("{basis} (%)"),
        (true, _) => unit.to_owned(),
        (_, true) => words.join(" "),
        _ => format!("{} ({unit})", words.join(" ")),
    }
}

/// Returns whether more of the metric is better: for rates, not for times, core shares and losses.
pub(super) fn more_is_better(record: &Record, metric: &str) -> bool {
    let is_loss = metric.contains("lost") || metric.contains("loss");
    !is_loss && is_rate(&unit(record, metric))
}

/// A rate per core is a rate; CPU time per Gbit/s is not.
fn is_rate(unit: &str) -> bool {
    let rates = ["pps", "kpps", "mpps", "gpps", "bit/s", "kbit/s", "mbit/s", "gbit/s", "gb/s"];
    let unit = unit.to_lowercase();
    rates.iter().any(|rate| unit.split(' ').next() == Some(rate))
}

/// Removes duplicates, keeping the first of each.
pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::is_rate;

    #[test]
    fn more_of_a_rate_is_better_and_of_a_cost_is_not() {
        for unit in ["Mpps", "Mpps per CPU", "Gbit/s", "Gbit/s per CPU", "GB/s"] {
            assert!(is_rate(unit), "{unit}");
        }
        for unit in ["% per Gbit/s", "ns per packet", "% of a core", "per million packets", ""] {
            assert!(!is_rate(unit), "{unit}");
        }
    }
}
