//! A test that cannot run calls `burstline_skip`. One that prints why and returns is counted as
//! passed, and nobody reads what a passed test prints.
//!
//! The rule looks for a print macro with `return` directly behind it, or with `None`, `false` or
//! `true` as the end of a block: a helper that tells its test to return.

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};

const PRINTS: [&str; 4] = ["print", "println", "eprint", "eprintln"];
/// What a helper returns to tell a test that it cannot run.
const ANSWERS: [&str; 3] = ["None", "false", "true"];

/// Checks the test code of every crate.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust_files().filter(|file| file.crate_folder().is_some()).flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let code = rust::code_only(&file.text);
    let spans = rust::test_spans(&code);
    let is_test = |at: usize| file.is_test() || spans.iter().any(|span| span.contains(&at));
    let prints = PRINTS.iter().flat_map(|name| rust::words(&code, name));
    let finding = |at| {
        let what = "a test prints and returns (0 skips counted)".to_owned();
        let mend = "call burstline_skip::skip with the reason";
        Finding::new(&file.path, rust::line_of(&code, at), what, mend)
    };
    prints.filter(|&at| is_test(at) && is_last(&code, at)).map(finding).collect()
}

/// Returns whether nothing follows the statement of the macro at `at` but the function's end.
fn is_last(code: &str, at: usize) -> bool {
    let end = rust::item_end(code, at);
    let is_statement = code[at..end].ends_with(");");
    let rest = code[end..].trim_start();
    let is_answer = |answer: &&str| {
        rest.strip_prefix(*answer).is_some_and(|rest| rest.trim_start().starts_with('}'))
    };
    let is_return = rust::words(rest, "return").next() == Some(0);
    is_statement && (is_return || ANSWERS.iter().any(is_answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines that the rule names in a file.
    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_that_prints_and_returns_is_named() {
        let text = "fn a() {\n    if b {\n        eprintln!(\"no {b}; card\");\n\
                    return;\n    }\n}\n\
                    fn c() -> Option<u8> {\n    println!(\"none (here)\");\n    None\n}\n\
                    fn d() -> bool {\n    print!(\"{}\", e(1));\n    false\n}\n";
        assert_eq!(lines("crates/port/tests/a.rs", text), [12, 8, 3]);
        let inside = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(lines("crates/port/src/a.rs", &inside), [14, 10, 5]);
        assert!(lines("crates/port/src/a.rs", text).is_empty(), "a program may");
    }

    #[test]
    fn a_test_that_prints_and_goes_on_is_not() {
        let text = "fn a() {\n    println!(\"{b}\");\n    assert!(b);\n    return;\n}\n\
                    fn c() {\n    match d {\n        1 => println!(\"1\"),\n        _ => {}\n\
                    }\n    return;\n}\n\
                    fn e() -> bool {\n    println!(\"x\");\n    false || f()\n}\n\
                    fn g() {\n    // eprintln!(\"x\"); return;\n    println!(\"x\");\n}\n";
        assert_eq!(lines("crates/port/tests/a.rs", text), [0; 0]);
    }
}
