//! No unfinished work is merged, and no file refers to a folder outside the repository.

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};

/// Macros that mark unfinished or forgotten work.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Comment words that mark unfinished work. Split in two, because this file is checked too.
const WORDS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];

/// Folders of one developer's machine, which do not exist in other clones.
const FOREIGN: [&str; 2] = [concat!("../", "shared"), concat!("/", "work/")];

/// Checks every file: macros and words in Rust, foreign folders everywhere.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.rust_files().flat_map(|file| [macros(file), words(file)].concat());
    rust.chain(tree.files().iter().flat_map(foreign)).collect()
}

fn macros(file: &TextFile) -> Vec<Finding> {
    let code = rust::code_only(&file.text);
    let mut findings = Vec::new();
    for name in MACROS {
        let calls = rust::words(&code, name).filter(|at| code[at + name.len()..].starts_with('!'));
        findings.extend(calls.map(|at| {
            let what = format!("`{name}!` is left (0 allowed)");
            Finding::new(&file.path, rust::line_of(&code, at), what, "finish it or remove it")
        }));
    }
    findings
}

fn words(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for word in WORDS {
        findings.extend(rust::words(&file.text, word).map(|at| {
            let line = rust::line_of(&file.text, at);
            let what = format!("`{word}` is left (0 allowed)");
            Finding::new(&file.path, line, what, "do it now, or describe the limit in a sentence")
        }));
    }
    findings
}

fn foreign(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    let mut findings = Vec::new();
    for (index, line) in lines {
        for folder in FOREIGN.iter().filter(|folder| line.contains(**folder)) {
            let what = format!("mentions `{folder}` (0 allowed)");
            let mend = "name only what a clone of this repository has";
            findings.push(Finding::new(&file.path, index + 1, what, mend));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_macros_in_code_only() {
        // The first macro is split in two, as above.
        let lines = [
            concat!("// todo", "!()"),
            "let todo = 1;",
            concat!("    todo", "!();"),
            "let s = \"dbg!(x)\";",
            "std::dbg!(s);",
        ];
        assert_eq!(lines_of("a.rs", &lines.join("\n")), [3, 5]);
    }

    #[test]
    fn finds_words_in_comments() {
        let text = format!("// {}: later\nlet a{} = 1;\n", WORDS[0], WORDS[1]);
        assert_eq!(lines_of("a.rs", &text), [1]);
    }

    #[test]
    fn finds_foreign_folders_in_any_file() {
        let text = format!("see {}/design\ncd {}main\nthe network/x\n", FOREIGN[0], FOREIGN[1]);
        assert_eq!(lines_of("README.md", &text), [1, 2]);
    }
}
