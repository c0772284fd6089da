//! Printed text is plain English: phrases that read as translated are findings.

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};

/// Crates with string literals for users.
const CRATES: [&str; 5] = ["cli", "port", "engine", "topo", "lab"];

/// Files whose documentation comments are also printed: by `--help`, and as the help of a loss.
const HELP: [&str; 2] = ["crates/cli/src/args", "crates/port/src/account.rs"];

/// Phrases that are not idiomatic. CONTRIBUTING.md has what to write instead.
const PHRASES: [&str; 22] = [
    "is told",
    "is had",
    "was had",
    "so many",
    "whoever",
    "for want of",
    "in vain",
    "brings home",
    "looks on",
    "look on for",
    "of its own",
    "nothing but",
    "is no loss",
    "driver's word",
    "kernel's word",
    "nobody looks",
    "nobody knows",
    "mend:",
    "as it goes",
    "is none of",
    "to be had",
    "asked for it",
];

/// Checks the string literals of the crates above, except in tests.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let printed = |file: &&TextFile| {
        file.crate_folder().is_some_and(|name| CRATES.contains(&name)) && !file.is_test()
    };
    tree.rust_files().filter(printed).flat_map(findings).collect()
}

fn findings(file: &TextFile) -> Vec<Finding> {
    let tests = rust::test_spans(&rust::code_only(&file.text));
    let is_test = |at: usize| tests.iter().any(|span| span.contains(&at));
    let strings = rust::strings(&file.text).into_iter().filter(|(at, _)| !is_test(*at));
    let mut texts: Vec<(usize, String)> =
        strings.map(|(at, text)| (rust::line_of(&file.text, at), text)).collect();
    if HELP.iter().any(|place| file.path.starts_with(place)) {
        let help = file.text.lines().enumerate();
        let help = help.filter(|(_, line)| line.trim_start().starts_with("///"));
        texts.extend(help.map(|(index, line)| (index + 1, line.to_owned())));
    }
    let phrases = |(line, text): (usize, String)| {
        let text = text.to_lowercase();
        let found = PHRASES.iter().filter(move |phrase| text.contains(**phrase));
        found.map(move |phrase| (line, *phrase))
    };
    let finding = |(line, phrase)| {
        let what = format!("prints `{phrase}` (0 allowed)");
        Finding::new(&file.path, line, what, "write plain English: see CONTRIBUTING.md")
    };
    texts.into_iter().flat_map(phrases).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_phrases_where_they_are_printed() {
        let text = "// in vain\nsay(\"it waits in \\\n    vain\");\n/// Whoever reads\nfn a() {}\n";
        assert_eq!(lines_of("crates/engine/src/a.rs", text), [2]);
        assert_eq!(lines_of("crates/cli/src/args/a.rs", text), [2, 4]);
        assert_eq!(lines_of("crates/engine/tests/a.rs", text), [0; 0]);
        assert_eq!(lines_of("crates/xtask/src/a.rs", text), [0; 0]);
    }

    #[test]
    fn leaves_tests_alone() {
        let text = "#[cfg(test)]\nmod tests {\n    const A: &str = \"in vain\";\n}\n";
        assert_eq!(lines_of("crates/cli/src/a.rs", text), [0; 0]);
    }
}
