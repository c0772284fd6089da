//! Flow records: all packets are accounted for, files are complete or hidden, others can read them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::live::wait_until;
use crate::support::{
    Directory, REAL, REAL_PACKETS, Run, assert_closed, command, is_root, last_object,
    other_or_skip, run, run_json, started, xorshift,
};
use burstline_skip::{skip, without};
use serde_json::Value;

/// Runs the verb, checks its sums, and returns the report.
fn flows(arguments: &[&str], code: i32) -> Value {
    let report = run_json(&[&["flows"], arguments].concat(), code);
    assert_closed(&report);
    let flows = &report["flows"];
    let count = |key: &str| flows[key].as_u64().unwrap_or_else(|| panic!("{key}: {flows}"));
    let told = count("packets_in_records") + count("packets_without_flow");
    assert_eq!(report["total"]["delivered"], told, "{flows}");
    assert_eq!(flows["unaccounted"], 0);
    let by_reason = flows["without_flow"].as_object().unwrap().values();
    let without: u64 = by_reason.map(|packets| packets.as_u64().unwrap()).sum();
    assert_eq!(without, count("packets_without_flow"));
    if let Some(sink) = flows["sinks"].as_array().unwrap().first() {
        let sum = |key: &str| sink[key].as_u64().unwrap();
        assert_eq!(sum("records") + count("records_dropped"), count("records"), "{flows}");
        let packets = sum("packets") + count("packets_in_records_dropped");
        assert_eq!(packets, count("packets_in_records"), "{flows}");
    }
    report
}

/// Returns the rows of all files of a tree, by the files' own counts.
fn rows(tree: &str) -> u64 {
    run_json(&["flows", "compact", tree], 0)["records"].as_u64().unwrap()
}

/// Returns the files of a tree whose names begin with `prefix`.
fn files(tree: &str, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(tree)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap().to_string_lossy().starts_with(prefix) {
                found.push(path);
            }
        }
    }
    found
}

/// Files and folders are their owner's alone, unless others are let in.
#[test]
fn a_tree_is_its_owners_alone_unless_a_mode_is_named() {
    let directory = Directory::new("flows-modes");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    for (flags, file, folder) in [(&[][..], 0o600, 0o700), (&["--mode", "0644"], 0o644, 0o755)] {
        let tree = directory.file(&format!("tree-{file:o}"));
        for sensor in ["a", "a"] {
            let job = [REAL, "-o", &tree, "--sensor", sensor];
            flows(&[&job[..], flags].concat(), 0);
        }
        let parts = files(&tree, "part-");
        assert!(parts.len() > 1, "{parts:?}");
        for part in &parts {
            assert_eq!(mode(part), file, "{}", part.display());
            for place in part.ancestors().skip(1).take_while(|place| *place != Path::new(&tree)) {
                assert_eq!(mode(place), folder, "{}", place.display());
            }
        }
        run_json(&["flows", "compact", &tree], 0);
        let compacted = files(&tree, "part-");
        assert!(compacted.len() < parts.len(), "{compacted:?}");
        compacted.iter().for_each(|part| assert_eq!(mode(part), file, "{}", part.display()));
    }
}

/// Returns the Python for which `scripts/setup query` installs DuckDB.
pub(crate) fn python() -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = format!("{home}/.local/share/burstline/query/bin/python");
    std::env::var("BURSTLINE_PYTHON").unwrap_or(installed)
}

/// Returns DuckDB's answer, a line per row with tabs between the words, or `None` without DuckDB.
fn duckdb(tree: &str, question: &str) -> Option<Vec<String>> {
    let program = format!(
        "import duckdb\n\
         flows = duckdb.read_parquet('{tree}/**/*.parquet', hive_partitioning=True)\n\
         for row in duckdb.sql(\"\"\"{question}\"\"\").fetchall(): print(*row, sep='\\t')"
    );
    let output = Command::new(python()).args(["-c", &program]).stdin(Stdio::null()).output();
    let run: Run = started("DuckDB", "query", output).map_err(without).ok()?.into();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    Some(run.stdout.lines().map(str::to_owned).collect())
}

#[test]
fn packets_of_all_records_and_packets_without_one_are_those_delivered() {
    let directory = Directory::new("flows");
    let tree = directory.file("tree");
    let report = flows(&[REAL, "-o", &tree, "--sensor", "one"], 0);
    assert_eq!(report["total"]["delivered"], REAL_PACKETS);
    assert_eq!(rows(&tree), report["flows"]["records"]);
    let rights = &report["placement"]["threads"][0]["rights"];
    assert_eq!((&rights["capabilities"], &rights["filtered"]), (&0.into(), &true.into()));

    let mixed = directory.file("mixed.pcapng");
    let load = "gen:?packets=50000&size=imix&flows=5000&ip=mix&protocol=mix&vlan=7";
    assert_closed(&run_json(&["capture", load, "-w", &mixed], 0));
    for (flows_most, time_outs) in [("1M", ["15s", "30m"]), ("100", ["1us", "1ms"])] {
        let tree = directory.file(&format!("tree-{flows_most}"));
        let [idle, active] = time_outs;
        let limits = ["--flows", flows_most, "--idle", idle, "--active", active];
        let report = flows(&[&[&mixed, REAL, "-o", &tree], &limits[..]].concat(), 0);
        assert_eq!(report["total"]["delivered"], 50_000 + REAL_PACKETS);
        assert_eq!(rows(&tree), report["flows"]["records"], "{flows_most}");
    }
    let report = flows(&[&mixed, "--flows", "100"], 0);
    assert!(report["flows"]["without_flow"]["table_full"].as_u64().unwrap() > 0);
    assert_eq!(report["flows"]["open_most"], 100);
}

