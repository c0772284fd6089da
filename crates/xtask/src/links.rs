//! Relative links in Markdown lead to an existing file or folder.
//!
//! Web addresses are not followed: a check of our tree must not depend on external servers.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};

/// Checks every Markdown file.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|file| check_file(tree.root(), file)).collect()
}

fn check_file(root: &Path, file: &TextFile) -> Vec<Finding> {
    let folder = root.join(&file.path);
    let folder = folder.parent().unwrap_or(root);
    let mut findings = Vec::new();
    for (line, target) in targets(&file.text) {
        let path = target.split('#').next().unwrap_or_default();
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        if is_elsewhere || path.is_empty() || folder.join(path).exists() {
            continue;
        }
        let what = format!("link to `{path}` leads nowhere (0 files)");
        findings.push(Finding::new(&file.path, line, what, "correct the path or the link"));
    }
    findings
}

/// Returns every `](target)` and its line, outside of code blocks and code spans.
pub(crate) fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let is_code = line[..at].matches('`').count() % 2 == 1;
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if !is_code {
                found.push((index + 1, target));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_targets_outside_of_code() {
        let text = "[a](b.md) [c](d \"title\")\n```\n[x](y)\n```\n`[p](q)` [`r`](s#t)\n";
        assert_eq!(targets(text), [(1, "b.md"), (1, "d"), (5, "s#t")]);
    }

    #[test]
    fn names_only_links_that_lead_nowhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[a](src/links.rs#top) [b](#here) [c](https://x.invalid/y)\n[d](src/none.rs)\n";
        let file = TextFile { path: "page.md".to_owned(), text: text.to_owned() };
        let lines: Vec<usize> = check_file(root, &file).iter().map(|f| f.line).collect();
        assert_eq!(lines, [2]);
    }
}
