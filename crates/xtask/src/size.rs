//! Lines of at most 100 columns, functions of at most 70 lines, files of at most 500, folders of at
//! most 15 files.
//!
//! Tests are long because they list cases; only their columns are limited. A folder of tests has a
//! file for each test program, so those are not counted either.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};

/// Most characters in a line.
const COLUMNS_MAX: usize = 100;
/// Most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Most lines of a file outside its tests.
const FILE_LINES_MAX: usize = 500;

/// Most Rust files of a folder, without its subfolders.
const FOLDER_FILES_MAX: usize = 15;

/// Checks every Rust file, and every folder.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust_files().flat_map(check_file).chain(full_folders(tree)).collect()
}

fn full_folders(tree: &Tree) -> Vec<Finding> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for file in tree.rust_files().filter(|file| !file.is_test()) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default() += 1;
    }
    let full = counts.into_iter().filter(|(_, files)| *files > FOLDER_FILES_MAX);
    full.map(|(folder, files)| {
        let what = format!("folder has {files} Rust files (at most {FOLDER_FILES_MAX})");
        Finding::new(folder, 1, what, "group some of them in a folder")
    })
    .collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = long_lines(file);
    if file.is_test() {
        return findings;
    }
    let code = rust::code_only(&file.text);
    let spans = rust::test_spans(&code);
    let tests: Vec<_> = spans
        .iter()
        .map(|span| rust::line_of(&code, span.start)..=rust::line_of(&code, span.end - 1))
        .collect();
    for function in rust::functions(&code) {
        let is_test = tests.iter().any(|lines| lines.contains(&function.line));
        if !is_test && function.lines > FUNCTION_LINES_MAX {
            let what = format!(
                "fn {} has {} lines (at most {FUNCTION_LINES_MAX})",
                function.name, function.lines
            );
            findings.push(Finding::new(&file.path, function.line, what, "split it"));
        }
    }
    let test_lines: usize = tests.iter().map(|lines| lines.end() - lines.start() + 1).sum();
    let lines = file.text.lines().count() - test_lines;
    if lines > FILE_LINES_MAX {
        let what = format!("file has {lines} lines without tests (at most {FILE_LINES_MAX})");
        findings.push(Finding::new(&file.path, 1, what, "split it by noun"));
    }
    findings
}

fn long_lines(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    let long = lines.filter_map(|(index, line)| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| {
            let what = format!("line has {columns} columns (at most {COLUMNS_MAX})");
            Finding::new(&file.path, index + 1, what, "wrap it")
        })
    });
    long.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn counts_columns_in_characters() {
        let text = format!("// {}\n// {}\n", "ü".repeat(97), "ü".repeat(98));
        assert_eq!(lines_of("crates/a/src/a.rs", &text), [2]);
    }

    #[test]
    fn a_function_may_have_seventy_lines() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines - 2));
        assert!(lines_of("crates/a/src/a.rs", &function(70)).is_empty());
        assert_eq!(lines_of("crates/a/src/a.rs", &function(71)), [1]);
        assert!(lines_of("crates/a/tests/a.rs", &function(71)).is_empty());
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(71));
        assert!(lines_of("crates/a/src/a.rs", &test).is_empty());
    }

    #[test]
    fn a_folder_may_have_fifteen_files() {
        let names = |folder: &str, files: usize| -> Vec<String> {
            (0..files).map(|file| format!("{folder}/f{file}.rs")).collect()
        };
        let found = |names: Vec<String>| {
            check(&Tree::of(&names.iter().map(|name| (&name[..], "")).collect::<Vec<_>>())).len()
        };
        assert_eq!(found(names("crates/a/src", 15)), 0);
        assert_eq!(found(names("crates/a/src", 16)), 1);
        assert_eq!(found(names("crates/a/tests", 16)), 0);
    }

    #[test]
    fn a_file_may_have_five_hundred_lines_beside_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "//\n".repeat(600));
        let file = |lines: usize| "//\n".repeat(lines) + &tests;
        assert!(lines_of("crates/a/src/a.rs", &file(500)).is_empty());
        assert_eq!(lines_of("crates/a/src/a.rs", &file(501)), [1]);
    }
}
