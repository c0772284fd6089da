//! `balance` with files and programs as workers, including workers that die, stall and come back.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::support::sharing::{Names, reader_of};
use crate::support::{
    Directory, REAL, REAL_PACKETS, command, judged_packets, other, run, run_json,
};
use burstline_skip::ledger;
use serde_json::Value;

/// Returns the workers of all groups of a report, after checking each group's and worker's ledger.
fn workers(report: &Value) -> Vec<Value> {
    crate::support::assert_closed(report);
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{row}"));
    let mut workers = Vec::new();
    for group in report["balance"]["groups"].as_array().unwrap() {
        let own = group["workers"].as_array().unwrap();
        for row in own.iter().chain([group]) {
            let lost = row["lost"].as_object().unwrap();
            let lost: u64 = lost.values().map(|packets| packets.as_u64().unwrap()).sum();
            assert_eq!(number(row, "offered"), number(row, "delivered") + lost, "{row}");
            assert_eq!(row["unaccounted"], 0, "{row}");
        }
        let sum: u64 = own.iter().map(|worker| number(worker, "offered")).sum();
        assert_eq!(number(group, "offered"), sum, "{group}");
        workers.extend(own.iter().cloned());
    }
    workers
}

/// Returns the conversations in a file, by tshark; both directions have the same name.
fn conversations(path: &str) -> Option<Vec<String>> {
    let fields = ["ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport"];
    let more = ["udp.srcport", "udp.dstport", "arp.src.proto_ipv4", "ip.proto"];
    let mut arguments = vec!["-r", path, "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"];
    fields.iter().chain(&more).for_each(|field| arguments.extend(["-e", field]));
    let said = other("tshark", &arguments)?.stdout;
    let name = |line: &str| {
        let mut pairs: Vec<&str> = line.split(',').collect();
        pairs.sort_unstable();
        pairs.concat()
    };
    Some(said.lines().map(name).collect())
}

#[test]
fn each_flow_of_real_traffic_is_whole_in_one_file() {
    let directory = Directory::new("balance-files");
    let template = directory.file("x{k}.pcapng");
    let report = run_json(&["balance", REAL, "--workers", "3", "-o", &template], 0);
    assert_eq!(report["total"]["delivered"], REAL_PACKETS);
    let (mut all, mut at) = (0, HashMap::new());
    for worker in workers(&report) {
        let path = template.replace("{k}", &worker["worker"].to_string());
        for (who, packets) in judged_packets(&path) {
            assert_eq!(packets, worker["delivered"], "{who} {path}");
        }
        all += worker["delivered"].as_u64().unwrap();
        for name in conversations(&path).unwrap_or_default() {
            let first = at.entry(name.clone()).or_insert_with(|| path.clone());
            assert_eq!(*first, path, "{name} is in two files");
        }
    }
    assert_eq!(all, REAL_PACKETS);
}

#[test]
fn groups_and_turns_and_what_is_cut_off_are_in_the_report() {
    let gen_ = "gen:?packets=10000&flows=100&size=64";
    let report = run_json(&["balance", gen_, "--workers", "2,1", "--hash", "round-robin"], 0);
    let offered: Vec<_> = workers(&report).iter().map(|row| row["offered"].clone()).collect();
    assert_eq!(offered, [5000, 5000, 10_000]);
    assert_eq!(report["balance"]["hash"], "round-robin");
    let shared = run_json(&["balance", gen_, "--workers", "3,2", "--mode", "share"], 0);
    assert_eq!((workers(&shared).len(), &shared["total"]["delivered"]), (5, &20_000.into()));
    assert_eq!(shared["balance"]["mode"], "share");
    let cut = run_json(&["balance", gen_, "--workers", "2", "--cutoff", "600", "--lossless"], 0);
    assert_eq!(
        (&cut["total"]["delivered"], &cut["total"]["lost"]["cut_off"]),
        (&1000.into(), &9000.into())
    );
    let text = run(&["balance", gen_, "--workers", "2", "--shed", "udp"]).stdout;
    assert!(text.contains("left out 10,000 shed: a rule dropped it"), "{text}");
    assert!(text.contains("spread   by five-tuple, copy") && text.contains("worker 1"), "{text}");
    assert!(text.ends_with("done: no packets lost, 0 unaccounted\n"), "{text}");
}