#[test]
fn duckdb_and_tshark_find_the_same_conversations() {
    let directory = Directory::new("flows-judged");
    let tree = directory.file("tree");
    flows(&[REAL, "-o", &tree, "--sensor", "one", "--idle", "1h", "--active", "10h"], 0);
    let question = "select flow_id, sum(packets)::bigint, sum(bytes)::bigint from flows \
                    where protocol in (6, 17) and tunnel is null group by 1";
    let Some(ours) = duckdb(&tree, question) else {
        return skip("DuckDB is not installed: scripts/setup query");
    };
    let fields = ["-T", "fields", "-e", "communityid", "-e", "frame.len", "-e", "ip.proto"];
    let arguments = [&["-r", REAL, "--enable-protocol", "communityid"], &fields[..]].concat();
    let Some(tshark) = other_or_skip("tshark", &arguments) else { return };
    assert_eq!(tshark.code, Some(0), "{}", tshark.stderr);
    let mut theirs: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for line in tshark.stdout.lines() {
        let words: Vec<_> = line.split('\t').collect();
        let sums = theirs.entry(words[0].to_owned()).or_default();
        *sums = [sums[0] + 1, sums[1] + words[1].parse::<u64>().unwrap()];
    }
    assert!(!ours.is_empty());
    for line in ours {
        let words: Vec<_> = line.split('\t').collect();
        let sums = [words[1], words[2]].map(|word| word.parse::<u64>().unwrap());
        assert_eq!(theirs.get(words[0]), Some(&sums), "{line}");
    }
    let question = "select distinct schema_version, sensor, hour = hour(make_timestamp(\
                    first_ns // 1000)), date = make_timestamp(first_ns // 1000)::date, length(\
                    boot_id), last_ns >= first_ns, packets >= packets_back from flows";
    let said = duckdb(&tree, question).unwrap();
    assert_eq!(said, ["1\tone\tTrue\tTrue\t32\tTrue\tTrue"]);
    let question = "select column_name, column_type, \\\"null\\\" from (describe flows)";
    let described = duckdb(&tree, &question.replace("\\\"", "\"")).unwrap();
    let documented = include_str!("../../../../docs/flows.md");
    for line in
        described.iter().filter(|line| !line.starts_with("date") && !line.starts_with("hour"))
    {
        let name = line.split('\t').next().unwrap();
        assert!(documented.contains(&format!("| `{name}` |")), "{name} is not in docs/flows.md");
    }
    assert_eq!(described.len(), 32);
}

