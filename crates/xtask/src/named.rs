//! What a page names in the sources is there: `` `path.rs::name` ``, in most cases a test.
//!
//! The path may leave out the folders at its start; then any file whose path ends so will do.

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};

/// Checks all pages but those that `tested` checks.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().iter().filter(|file| file.path.ends_with(".md"));
    let pages = pages.filter(|page| page.path != crate::tested::PAGE);
    pages.flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, page: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for named in line.split('`').skip(1).step_by(2) {
            let Some((path, name)) = named.split_once(".rs::") else { continue };
            if !is_there(tree, &format!("{path}.rs"), name) {
                let what = format!("`{named}` is nowhere in the sources (0 found)");
                let mend = "name what is there, or remove it";
                findings.push(Finding::new(&page.path, index + 1, what, mend));
            }
        }
    }
    findings
}

fn is_there(tree: &Tree, path: &str, name: &str) -> bool {
    let ends_so = |file: &&TextFile| {
        file.path == path || file.path.strip_suffix(path).is_some_and(|rest| rest.ends_with('/'))
    };
    let last = name.rsplit("::").next().unwrap_or(name);
    let has_it = |file: &TextFile| rust::words(&file.text, last).next().is_some();
    tree.rust_files().filter(ends_so).any(has_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_found() {
        let tree = Tree::of(&[
            ("crates/log/tests/seats.rs", "#[test]\nfn a_seat_is_taken() {}\n"),
            (
                "docs/page.md",
                "`seats.rs::a_seat_is_taken` `tests/seats.rs::a_seat`\n`eats.rs::a_seat_is_taken`",
            ),
        ]);
        let found: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("docs/page.md:1: `tests/seats.rs::a_seat` is"), "{found:?}");
        assert!(found[1].contains("docs/page.md:2: `eats.rs::"), "{found:?}");
    }
}
