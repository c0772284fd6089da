//! What is wrong with a table of claims.

use super::{Document, Status};

/// Where ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A figure of `make bench`.
    Figure(&'a str),
    /// A record of `burstline lab run`.
    Scenario(&'a str),
    /// What the command prints.
    Printed,
    /// A file of the sources: a test.
    File(&'a str),
}

impl<'a> Place<'a> {
    /// Reads `figure NAME`, `scenario NAME`, `printed` or `file PATH`.
    pub fn parse(text: &'a str) -> Option<Self> {
        match text.split_once(' ') {
            None if text == "printed" => Some(Self::Printed),
            Some(("figure", name)) => Some(Self::Figure(name)),
            Some(("scenario", name)) => Some(Self::Scenario(name)),
            Some(("file", path)) => Some(Self::File(path)),
            _ => None,
        }
    }
}

/// Everything that is wrong, a sentence each. `exists` says whether there is such a place, and
/// `runs` whether a command is one that this program, or its Makefile, understands.
pub fn faults(
    documents: &[Document],
    exists: &dyn Fn(Place) -> bool,
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
        let is_run = !matches!(claim.status, Status::NotRun(_));
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
            Some(_) => {}
        }
    }
    faults
}
