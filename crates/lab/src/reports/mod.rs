//! Formats records as reports: one page for people, and tables for programs.
//!
//! ```text
//!   folder of *.json -- collect --> Collection --> html      one file: summary, charts, tables
//!                                       |    |
//!                                       |    +---> markdown, csv, files (a chart each)
//!                                       v
//!              select: what varies, medians   drawn: which pictures   table: rows and cells
//!                                                  |
//!                                 chart, accounts: their contents, computed once
//!                                                  |
//!                                 lines, bars, heat (axes, canvas, svg, style)
//! ```
//!
//! A report depends only on records, not on the clock or the machine that creates it. The same
//! program makes the same report of them, byte for byte.
//!
//! Invariants:
//! - P1: all text of a record is escaped for its destination. The page runs no script and fetches
//!   nothing, and its policy enforces that in the browser.
//! - P2: medians are computed from the samples; a metric without samples is shown as recorded.
//! - P3: no record makes it panic. A file that cannot be read is listed, and a chart that cannot be
//!   drawn is described in words.

mod accounts;
mod charts;
mod collect;
mod csv;
mod escape;
pub mod figures;
mod files;
mod html;
mod markdown;
pub(crate) mod numbers;
mod select;
mod summary;
mod table;

use charts::{axes, bars, canvas, chart, drawn, heat, lines, style, svg};

pub use collect::{Collection, Entry, ReportError};
pub use files::ChartFile;

/// Formats the report as one HTML file.
pub fn html(collection: &Collection) -> String {
    html::page(collection)
}

/// Formats the report in Markdown, without charts.
pub fn markdown(collection: &Collection) -> String {
    markdown::page(collection, false)
}

/// Formats the report in Markdown, with links to the files of [`charts`] in the same folder.
pub fn markdown_beside_charts(collection: &Collection) -> String {
    markdown::page(collection, true)
}

/// Formats all metrics as CSV, with a header line.
pub fn csv(collection: &Collection) -> String {
    csv::table(collection)
}

/// Draws each chart as a separate file.
pub fn charts(collection: &Collection) -> Vec<ChartFile> {
    files::all(collection)
}
