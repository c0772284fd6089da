//! Writes all metrics as CSV: a line for each metric of each row, with every sample, and one for
//! each row that did not run.
//!
//! Source: RFC 4180, except that lines end with a line feed only.

use super::collect::Collection;
use super::escape;
use super::select;

/// The columns. `point` is `key=value` for each key that varies, and `samples` are in the order of
/// measurement; both are separated by spaces.
const HEAD: &str = "scenario,contender,point,status,metric,unit,basis,median,document,samples\n";

/// Returns the table of a collection.
pub(super) fn table(collection: &Collection) -> String {
    let mut table = HEAD.to_owned();
    for entry in &collection.entries {
        let record = &entry.record;
        for row in &record.rows {
            let keys = row.point.keys().map(|key| format!("{key}={}", select::word(row, key)));
            let point = keys.collect::<Vec<_>>().join(" ");
            let words = [&record.scenario, &row.contender, &point, &row.status.to_string()];
            let start = words.map(|word| escape::csv(word)).join(",");
            let said = |metric: &str| {
                select::documented(row, metric).map_or(String::new(), |value| value.to_string())
            };
            for (name, metric) in &row.metrics {
                let basis = metric.basis.as_deref().unwrap_or("");
                let words = [name, metric.unit.as_str(), basis].map(escape::csv).join(",");
                let samples: Vec<String> = metric.samples.iter().map(f64::to_string).collect();
                let numbers = [select::median(metric).to_string(), said(name), samples.join(" ")];
                table += &format!("{start},{words},{}\n", numbers.join(","));
            }
            let said_only = row.document.iter().flat_map(|figures| figures.keys());
            let said_only = said_only.filter(|name| !row.metrics.contains_key(*name));
            for name in said_only {
                table += &format!("{start},{},,,,{},\n", escape::csv(name), said(name));
            }
            if row.metrics.is_empty() && row.document.is_none() {
                table += &format!("{start},,,,,,\n");
            }
        }
    }
    table
}
