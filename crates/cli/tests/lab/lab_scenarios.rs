//! Scenarios: listed, run, refused, interrupted, compared.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::live::wait_until;
use crate::support::{Directory, Run, command, last_object, run, run_json, run_with_code};
use burstline_skip::{skip, without};
use burstline_testbed::Bed;
use serde_json::Value;

fn record(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Writes a user's scenario file.
fn own(directory: &Directory, work: &str, contenders: &str, more: &str) -> String {
    let file = directory.file("own.toml");
    let text = format!(
        "name = \"own\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"{work}\"\ncontenders = \
         [{contenders}]\nsizes = [64, 1518]\n{more}"
    );
    fs::write(&file, text).unwrap();
    file
}

/// Runs a user's scenario with frames of 64 bytes. Returns its record, as printed and written.
fn run_own(directory: &Directory, work: &str, contenders: &str, more: &str) -> Value {
    let (file, out) = (own(directory, work, contenders, more), directory.file("out"));
    let done = run_with_code(&["lab", "run", &file, "--out", &out, "--sizes", "64", "--json"], 0);
    let found = last_object(&done.stdout);
    assert_eq!(found, record(&format!("{out}/own.json")));
    found
}

#[test]
fn the_list_says_who_can_run_here_and_why_others_cannot() {
    // No other program can be found.
    let directory = Directory::new("lab-list");
    let list = |options: &[&str]| -> Run {
        command(&["lab", "list"]).args(options).env("PATH", &directory.0).output().unwrap().into()
    };
    let text = list(&[]).stdout;
    let list = last_object(&list(&["--json"]).stdout);
    let scenarios = list["scenarios"].as_array().unwrap();
    let find = |name: &str| scenarios.iter().find(|scenario| scenario["name"] == name).unwrap();
    let modma = find("modma");
    assert_eq!((&modma["document"], &modma["can_run"]), (&"D2".into(), &true.into()));
    let peers = find("record-rate")["contenders"].as_array().unwrap();
    let absent = peers.iter().find(|contender| contender["name"] == "dumpcap").unwrap();
    let why = absent["not_run"].as_str().unwrap();
    assert!(why.contains(" is not installed: sudo apt-get install "), "{why}");
    assert!(text.contains("numa-rtc         D0  Receive and count"), "{text}");
    let mut closing = text.lines().skip_while(|line| !line.ends_with(" contenders can run here"));
    assert!(closing.next().is_some(), "{text}");
    let absent = closing.find(|line| line.starts_with("not here  dumpcap ")).unwrap();
    assert!(absent.contains(" is not installed  fix: sudo apt-get install "), "{absent}");
}

#[test]
fn a_model_is_run_written_and_compared() {
    let directory = Directory::new("lab-model");
    let out = directory.file("out");
    let done = run(&["lab", "run", "modma", "--quick", "--out", &out, "--sizes", "64,256"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("bus_bytes 128, saved_percent 33.3"), "{}", done.stdout);
    let found = record(&format!("{out}/modma.json"));
    assert_eq!(found["schema"], "burstline-lab-1");
    let rows = found["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[1]["status"]), (6, &"model".into()));
    assert_eq!(rows[1]["metrics"]["bus_bytes"]["samples"], serde_json::json!([128.0]));
    let same = ["lab", "compare", "modma", "modma", "--dir", &out, "--metric", "bus_bytes"];
    let compared = run_json(&same, 0);
    assert_eq!(compared["ratios"].as_array().unwrap().len(), 6);
    assert_eq!(compared["ratios"][0]["ratio"], 1.0);
    assert_eq!(compared["ratios"][0]["overlaps"], true);
    assert!(run(&same).stdout.starts_with("bus_bytes (bytes per packet"));
}

/// Starts each installed contender and waits for the sign that it is ready.
#[test]
fn every_contender_that_is_here_gets_ready() {
    if Bed::or_skip().is_none() {
        return;
    }
    let list = run_json(&["lab", "list", "--try"], 0);
    let tried = list["tried"].as_array().unwrap();
    for turn in tried.iter().filter(|turn| turn["not_run"].is_null()) {
        assert!(turn["packets"].as_u64().unwrap() > 0, "{turn}");
        assert!(turn["ready_s"].as_f64().unwrap() > 0.0, "{turn}");
    }
    let is_ready = |name: &str| {
        let of = |turn: &&Value| turn["contender"] == name && turn["ready_s"].is_f64();
        tried.iter().any(|turn| of(&turn))
    };
    for own in ["burstline-xdp", "burstline-afpacket", "recvmmsg", "linux-bridge"] {
        assert!(is_ready(own), "{own}: {list}");
    }
}

#[test]
fn what_makes_no_sense_is_one_line() {
    let directory = Directory::new("lab-wrong");
    let file = own(&directory, "cuont", "\"recvmmsg\"", "");
    let out = directory.file("out");
    for (word, said) in [
        ("numa", "burstline: no scenario `numa`: numa-rtc, ".to_owned()),
        (&file, format!("burstline: {file}: work = \"cuont\": expected one of count, touch")),
        ("./none.toml", "burstline: ./none.toml: No such file".to_owned()),
    ] {
        let done = run(&["lab", "run", word, "--out", &out]);
        assert!(done.code == Some(2) || word == "./none.toml", "{}", done.stderr);
        assert!(done.stderr.starts_with(&said), "{}", done.stderr);
        assert_eq!((done.stderr.lines().count(), done.stdout.as_str()), (1, ""));
    }
    let none = run(&["lab", "compare", "a", "b", "--dir", &out]);
    assert_eq!((none.code, none.stderr.lines().count()), (Some(1), 1), "{}", none.stderr);
}

#[test]
fn runs_of_a_repository_take_no_records_of_code_that_no_commit_has() {
    let directory = Directory::new("lab-changed");
    fs::create_dir_all(directory.file("crates/lab")).unwrap();
    fs::write(directory.file("Cargo.lock"), "new").unwrap();
    for words in [&["init", "-q"][..], &["add", "Cargo.lock"]] {
        match Command::new("git").arg("-C").arg(&directory.0).args(words).output() {
            Ok(output) => assert!(output.status.success(), "{words:?}: {output:?}"),
            Err(_) => return skip("git is not installed: apt-get install git"),
        }
    }
    let out = directory.file("runs/new");
    let done = run(&["lab", "run", "modma", "--out", &out]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
    let why = "burstline: Cargo.lock has changes that no commit has, so ";
    assert!(done.stderr.starts_with(why) && !fs::exists(&out).unwrap(), "{}", done.stderr);
}

#[test]
fn contenders_and_rates_are_the_users_where_the_work_has_them() {
    let directory = Directory::new("lab-wanted");
    let out = directory.file("out");
    let all = ["lab", "run", "copy-cost", "--quick", "--sizes", "64", "--repeats", "1"];
    let wanted = ["--contenders", "copy-cold", "--rates", "max,2k", "--out", &out];
    run_with_code(&[&all[..], &wanted].concat(), 0);
    let found = record(&format!("{out}/copy-cost.json"));
    let rows = found["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["contender"]), (1, &"copy-cold".into()));
    assert!(rows[0]["point"].get("rate_pps").is_none(), "{rows:?}");
    for (flag, value, said) in [
        (
            "--contenders",
            "tcpdump",
            "no contender `tcpdump` for work copy; known: copy-warm, copy-cold",
        ),
        ("--rates", "1k,fast", "rates: max, or packets a second from 1 to 1G"),
    ] {
        let done = run(&["lab", "run", "copy-cost", flag, value, "--out", &out]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
}

#[test]
fn an_early_end_keeps_what_is_done() {
    let directory = Directory::new("lab-early");
    let (out, said) = (directory.file("out"), directory.file("said"));
    let file = own(&directory, "copy", "\"copy-warm\"", "seconds = 1\nrepeats = 100\n");
    let stderr = fs::File::create(&said).unwrap();
    let mut child = command(&["lab", "run", &file, "--out", &out])
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    // The second turn has begun, so the first is done.
    wait_until("a turn", || fs::read_to_string(&said).unwrap().contains("1/200 turns"));
    burstline_testbed::signal(child.id(), "-INT").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let found = record(&format!("{out}/own.json"));
    let samples = found["rows"][0]["metrics"]["cycles"]["samples"].as_array().unwrap();
    assert!((1..100).contains(&samples.len()), "{samples:?}");
    let doubts = found["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt["name"] == "interrupted"), "{doubts:?}");
}

#[test]
fn instructions_and_caches_of_contenders_in_memory_are_simulated() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip("valgrind is not installed: scripts/setup rivals");
    }
    let directory = Directory::new("lab-simulate");
    let out = directory.file("out");
    let more = "seconds = 0.05\nrepeats = 3\n";
    let file = own(&directory, "copy", "\"copy-warm\", \"copy-cold\"", more);
    run_with_code(&["lab", "run", &file, "--out", &out, "--sizes", "1518", "--simulate", "-q"], 0);
    let found = record(&format!("{out}/own.json"));
    let of = |row: usize, name: &str| {
        let metric = &found["rows"][row]["metrics"][name];
        assert_eq!(metric["basis"], "simulated", "{found}");
        metric["median"].as_f64().unwrap()
    };
    // 1514 bytes are at least 24 words of 64 bytes, loaded and stored, whatever copies them.
    assert!(of(0, "instructions") > 48.0);
    // Warm packets are in the L1 cache; packets spread over 128 MiB are not: 24 or 25 lines each.
    let misses = [of(0, "l1d_misses"), of(1, "l1d_misses")];
    assert!(misses[0] < 1.0 && (23.0..27.0).contains(&misses[1]), "{misses:?}");
}

/// Stages of our own programs, by sampled functions.
const SAMPLED: [&str; 7] = ["poll", "copy", "hash", "enqueue", "free", "idle_poll", "other"];

#[test]
fn the_program_counts_as_its_own_contender() {
    if Bed::or_skip().is_none() {
        return;
    }
    let directory = Directory::new("lab-live");
    // So few that the rings hold what comes while a contender waits for a core.
    let more = "rates = [2000]\npackets = 3000\nrepeats = 1\nports = 2\n";
    let contenders = "\"burstline-xdp\", \"burstline-afpacket\"";
    let found = run_own(&directory, "count", contenders, more);
    let rows = found["rows"].as_array().unwrap();
    for row in rows {
        let status = row["status"].as_str().unwrap();
        if status.contains("BPF") || status.contains("not permitted") {
            without(status);
            continue;
        }
        assert_eq!((status, &row["metrics"]["lost"]["median"]), ("run", &0.0.into()), "{row}");
        assert!(row["metrics"]["rho"]["basis"] == "line", "{row}");
        let waited = row["metrics"]["waited_ms_each_second"]["samples"].as_array().unwrap();
        assert!(!waited.is_empty(), "a number of packets is looked at by second: {row}");
        let stages = row["stages"].as_array().unwrap();
        // A sleeping contender wakes by the sampling clock, and may never be sampled.
        let is_busy = row["metrics"]["cpu_percent"]["median"].as_f64() > Some(20.0);
        let is_sampled = |stage: &Value| SAMPLED.iter().any(|name| stage["name"] == *name);
        assert!(!is_busy || stages.iter().any(is_sampled), "{row}");
    }
    let doubts = found["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt["name"] == "too-few-samples"), "{doubts:?}");
    if rows.iter().any(|row| row["status"] == "run") {
        let interfaces = found["interfaces"].as_array().unwrap();
        let of = |key: &str| interfaces.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
        assert_eq!(of("name"), ["v1", "v2", "v0", "v2"]);
        assert!(of("driver").iter().all(|driver| driver == "veth"), "{interfaces:?}");
        assert!(of("receive_queues").iter().all(|queues| *queues == 1), "{interfaces:?}");
    }
    assert!(found["build"]["rustc"].as_str().unwrap().starts_with("rustc "), "{found}");
}

#[test]
fn a_contender_receives_while_it_sends() {
    if Bed::or_skip().is_none() {
        return;
    }
    let directory = Directory::new("lab-duplex");
    let more = "rates = [20000]\nrepeats = 1\nseconds = 1\n\
                cases = [\"receive\", \"send\", \"both\"]\n[chart]\ny = \"rho_busy\"\n";
    let found = run_own(&directory, "duplex", "\"burstline-afpacket\"", more);
    for row in found["rows"].as_array().unwrap() {
        assert_eq!(row["status"], "run", "{row}");
        let median = |name: &str| row["metrics"][name]["median"].as_f64().unwrap();
        let (case, all) = (row["point"]["case"].as_str().unwrap(), median("mpps"));
        let (received, sent) = (median("received_mpps"), median("sent_mpps"));
        assert_eq!((received > 0.0, sent > 0.0), (case != "send", case != "receive"), "{row}");
        assert!((received + sent - all).abs() < 1e-9, "{row}");
        assert_eq!(row["metrics"].get("lost").is_some(), case != "send", "{row}");
    }
    let doubts = found["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt["name"] == "empty-chart"), "{doubts:?}");
}

/// By the packet's 30th byte, of many flows: whichever contender distributes them, each is counted.
#[test]
fn packets_are_spread_over_workers_by_us_and_by_dpdk() {
    if Bed::or_skip().is_none() {
        return;
    }
    let directory = Directory::new("lab-balance");
    // So few that the rings hold what comes while a contender waits for a core.
    let more = "workers = 2\nrates = [2000]\nrepeats = 1\npackets = 1000\n";
    let found = run_own(&directory, "balance", "\"burstline-xdp\", \"dpdk-balance\"", more);
    for row in found["rows"].as_array().unwrap() {
        let status = row["status"].as_str().unwrap();
        if status != "run" {
            let is_dpdk = row["contender"] == "dpdk-balance";
            assert!(!is_dpdk || !cfg!(feature = "dpdk"), "{row}");
            let is_known =
                ["built without DPDK", "BPF", "not permitted"].map(|w| status.contains(w));
            assert!(is_known.contains(&true), "{row}");
            without(status);
            continue;
        }
        assert_eq!(row["metrics"]["lost"]["median"], 0.0, "{row}");
    }
    let commands = found["contenders"].as_array().unwrap().iter().map(|one| &one["command"]);
    let mut commands = commands.filter_map(Value::as_str).filter(|command| !command.is_empty());
    assert!(commands.all(|c| c.contains("--hash byte:30") || c.contains("--byte 30")), "{found}");
}

#[test]
fn a_bounce_beside_a_switch_is_called_one() {
    if Bed::or_skip().is_none() {
        return;
    }
    let directory = Directory::new("lab-switch");
    let more = "rates = [2000]\nrepeats = 1\npackets = 200\n";
    let file = own(&directory, "switch", "\"linux-bridge\", \"burstline-xdp\"", more);
    let out = directory.file("out");
    let done = run_with_code(&["lab", "run", &file, "--out", &out, "--sizes", "64"], 0);
    let found = record(&format!("{out}/own.json"));
    let [bridge, ours] = [0, 1].map(|at| &found["contenders"][at]);
    assert_eq!((bridge.get("role"), &ours["role"]), (None, &"bounce (no switch)".into()));
    assert!(done.stdout.contains("burstline-xdp, bounce (no switch) "), "{}", done.stdout);
    // The bridge is part of the kernel; ours had pages of some kind.
    assert!(bridge.get("pages").is_none(), "{bridge}");
    if found["rows"][1]["status"] == "run" {
        let mib = |kind: &str| ours["pages"][kind].as_f64().unwrap();
        assert!(mib("small_mib") > 0.0 && mib("reserved_mib") >= 0.0, "{ours}");
    }
}

#[test]
fn packets_are_timed_through_a_contender() {
    if Bed::or_skip().is_none() {
        return;
    }
    let directory = Directory::new("lab-latency");
    let more = "rates = [2000]\npackets = 200\nrepeats = 1\n";
    let found = run_own(&directory, "latency", "\"linux-bridge\", \"burstline-xdp\"", more);
    for row in found["rows"].as_array().unwrap() {
        let status = row["status"].as_str().unwrap();
        if status.contains("BPF") || status.contains("not permitted") {
            without(status);
            continue;
        }
        let median = |name: &str| row["metrics"][name]["median"].as_f64().unwrap();
        assert_eq!((status, median("packets"), median("lost")), ("run", 200.0, 0.0), "{row}");
        let (half, most) = (median("latency_p50_us"), median("latency_max_us"));
        assert!(0.0 < half && half <= median("latency_p99_us"), "{row}");
        assert!(median("latency_p999_us") <= most * 1.01, "{row}");
        let found = &row["distributions"]["latency_us"];
        let of = |key: &str| found[key].as_array().unwrap().iter().map(|n| n.as_f64().unwrap());
        let timed = of("counts").sum::<f64>();
        let untimed = row["losses"]["clock_behind"].as_f64().unwrap_or(0.0);
        assert_eq!(timed + untimed, 200.0, "every packet is in a bucket or named: {row}");
        for (share, figure) in [(0.5, half), (0.99, median("latency_p99_us")), (1.0, most)] {
            let mut so_far = 0.0;
            let is_there = |(_, count): &(f64, f64)| {
                so_far += count;
                so_far >= timed * share
            };
            let (end, _) = of("ends").zip(of("counts")).find(is_there).unwrap();
            assert!((figure..=figure * 33.0 / 32.0).contains(&end), "{figure} in {end}: {row}");
        }
    }
}
