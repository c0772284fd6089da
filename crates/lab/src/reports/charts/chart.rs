//! The content of a record's chart, independent of how it is drawn.

use crate::record::{Record, Row, Status};

use crate::reports::numbers;
use crate::reports::select;
use crate::reports::style::Look;

/// Maximum number of panels. The rest appears only in the table, and the report says so.
const PANELS_MAX: usize = 12;

/// The metric with one sample per second.
const EACH_SECOND: &str = "lost_each_second";
/// With fewer seconds no chart is drawn.
const SECONDS_MIN: usize = 10;

/// A chart of one of the kinds that can be drawn.
#[derive(Debug)]
pub(crate) struct Chart {
    /// The axes.
    pub(crate) axes: Axes,
    /// The panels, one picture each.
    pub(crate) panels: Vec<Panel>,
    /// Number of panels left out.
    pub(crate) left_out: usize,
}

/// The labels, and the words of the horizontal axis.
#[derive(Debug)]
pub(crate) struct Axes {
    /// Label with unit.
    pub(crate) x_label: String,
    /// Label with unit and basis.
    pub(crate) y_label: String,
    /// Words along the horizontal axis; empty if it has numbers.
    pub(crate) words: Vec<String>,
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Amounts over numbers or words.
    Lines,
    /// Amounts by name.
    Bars,
    /// Amounts by two names.
    Heat,
    /// Shares of the total over amounts.
    Cumulative,
}

/// One picture: rows that differ only in what the axes show.
#[derive(Debug)]
pub(crate) struct Panel {
    /// What all its rows have in common; empty if there is only one panel.
    pub(crate) title: String,
    /// The series.
    pub(crate) series: Vec<Series>,
}

/// One line, or the bars of one name.
#[derive(Debug)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) name: String,
    /// Its look, the same in all panels.
    pub(crate) look: Look,
    /// Whether the values are from a document.
    pub(crate) is_document: bool,
    /// Its points from left to right.
    pub(crate) points: Vec<Point>,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// A number, or the index of a word.
    pub(crate) x: f64,
    /// The median.
    pub(crate) y: f64,
    /// The smallest and the largest sample.
    pub(crate) spread: Option<(f64, f64)>,
    /// Whether it was calculated and not measured.
    pub(crate) is_model: bool,
}

/// Selects how to draw the record's own chart. Lines over a single number would be points above
/// each other, so they become bars.
pub(crate) fn kind(record: &Record) -> Kind {
    match record.chart.kind.as_str() {
        "bars" => Kind::Bars,
        "heat" => Kind::Heat,
        "cdf" => Kind::Cumulative,
        _ if select::words(record, &record.chart.x).len() == 1 => Kind::Bars,
        _ => Kind::Lines,
    }
}

/// Returns the chart that the record requests: medians of a metric over a key. It has no panels if
/// no value can be drawn.
pub(crate) fn of(record: &Record) -> Chart {
    let asked = &record.chart;
    let is_numeric = record.rows.iter().all(|row| select::number(row, &asked.x).is_some());
    let words = match kind(record) {
        Kind::Lines if is_numeric => Vec::new(),
        // Above bars, a bare number would lack its key.
        Kind::Bars => select::distinct(record.rows.iter().map(|r| select::named(r, &asked.x))),
        _ => select::words(record, &asked.x),
    };
    let axes = Axes {
        x_label: match asked.x_label.as_str() {
            "" => select::plain(&asked.x),
            given => given.to_owned(),
        },
        y_label: metric_label(record, &asked.y_label, &asked.y),
        words,
    };
    let series = |rows: &[&Row]| medians(record, &axes.words, rows);
    let (panels, left_out) = panels(record, &[asked.x.as_str(), asked.series.as_str()], &series);
    Chart { axes, panels, left_out }
}

/// Returns the cumulative distribution for each contender and point.
pub(crate) fn cumulative(record: &Record) -> Chart {
    let counted = record.rows.iter().find_map(|row| row.distributions.first_key_value());
    let (metric, x_label) = match counted {
        Some((name, distribution)) => (name.as_str(), select::titled_in(name, &distribution.unit)),
        None => sampled(record),
    };
    let y_label = "share of all up to there".to_owned();
    let axes = Axes { x_label, y_label, words: Vec::new() };
    by_row(record, axes, &|row| shares(row, metric))
}

