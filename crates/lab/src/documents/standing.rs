//! The status of a claim.

use std::fmt;

use serde::Deserialize;

/// Whether a claim's work was done here, and how that can be verified.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Standing {
    /// A committed record has it.
    Run,
    /// The command prints it, or a test asserts it.
    Shown,
    /// It was calculated or simulated.
    Model,
    /// It could not be run: the rest of the sentence after "not run because".
    NotRun(String),
}

const NOT_RUN: &str = "not run because ";

impl TryFrom<String> for Standing {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), text.strip_prefix(NOT_RUN)) {
            ("run", _) => Ok(Self::Run),
            ("shown", _) => Ok(Self::Shown),
            ("model", _) => Ok(Self::Model),
            (_, Some(why)) if !why.is_empty() => Ok(Self::NotRun(why.to_owned())),
            _ => Err(format!("`{text}` is not one of run, shown, model, {NOT_RUN}...")),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("run"),
            Self::Shown => f.write_str("shown"),
            Self::Model => f.write_str("model"),
            Self::NotRun(why) => write!(f, "{NOT_RUN}{why}"),
        }
    }
}
