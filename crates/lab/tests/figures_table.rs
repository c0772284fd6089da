//! README's table of figures is what the committed records say.

use std::fs;
use std::path::Path;

use burstline_lab::reports::figures::{inserted, records, table};

#[test]
fn readme_has_the_table_of_the_committed_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let records = records(&root.join("runs/figures")).unwrap();
    assert!(!records.is_empty(), "no records in runs/figures");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let made = inserted(&readme, &table(&records, &root).unwrap()).expect("README has its marks");
    assert!(made == readme, "README is not up to date: make figures");
}
