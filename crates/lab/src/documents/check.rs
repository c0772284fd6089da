//! Checks the table of claims for faults.

use super::{Claim, Document, Standing};

/// What makes the records of a billion frames: `NAME-billion` for the scenario NAME.
const BILLION: &str = "make billion";

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
                        for what in of_record(claim, place, is_recorded) {
                            fault(what);
                        }
                    }
                    _ if !claim.rows.is_empty() => {
                        fault(format!("it names rows, but is {}", claim.status));
                    }
                    _ => {}
                }
            }
        }
    }
    faults
}

/// Returns the faults of a claim that was run: its command makes its record, which has all rows.
fn of_record(
    claim: &Claim,
    place: Place,
    is_recorded: &dyn Fn(Place, &str) -> bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    if !makes(claim, place) {
        faults.push(format!("`{}` does not make its record, {}", claim.command, claim.ours));
    }
    if claim.rows.is_empty() {
        faults.push(format!("it names no row of {}: what does it need?", claim.ours));
    }
    let is_quantity = |word: &str| word.starts_with("metric=") || word.starts_with("stage=");
    let vague = claim.rows.iter().filter(|row| !row.split(' ').any(is_quantity));
    faults.extend(vague.map(|row| format!("`{row}` names no metric and no stage")));
    let missing = claim.rows.iter().filter(|row| !is_recorded(place, row));
    faults.extend(missing.map(|row| format!("no committed record of {} has `{row}`", claim.ours)));
    faults
}

/// Returns whether a claim's command makes the record that it names.
fn makes(claim: &Claim, place: Place) -> bool {
    let command = claim.command.as_str();
    match place {
        Place::Figure(name) => command == format!("make bench FIGURE={name}"),
        Place::Scenario(name) => {
            let record = format!("record={name}-billion");
            let is_billion = |row: &String| row.split(' ').any(|word| word == record);
            match claim.rows.iter().any(is_billion) {
                true => command == BILLION,
                false => command.split(' ').take(4).eq(["burstline", "lab", "run", name]),
            }
        }
        Place::Printed | Place::File(_) => true,
    }
}