#[test]
fn contradictions_are_told_with_what_is_allowed() {
    for (arguments, said) in [
        (&["--workers", "0"][..], "numbers from 1, together at most 64"),
        (&["--workers", "65"], "numbers from 1, together at most 64"),
        (&["--workers", "2,"], "numbers from 1"),
        (&["--workers", "99999999999999999999,1"], "numbers from 1"),
        (&[], "--workers"),
        (&["--workers", "2", "-o", "x.pcapng"], "write {k} in it"),
        (&["--workers", "1", "-o", ""], "a file, or a port"),
        (&["--workers", "2", "-o", "afpacket:veth{k}?promisc"], "'promisc' is not key=value"),
        (&["--workers", "2", "--buffer", "1"], "a log of 1 bytes is 0 segments of 4096"),
        (&["--workers", "2", "--hash", "none"], "round-robin?"),
        (&["--workers", "2", "--hash", "md5"], "or round-robin"),
        (&["--workers", "2", "--hash", "round-robin", "--cutoff", "1k"], "round-robin has none"),
        (&["--workers", "2", "--mode", "share", "--hash", "round-robin"], "round-robin has none"),
        (&["--workers", "2", "--shed", "not a filter"], "not a filter"),
    ] {
        let run = run(&[&["balance", "gen:?packets=1"], arguments].concat());
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
        assert!(matches!(run.code, Some(1 | 2)), "{arguments:?}");
        assert_eq!(run.stderr.lines().filter(|line| line.starts_with("burstline:")).count(), 1);
    }
}

#[test]
fn a_log_of_any_size_has_segments_that_fit() {
    for (size, segment) in [("12k", 4096), ("100k", 16 << 10), ("3m", 256 << 10)] {
        let arguments = ["balance", "gen:?packets=10", "--workers", "2", "--buffer", size];
        let report = run_json(&arguments, 0);
        assert_eq!(report["memory"]["segment_bytes"], segment, "{size}");
        assert_eq!(report["total"]["delivered"], 10);
    }
}

#[test]
fn what_standard_output_carries_is_packets_only() {
    let directory = Directory::new("balance-stdout");
    for report in [&[][..], &["--json"]] {
        let arguments = [&["balance", REAL, "--workers", "1", "-o", "-"], report].concat();
        let output = command(&arguments).output().unwrap();
        let (file, text) = (directory.file("x.pcapng"), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(0), "{text}");
        fs::write(&file, output.stdout).unwrap();
        let counted = run_json(&["count", &file], 0);
        assert_eq!(counted["total"]["delivered"], REAL_PACKETS);
        for (who, packets) in judged_packets(&file) {
            assert_eq!(packets, REAL_PACKETS, "{who}");
        }
        assert!(text.contains("worker") && text.contains("149"), "the report: {text}");
    }
}

#[test]
fn a_pipe_that_nobody_empties_costs_its_worker_and_does_not_keep_the_job_from_ending() {
    let names = Names::new("balance-pipes");
    let pipes = [names.0.file("pipe0"), names.0.file("pipe1")];
    assert_eq!(other("mkfifo", &[&pipes[0], &pipes[1]]).unwrap().code, Some(0));
    let (good, idle) = (pipes[0].clone(), pipes[1].clone());
    let good = std::thread::spawn(move || fs::read(good).unwrap().len());
    let idle = std::thread::spawn(move || fs::File::open(idle).unwrap());
    // Much more than fits into a pipe, and less than the logs hold.
    let source = "gen:?packets=20000&size=1000&flows=1000";
    let sink = names.0.file("pipe{k}");
    let flags = ["--workers", "2", "-o", &sink, "--publish", "tap", "--pages", "4k"];
    let job = names.start(&[&["balance", source], &flags[..]].concat());
    names.wait_until_published("tap", 20_000);
    let held = idle.join().unwrap();
    job.signal("-INT");
    let (code, report) = job.end_with_code();
    assert!(code == Some(1) && good.join().unwrap() > 0, "{report}");
    let [good, stuck] = &workers(&report)[..] else { panic!("{report}") };
    assert_eq!((&good["lost"], &good["offered"]), (&serde_json::json!({}), &good["delivered"]));
    assert!(stuck["lost"]["pipe_full"].as_u64() > Some(1000), "{stuck}");
    assert!(report["errors"].to_string().contains("took nothing for 1 s"), "{report}");
    drop(held);
}

#[test]
fn a_pipe_without_a_reader_is_waited_for_until_the_job_is_to_end() {
    let names = Names::new("balance-no-reader");
    let pipe = names.0.file("pipe");
    assert_eq!(other("mkfifo", &[&pipe]).unwrap().code, Some(0));
    let mut job =
        names.start(&["balance", "gen:", "--workers", "1", "-o", &pipe, "--publish", "tap"]);
    names.wait_for_readers("tap", 0);
    job.signal("-INT");
    assert_eq!(job.child.wait().unwrap().code(), Some(1));
}

