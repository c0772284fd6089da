//! A broken rule: its place, the problem, and the fix.

use std::fmt;

/// A broken rule. Prints as `path:line: what, mend`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the root of the repository, as in git.
    pub(crate) path: String,
    /// Line number, from 1.
    pub(crate) line: usize,
    /// The problem, with the number that shows it.
    pub(crate) what: String,
    /// The fix, in the imperative.
    pub(crate) mend: &'static str,
}

impl Finding {
    /// Creates a finding at `path:line`; `line` is in `[1, lines of the file]`.
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
