//! The tables of figures are what the committed records say.

use std::fs;
use std::path::Path;

use burstline_lab::reports::figures::{inserted, records, table};

#[test]
fn the_page_has_the_table_of_the_committed_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let records = records(&root.join("runs/figures")).unwrap();
    assert!(!records.is_empty(), "no records in runs/figures");
    let page = fs::read_to_string(root.join("docs/figures.md")).unwrap();
    let made = inserted(&page, &table(&records, &root).unwrap()).expect("the page has its marks");
    assert!(made == page, "docs/figures.md is not up to date: make figures");
}

/// README names six of them: name, both sides and ratio are those of the page.
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
        let of_page: Vec<&str> = of_page.unwrap_or("").split('|').map(str::trim).collect();
        for cell in &cells[2..5] {
            assert!(of_page.contains(cell), "README has {cell}, docs/figures.md {of_page:?}");
        }
        ratios.push(cells[4].parse::<f64>().unwrap());
    }
    assert_eq!(ratios.len(), 6, "{ratios:?}");
    assert!(ratios.iter().any(|ratio| *ratio < 0.9), "one is lost: {ratios:?}");
}
