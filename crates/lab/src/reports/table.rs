//! Creates a record's tables: its metrics with the document's values, stages, and a summary of all
//! samples. A table consists of texts; `html` and `markdown` format it.

use std::fmt::Write;

use crate::record::{Interface, Metric, Record, Row, Status};
use crate::statistics::Quartiles;

use super::accounts::{self, Account};
use super::escape;
use super::numbers;
use super::select::{self, CONTENDER};

/// Metrics that come first after the chart's own, if a record has them.
const PREFERRED: [&str; 7] =
    ["mpps", "line_gbps", "line_percent", "rho", "cpu_ns", "lost", "lost_percent"];
/// Maximum number of metrics in the first table, apart from the document's.
const METRICS_MAX: usize = 6;
/// Maximum number of rows in a table; the chart and the CSV have the whole curve.
const ROWS_MAX: usize = 80;

/// Number of functions shown per row.
const SYMBOLS_MAX: usize = 5;

/// A table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The caption.
    pub(super) caption: String,
    /// Column headers.
    pub(super) head: Vec<Column>,
    /// Rows with a cell per column. The first is the row's header.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A column's header.
#[derive(Debug)]
pub(super) struct Column {
    text: String,
    is_word: bool,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    small: String,
    is_said: bool,
}

impl Column {
    /// Creates a column of words, aligned left.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_word: true }
    }

    /// Creates a column of numbers, aligned right.
    pub(super) fn numbers(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_word: false }
    }
}

impl Cell {
    /// Creates a plain cell.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a cell with a second, smaller line.
    pub(super) fn with_small(text: String, small: String) -> Self {
        Self { text, small, is_said: false }
    }

    /// Creates a cell with a document's value.
    fn said(value: Option<f64>) -> Self {
        let text = value.map_or_else(String::new, numbers::value);
        Self { text, is_said: true, ..Self::default() }
    }

    /// Creates a cell for a metric: its median, with the range of its samples below.
    fn measured(metric: &Metric) -> Self {
        let range = |(least, most): (f64, f64)| {
            let [least, most] = [least, most].map(numbers::value);
            (least != most).then(|| format!("{least} to {most}"))
        };
        let small = select::spread(metric).and_then(range).unwrap_or_default();
        Self::with_small(numbers::value(select::median(metric)), small)
    }
}

impl Table {
    /// Returns an HTML element, in a box that scrolls if the screen is too narrow.
    pub(super) fn html(&self) -> String {
        let caption = escape::html(&self.caption);
        let mut text = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n\
             <table><thead><tr>"
        );
        for column in &self.head {
            let class = if column.is_word { " class=\"word\"" } else { "" };
            let head = escape::html(&column.text);
            // Writing to a string cannot fail, here and below.
            let _ = write!(text, "<th scope=\"col\"{class}>{head}</th>");
        }
        text.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for (index, cell) in row.iter().enumerate() {
                let is_word = self.head.get(index).is_some_and(|column| column.is_word);
                cell.write_html(&mut text, index == 0, is_word);
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
        text
    }

    /// Returns a Markdown table.
    pub(super) fn markdown(&self) -> String {
        let heads = self.head.iter().map(|column| escape::markdown(&column.text));
        let mut text = line_of(heads);
        let rules = self.head.iter().map(|column| if column.is_word { "---" } else { "---:" });
        text += &line_of(rules.map(str::to_owned));
        for row in &self.rows {
            text += &line_of(row.iter().map(|cell| match cell.small.as_str() {
                "" => escape::markdown(&cell.text),
                small => escape::markdown(&format!("{} ({small})", cell.text)),
            }));
        }
        text
    }
}

impl Cell {
    fn write_html(&self, text: &mut String, is_first: bool, is_word: bool) {
        let content = escape::html(&self.text);
        let small = match self.small.as_str() {
            "" => String::new(),
            small => format!("<small>{}</small>", escape::html(small)),
        };
        let _ = match (is_first, self.is_said, is_word) {
            (true, ..) => write!(text, "<th scope=\"row\">{content}{small}</th>"),
            (_, true, _) => write!(text, "<td class=\"said\">{content}{small}</td>"),
            (_, _, true) => write!(text, "<td class=\"word\">{content}{small}</td>"),
            _ => write!(text, "<td>{content}{small}</td>"),
        };
    }
}

