//! Faults while flow records are made, and the resulting trees.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::collectors::ask;
use crate::support::{
    Directory, Run, assert_closed, assert_says, command, last_object, run, run_json,
};
use burstline_skip::without;
use serde_json::json;

/// Writes a pcap in us with packets of one conversation at these times, in s since 1970.
fn pcap(directory: &Directory, name: &str, times_s: &[u32]) -> String {
    let mut bytes = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for time_s in times_s {
        bytes.extend([*time_s, 0, 60, 60].map(u32::to_le_bytes).concat());
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 53, 3, 231, 0, 26]);
        frame.resize(60, 0);
        bytes.extend(frame);
    }
    let file = directory.file(name);
    fs::write(&file, bytes).unwrap();
    file
}

fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => parts.extend(self::parts(&path)),
            false if path.extension().is_some_and(|end| end == "parquet") => parts.push(path),
            false => {}
        }
    }
    parts.sort();
    parts
}

/// A clock that is set to another day and back: every packet is in a record of its own day, and no
/// record spans a jump.
#[test]
fn a_clock_that_jumps_splits_records_and_loses_none() {
    let directory = Directory::new("flows-clock");
    let (day, tree) = (86_400, directory.file("tree"));
    let base = 1_700_000_000;
    let times = [0, 1, 2, 9 * day, 9 * day + 1, 3, 4, 5].map(|after| base + after);
    let file = pcap(&directory, "jumps.pcap", &[&times[..], &[7]].concat());
    let report = run_json(&["flows", &file, "-o", &tree, "--sensor", "s"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 9);
    let flows = &report["flows"];
    assert_eq!((&flows["packets_in_records"], &flows["unaccounted"]), (&json!(9), &json!(0)));
    assert_eq!(flows["records"], 4, "{flows}");
    let folders: Vec<_> =
        parts(Path::new(&tree)).iter().map(|p| p.parent().unwrap().to_owned()).collect();
    assert_eq!(folders.len(), 3, "1970, the day and nine days later: {folders:?}");
    let sql = "SELECT date::VARCHAR, packets, (last_ns - first_ns) // 1000000000 FROM flows \
               ORDER BY first_ns, packet_number";
    let Some(rows) = ask(&tree, sql) else { return };
    let wanted = [
        json!(["1970-01-01", 1, 0]),
        json!(["2023-11-14", 3, 2]),
        json!(["2023-11-14", 3, 2]),
        json!(["2023-11-23", 2, 1]),
    ];
    assert_eq!(rows, wanted);
}

/// Two machines with the same name, whose trees are merged.
#[test]
fn a_sensor_with_the_name_of_another_is_told_apart_by_its_start() {
    let directory = Directory::new("flows-namesake");
    let all = directory.file("all");
    let mut packets = 0;
    for (tree, count) in [("a", 300), ("b", 500)] {
        let tree = directory.file(tree);
        let load = format!("gen:?packets={count}&flows=20");
        run_json(&["flows", &load, "-o", &tree, "--sensor", "same"], 0);
        for part in parts(Path::new(&tree)) {
            let to = Path::new(&all).join(part.strip_prefix(&tree).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            assert!(!to.exists(), "{to:?} would be written over");
            fs::copy(&part, to).unwrap();
        }
        packets += count;
    }
    let sql = "SELECT sensor, count(DISTINCT boot_id), sum(packets)::BIGINT FROM flows GROUP BY 1";
    if let Some(rows) = ask(&all, sql) {
        assert_eq!(rows, [json!(["same", 2, packets])]);
    }
    let compacted = run_json(&["flows", "compact", &all], 0);
    assert_eq!((&compacted["files_after"], &compacted["records"]), (&json!(1), &json!(40)));
    if let Some(rows) = ask(&all, sql) {
        assert_eq!(rows, [json!(["same", 2, packets])]);
    }
}

/// Rewrites a file of the tree like an older version would have written it: without its last
/// columns. Returns false without DuckDB.
fn make_older(part: &Path) -> bool {
    let path = part.display();
    let program = format!(
        "import duckdb\n\
         duckdb.sql(\"COPY (SELECT * EXCLUDE (file, segment, packet_number) \
         REPLACE (0::INTEGER AS schema_version) \
         FROM read_parquet('{path}', hive_partitioning = false)) \
         TO '{path}.old' (FORMAT parquet)\")"
    );
    let Ok(output) = Command::new(crate::flows::python()).args(["-c", &program]).output() else {
        return false;
    };
    let done: Run = output.into();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    fs::rename(format!("{path}.old"), part).unwrap();
    true
}

#[test]
fn a_file_that_cannot_be_read_keeps_no_other_from_compaction() {
    let directory = Directory::new("flows-bad");
    let tree = directory.file("tree");
    for sensor in ["a", "a", "b", "b"] {
        run_json(&["flows", "gen:?packets=100&flows=10", "-o", &tree, "--sensor", sensor], 0);
    }
    let bad = parts(Path::new(&tree))[0].with_file_name("part-0.parquet");
    fs::write(&bad, "no").unwrap();
    assert_says(&["flows", "compact", &tree], 1, "part-0.parquet");
    assert_eq!(parts(Path::new(&tree)).len(), 3, "one of each sensor, and the bad one");
    fs::remove_file(bad).unwrap();
    assert_eq!(run_json(&["flows", "compact", &tree], 0)["records"], 40);
}

#[test]
fn damaged_files_are_left_and_named_each_and_all_others_are_compacted() {
    let directory = Directory::new("flows-damaged");
    let tree = directory.file("tree");
    for sensor in ["a", "a", "a", "b", "b"] {
        run_json(&["flows", "gen:?packets=100&flows=10", "-o", &tree, "--sensor", sensor], 0);
    }
    let files = parts(Path::new(&tree));
    let damaged = [&files[1], &files[3]];
    for path in damaged {
        let mut bytes = fs::read(path).unwrap();
        bytes[200..210].fill(0xff);
        fs::write(path, bytes).unwrap();
    }
    let done = run(&["flows", "compact", &tree]);
    let said = "5 files are now 4, with 30 records\n\
                left 2 files: damaged, or with the schema of another version\n";
    assert_eq!((done.code, &done.stdout[..]), (Some(1), said), "{}", done.stderr);
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.stderr);
    for (line, path) in lines.iter().zip(damaged) {
        let named = format!("{}: ", path.display());
        assert!(line.contains(&named) && line.contains("damaged in row group 0"), "{line}");
        assert!(path.exists());
    }
    let report = run_json(&["flows", "compact", &tree], 1);
    assert_eq!((&report["success"], &report["files_left"]), (&json!(false), &json!(2)));
    assert_eq!(report["errors"].as_array().unwrap().len(), 2, "{report}");
}

#[test]
fn a_tree_may_have_a_name_that_is_no_text() {
    let directory = Directory::new("flows-name");
    let mut name = directory.file("t").into_bytes();
    name.push(0xff);
    let tree = OsString::from_vec(name);
    let flows = |words: &[&str]| {
        let mut job = command(&["flows"]);
        job.args(words).arg(&tree).args(["--json"]);
        let done: Run = job.output().unwrap().into();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        last_object(&done.stdout)
    };
    for _ in 0..2 {
        let report = flows(&["gen:?packets=100&flows=10", "--sensor", "s", "-o"]);
        assert_eq!(report["flows"]["sinks"][0]["records"], 10, "{report}");
    }
    // As after a crash: records in a file do not count as missing.
    let journal = Path::new(&tree).join(".journal-s");
    let part = parts(Path::new(&tree)).remove(0);
    let part = part.strip_prefix(&tree).unwrap().display();
    let pending = format!("pending={part}\npending_records=10\npending_packets=100\n");
    let made = "burstline-flows=1\nstate=running\nboot_id=x\npackets=100\nrecords=10\n";
    fs::write(journal, format!("{made}{pending}")).unwrap();
    let report = flows(&["gen:?packets=100&flows=10", "--sensor", "s", "-o"]);
    let last = &report["flows"]["last_start"];
    assert_eq!(
        (&last["records_not_written"], &last["packets_not_written"]),
        (&json!(0), &json!(0))
    );
    let done = flows(&["compact"]);
    assert_eq!((&done["files_after"], &done["records"]), (&json!(1), &json!(30)));
    let asked: Run = command(&["query", "rates"]).arg(&tree).output().unwrap().into();
    assert_eq!(asked.code, Some(1), "{}", asked.stdout);
    assert!(asked.stderr.contains("not UTF-8: rename it"), "{}", asked.stderr);
}

#[test]
fn a_file_of_an_older_schema_is_read_and_not_compacted_with_others() {
    let directory = Directory::new("flows-older");
    let tree = directory.file("tree");
    for _ in 0..2 {
        run_json(&["flows", "gen:?packets=100&flows=10", "-o", &tree, "--sensor", "s"], 0);
    }
    let files = parts(Path::new(&tree));
    assert_eq!(files.len(), 2);
    let sql = "SELECT schema_version, count(*), count(packet_number), sum(packets)::BIGINT \
               FROM flows \
               GROUP BY 1 ORDER BY 1";
    if ask(&tree, sql).is_none() {
        return;
    }
    if !make_older(&files[0]) {
        return without("no DuckDB to write a file: scripts/setup query");
    }
    let wanted = [json!([0, 10, 0, 100]), json!([1, 10, 10, 100])];
    assert_eq!(ask(&tree, sql).unwrap(), wanted);
    run_json(&["flows", "gen:?packets=100&flows=10", "-o", &tree, "--sensor", "s"], 0);
    let done = run(&["flows", "compact", &tree]);
    let said =
        "3 files are now 2, with 30 records\nleft 1 file with the schema of another version\n";
    assert_eq!((done.code, &done.stdout[..]), (Some(0), said), "{}", done.stderr);
    assert!(files[0].exists(), "the older one stays");
    let wanted = [json!([0, 10, 0, 100]), json!([1, 20, 20, 200])];
    assert_eq!(ask(&tree, sql).unwrap(), wanted);
}
