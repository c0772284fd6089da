//! Checks that the tables of figures match the committed records.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_lab::reports::figures::{MARKS, SHORT_MARKS, records, renewed};

/// The pages of a folder that have the marks of a table.
fn marked(folder: &Path) -> Vec<(PathBuf, String)> {
    let pages = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let pages = pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    let has = |text: &str, mark| text.contains(&format!("\n{mark}"));
    pages.filter(|(_, text)| has(text, MARKS[0]) || has(text, SHORT_MARKS[0])).collect()
}

#[test]
fn two_pages_have_tables_of_the_committed_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = fs::read_dir(root.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let is_of_figures = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name == "far" || name.starts_with("figures")
    };
    // In the order in which the shell sorts them for `make figures`.
    let mut folders: Vec<PathBuf> = folders.filter(is_of_figures).collect();
    folders.sort();
    let records: Vec<_> = folders.iter().flat_map(|folder| records(folder).unwrap()).collect();
    assert!(!records.is_empty(), "no records in runs/figures");
    let pages = [marked(&root), marked(&root.join("docs"))].concat();
    assert_eq!(pages.len(), 2, "README and docs/figures.md");
    for (path, page) in pages {
        let made = renewed(&page, &records).unwrap().expect("both marks");
        assert!(made == page, "{} is not up to date: make figures", path.display());
    }
}

#[test]
fn readme_has_six_figures_and_one_is_lost() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let rows = readme.split(SHORT_MARKS[0]).nth(1).expect("README has its figures");
    let rows = rows.split(SHORT_MARKS[1]).next().unwrap().lines();
    let ratio = |row: &str| row.split('|').nth(4)?.split_whitespace().next()?.parse::<f64>().ok();
    let ratios: Vec<f64> = rows.filter_map(ratio).collect();
    assert_eq!(ratios.len(), 6, "{ratios:?}");
    assert!(ratios.iter().any(|ratio| *ratio < 0.9), "one is lost: {ratios:?}");
}