fn line_of(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the main table: the chart's metric, those of the document, and the usual ones.
pub(super) fn figures(record: &Record) -> Table {
    let keys = select::keys(record);
    let metrics = main_metrics(record);
    let document = record.document.as_deref().unwrap_or("document");
    let has_losses = record.rows.iter().any(|row| !row.losses.is_empty());
    let mut head = vec![Column::words(CONTENDER)];
    let is_numeric = |key: &&str| record.rows.iter().all(|r| select::number(r, key).is_some());
    for key in &keys {
        let text = select::plain(key);
        head.push(if is_numeric(key) { Column::numbers(text) } else { Column::words(text) });
    }
    for (metric, is_said) in &metrics {
        head.push(Column::numbers(select::titled(record, metric)));
        if *is_said {
            head.push(Column::numbers(format!("{} in {document}", select::plain(metric))));
        }
    }
    if has_losses {
        head.push(Column::words("lost in all turns, by place"));
    }
    let has_distances = record.rows.iter().any(|row| row.distance_ns.is_some());
    if has_distances {
        head.push(Column::words("cores apart"));
    }
    let row = |row: &Row| {
        let mut cells = vec![Cell::new(row.contender.as_str())];
        cells.extend(keys.iter().map(|key| Cell::new(select::word(row, key))));
        for (metric, is_said) in &metrics {
            cells.push(figure(row, metric, metric == &record.chart.y));
            if *is_said {
                cells.push(Cell::said(select::documented(row, metric)));
            }
        }
        if has_losses {
            cells.push(Cell::new(losses(row)));
        }
        if has_distances {
            cells.push(Cell::new(row.distance_ns.map_or(String::new(), |apart| apart.to_string())));
        }
        cells
    };
    let (rows, left_out) = thinned(&record.rows);
    let mut caption = format!("{}: medians, below them the smallest and the largest", record.title);
    if left_out > 0 {
        let _ = write!(caption, "; {left_out} more rows are in the record");
    }
    Table { caption, head, rows: rows.into_iter().map(row).collect() }
}

/// Returns each account of the CPU time with its caption: rho of each stage, with its share of a
/// core below.
pub(super) fn stages(record: &Record) -> Vec<(&'static str, Table)> {
    let with_caption = |account: &Account<'_>| (account.caption, account_table(record, account));
    accounts::of(record).iter().map(with_caption).collect()
}

fn account_table(record: &Record, account: &Account<'_>) -> Table {
    let keys = select::varying(record, &[CONTENDER]);
    let names = &account.names;
    let is_of = |row: &&Row| row.stages.iter().any(|stage| names.contains(&stage.name.as_str()));
    let row = |row: &Row| {
        let at = select::described(row, &keys);
        let mut cells = vec![Cell::new(row.contender.as_str()), Cell::new(at)];
        cells.extend(names.iter().map(|name| {
            let stage = row.stages.iter().find(|stage| stage.name == *name);
            stage.map_or_else(Cell::default, |stage| {
                let share = format!("{} %", numbers::value(stage.cpu_percent));
                Cell::with_small(numbers::value(stage.rho), share)
            })
        }));
        cells
    };
    let rows = record.rows.iter().filter(is_of).take(ROWS_MAX).map(row).collect();
    let words = [CONTENDER, "at"].map(Column::words).into_iter();
    let head = words.chain(names.iter().map(|name| Column::numbers(*name))).collect();
    let caption = format!("{}: {}, below it per cent of a core", record.title, account.caption);
    Table { caption, head, rows }
}

/// Returns what ran, by samples: the most frequent functions.
pub(super) fn symbols(record: &Record) -> Option<Table> {
    let keys = select::varying(record, &[CONTENDER]);
    let mut rows = Vec::new();
    for row in &record.rows {
        for (index, symbol) in row.symbols.iter().take(SYMBOLS_MAX).enumerate() {
            let mut cells = vec![Cell::default(), Cell::default()];
            if index == 0 {
                let at = select::described(row, &keys);
                cells = vec![Cell::new(row.contender.as_str()), Cell::new(at)];
            }
            cells.push(Cell::new(numbers::value(symbol.cpu_percent)));
            cells.push(Cell::new(symbol.name.as_str()));
            rows.push(cells);
        }
    }
    rows.truncate(ROWS_MAX);
    let head = vec![
        Column::words(CONTENDER),
        Column::words("at"),
        Column::numbers("% of a core"),
        Column::words("function"),
    ];
    let caption = format!("{}: what ran, by samples", record.title);
    (!rows.is_empty()).then_some(Table { caption, head, rows })
}

/// Returns every metric of every row, with quartiles and the number of samples.
pub(super) fn everything(record: &Record) -> Table {
    let keys = select::keys(record);
    let mut rows = Vec::new();
    for row in thinned(&record.rows).0 {
        for (name, metric) in &row.metrics {
            let samples = select::finite(metric);
            let quartiles = (!samples.is_empty()).then(|| Quartiles::of(&samples));
            let value = |value: Option<f64>| Cell::new(value.map_or(String::new(), numbers::value));
            rows.push(vec![
                Cell::new(row.contender.as_str()),
                Cell::new(select::described(row, &keys)),
                Cell::new(select::plain(name)),
                Cell::new(select::unit(record, name)),
                value(quartiles.map(|quartiles| quartiles.first)),
                value(Some(select::median(metric))),
                value(quartiles.map(|quartiles| quartiles.third)),
                Cell::new(samples.len().to_string()),
            ]);
        }
    }
    let words = [CONTENDER, "at", "figure", "unit"].map(Column::words);
    let numbers = ["first quartile", "median", "third quartile", "samples"].map(Column::numbers);
    let head = words.into_iter().chain(numbers).collect();
    Table { caption: format!("{}: every figure", record.title), head, rows }
}

/// Returns the contenders with their commands.
pub(super) fn contenders(record: &Record) -> Table {
    let row = |contender: &crate::record::ContenderInfo| {
        let command = match &contender.not_run {
            Some(why) => format!("not run: {why}"),
            None => contender.command.clone(),
        };
        let pages = record.pages_of(&contender.name).unwrap_or_default();
        let words = [contender.name.clone(), contender.version.clone(), pages, command];
        words.map(Cell::new).to_vec()
    };
    let head = [CONTENDER, "version", "pages", "command"].map(Column::words).into_iter().collect();
    let caption = format!("{}: who took part", record.title);
    Table { caption, head, rows: record.contenders.iter().map(row).collect() }
}

/// Returns the interfaces that packets used; `None` if all was in memory.
pub(super) fn interfaces(record: &Record) -> Option<Table> {
    let row = |interface: &Interface| {
        let device = interface.device.clone().unwrap_or_else(|| "software".to_owned());
        let node = interface.node.map_or(String::new(), |node| format!(", node {node}"));
        let words = [
            format!("{} ({})", interface.name, interface.host),
            format!("{}, {device}{node}", interface.driver),
            format!("{} and {}", interface.receive_queues, interface.transmit_queues),
            interface.steered_to.clone(),
            interface.served_by.clone(),
        ];
        words.map(Cell::new).to_vec()
    };
    let head = ["interface", "driver, device", "queues in and out", "RPS", "served by"];
    let head = head.map(Column::words).into_iter().collect();
    let caption = format!("{}: interfaces", record.title);
    let rows: Vec<_> = record.interfaces.iter().map(row).collect();
    (!rows.is_empty()).then_some(Table { caption, head, rows })
}

/// Returns the reasons why rows have no metrics, each once.
pub(super) fn reasons(record: &Record) -> Vec<String> {
    let of_row = |row: &Row| {
        let why = select::not_run(row)?;
        Some(format!("{}: not run because {why}", row.contender))
    };
    select::distinct(record.rows.iter().filter_map(of_row))
}

/// Returns the metrics of the first table, and whether the document has a value for each.
fn main_metrics(record: &Record) -> Vec<(String, bool)> {
    let said = record.rows.iter().filter_map(|row| row.document.as_ref());
    let said = select::distinct(said.flat_map(|figures| figures.keys().map(String::as_str)));
    let all = select::metrics(record);
    let mut chosen: Vec<&str> = vec![&record.chart.y];
    chosen.extend(&said);
    let usual = PREFERRED.iter().copied().chain(all.iter().copied());
    for metric in usual.filter(|metric| all.contains(metric)) {
        if select::distinct(chosen.iter()).len() >= METRICS_MAX {
            break;
        }
        chosen.push(metric);
    }
    let chosen = select::distinct(chosen.into_iter());
    let chosen = chosen.into_iter().filter(|m| all.contains(m) || said.contains(m));
    chosen.map(|metric| (metric.to_owned(), said.contains(&metric))).collect()
}

fn figure(row: &Row, metric: &str, is_main: bool) -> Cell {
    match (row.metrics.get(metric), &row.status) {
        (Some(metric), Status::Model) => {
            let cell = Cell::measured(metric);
            Cell { small: "model".to_owned(), ..cell }
        }
        (Some(metric), _) => Cell::measured(metric),
        (None, Status::NotRun(_)) if is_main => Cell::new("not run"),
        (None, _) => Cell::default(),
    }
}

fn losses(row: &Row) -> String {
    let place =
        |(name, count): (&String, &u64)| format!("{name} {}", numbers::value(*count as f64));
    row.losses.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// Returns at most [`ROWS_MAX`] rows, evenly selected, and the number left out.
fn thinned(rows: &[Row]) -> (Vec<&Row>, usize) {
    let every = rows.len().div_ceil(ROWS_MAX).max(1);
    let kept: Vec<&Row> = rows.iter().step_by(every).collect();
    let left_out = rows.len() - kept.len();
    (kept, left_out)
}
