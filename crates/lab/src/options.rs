//! Parses the command line of `bench`.

use std::path::PathBuf;

/// The usage message.
pub const USAGE: &str = "usage: bench [FIGURE-GLOB...] [--smoke] [--full] [--runs N] [--json]
             [--out DIR] [--list]
       bench --table DIR [--table DIR...] [--into FILE]
  FIGURE-GLOB  figures to measure, such as 'handoff*' (default: all)
  --smoke      tiny sizes: check that all sides run and agree; no figures
  --full       long live runs: captures of 60 s, 100 starts after 10 s of silence,
               extract from 10 GB; and figures that otherwise run only if named:
               guest-iperf-ovs-dpdk
  --runs N     measured runs per side, 1-1000 (default 9)
  --json       prints the record of each figure as one line of JSON (docs/records.md)
  --out DIR    writes the record of each figure to DIR/NAME.json, with all samples; below the
               repository's runs only if all code is committed
  --list       prints the names of all figures and exits
  --table DIR  measures nothing: prints a Markdown table of the records in DIR; with several
               folders, e.g. of several machines, each processor has its columns
  --into FILE  with --table: replaces the table in FILE";

/// Default number of measured runs per side.
const RUNS: usize = 9;

/// The parsed options, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Patterns of figure names; a figure is selected if any matches. Empty means all.
    pub patterns: Vec<String>,
    /// Run with tiny sizes and report no figures.
    pub smoke: bool,
    /// Also make the long live runs.
    pub full: bool,
    /// Measured runs per side, in `[1, 1000]`.
    pub runs: usize,
    /// Print JSON Lines instead of text.
    pub json: bool,
    /// Folder for the records, if any.
    pub out: Option<PathBuf>,
    /// Only list the figures.
    pub list: bool,
    /// If not empty, only make a table of the records in these folders.
    pub tables: Vec<PathBuf>,
    /// File for the table.
    pub into: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments, without the program name. The error is a sentence for the user.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let (patterns, runs) = (Vec::new(), RUNS);
        let (smoke, full, json, list, out) = (false, false, false, false, None);
        let (tables, into) = (Vec::new(), None);
        let mut options = Self { patterns, smoke, full, runs, json, out, list, tables, into };
        let path = |value: Option<String>, problem: &str| {
            let path = value.filter(|path| !path.is_empty()).map(PathBuf::from);
            path.ok_or_else(|| problem.to_owned())
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--smoke" => options.smoke = true,
                "--full" => options.full = true,
                "--json" => options.json = true,
                "--list" => options.list = true,
                "--out" => options.out = Some(path(arguments.next(), "--out takes a folder")?),
                "--table" => {
                    options.tables.push(path(arguments.next(), "--table takes a folder")?);
                }
                "--into" => options.into = Some(path(arguments.next(), "--into takes a file")?),
                "--runs" => {
                    let value = arguments.next().unwrap_or_default();
                    let runs = value.parse().ok().filter(|runs| (1..=1000).contains(runs));
                    options.runs =
                        runs.ok_or(format!("--runs `{value}` is not a number in [1, 1000]"))?;
                }
                flag if flag.starts_with('-') => return Err(format!("unknown option `{flag}`")),
                _ => options.patterns.push(argument),
            }
        }
        Ok(options)
    }

    /// Returns whether the figure is selected. Without a pattern, a long figure is selected only
    /// with `--full` or in a list.
    pub fn wants(&self, figure: &str, is_long: bool) -> bool {
        (self.patterns.is_empty() && (!is_long || self.full || self.list))
            || self.patterns.iter().any(|pattern| crate::glob::matches(pattern, figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_patterns_mix() {
        let options = parse("handoff* --runs 7 --json --full count*").unwrap();
        assert_eq!((options.runs, options.json, options.smoke), (7, true, false));
        assert!(options.full && !parse("").unwrap().full);
        assert!(options.wants("handoff-60", false) && options.wants("count-file-tcpdump", true));
        assert!(!options.wants("append-latency", false));
        assert!(parse("").unwrap().wants("append-latency", false));
        for (line, is_wanted) in
            [("", false), ("--smoke", false), ("--full", true), ("--list", true)]
        {
            assert_eq!(parse(line).unwrap().wants("guest-iperf", true), is_wanted, "{line}");
        }
        let folder = parse("--out runs/figures x").unwrap();
        assert_eq!((folder.out, parse("").unwrap().out), (Some("runs/figures".into()), None));
        let tables = parse("--table a --table b --into c.md").unwrap();
        assert_eq!((tables.tables.len(), tables.into), (2, Some("c.md".into())));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parse("--fast").unwrap_err(), "unknown option `--fast`");
        assert_eq!(parse("x --out").unwrap_err(), "--out takes a folder");
        for wrong in ["--runs", "--runs 0", "--runs x", "--runs 1001"] {
            assert!(parse(wrong).unwrap_err().ends_with("is not a number in [1, 1000]"), "{wrong}");
        }
    }
}
