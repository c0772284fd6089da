//! What the five founding documents claim, claim by claim, and where each is shown here.
//!
//! ```text
//!   crates/lab/documents/d0-numa.toml ...   one file a document: data, part of the program
//!             |
//!       all()  --> check (tests)            every row has a status; names and paths exist
//!             \--> view                     text, Markdown, JSON
//! ```
//!
//! A document was measured on machines that are not here, so a claim is never "confirmed". It has a
//! command that does the same work here, and the record or figure with the result. What cannot be
//! run says why. What a document cannot have measured as printed is marked, so nobody tries to
//! reach a misprint.
//!
//! Invariants:
//! - T1: each claim has its own name and a status. Unless that is `not run`, it has a command and a
//!   place where ours stands.
//! - T3: `run` is what a committed record has; `shown` is what a command prints or a test asserts.
//! - T2: figures, scenarios, make targets, paths and verbs that are named exist; a test fails
//!   otherwise.

#[cfg(test)]
mod check;
mod standing;
#[cfg(test)]
mod tests;
mod view;

use serde::Deserialize;

pub use standing::Standing;
pub use view::{json, markdown, text};

/// The files, in order.
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
    /// Its title.
    pub title: String,
    /// Who wrote it, and when.
    pub by: String,
    /// What it was measured on.
    pub machine: String,
    /// What its sizes and rates count.
    pub basis: String,
    /// What a reader should know before its figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// One after the other, as in the document.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A figure or claim of a document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name, the only one of that name in all documents.
    pub id: String,
    /// What is claimed.
    pub claim: String,
    /// The document's figures, as printed; empty where it has none.
    #[serde(default)]
    pub figure: String,
    /// What shows it here.
    #[serde(default)]
    pub command: String,
    /// Where ours stands, `figure NAME`, `scenario NAME`, `file PATH` or `printed`; empty if it
    /// was not run.
    #[serde(default)]
    pub ours: String,
    /// The points that a record must have for it: `size_bytes=64`, `case=send`,
    /// `contender=testpmd`, several with a space between. If empty, any point that was run will do.
    #[serde(default)]
    pub rows: Vec<String>,
    /// Whether it is run, shown, worked out, or why not.
    pub status: Standing,
    /// What sizes and rates count here, where that is not the document's usual basis.
    #[serde(default)]
    pub basis: String,
    /// What differs here; misprints.
    #[serde(default)]
    pub note: String,
}

/// All documents, with their claims.
///
/// # Panics
/// Never: a test reads them all.
pub fn all() -> Vec<Document> {
    FILES.iter().map(|file| toml::from_str(file).expect("a test reads every file")).collect()
}