#[test]
fn more_workers_than_cores_share_them_unless_cores_are_named() {
    let gen_ = "gen:?packets=20000&flows=1000";
    let report = run_json(&["balance", gen_, "--workers", "16"], 0);
    assert_eq!(workers(&report).len(), 16);
    assert_eq!(report["total"]["delivered"], 20_000);
    let named = run(&["balance", gen_, "--workers", "16", "--cores", "0"]);
    assert!(named.stderr.contains("17 threads for 1 core:"), "{}", named.stderr);
    let placement = format!("A_{}", "A".repeat(60));
    let forced = run(&["balance", gen_, "--workers", "60", "--placement", &placement]);
    // (On a machine with that many cores it succeeds.)
    let is_told = forced.stderr.contains("let the kernel place them: omit --placement");
    assert!(is_told || forced.code == Some(0), "{}", forced.stderr);
}

#[test]
fn a_silent_source_is_ended_by_time_and_by_a_signal() {
    let names = Names::new("balance-silent");
    let silent = run_json(&["balance", "gen:?rate=1", "--workers", "2", "--duration", "300ms"], 0);
    assert_eq!(workers(&silent).len(), 2);
    // Nothing is ever written to the pipe.
    let mut job = names.start(&["balance", "-", "--workers", "2", "--publish", "tap"]);
    job.close_input();
    let code = job.child.wait().unwrap();
    assert_eq!(code.code(), Some(1), "an empty file is none");
}

/// The modes of reading.
const MODES: [[&str; 2]; 2] = [["--mode", "copy"], ["--mode", "share"]];

/// A balancer with programs as workers, which generates packets until it is stopped.
const PUBLISHING: [&str; 10] = [
    "balance",
    "gen:?rate=200k&flows=1000&size=64",
    "--workers",
    "2",
    "--publish",
    "tap",
    "--buffer",
    "1m",
    "--segment",
    "64k",
];

#[test]
fn workers_are_killed_and_others_take_their_place() {
    MODES.into_iter().for_each(workers_are_killed);
}

fn workers_are_killed(mode: [&str; 2]) {
    let cycles: u32 = match std::env::var("BURSTLINE_CYCLES") {
        Ok(cycles) => cycles.parse().unwrap(),
        Err(_) => 15,
    };
    let names = Names::new("balance-killed");
    let balancer = names.start(&[&PUBLISHING[..], &["--pages", "4k"], &mode].concat());
    names.wait_for_readers("tap", 0);
    let steady = names.start(&["count", "log:tap@0?follow=no"]);
    names.wait_for_readers("tap", 1);
    let mut deaths = [0; 3];
    for cycle in 0..cycles {
        // Busy-polling, so that the signal hits it within a burst or while it polls.
        let doomed = ["count", "log:tap@1", "--poll", "busy", "-q"];
        let mut doomed = names.command(&doomed).spawn().unwrap();
        if cycle % 5 == 0 {
            names.wait_for_readers("tap", 2);
        }
        // During its start, or in the middle of a burst.
        std::thread::sleep(Duration::from_micros(u64::from(cycle % 50) * 400));
        let signal = |name: &str| {
            burstline_testbed::signal(doomed.id(), name).unwrap();
        };
        // Killed while it runs; killed while stopped; or stopped for a while, then killed.
        let how = cycle as usize % 3;
        if how > 0 {
            signal("-STOP");
            std::thread::sleep(Duration::from_millis(1));
        }
        if how > 1 {
            signal("-CONT");
            std::thread::sleep(Duration::from_millis(1));
        }
        deaths[how] += 1;
        doomed.kill().unwrap();
        assert_eq!(doomed.wait().unwrap().signal(), Some(9), "it did not end by itself");
    }
    names.wait_for_readers("tap", 1);
    let last = names.start(&["count", "log:tap@1", "--packets", "1000"]).end();
    assert_eq!(last["total"]["delivered"], 1000);
    balancer.signal("-INT");
    let (pid, report) = (steady.pid(), balancer.end());
    let (own, steady) = (workers(&report), steady.end());
    assert_eq!(own[0]["delivered"], report["published"]["packets"][0]);
    let told = reader_of(&report, pid);
    assert_eq!(told["log"], 0, "{told}");
    let seated = report["published"]["readers_total"].as_u64().unwrap();
    eprintln!("killed, killed while stopped, and later: {deaths:?}; {seated} were seated");
    assert!(seated >= u64::from(cycles.div_ceil(5)) + 2, "{report}");
    // The packets that it lacks were published before it attached.
    let total = &steady["total"];
    let (had, lost) = (total["delivered"].as_u64().unwrap(), total["lost_total"].as_u64().unwrap());
    assert!(had > 0 && had + lost <= own[0]["delivered"].as_u64().unwrap());
    ledger(total["offered"].as_u64().unwrap(), had, &[("reader_overrun", lost)]);
}

