//! The verbs `lab report` and `lab documents`.

use std::fs;
use std::path::Path;

use crate::support::{Directory, run, run_json, run_with_code};

const RECORD: &str = include_str!("../../../lab/tests/data/numa-rtc.json");

#[test]
fn a_folder_of_records_becomes_a_page_and_tables() {
    let directory = Directory::new("lab-report");
    let [record, page, text, table] =
        ["a.json", "page.html", "page.md", "figures.csv"].map(|name| directory.file(name));
    fs::write(record, RECORD).unwrap();
    let folder = directory.file("");
    let made = run(&["lab", "report", &folder, "--markdown", &text, "--csv", &table, "-o", &page]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    assert_eq!(made.stdout, format!("{page}: report of 1 record\n"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("Receive and count, one core"));
    assert!(fs::read_to_string(text).unwrap().contains("\n## Receive and count, one core\n"));
    assert!(fs::read_to_string(table).unwrap().contains("\nnuma-rtc,burstline-xdp,"));
    let charts = directory.file("charts");
    let beside = directory.file("charts/report.md");
    let made = run(&["lab", "report", &folder, "--charts", &charts, "--markdown", &beside]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    assert!(fs::read_to_string(directory.file("charts/a.svg")).unwrap().starts_with("<svg "));
    assert!(fs::read_to_string(beside).unwrap().contains("](a.svg)"));
    let printed = run(&["lab", "report", &folder, "-o", "-"]);
    assert_eq!(
        (printed.code, printed.stdout),
        (Some(0), page.clone()),
        "the page and nothing else"
    );
    assert_eq!(run(&["lab", "report", &folder]).code, Some(0));
    assert_eq!(fs::read_to_string(directory.file("report.html")).unwrap(), page);
}

#[test]
fn what_is_no_record_is_named_in_a_line() {
    let directory = Directory::new("lab-report-odd");
    let folder = directory.file("");
    let refused = run(&["lab", "report", &folder]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("0 records (*.json)"), "{}", refused.stderr);
    fs::write(directory.file("good.json"), RECORD).unwrap();
    fs::write(directory.file("cut.json"), &RECORD[..900]).unwrap();
    let made = run(&["lab", "report", &folder]);
    assert_eq!((made.code, made.stderr.lines().count()), (Some(0), 1), "{}", made.stderr);
    assert!(made.stderr.starts_with("burstline: cut.json is no record: EOF"), "{}", made.stderr);
    let refused = run_with_code(&["lab", "report", &folder, "-o", "/no/such/folder/x.html"], 1);
    assert!(refused.stderr.contains("/no/such/folder/x.html: No such file"), "{}", refused.stderr);
}

#[test]
fn the_page_of_the_documents_is_what_the_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (path, runs) = (root.join("docs/documents.md"), root.join("runs"));
    let runs = runs.to_str().unwrap();
    let printed = run_with_code(&["lab", "documents", "--markdown", "--records", runs], 0);
    if std::env::var_os("WRITE_DOCUMENTS").is_some() {
        fs::write(&path, printed.stdout).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    for (number, (ours, theirs)) in (1..).zip(committed.lines().zip(printed.stdout.lines())) {
        assert_eq!(ours, theirs, "docs/documents.md:{number}: run make documents, and commit it");
    }
    assert_eq!(committed.len(), printed.stdout.len(), "docs/documents.md: run make documents");
}

#[test]
fn every_claim_has_a_status_as_text_and_as_json() {
    let found = run_json(&["lab", "documents"], 0);
    let claims = found["claims"].as_array().unwrap();
    let text = run(&["lab", "documents"]).stdout;
    for claim in claims {
        let (id, status) = (claim["id"].as_str().unwrap(), claim["status"].as_str().unwrap());
        let is_known =
            ["run", "shown", "model"].contains(&status) || status.starts_with("not run because ");
        assert!(is_known && text.contains(&format!("  {id}: ")), "{claim}");
        assert!(claim["basis"].as_str().is_some_and(|basis| !basis.is_empty()), "{claim}");
    }
    assert!(text.contains("mpossible as printed"), "misprints are marked");
}
