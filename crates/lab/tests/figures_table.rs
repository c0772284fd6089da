//! Checks that the tables of figures match the committed records.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_lab::reports::figures::{MARKS, inserted, records, table};

/// Returns the pages of a folder with the marks of the table.
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
    let [(path, page)] = &pages[..] else { panic!("{} pages have the marks", pages.len()) };
    let made = inserted(page, &table(&records, &root).unwrap()).expect("both marks");
    assert!(made == *page, "{} is not up to date: make figures", path.display());
}

/// README shows six of them: name, both sides and ratio are those of the page.
#[test]
fn readme_has_six_figures_of_that_table_and_one_is_lost() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path| fs::read_to_string(root.join(path)).unwrap();
    let (readme, page) = (read("README.md"), read("docs/figures.md"));
    let rows = readme.split("## Six figures").nth(1).expect("README has its figures");
    let rows = rows.lines().filter(|line| line.starts_with("| `") && !line.contains("make bench"));
    let mut ratios = Vec::new();
    for row in rows.take(6) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let of_page = page.lines().find(|line| line.starts_with(&format!("| {}", cells[1])));
        let of_page: Vec<&str> =
            of_page.unwrap_or("").split('|').map(|cell| cell.trim_matches([' ', '†'])).collect();
        for cell in &cells[2..5] {
            assert!(of_page.contains(cell), "README has {cell}, docs/figures.md {of_page:?}");
        }
        ratios.push(cells[4].parse::<f64>().unwrap());
    }
    assert_eq!(ratios.len(), 6, "{ratios:?}");
    assert!(ratios.iter().any(|ratio| *ratio < 0.9), "one is lost: {ratios:?}");
}
