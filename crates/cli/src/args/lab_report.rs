//! `burstline lab report` and `burstline lab documents`.

use std::path::PathBuf;

use clap::Args;

const REPORT_EXAMPLES: &str = "\
Examples:
  burstline lab report runs/today                        runs/today/report.html
  burstline lab report runs/today -o - > page.html       to standard output
  burstline lab report runs/today --csv figures.csv --markdown report.md
  burstline lab report runs/today --charts pictures      pictures/numa-rtc.svg ..., for a README

The page is one file: it fetches nothing and runs no script, is as readable on a phone as on paper,
and carries the records it was made of. Medians are made anew from the raw samples; nothing else
than the records is looked at, so a report can be made again anywhere, years later.";

const DOCUMENTS_EXAMPLES: &str = "\
Examples:
  burstline lab documents                                what can be run here, and what cannot
  burstline lab documents --markdown > docs/documents.md
  burstline lab documents --json | jq -r '.claims[] | select(.status != \"run\") | .id'

Documents: D0 Wang, He, Wang: Comparison of High-Performance Packet Processing Frameworks on NUMA.
D1 ntop: Benchmarking PF_RING DNA. D2 Bi, Wang: DPDK-based Improvement of Packet Forwarding.
D3 Napatech: Does it matter if packet bursts are contiguous or scattered? D4 Wu and others:
Understanding the Performance of DPDK as a Computer Architect.";

/// Make one page of all records in a folder, and tables if asked for
///
/// A file that is no record is named on standard error and in the page; the others are reported.
#[derive(Debug, Args)]
#[command(name = "report", after_long_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Where the records are: *.json as written by lab run
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,

    /// The page; - is standard output [default: DIR/report.html]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The same in Markdown; with charts where it is in the folder of --charts
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// A folder for charts, each an SVG file of its own: DIR/NAME.svg; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,

    /// Every figure with its samples, a line each
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
}

/// List every figure and claim of the five founding documents, and where it is shown here
///
/// Each has a command of this program, or says why it cannot be run; and a note where the document
/// itself cannot be right.
#[derive(Debug, Args)]
#[command(name = "documents", after_long_help = DOCUMENTS_EXAMPLES)]
pub(crate) struct DocumentsArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Print Markdown, as in docs/documents.md
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
}
