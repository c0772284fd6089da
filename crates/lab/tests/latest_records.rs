//! Checks that the records in `runs/latest` are of the scenarios as they are now.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use burstline_lab::record::{ContenderInfo, Record, Row, Status};
use burstline_lab::scenario::run::{BEFORE, FAILED, NO_TURN};
use burstline_lab::scenario::{Point, Scenario, built_in};

/// Scenarios that need no record in `runs/latest`, the record that shows their work, and why.
const ELSEWHERE: [(&str, &str, &str); 12] = [
    ("burst-merge-live", "full/burst-merge-live.json", "kept whole: a short one says little"),
    ("dma", "simulated/dma.json", "kept with the counts of its simulation"),
    ("handoff", "figures/handoff-60.json", "its points are figures"),
    ("handoff-live", "figures/dpdk-pipeline-live.json", "its point is a figure"),
    ("make-packets", "figures/generate-log-64.json", "its points are figures"),
    ("null-device", "figures/dpdk-rtc-64.json", "its points are figures"),
    ("pcie", "simulated/pcie.json", "kept with the counts of its simulation"),
    ("record-disk", "figures/record-disk-tcpdump.json", "its points are figures"),
    ("retention", "simulated/retention.json", "kept with the counts of its simulation"),
    ("rfc2544", "billion/dna-bounce-billion.json", "its search has no short form: make billion"),
    ("send-rate", "figures/generate-xdp-testpmd.json", "its points are figures"),
    ("snort-scale", "full/snort-scale.json", "kept whole: a short one says little"),
];

/// How the names of our contenders begin.
const OURS: &str = "burstline-";

fn runs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs")
}

fn record(path: &str) -> Option<Record> {
    let text = fs::read_to_string(runs().join(path)).ok()?;
    Some(Record::parse(&text).unwrap_or_else(|why| panic!("runs/{path}: {why}")))
}

/// Compares the contenders, and the points at which each has a row. Rows of systems that only a
/// document measured do not count.
fn compared(scenario: &Scenario, record: &Record) -> Result<(), String> {
    let own: Vec<&str> = record.contenders.iter().map(|info| &info.name[..]).collect();
    if own != scenario.contenders {
        return Err(format!("contenders {own:?}, now {:?}", scenario.contenders));
    }
    let row = |contender: &str, point| (contender.to_owned(), format!("{point:?}"));
    let rows = record.rows.iter().filter(|has| own.contains(&&*has.contender));
    let rows: BTreeSet<_> = rows.map(|has| row(&has.contender, &has.point)).collect();
    let points = Point::all(scenario);
    let of_each = |name: &String| points.iter().map(|point| row(name, &point.keys)).collect();
    let wanted: BTreeSet<_> =
        scenario.contenders.iter().flat_map(|name| -> Vec<_> { of_each(name) }).collect();
    match rows.symmetric_difference(&wanted).next() {
        None => Ok(()),
        Some(odd) if rows.contains(odd) => Err(format!("{odd:?} is no point any more")),
        Some(lacks) => Err(format!("{lacks:?} is not there")),
    }
}

#[test]
fn the_latest_run_has_contenders_and_quick_points_of_each_scenario() {
    let mut wrong = Vec::new();
    for scenario in built_in() {
        let elsewhere = ELSEWHERE.iter().any(|(name, ..)| *name == scenario.name);
        let path = format!("latest/{}.json", scenario.name);
        let outcome = match record(&path) {
            Some(record) if record.is_quick => compared(&scenario.clone().quickly(), &record),
            Some(_) => Err("a whole run".to_owned()),
            None if elsewhere => Ok(()),
            None => Err("there is no record".to_owned()),
        };
        wrong.extend(outcome.err().map(|why| format!("{}: {why}", scenario.name)));
    }
    assert!(wrong.is_empty(), "make runs: runs/latest is not of now:\n{}", wrong.join("\n"));
}

/// Whether a turn did not come about because of the run: its time, its end or a failure. Otherwise
/// the machine or the contender is why.
fn is_of_the_run(status: &Status) -> bool {
    matches!(status, Status::NotRun(why)
        if why == NO_TURN || why.ends_with(BEFORE) || why.starts_with(FAILED))
}

/// Returns each contender and value of a point's key for which no row ran, although both can.
fn never_ran(record: &Record) -> Vec<String> {
    let can_run = record.contenders.iter().filter(|info| info.not_run.is_none());
    let mut never = Vec::new();
    for ContenderInfo { name, .. } in can_run {
        let rows: Vec<&Row> = record.rows.iter().filter(|row| row.contender == *name).collect();
        let keys = rows.iter().flat_map(|row| &row.point);
        // Values have no order; their texts have one.
        let text = serde_json::Value::to_string;
        let keys: BTreeSet<_> = keys.map(|(key, value)| (key, text(value))).collect();
        for (key, value) in keys {
            let has_it = |row: &&&Row| row.point.get(key).is_some_and(|of| text(of) == value);
            let of_it: Vec<_> = rows.iter().filter(has_it).collect();
            let has_run = of_it.iter().any(|row| matches!(row.status, Status::Run | Status::Model));
            if !has_run && of_it.iter().any(|row| is_of_the_run(&row.status)) {
                never.push(format!("{name} never ran with {key} {value}"));
            }
        }
    }
    never
}

