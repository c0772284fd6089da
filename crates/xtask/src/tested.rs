//! Each file with `unsafe` lists the tests that run it, in the tables of [`PAGE`].
//!
//! A heading `` ## `log` `` begins the table of a crate. Its rows list files, or a folder with a
//! trailing `/`, and tests: `` `path.rs::name` ``, or `` `make target` ``. Paths are relative to
//! the crate's folder, or begin with `crates/`. People must verify that a test runs a block, best
//! by coverage. The check is that each file has a row, each row a file with `unsafe`, and each name
//! a test.

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};
use crate::unsafety;

/// The page that says which test runs which `unsafe`.
pub(crate) const PAGE: &str = "docs/unsafe.md";

/// Checks every Rust file outside of tests against the page, and the page against the tree.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else {
        let what = "the page does not exist (0 tests named)".to_owned();
        return vec![Finding::new(PAGE, 1, what, "list in it which test runs which `unsafe`")];
    };
    let rows = rows(&page.text);
    let places: Vec<(&TextFile, usize)> = tree
        .rust_files()
        .filter(|file| file.crate_folder().is_some() && !file.is_test())
        .filter_map(|file| Some((file, first_use(&file.text)?)))
        .collect();
    let mut findings = Vec::new();
    for &(file, line) in &places {
        if !rows.iter().any(|row| row.covers(&file.path)) {
            let what = format!("`unsafe` in a file that {PAGE} does not have (0 tests)");
            let mend = "add it, and the test that runs it";
            findings.push(Finding::new(&file.path, line, what, mend));
        }
    }
    for row in &rows {
        findings.extend(row.check(tree, &places));
    }
    findings
}

/// Returns the line of the first `unsafe` block or implementation outside of tests.
fn first_use(text: &str) -> Option<usize> {
    let code = rust::code_only(text);
    let tests = rust::test_spans(&code);
    let is_in_test = |at: usize| tests.iter().any(|span| span.contains(&at));
    let mut places = rust::words(&code, "unsafe");
    let first = places.find(|&at| unsafety::is_use(&code, at) && !is_in_test(at))?;
    Some(rust::line_of(&code, first))
}

/// A row of a table: files, and the tests that run their `unsafe`.
pub(crate) struct Row<'a> {
    line: usize,
    /// The crate's folder, with a trailing `/`.
    folder: String,
    files: Vec<&'a str>,
    tests: Vec<&'a str>,
}

/// Returns the rows of the page's tables.
pub(crate) fn rows(page: &str) -> Vec<Row<'_>> {
    let (mut folder, mut rows) = (String::new(), Vec::new());
    for (index, line) in page.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            let name = quoted(heading).first().copied().unwrap_or_default();
            folder = format!("crates/{name}/");
        }
        let cells: Vec<&str> = line.split('|').collect();
        if let [_, files, tests, _] = cells[..]
            && files.contains('`')
        {
            let (files, tests) = (quoted(files), quoted(tests));
            rows.push(Row { line: index + 1, folder: folder.clone(), files, tests });
        }
    }
    rows
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

