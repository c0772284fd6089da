//! Runs the figures of sharing at tiny sizes; they start the bench binary as their readers.

use std::process::Command;

#[test]
fn the_figures_of_sharing_run_and_all_accounts_close() {
    let figures = ["cross-process-60", "share-readers-*", "stopped-reader"];
    let bench = Command::new(env!("CARGO_BIN_EXE_bench")).args(figures).arg("--smoke").output();
    let bench = bench.unwrap();
    let said = String::from_utf8(bench.stdout).unwrap();
    let readers = ["share-readers-1", "share-readers-4"];
    let copies = ["share-readers-1-copy", "share-readers-4-copy"];
    let names = [&["cross-process-60"][..], &readers, &copies, &["stopped-reader"]].concat();
    let mut expected: String = names.iter().map(|name| format!("smoke {name} ok\n")).collect();
    expected += "ran 6 of 6 figures\n";
    assert_eq!((said, bench.status.success()), (expected, true));
}