fn journal(tree: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(Path::new(tree).join(".journal-k")).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_killed_program_leaves_whole_files_and_what_it_has_cost() {
    let kills = std::env::var("BURSTLINE_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let (mut random, mut with_files) = (0x2545_F491_4F6C_DD1D, 0);
    for _ in 0..kills {
        let directory = Directory::new("flows-killed");
        let tree = directory.file("tree");
        let job = ["flows", "gen:?rate=200000&flows=3000", "-o", &tree, "--sensor", "k", "-q"];
        let often = ["--every", "1ms", "--active", "5ms", "--idle", "2ms"];
        let mut program =
            command(&[&job[..], &often].concat()).stderr(Stdio::null()).spawn().unwrap();
        let is_begun = || journal(&tree).get("packets").is_some_and(|packets| packets != "0");
        let path = Path::new(&tree).join(".journal-k");
        wait_until("it begins", || path.exists() && is_begun());
        thread::sleep(Duration::from_micros(xorshift(&mut random) % 700_000));
        program.kill().unwrap();
        program.wait().unwrap();
        let said = journal(&tree);
        let count = |name: &str| said.get(name).map_or(0, |value| value.parse::<u64>().unwrap());
        let in_tree = |path: &String| Path::new(&tree).join(path).exists();
        let is_shown = said.get("pending").is_some_and(in_tree);
        let pending = if is_shown { count("pending_records") } else { 0 };
        let written = count("records_written") + pending;
        let report = flows(&["gen:?packets=10", "-o", &tree, "--sensor", "k"], 0);
        // Compaction renames files, so do it after checking the journal.
        let left = rows(&tree) - report["flows"]["records"].as_u64().unwrap();
        assert_eq!(left, written, "{said:?}");
        with_files += u64::from(left > 0);
        let last = &report["flows"]["last_start"];
        assert_eq!(last["boot_id"], said["boot_id"].as_str(), "{report}");
        let not_written = count("records").saturating_sub(written);
        assert_eq!(last["records_not_written"], not_written, "{said:?}");
        assert!(files(&tree, ".part").is_empty(), "the next start removes what was not finished");
        let again = flows(&["gen:?packets=10", "-o", &tree, "--sensor", "k"], 0);
        assert!(again["flows"]["last_start"].is_null(), "it had come to its end");
    }
    assert!(with_files > 0, "no file was ever written: the test has tried nothing");
}

#[test]
fn a_compaction_that_is_killed_loses_and_doubles_nothing() {
    let directory = Directory::new("flows-compact");
    let tree = directory.file("tree");
    let mut records = 0;
    for _ in 0..8 {
        let report = flows(&["gen:?packets=20000&flows=4000", "-o", &tree, "--sensor", "c"], 0);
        records += report["flows"]["records"].as_u64().unwrap();
    }
    let before = files(&tree, "part-").len();
    assert!(before >= 8, "{before}");
    let mut random = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..10 {
        let mut program = command(&["flows", "compact", &tree]);
        let mut program = program.stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(xorshift(&mut random) % 20_000));
        // It may have ended.
        let _ = program.kill();
        program.wait().unwrap();
    }
    assert_eq!(rows(&tree), records);
    let folders: std::collections::BTreeSet<_> =
        files(&tree, "part-").iter().map(|path| path.parent().unwrap().to_owned()).collect();
    assert_eq!(files(&tree, "part-").len(), folders.len());
    assert!(files(&tree, ".compact").iter().all(|path| path.ends_with(".compact.lock")));
    if let Some(sums) = duckdb(&tree, "select count(*), sum(packets)::bigint from flows") {
        assert_eq!(sums, [format!("{records}\t{}", 8 * 20_000)]);
    }
}

#[test]
fn one_program_at_a_time_writes_as_a_sensor() {
    let directory = Directory::new("flows-taken");
    let tree = directory.file("tree");
    let job = ["flows", "gen:?rate=1000", "-o", &tree, "--sensor", "k", "-q"];
    let mut first = command(&job).spawn().unwrap();
    // It writes into its journal once that is locked.
    let journal = Path::new(&tree).join(".journal-k");
    wait_until("it begins", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("state=running"))
    });
    let second = run(&["flows", "gen:?packets=10", "-o", &tree, "--sensor", "k"]);
    let other = run(&["flows", "gen:?packets=10", "-o", &tree, "--sensor", "m"]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_ne!(second.code, Some(0));
    assert!(second.stderr.contains("another program writes as sensor k"), "{}", second.stderr);
    assert_eq!(other.code, Some(0), "{}", other.stderr);
}

#[test]
fn what_cannot_be_a_tree_is_refused_in_one_line() {
    let directory = Directory::new("flows-refused");
    let file = directory.file("file");
    fs::write(&file, "x").unwrap();
    let tree = directory.file("tree");
    for (arguments, wanted) in [
        (["-o", &tree, "--sensor", "../x"], "sensor name \"../x\""),
        (["-o", &tree, "--sensor", "a b\n"], "sensor name \"a b\\n\""),
        (["-o", &file, "--sensor", "k"], &format!("create {file}")),
        (["-o", &tree, "--flows", "0"], "--flows"),
    ] {
        let run = run(&[&["flows", "gen:?packets=10"], &arguments[..]].concat());
        assert_ne!(run.code, Some(0), "{arguments:?}");
        assert!(run.stderr.contains(wanted), "{wanted}: {}", run.stderr);
        assert!(run.stderr.lines().count() <= 3, "{}", run.stderr);
    }
    let missing = directory.file("missing");
    let run = run(&["flows", "compact", &missing]);
    assert!(run.stderr.contains(&missing) && run.code != Some(0), "{}", run.stderr);
}

/// A file system of 256 KiB, in a mount namespace that ends with the program.
#[test]
fn a_full_disk_loses_records_by_name_and_no_packets() {
    if !is_root() {
        return skip("only root mounts a small file system");
    }
    let directory = Directory::new("flows-full");
    let tree = directory.file("tree");
    fs::create_dir(&tree).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=256k none {tree} && \
         {} flows 'gen:?packets=400000&flows=50000' --idle 1ms -o {tree} --sensor k --json",
        crate::support::PROGRAM
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    let run: Run = output.into();
    if run.stderr.contains("unshare failed") || run.stderr.contains("mount:") {
        return skip(format!("no mount namespace here: {}", run.stderr.trim()));
    }
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let report = last_object(&run.stdout);
    assert_closed(&report);
    let flows = &report["flows"];
    assert_eq!(report["total"]["delivered"], 400_000);
    assert_eq!(flows["unaccounted"], 0);
    assert!(flows["records_dropped_by"]["disk_full"].as_u64().unwrap() > 0, "{flows}");
    assert!(run.stderr.contains("No space left on device"), "{}", run.stderr);
}
