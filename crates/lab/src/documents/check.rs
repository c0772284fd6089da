//! Checks the table of claims for faults.

use super::{Document, Standing};

/// Where our result is stored or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// A figure of `make bench`.
    Figure(&'a str),
    /// A record of `burstline lab run`.
    Scenario(&'a str),
    /// The output of the command.
    Printed,
    /// A source file: a test.
    File(&'a str),
}

impl<'a> Place<'a> {
    /// Reads `figure NAME`, `scenario NAME`, `printed` or `file PATH`.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        match text.split_once(' ') {
            None if text == "printed" => Some(Self::Printed),
            Some(("figure", name)) => Some(Self::Figure(name)),
            Some(("scenario", name)) => Some(Self::Scenario(name)),
            Some(("file", path)) => Some(Self::File(path)),
            _ => None,
        }
    }
}

/// Returns all faults, a sentence each. `exists` tells whether a place exists, and `is_recorded`
/// whether a committed record of it has run the row. `runs` tells whether this program or the
/// Makefile accepts a command.
pub(super) fn faults(
    documents: &[Document],
    exists: &dyn Fn(Place) -> bool,
    is_recorded: &dyn Fn(Place, &str) -> bool,
    runs: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (document, claim) in documents.iter().flat_map(|d| d.claims.iter().map(move |c| (d, c))) {
        let mut fault = |what: String| faults.push(format!("{}: {what}", claim.id));
        let prefix = format!("{}-", document.id.to_lowercase());
        if !claim.id.starts_with(&prefix) {
            fault(format!("its name does not begin with {prefix}"));
        }
        if names.contains(&claim.id.as_str()) {
            fault("another claim has this name, too".to_owned());
        }
        names.push(&claim.id);
        if claim.claim.is_empty() {
            fault("it claims nothing".to_owned());
        }
        let is_run = !matches!(claim.status, Standing::NotRun(_));
        if is_run && (claim.command.is_empty() || claim.ours.is_empty()) {
            fault(format!("status {} without a command and a place", claim.status));
        }
        if !claim.command.is_empty() && !runs(&claim.command) {
            fault(format!("there is no such command: {}", claim.command));
        }
        match Place::parse(&claim.ours) {
            _ if claim.ours.is_empty() => {}
            None => fault(format!("`{}`: figure, scenario, file or printed", claim.ours)),
            Some(place) if !exists(place) => fault(format!("there is no {}", claim.ours)),
            Some(place) => {
                let is_of_records = matches!(place, Place::Figure(_) | Place::Scenario(_));
                match claim.status {
                    Standing::Run if !is_of_records => {
                        fault(format!("`{}` has no record: it is shown, not run", claim.ours));
                    }
                    Standing::Shown if is_of_records => {
                        fault(format!("`{}` has a record: it is run, not shown", claim.ours));
                    }
                    Standing::Run => {
                        let any = [String::new()];
                        let rows = if claim.rows.is_empty() { &any[..] } else { &claim.rows };
                        for row in rows.iter().filter(|row| !is_recorded(place, row)) {
                            fault(format!("no committed record of {} has `{row}`", claim.ours));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    faults
}