#[test]
fn each_contender_that_can_run_has_run_in_each_case_and_at_each_size() {
    let latest = fs::read_dir(runs().join("latest")).unwrap();
    let names = latest.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.filter(|name| name.ends_with(".json")).collect();
    assert!(!names.is_empty());
    let wrong: Vec<String> = names
        .iter()
        .flat_map(|name| {
            let never = never_ran(&record(&format!("latest/{name}")).unwrap());
            never.into_iter().map(move |what| format!("{name}: {what}"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "make runs: turns of runs/latest were cut off:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn what_has_no_row_that_ran_is_found() {
    let mut record = record("latest/both-ways.json").unwrap();
    assert_eq!(never_ran(&record), Vec::<String>::new());
    let is_sent = |row: &Row| row.contender == "testpmd" && row.point["case"] == "send";
    let at = record.rows.iter().position(is_sent).unwrap();
    for (why, is_found) in [
        ("its 8 s were over before", true),
        ("it had no turn", true),
        ("it failed: no core", true),
        ("A_A needs more cores of node 0 than are allowed", false),
    ] {
        record.rows[at].status = Status::NotRun(why.to_owned());
        let wanted = ["testpmd never ran with case \"send\""];
        assert_eq!(never_ran(&record), wanted[..usize::from(is_found)], "{why}");
    }
}

#[test]
fn what_needs_no_record_there_has_one_elsewhere() {
    let all: Vec<_> = built_in().into_iter().map(|scenario| scenario.name).collect();
    for (name, path, _) in ELSEWHERE {
        assert!(all.iter().any(|known| known == name), "{name} is no scenario");
        assert!(record(path).is_some(), "{name}: runs/{path} is not there");
    }
}

/// A rival on DPDK chooses its pages itself. So a record has to show that ours had no better ones.
#[test]
fn records_of_scenarios_beside_dpdk_say_which_pages_it_and_ours_had() {
    const DPDK: [&str; 3] = ["dpdk-", "ovs-dpdk", "testpmd"];
    let mut unknown = Vec::new();
    for folder in ["latest", "full"] {
        for entry in fs::read_dir(runs().join(folder)).unwrap() {
            let path = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            let Some(record) = path.ends_with(".json").then(|| record(&path)).flatten() else {
                continue;
            };
            let is_run = |row: &&Row| row.status == Status::Run;
            let ran: Vec<&Row> = record.rows.iter().filter(is_run).collect();
            let is_dpdks = |row: &Row| DPDK.iter().any(|own| row.contender.starts_with(own));
            if !ran.iter().any(|row| is_dpdks(row)) {
                continue;
            }
            let is_silent = |row: &&&Row| {
                let says = record.pages_of(&row.contender).is_some();
                // Rows of older records have only the size of their pages.
                !says && !row.metrics.contains_key("page_bytes")
            };
            let both = ran.iter().filter(|row| is_dpdks(row) || row.contender.starts_with(OURS));
            unknown.extend(both.filter(is_silent).map(|row| format!("{path}: {}", row.contender)));
        }
    }
    unknown.sort_unstable();
    unknown.dedup();
    assert!(unknown.is_empty(), "make runs: no pages:\n{}", unknown.join("\n"));
}

/// Rivals in figures that are parts of this program, or are it with other options.
const PARTS: [&str; 17] = [
    "bare-append",
    "bare-line",
    "bounce",
    "clock-loop",
    "descriptor-writeback",
    "long-look",
    "nobody-reading",
    "not-instrumented",
    "null",
    "plain-pcapng",
    "poll-busy",
    "reader-in-this-process",
    "standard-map",
    "through-a-cable",
    "without-silence",
    "without-the-stalled-one",
    "without-the-stopped-one",
];

/// Returns the committed records of figures in which a contender says its pages, by their paths.
/// Older records do not say them; newer ones do for each contender.
fn figures_with_pages() -> Vec<(String, Record)> {
    let mut all = Vec::new();
    for folder in ["figures", "figures-xeon", "far"] {
        for entry in fs::read_dir(runs().join(folder)).unwrap() {
            let path = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            let record = path.ends_with(".json").then(|| record(&path)).flatten();
            all.extend(record.map(|record| (path, record)));
        }
    }
    let says = |of: &ContenderInfo| of.pages.is_some() || of.page_kinds.is_some();
    all.retain(|(_, record)| record.contenders.iter().any(says));
    all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Whether a version is an error, or another program's.
fn is_no_version(of: &ContenderInfo) -> bool {
    let is_error = of.version.contains("invalid option");
    let is_compilers = of.version.contains("rustc") && !PARTS.contains(&&*of.name);
    is_error || is_compilers || !of.version.contains(|char: char| char.is_ascii_digit())
}

#[test]
fn contenders_of_figures_have_versions_of_their_own() {
    let info = |name: &str, version: &str| ContenderInfo {
        name: name.to_owned(),
        version: version.to_owned(),
        ..ContenderInfo::default()
    };
    assert!(is_no_version(&info("softflowd", "softflowd: invalid option -- '1'")));
    assert!(is_no_version(&info("nfpcapd", "in this program: rustc 1.90.0")));
    assert!(is_no_version(&info("tcpdump", "")));
    assert!(!is_no_version(&info("poll-busy", "in this program: rustc 1.90.0")));
    let mut wrong = Vec::new();
    for (path, record) in figures_with_pages() {
        let without = record.contenders.iter().filter(|of| is_no_version(of));
        wrong.extend(without.map(|of| format!("{path}: {} has `{}`", of.name, of.version)));
    }
    assert!(wrong.is_empty(), "make bench: no version:\n{}", wrong.join("\n"));
}

/// Not known is as good as known, if the record says why.
#[test]
fn figures_say_which_pages_each_side_had() {
    let mut unknown = Vec::new();
    for (path, record) in figures_with_pages() {
        let is_silent = |name: &&str| record.pages_of(name).is_none();
        let sides = record.contenders.iter().map(|of| &*of.name).filter(is_silent);
        unknown.extend(sides.map(|name| format!("{path}: {name}")));
    }
    assert!(unknown.is_empty(), "make bench: no pages:\n{}", unknown.join("\n"));
}