impl Row<'_> {
    fn full(&self, path: &str) -> String {
        if path.starts_with("crates/") { path.to_owned() } else { format!("{}{path}", self.folder) }
    }

    /// Returns the row's tests, with paths from the root of the repository.
    pub(crate) fn full_tests(&self) -> Vec<String> {
        self.tests.iter().map(|test| self.full(test)).collect()
    }

    /// Returns whether the row is about the file at `path`, from the root of the repository.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.files.iter().any(|file| is_at(path, &self.full(file)))
    }

    fn check(&self, tree: &Tree, places: &[(&TextFile, usize)]) -> Vec<Finding> {
        let finding = |what, mend| Finding::new(PAGE, self.line, what, mend);
        let mut findings = Vec::new();
        for file in &self.files {
            let full = self.full(file);
            if !places.iter().any(|(place, _)| is_at(&place.path, &full)) {
                let what = format!("`{file}` has no `unsafe` (0 blocks)");
                findings.push(finding(what, "remove it from the table"));
            }
        }
        for test in self.tests.iter().filter(|test| !self.is_there(tree, test)) {
            let what = format!("there is no test `{test}` (0 found)");
            findings.push(finding(what, "name one that runs the file's `unsafe`"));
        }
        if self.tests.is_empty() {
            let what = "a row without a test (0 named)".to_owned();
            findings.push(finding(what, "name one that runs the file's `unsafe`"));
        }
        findings
    }

    fn is_there(&self, tree: &Tree, test: &str) -> bool {
        if let Some(target) = test.strip_prefix("make ") {
            let start = format!("{target}:");
            let makefile = tree.file("Makefile");
            return makefile.is_some_and(|file| file.text.lines().any(|l| l.starts_with(&start)));
        }
        let Some((path, name)) = test.split_once("::") else { return false };
        let Some(file) = tree.file(&self.full(path)) else { return false };
        if !file.is_rust() {
            return file.text.contains(&format!("\ndef {name}("));
        }
        let code = rust::code_only(&file.text);
        rust::words(&code, name).any(|at| is_test_at(&code, at))
    }
}

/// Returns whether the name at `at` is a function below `#[test]`, with other attributes in
/// between.
fn is_test_at(code: &str, at: usize) -> bool {
    let Some(before) = code[..at].trim_end().strip_suffix("fn") else { return false };
    let lines = before.trim_end().lines().rev();
    lines.take_while(|line| line.trim_start().starts_with("#[")).any(|l| l.trim() == "#[test]")
}

/// Returns whether `path` is `place`, or below it if that is a folder.
fn is_at(path: &str, place: &str) -> bool {
    path == place || (place.ends_with('/') && path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "// SAFETY: a\nunsafe { f() }\n#[test]\n#[ignore]\nfn it_runs() {}\n";

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/log/src/a.rs", CODE),
            ("crates/log/src/b/c.rs", "unsafe impl Send for A {}"),
            ("crates/log/src/safe.rs", "#[cfg(test)]\nmod tests { fn f() { unsafe { g() } } }"),
            ("crates/sys/src/d.rs", "fn unsafe_it() {}\nunsafe fn f();\n#[test]\nfn far() {}"),
            ("crates/python/tests/test_a.py", "\ndef test_a():\n"),
            ("Makefile", "loom: ## Models\n"),
            (PAGE, page),
        ]);
        check(&tree).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_file_with_unsafe_has_a_row() {
        let whole = "## `log`\n| `src/a.rs`, `src/b/` | `src/a.rs::it_runs`, `make loom` |\n";
        assert!(found(whole).is_empty(), "{:?}", found(whole));
        let found = found("## `log`\n| `src/b/` | `crates/python/tests/test_a.py::test_a` |\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/log/src/a.rs:2: `unsafe` in a file"), "{found:?}");
    }

    #[test]
    fn a_row_names_tests_that_are_there() {
        for (tests, count) in [
            ("`crates/sys/src/d.rs::far`", 0),
            ("`src/a.rs::it_ran`", 1),
            ("`src/a.rs::f`", 1),
            ("`crates/sys/src/d.rs::unsafe_it`", 1),
            ("`src/e.rs::it_runs`, `make lom`", 2),
            ("by hand", 1),
        ] {
            let found = found(&format!("## `log`\n| `src/a.rs` `src/b/` | {tests} |\n"));
            assert_eq!(found.len(), count, "{tests}: {found:?}");
        }
    }

    #[test]
    fn a_row_without_unsafe_is_taken_out() {
        let found = found("## `log`\n| `src/` | `make loom` |\n| `src/safe.rs` | `make loom` |\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("docs/unsafe.md:3: `src/safe.rs` has no"), "{found:?}");
    }
}
