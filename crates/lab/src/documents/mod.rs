//! The claims of the five founding documents, and where each is shown here.
//!
//! ```text
//!   crates/lab/documents/d0-numa.toml ...   one file a document: data, part of the program
//!             |
//!       all()  --> check (tests)            every row has a status; names and paths exist
//!             \--> view                     text, Markdown, JSON
//! ```
//!
//! The documents' machines are not available, so a claim is never "confirmed". It has a command
//! that does the same work here, and the record or figure with the result. A claim that cannot be
//! run has a reason. Figures that a document cannot have measured as printed are marked, so no one
//! tries to reach a misprint.
//!
//! Invariants:
//! - T1: each claim has a unique name and a status. Unless the status is `not run`, it has a
//!   command and the place of our result.
//! - T3: `run`: committed records have each row that it names, with the metric or stage that the
//!   claim is about, and its command makes its record. `shown`: a command prints it or a test
//!   asserts it.
//! - T2: all named figures, scenarios, make targets, paths and verbs exist; a test fails otherwise.

#[cfg(test)]
mod check;
mod standing;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use serde::Deserialize;

use crate::reports::Collection;
pub use standing::Standing;
pub use view::{json, markdown, text};

/// The files, in document order.
const FILES: [&str; 5] = [
    include_str!("../../documents/d0-numa.toml"),
    include_str!("../../documents/d1-dna.toml"),
    include_str!("../../documents/d2-modma.toml"),
    include_str!("../../documents/d3-bursts.toml"),
    include_str!("../../documents/d4-architect.toml"),
];

/// A founding document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// `D0` to `D4`, as in records.
    pub id: String,
    /// The title.
    pub title: String,
    /// Authors and date.
    pub by: String,
    /// The machine of the measurements.
    pub machine: String,
    /// What its sizes and rates count.
    pub basis: String,
    /// Remarks to read before the figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The claims, in the order of the document.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A figure or claim of a document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name, unique across all documents.
    pub id: String,
    /// The claim.
    pub claim: String,
    /// The document's figures as printed; empty if it has none.
    #[serde(default)]
    pub figure: String,
    /// The command that shows it here.
    #[serde(default)]
    pub command: String,
    /// The place of our result: `figure NAME`, `scenario NAME`, `file PATH` or `printed`; empty if
    /// it was not run.
    #[serde(default)]
    pub ours: String,
    /// Rows that committed records must have if it is run, each as words separated by a space:
    /// `contender=testpmd`, `size_bytes=64`, `case=send`. At least one word is a quantity that the
    /// claim is about: `metric=mpps`, or `stage=own-poll` for the stage `own poll`, above 0 per
    /// cent. With `record=NAME` it is a row of another record; `record=FOLDER/NAME` also names the
    /// folder below `runs`.
    #[serde(default)]
    pub rows: Vec<String>,
    /// Whether it is run, shown or calculated, or why not.
    pub status: Standing,
    /// What sizes and rates count here, if it differs from the document's usual basis.
    #[serde(default)]
    pub basis: String,
    /// Differences to our setup, and misprints.
    #[serde(default)]
    pub note: String,
}

impl Claim {
    /// Returns whether a scenario or figure that it names has no record of the present code:
    /// `current` has the names of those that have one.
    fn is_old(&self, current: &BTreeSet<String>) -> bool {
        let mut place = ["figure ", "scenario "].into_iter();
        let place = place.find_map(|kind| self.ours.strip_prefix(kind));
        let is_run = !matches!(self.status, Standing::NotRun(_));
        let Some(own) = place.filter(|_| is_run) else { return false };
        let other = |row: &String| {
            let name = row.split(' ').find_map(|word| word.strip_prefix("record="));
            !current.contains(name.unwrap_or(own))
        };
        if self.rows.is_empty() { !current.contains(own) } else { self.rows.iter().any(other) }
    }
}

/// Returns the names of all scenarios and figures with a record of this program's code, in any
/// folder of `runs`.
///
/// # Errors
/// If `runs` cannot be read.
pub fn current(runs: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(runs)? {
        // Other folders have no records of the lab.
        let Ok(collection) = Collection::read(&entry?.path()) else { continue };
        let records = collection.entries.into_iter().map(|entry| entry.record);
        names.extend(records.filter(|record| !record.is_old()).map(|record| record.scenario));
    }
    Ok(names)
}

/// Returns all documents with their claims.
///
/// # Panics
/// Never: a test parses all of them.
pub fn all() -> Vec<Document> {
    FILES.iter().map(|file| toml::from_str(file).expect("a test reads every file")).collect()
}
