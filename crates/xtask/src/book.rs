//! Checks and builds the book: its pages, and that all their links have targets in it.
//!
//! ```text
//! docs/SUMMARY.md ──► pages, by their places in the repository ──► FOLDER/src: the same places,
//!                     and the files that they link to                            SUMMARY.md beside
//! ```
//!
//! `cargo run -p xtask -- book FOLDER` copies all of these into FOLDER, from which `mdbook build`
//! builds the pages (`make book`). Links need no change, because each page keeps its path.
//!
//! Rules:
//! - B1: each Markdown file below `docs/` is in the summary.
//! - B2: a link of a page leads to another page of the book or to a file that is not Markdown. A
//!   folder, or a page that is not in the book, would be a dead link there.
//! - B3: a link to a heading leads to an existing heading of the page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::finding::Finding;
use crate::links::targets;
use crate::tree::{TextFile, Tree};

/// The list of pages, in mdBook's form.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The settings of mdBook.
const SETTINGS: &str = "docs/book.toml";

/// Checks the summary and the links of every page.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.file(SUMMARY) else { return Vec::new() };
    let listed = pages(summary);
    let mut findings = Vec::new();
    for file in tree.files() {
        let is_page = file.path.starts_with("docs/") && file.path.ends_with(".md");
        if is_page && file.path != SUMMARY && !listed.contains(&file.path) {
            let what = format!("page is not in {SUMMARY} ({} are)", listed.len());
            findings.push(Finding::new(&file.path, 1, what, "add it there"));
        }
        if listed.contains(&file.path) {
            findings.extend(check_page(tree, file, &listed));
        }
    }
    findings
}

fn check_page(tree: &Tree, page: &TextFile, listed: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in targets(&page.text).into_iter().filter(|(_, to)| is_here(to)) {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let place = resolved(&page.path, path);
        let is_page = listed.contains(&place);
        if !is_page && (place.ends_with(".md") || tree.root().join(&place).is_dir()) {
            let what = format!("link to `{path}`, which is no page or file of the book");
            findings.push(Finding::new(&page.path, line, what, "link to a page or a file"));
        }
        let of = tree.file(&place).filter(|_| is_page && !heading.is_empty());
        if of.is_some_and(|of| !headings(&of.text).contains(heading)) {
            let what = format!("link to `{target}`: {place} has no such heading");
            findings.push(Finding::new(&page.path, line, what, "correct the heading's name"));
        }
    }
    findings
}

/// Writes the input of `mdbook build FOLDER`.
pub(crate) fn write(tree: &Tree, folder: &Path) -> Result<usize, String> {
    let summary = tree.file(SUMMARY).ok_or_else(|| format!("there is no {SUMMARY}"))?;
    let listed = pages(summary);
    let source = folder.join("src");
    let mut wanted = listed.clone();
    for page in listed.iter().filter_map(|path| tree.file(path)) {
        let links = targets(&page.text).into_iter().filter(|(_, to)| is_here(to));
        wanted
            .extend(links.map(|(_, to)| resolved(&page.path, to.split('#').next().unwrap_or(""))));
    }
    let fail = |what: &str, error: std::io::Error| format!("{what}: {error}");
    for path in &wanted {
        let to = source.join(path);
        let parent = to.parent().unwrap_or(&source);
        fs::create_dir_all(parent).map_err(|error| fail(path, error))?;
        fs::copy(tree.root().join(path), &to).map_err(|error| fail(path, error))?;
    }
    // The summary is at the root of the source, so its paths are those of the repository.
    let text = targets(&summary.text).into_iter().fold(summary.text.clone(), |text, (_, to)| {
        text.replace(&format!("]({to})"), &format!("]({})", resolved(SUMMARY, to)))
    });
    fs::write(source.join("SUMMARY.md"), text).map_err(|error| fail("SUMMARY.md", error))?;
    let settings = tree.root().join(SETTINGS);
    fs::copy(settings, folder.join("book.toml")).map_err(|error| fail(SETTINGS, error))?;
    Ok(listed.len())
}

/// Returns the paths of the pages that a summary lists.
fn pages(summary: &TextFile) -> BTreeSet<String> {
    targets(&summary.text).into_iter().map(|(_, to)| resolved(SUMMARY, to)).collect()
}

/// Returns whether a link stays in the repository.
fn is_here(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Resolves a link's target relative to the path of its page; an empty target is the page itself.
fn resolved(page: &str, target: &str) -> String {
    if target.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the ids of a page's headings for links: lower case, words joined by `-`, no punctuation.
/// Source: mdBook, `normalize_id`; GitHub does the same.
fn headings(text: &str) -> BTreeSet<String> {
    let mut is_fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_fenced || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let name = heading.trim().chars().filter_map(|letter| match letter {
            letter if letter.is_whitespace() => Some('-'),
            letter if letter.is_alphanumeric() || "_-".contains(letter) => Some(letter),
            _ => None,
        });
        found.insert(name.collect::<String>().to_lowercase());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# Summary\n- [A](a.md)\n- [B](../B.md)\n";

    fn found(page: &str) -> Vec<(String, usize)> {
        let tree = Tree::of(&[
            (SUMMARY, LIST),
            ("docs/a.md", page),
            ("B.md", "# B\n\n## What `it` does, twice\n"),
            ("C.md", "# C\n"),
        ]);
        check(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn links_lead_to_pages_of_the_book_and_their_headings() {
        let good = "# A\n[b](../B.md) [c](../B.md#what-it-does-twice) [d](#a) [e](x.svg)\n";
        assert_eq!(found(good), []);
        let place = |line| ("docs/a.md".to_owned(), line);
        assert_eq!(found("# A\n[c](../C.md)\n[b](../B.md#what)\n[d](#b)\n"), [2, 3, 4].map(place));
    }

    #[test]
    fn a_page_that_is_not_listed_is_found() {
        let tree = Tree::of(&[(SUMMARY, LIST), ("docs/a.md", ""), ("docs/deep/b.md", "")]);
        let places: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(places, ["docs/deep/b.md"]);
    }

    #[test]
    fn places_are_those_of_the_repository() {
        assert_eq!(resolved("docs/a.md", "../B.md"), "B.md");
        assert_eq!(resolved("docs/deep/a.md", "../b.md"), "docs/b.md");
        assert_eq!(resolved("A.md", "docs/b.md"), "docs/b.md");
        assert_eq!(resolved("docs/a.md", ""), "docs/a.md");
    }
}
