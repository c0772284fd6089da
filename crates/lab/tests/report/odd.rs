//! Records that are damaged, foreign, empty, or malicious.

use std::fs;

use burstline_lab::record::{Doubt, Metric, Record, Stage, Status};
use burstline_lab::reports::{self, Collection};
use serde_json::json;

use crate::fixtures::{Folder, chart, collection, metric, receive, record, row, size};

/// Creates all three formats; none may panic.
fn made(name: &str, records: &[Record]) -> [String; 3] {
    let collection = collection(name, records);
    [reports::html(&collection), reports::markdown(&collection), reports::csv(&collection)]
}

const HARM: &str = "</script><script>alert(1)</script><img src=x onerror=y>\"'`|\u{202e}";

#[test]
fn whatever_comes_from_a_record_is_escaped() {
    let mut evil = record(HARM, HARM, Some(HARM));
    evil.scenario = "evil".to_owned();
    evil.about = HARM.to_owned();
    evil.command = HARM.to_owned();
    evil.started = HARM.to_owned();
    evil.version = HARM.to_owned();
    evil.commit = Some(HARM.to_owned());
    evil.machine.cpu = HARM.to_owned();
    evil.machine.governor = Some(HARM.to_owned());
    evil.contenders[0].command = HARM.to_owned();
    evil.chart.y_label = HARM.to_owned();
    evil.chart.x_label = HARM.to_owned();
    evil.doubts = vec![Doubt { name: HARM.to_owned(), text: HARM.to_owned() }];
    evil.notes = vec![HARM.to_owned()];
    for kind in ["lines", "bars", "heat", "cdf", "curve"] {
        evil.chart.kind = kind.to_owned();
        let mut row = row(HARM, &[size(64), (HARM, json!(HARM))]);
        row.metrics.insert("mpps".into(), metric(HARM, Some(HARM), 1.0, 0.1));
        row.metrics.insert(HARM.into(), metric(HARM, Some(HARM), 1.0, 0.1));
        row.stages = vec![Stage { name: HARM.to_owned(), cpu_percent: 1.0, rho: 1.0 }];
        row.losses.insert(HARM.to_owned(), 1);
        let mut not_run = row.clone();
        not_run.metrics.clear();
        not_run.status = Status::NotRun(HARM.to_owned());
        evil.rows = vec![row, not_run];
        let [page, text, _] = made("evil", std::slice::from_ref(&evil));
        assert_eq!(page.matches("<script").count(), 1, "{kind}: the record's own block");
        assert_eq!(page.matches("</script").count(), 1, "{kind}");
        assert!(!page.contains("<img") && !text.contains("<img"), "{kind}");
        let outside = page.split("<script").next().unwrap();
        assert!(!outside.contains('\u{202e}'), "{kind}");
        assert!(!text.contains("<script"), "{kind}");
    }
}

#[test]
fn a_folder_says_what_is_wrong_with_it_in_a_line() {
    let folder = Folder::new("odd-folder");
    let said = |path: &std::path::Path| Collection::read(path).unwrap_err().to_string();
    assert!(said(folder.path()).contains("0 records (*.json); burstline lab run"));
    assert!(said(&folder.path().join("none")).contains("No such file"));
    folder.write("a.json", "{\"schema\":");
    folder.write("notes.txt", "not looked at");
    fs::create_dir(folder.path().join("b.json")).unwrap();
    let unreadable = said(folder.path());
    assert!(
        unreadable.contains("none of 2 files is a record; a.json is no record: EOF"),
        "{unreadable}"
    );
    assert_eq!(unreadable.lines().count(), 1);
}

#[test]
fn one_good_record_among_bad_ones_is_reported_and_they_are_named() {
    let folder = Folder::new("odd-some");
    let text = receive().to_text();
    folder.write("good.json", &text);
    folder.write("cut.json", &text[..text.len() / 2]);
    folder.write("other.json", text.replace("burstline-lab-1", "burstline-lab-9"));
    folder.write("foreign.json", "{\"a\": [1, 2, 3]}");
    folder.write("list.json", "[]");
    folder.write("empty.json", "");
    folder.write("bytes.json", [0xff, 0xfe, 0x00]);
    let collection = Collection::read(folder.path()).unwrap();
    assert_eq!((collection.entries.len(), collection.problems.len()), (1, 6));
    let page = reports::html(&collection);
    for name in ["cut", "other", "foreign", "list", "empty", "bytes"] {
        assert!(page.contains(&format!("<li>{name}.json is no record: ")), "{name}");
    }
    assert!(page.contains("schema is `burstline-lab-9`"));
}

