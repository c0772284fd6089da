//! Takes the keys of a scenario file one by one, and reports errors in them.

use toml::{Table, Value};

/// Maximum number of characters of a wrong value in an error.
const SHOWN: usize = 60;

/// An error in a scenario file. Each prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file is not TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// The line, counted from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// A value is invalid for its key.
    #[error("{place}{key} = {value}: expected {wanted}")]
    Value {
        /// Its table with a dot; empty for the root table.
        place: String,
        /// Its key.
        key: String,
        /// The value in the file.
        value: String,
        /// The valid values.
        wanted: String,
    },
    /// A required key is missing.
    #[error("{place}{key} is missing: expected {wanted}")]
    Missing {
        /// As above.
        place: String,
        /// The key.
        key: String,
        /// The valid values.
        wanted: String,
    },
    /// A key is unknown.
    #[error("{place}{key} = {value}: no such key; known keys: {known}")]
    Unknown {
        /// As above.
        place: String,
        /// The key.
        key: String,
        /// The value in the file.
        value: String,
        /// The known keys.
        known: String,
    },
}

/// A table of the file, from which keys are removed as they are read.
pub(crate) struct Fields {
    table: Table,
    place: String,
    known: Vec<&'static str>,
}

impl Fields {
    /// Parses a file.
    pub(crate) fn parse(text: &str) -> Result<Self, ScenarioError> {
        let table = text.parse::<Table>().map_err(|error| {
            let before = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..before].iter().filter(|&&byte| byte == b'\n').count();
            let message = error.message().lines().collect::<Vec<_>>().join(" ");
            ScenarioError::Toml { line, message }
        })?;
        Ok(Self::new(table, ""))
    }

    pub(crate) fn new(table: Table, place: &str) -> Self {
        Self { table, place: place.to_owned(), known: Vec::new() }
    }

    /// Takes a key's value, converted by `convert`; `None` if the key is missing.
    pub(crate) fn take<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        convert: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ScenarioError> {
        self.known.push(key);
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        match convert(&value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(self.wrong(key, &value, wanted)),
        }
    }

    /// The same for a required key.
    pub(crate) fn need<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        convert: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, ScenarioError> {
        let taken = self.take(key, wanted, convert)?;
        taken.ok_or_else(|| ScenarioError::Missing {
            place: self.place.clone(),
            key: key.to_owned(),
            wanted: wanted.to_owned(),
        })
    }

    /// Takes a list without duplicates; `convert` converts each value. Empty if the key is missing.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, ScenarioError> {
        self.known.push(key);
        match self.table.remove(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) if !values.is_empty() => {
                let is_again = |at: &usize| values[..*at].contains(&values[*at]);
                if let Some(at) = (0..values.len()).find(is_again) {
                    return Err(self.wrong(key, &values[at], "each value once"));
                }
                let one = |value| convert(value).ok_or_else(|| self.wrong(key, value, wanted));
                values.iter().map(one).collect()
            }
            Some(value) => Err(self.wrong(key, &value, &format!("a list, each {wanted}"))),
        }
    }

    /// Returns the error for a value that conflicts with others.
    pub(crate) fn refuse(
        &self,
        key: &'static str,
        value: &str,
        wanted: &str,
    ) -> Result<(), ScenarioError> {
        Err(self.wrong(key, &Value::String(value.to_owned()), wanted))
    }

    /// Returns the remaining keys.
    pub(crate) fn rest(self) -> (Table, String) {
        (self.table, self.place)
    }

    /// Checks that no key remains.
    pub(crate) fn end(self) -> Result<(), ScenarioError> {
        let Some((key, value)) = self.table.iter().next() else { return Ok(()) };
        Err(ScenarioError::Unknown {
            place: self.place.clone(),
            key: key.clone(),
            value: shown(value),
            known: self.known.join(", "),
        })
    }

    fn wrong(&self, key: &str, value: &Value, wanted: &str) -> ScenarioError {
        ScenarioError::Value {
            place: self.place.clone(),
            key: key.to_owned(),
            value: shown(value),
            wanted: wanted.to_owned(),
        }
    }
}

/// Formats a value on one line of at most [`SHOWN`] characters.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
