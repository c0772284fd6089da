//! What a record's rows vary, and what is read off them.
//!
//! A chart names a key for the horizontal axis, one for the series, and a metric. Keys of points
//! that vary besides make panels: rows of one panel differ only in what the axes show.

use serde_json::Value;

use crate::record::{Metric, Record, Row, Status};
use crate::statistics::Quartiles;

use super::numbers;

/// The key that stands for the name of who took part.
pub(super) const CONTENDER: &str = "contender";

/// What our own contenders' names begin with.
const OURS: &str = "burstline";

/// Whether this is one of ours.
pub(super) fn is_ours(contender: &str) -> bool {
    contender.starts_with(OURS)
}

/// The value of a key as a word; empty where the row has none.
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

/// The value of a key as a number, if it is one.
pub(super) fn number(row: &Row, key: &str) -> Option<f64> {
    row.point.get(key).and_then(Value::as_f64)
}

/// All keys of points, in the order in which they are met.
pub(super) fn keys(record: &Record) -> Vec<&str> {
    distinct(record.rows.iter().flat_map(|row| row.point.keys().map(String::as_str)))
}

/// All keys of metrics, in the order in which they are met.
pub(super) fn metrics(record: &Record) -> Vec<&str> {
    distinct(record.rows.iter().flat_map(|row| row.metrics.keys().map(String::as_str)))
}

/// The values of a key, in the order in which they are met.
pub(super) fn words(record: &Record, key: &str) -> Vec<String> {
    distinct(record.rows.iter().map(|row| word(row, key)))
}

/// The keys with more than one value, of points and of contenders, but for those in `but`.
pub(super) fn varying<'a>(record: &'a Record, but: &[&str]) -> Vec<&'a str> {
    let all = keys(record).into_iter().chain([CONTENDER]);
    all.filter(|key| !but.contains(key) && words(record, key).len() > 1).collect()
}

/// What a row is at those keys, for headings: `64 bytes, A_AB, node 1`.
pub(super) fn described(row: &Row, keys: &[&str]) -> String {
    let parts = keys.iter().map(|key| named(row, key)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

/// The value of a key, so that one sees what it is of: a number alone says nothing.
pub(super) fn named(row: &Row, key: &str) -> String {
    let word = word(row, key);
    match (number(row, key), key) {
        (None, _) => word,
        (Some(_), "size_bytes") => format!("{word} bytes"),
        (Some(_), "rate_pps") => format!("{word} packets a second"),
        (Some(_), key) => format!("{} {word}", plain(key)),
    }
}

/// A key in words: `size_bytes` is `size bytes`.
pub(super) fn plain(key: &str) -> String {
    key.replace('_', " ")
}

/// The median of a metric, made anew from its samples; as recorded where there are none.
pub(super) fn median(metric: &Metric) -> f64 {
    let samples = finite(metric);
    if samples.is_empty() { metric.median } else { Quartiles::of(&samples).median }
}

/// The smallest and the largest sample, if there are several.
pub(super) fn spread(metric: &Metric) -> Option<(f64, f64)> {
    let samples = finite(metric);
    if samples.len() < 2 {
        return None;
    }
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((least, most))
}

/// The samples of a metric.
pub(super) fn finite(metric: &Metric) -> Vec<f64> {
    metric.samples.iter().copied().filter(|sample| sample.is_finite()).collect()
}

/// The median of the metric that a key names, if the row has it.
pub(super) fn measured(row: &Row, metric: &str) -> Option<f64> {
    row.metrics.get(metric).map(median).filter(|value| value.is_finite())
}

/// What the document says of the metric that a key names.
pub(super) fn documented(row: &Row, metric: &str) -> Option<f64> {
    row.document.as_ref()?.get(metric).copied()
}

/// Why the row has no figures, if it has none.
pub(super) fn not_run(row: &Row) -> Option<&str> {
    match &row.status {
        Status::NotRun(why) => Some(why),
        Status::Run | Status::Model => None,
    }
}

/// The unit of a metric with its basis, as for an axis: `Gbit/s, line`.
pub(super) fn unit(record: &Record, metric: &str) -> String {
    let mut rows = record.rows.iter();
    let Some(found) = rows.find_map(|row| row.metrics.get(metric)) else { return String::new() };
    match &found.basis {
        Some(basis) => format!("{}, {basis}", found.unit),
        None => found.unit.clone(),
    }
}

/// A metric with its unit, for heads and axes: words of the key that the unit says are left out.
/// `mpps` in Mpps is `Mpps`, `cpu_ns` in ns is `cpu (ns)`.
pub(super) fn titled(record: &Record, metric: &str) -> String {
    titled_in(metric, &unit(record, metric))
}

/// The same of a figure in that unit.
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

/// Whether more of the metric is better. Rates are; times, shares of a core and losses are not.
pub(super) fn more_is_better(record: &Record, metric: &str) -> bool {
    let is_loss = metric.contains("lost") || metric.contains("loss");
    !is_loss && is_rate(&unit(record, metric))
}

/// A rate for each core is a rate; processor time for each Gbit/s is not.
fn is_rate(unit: &str) -> bool {
    let rates = ["pps", "kpps", "mpps", "gpps", "bit/s", "kbit/s", "mbit/s", "gbit/s", "gb/s"];
    let unit = unit.to_lowercase();
    rates.iter().any(|rate| unit.split(' ').next() == Some(rate))
}

/// The first of each.
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
