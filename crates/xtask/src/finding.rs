//! One broken rule: a place, what is wrong there, and what to do.

use std::fmt;

/// A broken rule. Prints as `path:line: what, mend`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the root of the repository, as git names it.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// What is wrong, with the number that shows it.
    pub(crate) what: String,
    /// What to do about it, in the imperative.
    pub(crate) mend: &'static str,
}

impl Finding {
    /// A finding at `path:line`; `line` in `[1, lines of the file]`.
    pub(crate) fn new(path: &str, line: usize, what: String, mend: &'static str) -> Self {
        Self { path: path.to_owned(), line, what, mend }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}, {}", self.path, self.line, self.what, self.mend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_place_fault_and_remedy_on_one_line() {
        let finding = Finding::new("a.rs", 7, "line has 101 columns (at most 100)".into(), "wrap");
        assert_eq!(finding.to_string(), "a.rs:7: line has 101 columns (at most 100), wrap");
    }
}
