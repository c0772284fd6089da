//! `burstline lab report` and `burstline lab documents`.

use std::path::PathBuf;

use clap::Args;

const REPORT_EXAMPLES: &str = "\
Examples:
  burstline lab report runs/today                        runs/today/report.html
  burstline lab report runs/today -o - > page.html       to standard output
  burstline lab report runs/today --csv figures.csv --markdown report.md
  burstline lab report runs/today --charts pictures      pictures/numa-rtc.svg ..., for a README

The page is one file: it loads nothing, runs no script, fits a phone and a printed page, and
contains its records. Medians are computed from the raw samples. The report needs only the records,
so it can be made again anywhere, years later.";

const DOCUMENTS_EXAMPLES: &str = "\
Examples:
  burstline lab documents                                what can be run here, and what cannot
  burstline lab documents --markdown --records runs > docs/documents.md
  burstline lab documents --json | jq -r '.claims[] | select(.status != \"run\") | .id'

Documents: D0 Wang, He, Wang: Comparison of High-Performance Packet Processing Frameworks on NUMA.
D1 ntop: Benchmarking PF_RING DNA. D2 Bi, Wang: DPDK-based Improvement of Packet Forwarding.
D3 Napatech: Does it matter if packet bursts are contiguous or scattered? D4 Wu and others:
Understanding the Performance of DPDK as a Computer Architect.";

/// Make one page from all records in a folder, and tables on request
///
/// A file that is not a record is named on standard error and in the page.
#[derive(Debug, Args)]
#[command(name = "report", after_long_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Where the records are: *.json as written by lab run
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,

    /// The page; - is standard output [default: DIR/report.html]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The same in Markdown; it shows the charts if it is in the folder of --charts
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// A folder for charts, one SVG file each: DIR/NAME.svg; created if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,

    /// Write every figure with its samples as CSV, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
}

impl ReportArgs {
    /// Returns where the page is written.
    pub(crate) fn page(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| self.folder.join("report.html"))
    }
}

/// List every figure and claim of the five founding documents, and where it is shown here
///
/// Each has a command of this program, or the reason why it cannot be run. A note says where the
/// document itself is wrong.
#[derive(Debug, Args)]
#[command(name = "documents", after_long_help = DOCUMENTS_EXAMPLES)]
pub(crate) struct DocumentsArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Print Markdown, as in docs/documents.md
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,

    /// Mark claims whose records in the folders of DIR are older than the code of this program
    #[arg(long, value_name = "DIR", requires = "markdown")]
    pub(crate) records: Option<PathBuf>,
}