/// Returns losses over time, for rows with losses per second.
pub(crate) fn losses(record: &Record) -> Chart {
    let x_label = "second, of all turns one after the other".to_owned();
    let axes = Axes { x_label, y_label: "packets lost in it".to_owned(), words: Vec::new() };
    by_row(record, axes, &|row| {
        let Some(metric) = row.metrics.get(EACH_SECOND) else { return Vec::new() };
        if metric.samples.len() < SECONDS_MIN {
            return Vec::new();
        }
        let seconds = metric.samples.iter().enumerate().filter(|(_, lost)| lost.is_finite());
        let point = |(second, &lost): (usize, &f64)| Point {
            x: second as f64,
            y: lost,
            spread: None,
            is_model: is_model(row),
        };
        seconds.map(point).collect()
    })
}

/// Returns one line per row, with the points from that row.
fn by_row(record: &Record, axes: Axes, points: &dyn Fn(&Row) -> Vec<Point>) -> Chart {
    let names = select::words(record, &record.chart.series);
    let series = |rows: &[&Row]| {
        let of_row = |row: &&Row| {
            let name = select::word(row, &record.chart.series);
            let look = Look::series(names.iter().position(|other| *other == name)?);
            let (points, is_document) = (points(row), false);
            (!points.is_empty()).then_some(Series { name, look, is_document, points })
        };
        rows.iter().filter_map(of_row).collect()
    };
    let (panels, left_out) = panels(record, &[record.chart.series.as_str()], &series);
    Chart { axes, panels, left_out }
}

/// Returns the metric that replaces a missing distribution by its samples, and its axis label.
fn sampled(record: &Record) -> (&str, String) {
    let asked = &record.chart;
    let (metric, given) = match record.rows.iter().any(|row| row.metrics.contains_key(&asked.x)) {
        true => (&asked.x, &asked.x_label),
        false => (&asked.y, &asked.y_label),
    };
    (metric, metric_label(record, given, metric))
}

/// Returns panels by the keys that vary besides `but`, without empty ones, and the number of panels
/// beyond the maximum.
fn panels(
    record: &Record,
    but: &[&str],
    series: &dyn Fn(&[&Row]) -> Vec<Series>,
) -> (Vec<Panel>, usize) {
    let keys = select::varying(record, but);
    let titles = record.rows.iter().map(|row| select::described(row, &keys));
    let mut panels = Vec::new();
    for title in select::distinct(titles) {
        let is_here = |row: &&Row| select::described(row, &keys) == title;
        let rows: Vec<&Row> = record.rows.iter().filter(is_here).collect();
        let series = series(&rows);
        if !series.is_empty() {
            panels.push(Panel { title, series });
        }
    }
    let left_out = panels.len().saturating_sub(PANELS_MAX);
    panels.truncate(PANELS_MAX);
    (panels, left_out)
}

/// Returns for each name our medians, and the document's values.
fn medians(record: &Record, words: &[String], rows: &[&Row]) -> Vec<Series> {
    let asked = &record.chart;
    let is_one = asked.series == asked.x;
    let name_of = |row: &Row| match is_one {
        true => String::new(),
        false => select::named(row, &asked.series),
    };
    let names = select::distinct(record.rows.iter().map(name_of));
    let document = record.document.as_deref().unwrap_or("the document");
    let mut all = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let is_of = |row: &&&Row| name_of(row) == *name;
        let of_name: Vec<&&Row> = rows.iter().filter(is_of).collect();
        let look = Look::series(index);
        let ours = |row: &&&Row| {
            let y = select::measured(row, &asked.y)?;
            let spread = select::spread(&row.metrics[&asked.y]);
            Some(Point { x: place(row, record, words)?, y, spread, is_model: is_model(row) })
        };
        let theirs = |row: &&&Row| {
            let y = select::documented(row, &asked.y)?;
            Some(Point { x: place(row, record, words)?, y, spread: None, is_model: false })
        };
        let points = sorted(of_name.iter().copied().filter_map(|row| ours(&row)).collect());
        if !points.is_empty() {
            let name = match points.iter().all(|point| point.is_model) {
                true => format!("{name} (model)"),
                false => name.clone(),
            };
            all.push(Series { name: name.trim().to_owned(), look, is_document: false, points });
        }
        let points = sorted(of_name.iter().copied().filter_map(|row| theirs(&row)).collect());
        if !points.is_empty() {
            let name = format!("{name} in {document}").trim().to_owned();
            all.push(Series { name, look: look.of_document(), is_document: true, points });
        }
    }
    all
}

