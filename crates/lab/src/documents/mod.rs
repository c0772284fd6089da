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

use std::path::{Path, PathBuf};

use burstline_sys::inode::read_text;
use burstline_sys::late;
use serde::Deserialize;

use crate::record::{Record, Row, Stage, Status};
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
    /// Returns whether a row that it names has no record of the present code. If it names none: its
    /// scenario or figure.
    fn is_old(&self, records: &[Committed]) -> bool {
        let mut place = ["figure ", "scenario "].into_iter();
        let place = place.find_map(|kind| self.ours.strip_prefix(kind));
        let is_run = !matches!(self.status, Standing::NotRun(_));
        let Some(own) = place.filter(|_| is_run) else { return false };
        let is_current = |has: &dyn Fn(&Committed) -> bool| {
            records.iter().any(|one| has(one) && !one.record.is_old())
        };
        match self.rows.is_empty() {
            true => !is_current(&|one| one.record.scenario == own),
            false => !self.rows.iter().all(|row| is_current(&|one| one.has(own, row))),
        }
    }
}

/// A record in a folder of `runs`.
#[derive(Debug)]
pub struct Committed {
    /// Its folder and its name: `latest/numa-rtc`.
    path: String,
    record: Record,
}

impl Committed {
    fn read(path: &Path) -> Result<Self, String> {
        let text = read_text(path).map_err(|error| error.to_string());
        let record = text.and_then(|text| Record::parse(&text));
        let record = record.map_err(|why| format!("{}: {why}", path.display()))?;
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        Ok(Self { path: format!("{}/{}", folder.to_string_lossy(), record.scenario), record })
    }

    /// Returns whether it is the record `name`, or the one that the row names, and has run the row:
    /// see [`Claim::rows`].
    fn has(&self, name: &str, wanted: &str) -> bool {
        let Self { path, record } = self;
        let is_named = wanted.split_whitespace().any(|word| word.starts_with("record="));
        let is_wanted = |row: &Row| {
            wanted.split_whitespace().all(|word| match word.split_once('=').unwrap_or((word, "")) {
                ("record", value) => record.scenario == value || path == value,
                ("contender", value) => row.contender == value,
                ("metric", value) => row.metrics.contains_key(value),
                ("stage", value) => row.stages.iter().any(|stage| is_stage(stage, value)),
                (key, value) => row.point.get(key).is_some_and(|found| {
                    let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
                    text == value
                }),
            })
        };
        (is_named || record.scenario == name)
            && record.rows.iter().any(|row| row.status == Status::Run && is_wanted(row))
    }
}

/// Returns whether it has this name, and time. Samples have all stages, many of them with 0 per
/// cent.
fn is_stage(stage: &Stage, name: &str) -> bool {
    stage.name.replace(' ', "-") == name && stage.cpu_percent > 0.0
}

/// Returns the lab's records in all folders of `runs`.
///
/// # Errors
/// If a folder or a file of one cannot be read, or contains no record.
pub fn committed(runs: &Path) -> Result<Vec<Committed>, String> {
    let files = |folder: &Path| {
        let names = late::names_in(folder);
        let names = names.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok::<Vec<PathBuf>, String>(names.iter().map(|name| folder.join(name)).collect())
    };
    let mut paths = Vec::new();
    // Records of campaigns have another format.
    for folder in
        files(runs)?.iter().filter(|path| late::is_folder(path) && !path.ends_with("campaign"))
    {
        paths.extend(files(folder)?);
    }
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
    paths.iter().map(|path| Committed::read(path)).collect()
}

/// Returns all documents with their claims.
///
/// # Panics
/// Never: a test parses all of them.
pub fn all() -> Vec<Document> {
    FILES.iter().map(|file| toml::from_str(file).expect("a test reads every file")).collect()
}
