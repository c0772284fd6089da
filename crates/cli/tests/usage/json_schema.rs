//! Checks that every verb's `--json` output matches `docs/schema.json`.
//!
//! `WRITE_SCHEMA=1` adds new keys to the file. Removing a key, or changing its type, changes the
//! interface: edit the file by hand, and mention it in the changelog.

use std::fs;

use crate::schema::{faults, learn};
use crate::support::service::Service;
use crate::support::{Directory, REAL, run, run_json};
use serde_json::{Value, json};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema.json");

/// An output, and the name of its definition.
struct Sample {
    name: &'static str,
    value: Value,
}

fn sample(name: &'static str, words: &[&str]) -> Sample {
    Sample { name, value: run_json(words, 0) }
}

/// Returns reports of jobs, and an interval.
fn jobs(directory: &Directory) -> Vec<Sample> {
    let file = directory.file("a.pcapng");
    let (kept, made) = (directory.file("kept.pcapng"), directory.file("made.pcapng"));
    let run_of = |words: &[&str]| sample("report", words);
    let mut samples = vec![
        run_of(&["count", REAL, "gen:?packets=1000", "--filter", "ip"]),
        run_of(&["count", "gen:?packets=1000&size=64", "--verify"]),
        run_of(&["capture", REAL, "-w", &file]),
        run_of(&["capture", "gen:?packets=1000", "--keep", "1s", "-w", &kept]),
        run_of(&["capture", "gen:?packets=1000", "--publish", "schema-tap"]),
        run_of(&["merge", REAL, &file, "-w", "/dev/null"]),
        run_of(&["balance", "gen:?packets=1000", "--workers", "2"]),
        run_of(&["bounce", "gen:?packets=1000", "null:"]),
        run_of(&["generate", "-o", &made, "--packets", "1000"]),
        run_of(&["replay", REAL, "--top-speed", "-o", "null:"]),
        run_of(&["replay", REAL, "--rate", "100k", "-o", "null:"]),
        run_of(&["flows", REAL, "-o", &directory.file("tree")]),
    ];
    // No listener there: records are lost.
    let nowhere = run_json(&["flows", REAL, "--ipfix", "tcp:127.0.0.1:1"], 1);
    samples.push(Sample { name: "report", value: nowhere });
    let words = ["count", "gen:?rate=100k", "--duration", "1s", "--stats", "50ms", "--json"];
    let lines = run(&words).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, intervals) = lines.split_last().unwrap();
    assert!(!intervals.is_empty());
    samples.push(Sample { name: "report", value: last.clone() });
    let intervals = intervals.iter().cloned();
    samples.extend(intervals.map(|value| Sample { name: "interval", value }));
    samples
}

/// Returns output about files and about the machine.
fn others(directory: &Directory) -> Vec<Sample> {
    let copy = directory.file("copy.pcap");
    fs::copy(REAL, &copy).unwrap();
    let (mended, found) = (directory.file("mended.pcapng"), directory.file("found.pcapng"));
    let mut samples = vec![
        sample("check", &["check", REAL]),
        sample("info", &["info", REAL]),
        sample("info", &["info", &directory.file("a.pcapng")]),
        sample("index", &["index", &copy]),
        sample("extract", &["extract", REAL, "--filter", "ip", "-w", &found]),
        sample("recover", &["recover", REAL, "-w", &mended]),
        sample("version", &["version"]),
        sample("explanation", &["explain", "rx_ring_full"]),
        sample("doctor_ports", &["doctor", "ports"]),
        sample("doctor_logs", &["doctor", "logs"]),
        sample("doctor_plan", &["doctor", "plan", "gen:"]),
    ];
    let all = run_json(&["explain"], 0);
    let all = all.as_array().unwrap().iter().cloned();
    samples.extend(all.map(|value| Sample { name: "explanation", value }));
    let site = "[job.a]\nverb = 'count'\nports = 'gen:?packets=10'\nstats = '10ms'\n\
                [job.b]\nverb = 'count'\nports = 'log:never'\nmissing-port = 'wait'\n";
    let service = Service::start(directory, site);
    service.wait_for("it has its ledger", |event| event["event"] == "ledger");
    let (_, events) = service.stop();
    for event in events {
        // Nested objects have their own definitions.
        for (key, name) in [("report", "report"), ("stats", "interval")] {
            samples.extend(event.get(key).map(|inner| Sample { name, value: inner.clone() }));
        }
        samples.push(Sample { name: "event", value: event });
    }
    samples
}

#[test]
fn every_output_fits_the_published_schema() {
    let directory = Directory::new("schema");
    let text = fs::read_to_string(PATH).unwrap_or_else(|_| "{}".to_owned());
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    let samples = jobs(&directory).into_iter().chain(others(&directory));
    let samples: Vec<Sample> = samples.collect();
    if std::env::var_os("WRITE_SCHEMA").is_some() {
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!("What burstline prints with --json, a definition each");
        for Sample { name, value } in &samples {
            learn(&mut schema["$defs"][*name], value, "");
        }
        fs::write(PATH, format!("{schema:#}\n")).unwrap();
    }
    let mut wrong: Vec<String> = samples
        .iter()
        .flat_map(|sample| faults(&schema["$defs"][sample.name], &sample.value, sample.name))
        .collect();
    wrong.sort_unstable();
    wrong.dedup();
    assert!(wrong.is_empty(), "WRITE_SCHEMA=1 adds what is new:\n{}", wrong.join("\n"));
}

#[test]
fn what_does_not_fit_is_found() {
    let text = fs::read_to_string(PATH).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let version = run_json(&["version"], 0);
    let of = |value: &Value| faults(&schema["$defs"]["version"], value, "version");
    assert_eq!(of(&version), [""; 0]);
    let mut wrong = version.clone();
    wrong["version"] = json!(1);
    wrong["new"] = json!("key");
    wrong.as_object_mut().unwrap().remove("target");
    let found = of(&wrong);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.contains(&"version/version: integer, not string".to_owned()), "{found:?}");
}
