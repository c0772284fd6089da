//! Reads and writes the record of the table, and makes the table from it.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::turns::PER_MS;
use crate::common::repository;

/// The lines of the page that enclose the table.
const MARKS: [&str; 2] = ["<!-- programs: make programs -->\n", "<!-- end of programs -->\n"];
const RECORD: &str = "runs/programs.json";
const PAGE: &str = "docs/sensors.md";

pub(super) fn committed() -> Value {
    let text = fs::read_to_string(repository().join(RECORD)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Writes the record, and updates the page.
pub(super) fn write(packets: [usize; 2], programs: &[Value]) {
    let said = |command: &str| {
        let said = Command::new("sh").args(["-c", command]).current_dir(repository()).output();
        String::from_utf8_lossy(&said.unwrap().stdout).trim().to_owned()
    };
    let record = json!({
        "schema": "burstline-programs-1",
        "command": "make programs",
        "started": said("date -u +%Y-%m-%dT%H:%M:%SZ"),
        "commit": said("git rev-parse --short=12 HEAD"),
        "machine": {
            "cpu": said("sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1"),
            "cores": said("nproc"),
            "kernel": said("uname -r"),
            "os": said(". /etc/os-release; echo \"$PRETTY_NAME\""),
            "load": said("cut -d ' ' -f 1-3 /proc/loadavg"),
        },
        "packets": packets[0],
        "packets_less": packets[1],
        "live_pps": PER_MS * 1000,
        "programs": programs,
    });
    let text = serde_json::to_string_pretty(&record).unwrap() + "\n";
    fs::write(repository().join(RECORD), text).unwrap();
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    fs::write(repository().join(PAGE), inserted(&page, &table(&record))).unwrap();
}

/// Returns the page as the committed record requires it, and the actual page.
pub(super) fn pages() -> [String; 2] {
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    [inserted(&page, &table(&committed())), page]
}

fn inserted(page: &str, table: &str) -> String {
    let (before, rest) = page.split_once(MARKS[0]).expect("the mark in front of the table");
    let (_, after) = rest.split_once(MARKS[1]).expect("the mark behind it");
    format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1])
}

/// Returns the table in Markdown.
pub(super) fn table(record: &Value) -> String {
    let head = "| program | packets: file, log, veth | finds: file, log | the same | file, ns | \
                veth, ns | log, ns |\n|---|---|---|---|---|---|---|\n";
    let rows = record["programs"].as_array().unwrap().iter().map(|row| {
        let of = |of: &Value, sources: &[&str]| {
            let numbers = sources.iter().map(|&source| grouped(&of[source]));
            numbers.collect::<Vec<_>>().join(", ")
        };
        let [file, veth, log] = ["file", "veth", "log"].map(|source| ns(&row["ns"][source]));
        let finds = row["finds"].as_str().unwrap();
        let same = if row["is_same"] == true { "yes" } else { "**no**" };
        let packets = of(&row["packets"], &["file", "log", "veth"]);
        let (name, found) = (row["name"].as_str().unwrap(), of(&row["found"], &["file", "log"]));
        format!("| {name} | {packets} | {found} {finds} | {same} | {file} | {veth} | {log} |\n")
    });
    head.to_owned() + &rows.collect::<String>()
}

/// Returns the median of some samples; a dash if there are none.
fn ns(samples: &Value) -> String {
    let mut samples: Vec<f64> =
        samples.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    samples.sort_by(f64::total_cmp);
    match samples.get(samples.len() / 2) {
        Some(median) => grouped(&json!(median.round() as u64)),
        None => "-".to_owned(),
    }
}

/// Formats a number with a comma at each thousand; `all` if there is none.
fn grouped(number: &Value) -> String {
    let Some(number) = number.as_u64() else { return "all".to_owned() };
    let digits = number.to_string();
    let parts: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|part| std::str::from_utf8(part).unwrap()).collect();
    parts.join(",")
}
