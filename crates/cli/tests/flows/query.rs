//! Queries of a tree of flow records, answered by DuckDB.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

use crate::support::live::wait_until;
use crate::support::rights::nobody;
use crate::support::service::is_alive;
use crate::support::{
    Directory, PROGRAM, Run, assert_says, command, last_object, regular, run, run_json,
    run_with_code,
};
use burstline_skip::skip;
use serde_json::{Value, json};

/// Makes a tree of two sensors: 4,000 and 2,000 packets of the same 40 flows. Returns `None`
/// without DuckDB, after counting the test as skipped.
pub(crate) fn tree(directory: &Directory) -> Option<String> {
    let tree = directory.file("it's [flows]");
    for (sensor, packets) in [("ams1", 2000), ("fra1", 4000)] {
        // The file's name becomes the port's name, and contains an escape sequence.
        let file = regular(directory, &format!("{sensor}\u{1b}[2J,\"x\".pcap"), packets, 100);
        let report = run_json(&["flows", &file, "-o", &tree, "--sensor", sensor], 0);
        assert_eq!(report["flows"]["records"], 40, "{report}");
    }
    let asked = run(&["query", "SELECT 1 AS one", &tree, "--csv"]);
    if asked.stderr.contains("DuckDB is not installed") {
        skip("DuckDB is not installed: scripts/setup query");
        return None;
    }
    assert_eq!((asked.code, &asked.stdout[..]), (Some(0), "one\n1\n"), "{}", asked.stderr);
    Some(tree)
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let report = run_json(&[&["query"], arguments].concat(), 0);
    report["rows"].as_array().unwrap().clone()
}

#[test]
fn ready_questions_and_sql_are_answered() {
    let directory = Directory::new("query");
    let Some(tree) = tree(&directory) else { return };
    let sql =
        "SELECT sensor, count(*) AS n, sum(packets), sum(bytes) FROM flows GROUP BY 1 ORDER BY 1";
    let wanted = [json!(["ams1", 40, 2000, 200_000]), json!(["fra1", 40, 4000, 400_000])];
    assert_eq!(rows(&[sql, &tree]), wanted);
    // All talk to one host, and no two hosts more than that one.
    let talkers = rows(&["top-talkers", &tree]);
    assert_eq!(
        talkers[0].as_array().unwrap()[..6],
        json!(["10.0.0.1", 80, 6000, 600_000, 0, 600_000]).as_array().unwrap()[..]
    );
    assert_eq!(talkers.len(), 41);
    assert_eq!(rows(&["top-talkers", &tree, "--limit", "3"]).len(), 3);
    let peers = rows(&["who-talked-to", &tree, "--address", "10.0.1.7"]);
    assert_eq!(peers.len(), 1);
    assert_eq!(
        peers[0].as_array().unwrap()[..6],
        json!(["10.0.0.1", 17, 53, 2, 150, 15_000]).as_array().unwrap()[..]
    );
    let minute = &rows(&["rates", &tree])[0];
    assert_eq!(minute[2], 100.0, "{minute}");
    assert!(rows(&["losses", &tree]).is_empty());
    // 40 addresses, none of which answered.
    let scans = rows(&["scan", &tree]);
    assert_eq!(
        scans[0].as_array().unwrap()[..5],
        json!(["10.0.0.1", 40, 1, 80, 80]).as_array().unwrap()[..]
    );
    // Before the records, and after them.
    let count = "SELECT count(*) FROM flows";
    assert_eq!(rows(&[count, &tree, "--to", "1700000000"]), [json!([0])]);
    assert_eq!(rows(&[count, &tree, "--from", "1700000000"]), [json!([80])]);
    assert_eq!(rows(&[count, &tree, "--from", "1700000000.030"]), [json!([40])]);
}

#[test]
fn hostile_names_stay_in_their_cells() {
    let directory = Directory::new("query");
    let Some(tree) = tree(&directory) else { return };
    let sql = "SELECT port AS \"p\u{1b}[2J\", count(*) AS n FROM flows GROUP BY 1 ORDER BY 1";
    for flags in [&[][..], &["--csv"], &["--json"], &["--chart", "n"]] {
        let done = run_with_code(&[&["query", sql, &tree][..], flags].concat(), 0);
        assert!(!done.stdout.contains('\u{1b}') && done.stdout.contains("\\u001b[2J"), "{flags:?}");
        let lines = if flags == ["--json"] { 1 } else { 3 };
        assert_eq!(done.stdout.lines().count(), lines, "{}", done.stdout);
    }
    let done = run(&["query", "top-talkers", &tree, "--limit", "2"]);
    assert!(done.stdout.contains("█") && done.stdout.contains("600,000"), "{}", done.stdout);
    let csv = run(&["query", sql, &tree, "--csv"]);
    assert!(csv.stdout.contains(",\"\"x\"\".pcap\",40"), "{}", csv.stdout);
}

