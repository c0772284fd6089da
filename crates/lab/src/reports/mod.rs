//! Reports: records as one page for people, and as tables for other programs.
//!
//! ```text
//!   folder of *.json -- collect --> Collection --> html      one file: summary, charts, tables
//!                                       |    |
//!                                       |    +---> markdown, csv, files (a chart each)
//!                                       v
//!              select: what varies, medians   drawn: which pictures   table: what is listed
//!                                                  |
//!                                 chart, accounts: what they show, worked out once
//!                                                  |
//!                                 lines, bars, heat (axes, canvas, svg, style)
//! ```
//!
//! A report is made of records and of nothing else: no clock, no machine it is made on. The same
//! records make the same report, byte for byte, today and on another machine.
//!
//! Invariants:
//! - P1: everything from a record is escaped for its place. The page runs no script and fetches
//!   nothing, and its policy tells the browser so.
//! - P2: medians are made anew from the samples; a figure without samples is shown as recorded.
//! - P3: no record makes it panic. What cannot be read is named in a line, what cannot be drawn is
//!   said in words.

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

/// The report as one HTML file.
pub fn html(collection: &Collection) -> String {
    html::page(collection)
}

/// The report in Markdown, without charts.
pub fn markdown(collection: &Collection) -> String {
    markdown::page(collection, false)
}

/// The report in Markdown, with the charts of [`charts`], whose files lie in the same folder.
pub fn markdown_beside_charts(collection: &Collection) -> String {
    markdown::page(collection, true)
}

/// All figures as CSV, with a header line.
pub fn csv(collection: &Collection) -> String {
    csv::table(collection)
}

/// Each chart as its own file.
pub fn charts(collection: &Collection) -> Vec<ChartFile> {
    files::all(collection)
}
