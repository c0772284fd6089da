//! `burstline query`.

use std::net::IpAddr;
use std::path::PathBuf;

use burstline_sys::users::Account;
use clap::Args;

use crate::args::moment::{Moment, moment};
use crate::args::values;

const EXAMPLES: &str = "\
Examples:
  burstline query top-talkers flows/
  burstline query 'SELECT protocol, sum(bytes) AS bytes FROM flows GROUP BY ALL' flows/
  burstline query who-talked-to flows/ --address 10.0.0.7 --from 2026-11-25T14:00:00Z --csv
  burstline query rates flows/ --json | jq '.rows[]'
  burstline query scan flows/ --show > mine.sql       the SQL of a ready question

Ready questions: top-talkers, losses, scan, who-talked-to (with --address), rates.

DuckDB, a Python package, runs the queries: scripts/setup query installs it. BURSTLINE_PYTHON names
the python3 that has it. The SQL sees one view, flows, whose columns docs/flows.md explains, and
date, hour and sensor of the folders. It reads this tree and writes nothing.

Exit code: 0 answered; 1 failed, also for wrong SQL; 2 usage.";

/// Query a tree of flow records, by SQL or a ready question
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct QueryArgs {
    /// A SELECT over `flows`, or the name of a ready question
    #[arg(value_name = "SQL")]
    pub(crate) question: String,

    /// The folder that burstline flows writes
    #[arg(value_name = "TREE", value_hint = clap::ValueHint::DirPath)]
    pub(crate) tree: PathBuf,

    /// The address that who-talked-to asks about
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<IpAddr>,

    /// Only records that ended at this time or later: seconds since 1970, or a date
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<u64>,

    /// Only records that began before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) to: Option<u64>,

    /// Print at most N rows of a ready question or a table
    #[arg(long, value_name = "N", default_value = "100", value_parser = values::packets)]
    pub(crate) limit: u64,

    /// Print comma-separated values, RFC 4180
    #[arg(long, conflicts_with_all = ["json", "chart"])]
    pub(crate) csv: bool,

    /// Print one JSON object instead of text
    #[arg(long, conflicts_with = "chart")]
    pub(crate) json: bool,

    /// Draw a bar for each row, as long as its value in COLUMN; ready questions have one
    #[arg(long, value_name = "COLUMN")]
    pub(crate) chart: Option<String>,

    /// Print the SQL of a ready question without running it
    #[arg(long, conflicts_with_all = ["csv", "json", "chart"])]
    pub(crate) show: bool,

    /// Become USER, with USER's groups, before the tree is read; needs root. Without it root's
    /// query becomes nobody, to whom the tree is lent
    #[arg(
        short = 'Z',
        long = "relinquish-privileges",
        visible_alias = "user",
        value_name = "USER"
    )]
    #[arg(value_parser = values::account)]
    pub(crate) successor: Option<Account>,
}

fn time(text: &str) -> Result<u64, String> {
    match moment(text)? {
        Moment::At(ns) => Ok(ns),
        Moment::After(_) => Err("a tree has no first packet; give seconds since 1970, or a date \
             (2026-11-21T21:44:01Z)"
            .to_owned()),
    }
}