#[test]
fn a_record_without_rows_or_with_figures_that_nobody_has_is_said_in_words() {
    let empty = record("empty", "Empty", None);
    let [page, ..] = made("empty", std::slice::from_ref(&empty));
    assert!(page.contains("Nothing to draw") && !page.contains("<svg"));
    let mut odd = receive();
    odd.chart = chart("spiral", "no_such_key", "no_such_metric", "no_such_series");
    assert!(made("no-such", &[odd.clone()])[0].contains("Nothing to draw"));
    // An unknown kind of chart is drawn as lines; a key that no row has makes one position.
    odd.chart.y = "mpps".to_owned();
    assert!(made("spiral", &[odd])[0].contains("<svg"));
}

#[test]
fn absurd_numbers_do_not_break_anything() {
    let mut odd = record("absurd", "Absurd", None);
    let figures = [0.0, -0.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -1.0, 1e300];
    for kind in ["lines", "bars", "heat", "cdf", "curve"] {
        odd.chart.kind = kind.to_owned();
        odd.rows.clear();
        for (index, figure) in figures.into_iter().enumerate() {
            let names = ["burstline-x", "other"];
            for name in names {
                let mut row = row(name, &[("size_bytes", json!(figures[(index * 3) % 8]))]);
                let samples = vec![figure, figures[(index + 1) % 8]];
                let metric =
                    Metric { unit: "Mpps".to_owned(), basis: None, median: figure, samples };
                row.metrics.insert("mpps".into(), metric);
                row.stages = vec![Stage { name: "s".into(), cpu_percent: figure, rho: figure }];
                row.document = Some([("mpps".to_owned(), figure)].into());
                odd.rows.push(row);
            }
        }
        odd.elapsed_s = f64::MAX;
        let [page, ..] = made("absurd", std::slice::from_ref(&odd));
        for bad in ["NaN", "\"inf", "\"-inf", "inf\""] {
            let drawing = page.split("<script").next().unwrap();
            assert!(!drawing.contains(bad), "{kind}: {bad}");
        }
    }
}

#[test]
fn no_samples_and_points_of_every_type_are_taken_as_they_are() {
    let mut odd = record("odd", "Odd", None);
    for value in [json!(null), json!(true), json!([1, 2]), json!({"a": 1}), json!("64"), json!(64)]
    {
        let mut row = row("burstline-xdp", &[("size_bytes", value)]);
        let median = 2.5;
        let metric = Metric { unit: String::new(), basis: None, median, samples: Vec::new() };
        row.metrics.insert("mpps".into(), metric);
        odd.rows.push(row);
    }
    for kind in ["lines", "bars", "heat", "cdf"] {
        odd.chart.kind = kind.to_owned();
        let [page, _, table] = made("types", std::slice::from_ref(&odd));
        assert!(page.contains("2.5") && table.contains(",2.5,,\n"), "{kind}");
    }
}

#[test]
fn hundreds_of_panels_series_and_words_are_bounded() {
    let mut odd = record("many", "Many", None);
    for index in 0..300 {
        let point = [size(64), ("rate", json!(format!("rate {index}")))];
        let mut row = row(&format!("contender {}", index % 40), &point);
        row.metrics.insert("mpps".into(), metric("Mpps", None, f64::from(index), 0.1));
        odd.rows.push(row);
    }
    let [page, ..] = made("many", std::slice::from_ref(&odd));
    assert!(page.matches("<figure>").count() <= 12);
    assert!(page.contains("288 more panels are in the table only"));
    odd.chart = chart("lines", "rate", "mpps", "contender");
    assert!(made("words", &[odd])[0].contains("<svg"));
}