#[test]
fn wrong_sql_has_its_place_and_nothing_but_the_tree_is_read() {
    let directory = Directory::new("query");
    let Some(tree) = tree(&directory) else { return };
    let outside = directory.file("outside.csv");
    let write = format!("COPY (SELECT 1) TO '{outside}'");
    let into = format!("COPY (SELECT 1) TO '{}/x'", tree.replace('\'', "''"));
    let behind = format!("EXPLAIN ANALYZE {into}");
    let in_words = format!("/**/ EXPLAIN (ANALYZE) {into}");
    for (sql, wanted) in [
        ("SELECT\n  nope FROM flows", "SQL line 2, column 3: Referenced column \"nope\""),
        ("SELECT 'é', nope FROM flows", "SQL line 1, column 13: "),
        ("SELEC 1", "SQL line 1, column 1: syntax error"),
        ("SELECT 1 FROM nowhere", "SQL line 1, column 15: Table with name nowhere"),
        ("SELECT * FROM read_csv('/etc/passwd')", "Cannot access file"),
        ("SELECT 1; SELECT 2", "one SELECT is expected"),
        ("DROP VIEW flows", "one SELECT is expected"),
        (&write, "one SELECT is expected"),
        (&into, "one SELECT is expected"),
        (&behind, "one SELECT is expected"),
        (&in_words, ""),
    ] {
        let done = run(&["query", sql, &tree]);
        assert_eq!(done.code, Some(1), "{sql}: {}{}", done.stdout, done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(wanted), "{sql}: {}", done.stderr);
    }
    assert!(!fs::exists(&outside).unwrap() && !fs::exists(format!("{tree}/x")).unwrap());
    run_with_code(&["query", "explain analyze SELECT count(*) FROM flows", &tree], 0);
    let folder = format!("{tree}/date=2023-11-14/hour=22/sensor=ams1");
    let pipe = format!("{folder}/part-pipe.parquet");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let done = run_with_code(&["query", "SELECT count(*) FROM flows", &tree], 1);
    assert!(done.stderr.contains("part-pipe.parquet: it is not a regular"), "{}", done.stderr);
    fs::remove_file(pipe).unwrap();
    // A file that is not Parquet, and an incomplete one.
    fs::write(format!("{folder}/.part-x.parquet"), "half").unwrap();
    assert_eq!(rows(&["SELECT count(*) FROM flows", &tree]), [json!([80])]);
    fs::write(format!("{folder}/part-x.parquet"), "half").unwrap();
    assert_says(&["query", "SELECT count(*) FROM flows", &tree], 1, "part-x.parquet");
}

/// A killed query leaves its folder for temporary files. The next one removes it, and none of a
/// query that runs.
#[test]
fn the_next_query_removes_what_a_killed_one_left() {
    let directory = Directory::new("query-killed");
    let Some(tree) = tree(&directory) else { return };
    let place = directory.file("tmp");
    fs::create_dir(&place).unwrap();
    // Root's queries are nobody's.
    fs::set_permissions(directory.file(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o1777)).unwrap();
    let ask = |sql: &str| {
        let mut asks = command(&["query", sql, &tree]);
        asks.env("TMPDIR", &place).stdout(Stdio::null());
        asks
    };
    let left = || fs::read_dir(&place).unwrap().count();
    let mut endless = ask("SELECT count(*) FROM range(1000000000000)").spawn().unwrap();
    wait_until("it has a folder", || left() == 1);
    assert!(ask("SELECT 1").status().unwrap().success());
    assert_eq!(left(), 1, "a query that runs keeps its folder");
    endless.kill().unwrap();
    endless.wait().unwrap();
    assert_eq!(left(), 1);
    assert!(ask("SELECT 1").status().unwrap().success());
    assert_eq!(left(), 0);
}

