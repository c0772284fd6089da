//! Sentences are short, in pages and in comments.
//!
//! A paragraph is consecutive lines of a Markdown file, or of comments of a Rust file. It ends at
//! an empty line, a list item, a heading or a table. Fenced blocks are pictures and code, without
//! sentences. A full stop, a colon or a semicolon ends a sentence.

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};

/// Most words of a sentence. A code span is one word.
const WORDS_MAX: usize = 25;

/// Checks every Markdown file and every Rust file. Reports of runs are skipped: the program wrote
/// them.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.files().iter().filter(|file| !file.path.starts_with("runs/"));
    let has_prose = |file: &&TextFile| file.path.ends_with(".md") || file.is_rust();
    files.filter(has_prose).flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines();
    let prose: Vec<&str> = match file.is_rust() {
        true => lines.map(|line| comment(line).unwrap_or_default()).collect(),
        false => lines.collect(),
    };
    let mut findings = Vec::new();
    for Paragraph { line, text } in paragraphs(&prose) {
        for sentence in sentences(&text) {
            let words = sentence.split_whitespace().count();
            if words > WORDS_MAX {
                let begin: Vec<&str> = sentence.split_whitespace().take(6).collect();
                let begin = begin.join(" ");
                let what = format!("`{begin} ...` has {words} words (at most {WORDS_MAX})");
                findings.push(Finding::new(&file.path, line, what, "make it two sentences"));
            }
        }
    }
    findings
}

/// Returns the text of a Rust line, if it is a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    let rest = rest.strip_prefix(['/', '!']).unwrap_or(rest);
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Consecutive lines of text.
struct Paragraph {
    /// First line, from 1.
    line: usize,
    text: String,
}

fn paragraphs(lines: &[&str]) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let (mut is_fenced, mut is_open) = (false, false);
    for (index, line) in lines.iter().enumerate() {
        let text = line.trim();
        if text.starts_with("```") {
            (is_fenced, is_open) = (!is_fenced, false);
            continue;
        }
        if is_fenced || text.is_empty() || text.starts_with(['|', '#', '<']) {
            is_open = false;
            continue;
        }
        match all.last_mut().filter(|_| is_open && !is_item(text)) {
            Some(paragraph) => {
                paragraph.text.push(' ');
                paragraph.text += text;
            }
            None => all.push(Paragraph { line: index + 1, text: text.to_owned() }),
        }
        is_open = true;
    }
    all
}

/// Returns whether a line starts a list item: `- `, `* `, `1. `.
fn is_item(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    let is_number = word.strip_suffix('.').is_some_and(|rest| rest.parse::<u32>().is_ok());
    matches!(word, "-" | "*") || is_number
}

/// Returns the sentences of a paragraph. A link becomes its text, a code span becomes `x`.
fn sentences(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut parts = text.split('`');
    while let Some(part) = parts.next() {
        plain += part;
        if parts.next().is_some() {
            plain.push('x');
        }
    }
    let plain = without_targets(&plain);
    let mut all = vec![String::new()];
    for word in plain.split_whitespace() {
        let last = all.last_mut().expect("there is one");
        last.push(' ');
        last.push_str(word);
        if word.trim_end_matches([')', '*', '"', '_']).ends_with(['.', '!', '?', ':', ';']) {
            all.push(String::new());
        }
    }
    all
}

/// Replaces `[text](target)` by `text`.
fn without_targets(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        out += before;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn long_sentences_are_found_where_their_paragraph_begins() {
        let long = "a ".repeat(26);
        let text = format!("One.\n\nTwo. {long}\nand more.\n\n| {long} |\n\n```\n{long}\n```\n");
        assert_eq!(lines_of("docs/a.md", &text), [3]);
        let text = format!("//! {long}\nfn a() {{}} // {long}\nlet b = \"{long}\";\n// {long}\n");
        assert_eq!(lines_of("crates/log/src/a.rs", &text), [1, 4]);
    }

    #[test]
    fn what_ends_a_sentence_and_what_is_a_word() {
        let half = "a ".repeat(13);
        for text in [
            format!("{half}; {half}."),
            format!("{half}(see b.) {half}."),
            format!("- {half}\n- {half}\n1. {half}\n"),
            format!("{half}\n# {half}\n{half}\n"),
            format!("{} [b](c/{}) `{half} {half}`", half, "d/".repeat(20)),
        ] {
            assert_eq!(lines_of("a.md", &text), [0; 0], "{text}");
        }
        assert_eq!(lines_of("a.md", &format!("{half} and\n{half}.\n")), [1]);
    }
}
