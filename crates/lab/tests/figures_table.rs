//! The page with the table of figures has what the committed records say.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_lab::reports::figures::{MARKS, inserted, records, table};

/// The pages of a folder that have the marks of the table.
fn marked(folder: &Path) -> Vec<(PathBuf, String)> {
    let pages = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let pages = pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    pages.filter(|(_, text)| text.contains(&format!("\n{}", MARKS[0]))).collect()
}

#[test]
fn one_page_has_the_table_of_the_committed_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = fs::read_dir(root.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let is_of_figures =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("figures");
    // As the shell sorts them for `make figures`.
    let mut folders: Vec<PathBuf> = folders.filter(is_of_figures).collect();
    folders.sort();
    let records: Vec<_> = folders.iter().flat_map(|folder| records(folder).unwrap()).collect();
    assert!(!records.is_empty(), "no records in runs/figures");
    let pages = [marked(&root), marked(&root.join("docs"))].concat();
    let [(path, page)] = &pages[..] else { panic!("{} pages have the marks", pages.len()) };
    let made = inserted(page, &table(&records, &root).unwrap()).expect("both marks");
    assert!(made == *page, "{} is not up to date: make figures", path.display());
}