#[test]
fn times_with_a_zone_are_answered_or_what_they_need_is_named() {
    let directory = Directory::new("query-zones");
    let Some(tree) = tree(&directory) else { return };
    let sql =
        "SELECT to_timestamp(0), TIMESTAMP '2026-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin'";
    let ask = |places: &str| -> Run {
        let mut asks = command(&["query", sql, &tree, "--json"]);
        asks.env("PYTHONPATH", places).env("TZ", "UTC").output().unwrap().into()
    };
    let without = directory.file("without");
    fs::create_dir(&without).unwrap();
    fs::write(format!("{without}/pytz.py"), "raise ImportError").unwrap();
    let done = ask(&without);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    let is_named =
        |done: &Run| done.stderr.contains("times with a zone need Python's package pytz");
    assert!(is_named(&done) && done.stderr.lines().count() == 1, "{}", done.stderr);
    let done = ask("");
    if is_named(&done) {
        return skip("pytz is not installed: scripts/setup query");
    }
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let rows = last_object(&done.stdout)["rows"].clone();
    let wanted = json!([["1970-01-01 00:00:00+00:00", "2026-07-01 10:00:00+00:00"]]);
    assert_eq!(rows, wanted);
}

/// Root's query has no capabilities.
#[test]
fn a_folder_that_may_not_be_read_is_an_error_with_its_owner() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("query-others");
    let Some(tree) = tree(&directory) else { return };
    let mut paths = fs::read_dir(&tree).unwrap().flatten().map(|entry| entry.path());
    let day = paths.find(|path| path.is_dir()).unwrap();
    for folder in [day.to_str().unwrap(), &tree] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        chown(folder, Some(nobody.user), None).unwrap();
        let wanted = format!("{folder}: Permission denied; its owner may read it: sudo -u '#");
        assert_says(&["query", "rates", &tree], 1, &wanted);
    }
}

/// Returns the process that answers a query, once it has read the query and computes.
pub(crate) fn engine_of(asks: u32) -> u32 {
    let threads = format!("/proc/{asks}/task");
    let engines = || {
        let threads = fs::read_dir(&threads).unwrap().flatten();
        let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
        let list = lists.flatten().collect::<String>();
        list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    };
    let is_busy = |engine: u32| {
        let stat = fs::read_to_string(format!("/proc/{engine}/stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap().split(' ');
        let used = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
        used.sum::<u64>() > 100
    };
    wait_until("the engine computes", || engines().into_iter().any(is_busy));
    engines()[0]
}

#[test]
fn the_engine_ends_with_who_asks() {
    let directory = Directory::new("query-killed");
    let Some(tree) = tree(&directory) else { return };
    let sql = "SELECT count(*) FROM range(1000000000000) AS a";
    let mut asks = Command::new(PROGRAM).args(["query", sql, &tree]).spawn().unwrap();
    let engine = engine_of(asks.id());
    asks.kill().unwrap();
    asks.wait().unwrap();
    wait_until("it has ended", || !is_alive(engine));
}

#[test]
fn what_is_missing_is_named_with_the_remedy() {
    let directory = Directory::new("query");
    let missing = ["query", "rates", &directory.file("")];
    for (python, wanted) in [
        ("/nonexistent/python3", "DuckDB is not installed in /nonexistent/python3; run: "),
        ("/bin/true", "/bin/true: exited without an answer"),
    ] {
        let done = command(&missing).env("BURSTLINE_PYTHON", python).output().unwrap();
        let text = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{text}");
        assert!(text.contains(wanted) && text.lines().count() == 1, "{text}");
    }
    for (arguments, wanted) in [
        (&["who-talked-to", "x"][..], "needs --address IP"),
        (&["top-talker", "x"], "top-talkers"),
        (&["SELECT 1", "x", "--address", "10.0.0.1"], "for ready questions"),
        (&["rates", "x", "--from", "+5s"], "a tree has no first packet"),
        (&["rates", "x", "--csv", "--json"], "cannot be used with"),
    ] {
        assert_says(&[&["query"], arguments].concat(), 2, wanted);
    }
    let shown = run(&["query", "scan", "x", "--show"]);
    assert!(shown.stdout.contains("FROM flows") && !shown.stdout.contains('{'), "{}", shown.stdout);
    let Some(_) = tree(&directory) else { return };
    assert_says(&["query", "rates", &directory.file("nowhere")], 1, "nowhere: no such folder");
}