#[test]
fn a_stopped_worker_misses_packets_of_its_own_and_says_how_many() {
    MODES.into_iter().for_each(a_stopped_worker_misses_its_own);
}

fn a_stopped_worker_misses_its_own(mode: [&str; 2]) {
    let names = Names::new("balance-stopped");
    let balancer = names.start(&[&PUBLISHING[..], &["--pages", "4k"], &mode].concat());
    names.wait_for_readers("tap", 0);
    let good = names.start(&["count", "log:tap@0?follow=no"]);
    let stopped = names.start(&["count", "log:tap@1?follow=no"]);
    names.wait_for_readers("tap", 2);
    let (good_pid, stopped_pid) = (good.pid(), stopped.pid());
    stopped.signal("-STOP");
    let packets = |found: &Value| found["logs"][1]["packets"].as_u64().unwrap();
    // Ten times what the log holds.
    let start = packets(&names.look("tap").unwrap());
    names.wait_for("tap", "the worker is lapped", |found| packets(found) > start + 130_000);
    stopped.signal("-CONT");
    names.wait_for("tap", "it has noticed", |found| {
        let readers = found["readers"].as_array().unwrap();
        let own = readers.iter().find(|reader| reader["pid"] == stopped_pid);
        own.is_some_and(|reader| reader["missed"].as_u64().unwrap() > 0)
    });
    balancer.signal("-INT");
    let report = balancer.end();
    workers(&report);
    assert_eq!(reader_of(&report, good_pid)["log"], 0);
    let late = stopped.end();
    assert!(late["total"]["lost"]["reader_overrun"].as_u64().unwrap() > 100_000, "{late}");
    good.end();
}

/// Two groups of programs read one log. Each program sees its own packets, and each group sees all.
/// Killing one program takes nothing from the others.
#[test]
fn programs_share_one_log() {
    let names = Names::new("balance-share");
    let groups = ["balance", "-", "--workers", "2,3", "--mode", "share", "--pages", "4k"];
    let publish = ["--buffer", "8m", "--publish", "tap?lossless=forever"];
    let mut balancer = names.start(&[&groups[..], &publish[..]].concat());
    names.wait_for_readers("tap", 0);
    let kinds = ["", "&untrusted", "", "&window=4", "&untrusted&window=2"];
    let source = |number: usize| format!("log:tap@{number}?lossless{}", kinds[number]);
    let readers: Vec<_> = (0..5).map(|number| names.start(&["count", &source(number)])).collect();
    let doomed = names.start(&["count", "log:tap@1?lossless"]);
    names.wait_for_readers("tap", 6);
    let packets = fs::read(REAL).unwrap();
    let (first, rest) = packets.split_at(packets.len() / 2);
    balancer.feed(first);
    doomed.kill();
    balancer.feed(rest);
    balancer.close_input();
    let report = balancer.end();
    let own = workers(&report);
    let mut sums = [0, 0];
    for (number, (reader, worker)) in readers.into_iter().zip(&own).enumerate() {
        let (pid, said) = (reader.pid(), reader.end());
        let delivered = said["total"]["delivered"].as_u64().unwrap();
        assert!(delivered > 0, "worker {number} has no flows");
        assert_eq!(
            (&said["total"]["offered"], &said["total"]["lost_total"]),
            (&delivered.into(), &0.into())
        );
        assert_eq!(worker["delivered"], delivered, "{worker}");
        assert_eq!(worker["bytes"], said["total"]["bytes"], "{worker}");
        assert_eq!(report["published"]["packets"][number], delivered);
        assert_eq!(reader_of(&report, pid)["delivered"], delivered);
        sums[usize::from(number >= 2)] += delivered;
    }
    assert_eq!(sums, [REAL_PACKETS; 2]);
}

#[test]
fn the_program_says_what_it_is_for() {
    let help = run(&["balance", "--help-all"]).stdout;
    for said in ["reader_overrun", "round-robin", "-o afpacket:veth{k}", "log:tap@3 -w -"] {
        assert!(help.contains(said), "{said}");
    }
    assert!(fs::exists(REAL).unwrap());
}