fn place(row: &Row, record: &Record, words: &[String]) -> Option<f64> {
    if words.is_empty() {
        return select::number(row, &record.chart.x);
    }
    let key = &record.chart.x;
    let names = [select::word(row, key), select::named(row, key)];
    words.iter().position(|other| names.contains(other)).map(|index| index as f64)
}

fn sorted(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

fn is_model(row: &Row) -> bool {
    row.status == Status::Model
}

/// Returns the distribution as counted, or the distribution of a metric's samples. A few samples
/// are medians of the repeats and no distribution. In that case the row's percentile metrics are
/// used, if it has any.
fn shares(row: &Row, name: &str) -> Vec<Point> {
    let point = |x: f64, y: f64| Point { x, y, spread: None, is_model: is_model(row) };
    if let Some(distribution) = row.distributions.get(name) {
        let shares = distribution.shares().into_iter().map(|(end, share)| point(end, share));
        return sorted(shares.filter(|point| point.x.is_finite()).collect());
    }
    let mut named: Vec<Point> = Vec::new();
    for (known, metric) in &row.metrics {
        if let Some(share) = percentile(known) {
            named.push(point(select::median(metric), share));
        }
    }
    if named.len() >= 2 {
        named.sort_by(|a, b| a.y.total_cmp(&b.y));
        return named;
    }
    let Some(metric) = row.metrics.get(name) else { return Vec::new() };
    let mut samples = select::finite(metric);
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let ranked = samples.iter().enumerate();
    ranked.map(|(rank, &sample)| point(sample, (rank + 1) as f64 / count)).collect()
}

/// Returns the share in a metric's name: `latency_p99_ns` is 0.99, `p999` is 0.999.
fn percentile(name: &str) -> Option<f64> {
    let digits = name.split('_').find_map(|part| {
        let digits = part.strip_prefix('p')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && digits.len() <= 6).then_some(digits)
    })?;
    if digits == "100" {
        return Some(1.0);
    }
    let share: f64 = format!("0.{digits}").parse().ok()?;
    (digits.len() >= 2).then_some(share)
}

/// Returns the label of an axis for a metric: the record's, with unit and basis added if they are
/// missing.
fn metric_label(record: &Record, given: &str, metric: &str) -> String {
    if given.is_empty() {
        return select::titled(record, metric);
    }
    let unit = select::unit(record, metric);
    let (plain, basis) = unit.split_once(", ").unwrap_or((unit.as_str(), ""));
    let has = |words: &str| words.split(' ').all(|word| given.contains(word));
    match (has(plain), has(basis)) {
        (true, true) => given.to_owned(),
        (true, false) => format!("{given} ({basis})"),
        _ => format!("{given} ({unit})"),
    }
}

/// Describes a chart in words, for screen readers.
pub(crate) fn in_words(axes: &Axes, panel: &Panel) -> String {
    let end = |series: &Series| -> Option<String> {
        let (first, last) = (series.points.first()?, series.points.last()?);
        let at = |point: &Point| match axes.words.get(point.x as usize) {
            Some(word) => word.clone(),
            None => numbers::tick(point.x),
        };
        let name = if series.name.is_empty() { "values" } else { &series.name };
        let (from, to) = (numbers::value(first.y), numbers::value(last.y));
        Some(match series.points.len() {
            1 => format!("{name}: {from} at {}", at(first)),
            count => {
                format!("{name}: {from} at {} to {to} at {}, {count} points", at(first), at(last))
            }
        })
    };
    let lines: Vec<String> = panel.series.iter().filter_map(end).collect();
    format!("{} over {}. {}.", axes.y_label, axes.x_label, lines.join("; "))
}

/// Describes shares of a total in words.
pub(crate) fn shares_in_words(axes: &Axes, panel: &Panel) -> String {
    let up_to = |series: &Series, share: f64| {
        let point = series.points.iter().find(|point| point.y >= share);
        point.map_or("n/a".to_owned(), |point| numbers::value(point.x))
    };
    let line = |series: &Series| {
        let [half, most, all] = [0.5, 0.99, 1.0].map(|share| up_to(series, share));
        format!("{}: 50 % up to {half}, 99 % up to {most}, all up to {all}", series.name)
    };
    let lines: Vec<String> = panel.series.iter().map(line).collect();
    format!("{} of {}. {}.", axes.y_label, axes.x_label, lines.join("; "))
}
