//! `burstline bounce --inline`: packets that wait for a verdict of another process.
//!
//! ```text
//!   standard input --> burstline bounce - OUT --inline NAME --> OUT, checked by count --verify
//!                                   | ^
//!                              log 0 | | verdicts          workers: this test program once more
//!                                   v |
//! ```

use std::fs;

use crate::support::live::wait_until;
use crate::support::sharing::{Job, Names};
use crate::support::verdicts::{Worker, sum};
use crate::support::{assert_says, last_object, run, run_with_code};
use serde_json::Value;

const PACKETS: u64 = 6_000;
const FLOWS: u64 = 16;

/// A bounce from its input to a file.
struct Bounce {
    names: Names,
    job: Option<Job>,
    out: String,
    /// The input: numbered packets of some flows, as a file.
    traffic: Vec<u8>,
}

impl Bounce {
    fn start(test: &str, query: &str) -> Self {
        let names = Names::new(test);
        let [file, out] = ["in.pcap", "out.pcapng"].map(|name| names.0.file(name));
        let line = format!("--packets {PACKETS} --size imix --flows {FLOWS}");
        let words: Vec<&str> = line.split(' ').collect();
        run_with_code(&[&["generate", "-q", "-o", &file], &words[..]].concat(), 0);
        let inline = format!("ips?{query}");
        let job = names.start(&["bounce", "-", &out, "--inline", &inline]);
        wait_until("it is there", || names.look("ips").is_some());
        let traffic = fs::read(file).unwrap();
        Self { names, job: Some(job), out, traffic }
    }

    fn worker(&self, log: u32, what: &str) -> Worker {
        Worker::start(&self.names.0.0, "ips", log, what)
    }

    /// Feeds a part of the traffic, in tenths.
    fn feed(&mut self, from: usize, to: usize) {
        let part = self.traffic.len() / 10;
        let end = if to == 10 { self.traffic.len() } else { to * part };
        self.job.as_mut().unwrap().feed(&self.traffic[from * part..end]);
    }

    /// Ends its input, and returns its exit code and report.
    fn end(&mut self) -> (Option<i32>, Value) {
        let mut job = self.job.take().unwrap();
        job.close_input();
        let (code, report) = job.end_with_code();
        let total = &report["total"];
        assert_eq!((&total["offered"], &total["in_flight"]), (&PACKETS.into(), &0.into()));
        assert_eq!(total["unaccounted"], 0, "{report}");
        let workers = report["bounce"]["inline"]["workers"].as_array().unwrap();
        let of = |worker: &Value, key: &str| worker[key].as_u64().unwrap();
        for worker in workers {
            let ends = ["passed", "passed_with_flow", "dropped", "replaced", "rejected"];
            let fails = ["late", "no_verdict", "no_room", "invalid"];
            let sum: u64 = ends.iter().chain(&fails).map(|key| of(worker, key)).sum();
            assert_eq!(of(worker, "offered"), sum, "{worker}");
        }
        let skipped = report["bounce"]["inline"]["skipped"].as_u64().unwrap();
        let offered: u64 = workers.iter().map(|worker| of(worker, "offered")).sum();
        assert_eq!(offered + skipped, PACKETS, "{report}");
        let waits = &report["bounce"]["inline"]["wait_ns"];
        let alone: u64 = workers.iter().map(|worker| of(worker, "no_verdict")).sum();
        assert_eq!(waits["packets"], offered - alone, "{report}");
        assert!(waits["min"].as_u64() <= waits["percentiles"]["p99"].as_u64(), "{waits}");
        (code, report)
    }
}

/// Checks the output with `count --verify`: each flow's packets once, in order.
fn verified(out: &str, expected: u64) {
    let found = run(&["count", out, "--verify", "--expect", &expected.to_string(), "--json"]);
    let report = last_object(&found.stdout);
    let verify = &report["verify"];
    for fault in ["duplicates", "reordered", "corrupted"] {
        assert_eq!(verify[fault], 0, "{fault}: {verify}");
    }
    assert_eq!(verify["unique"], expected, "{verify}");
}

#[test]
fn two_workers_that_pass_all_change_nothing() {
    let mut bounce = Bounce::start("inline-pass", "workers=2&deadline=1s");
    let workers = [0, 1].map(|log| bounce.worker(log, "pass"));
    bounce.feed(0, 10);
    let (code, report) = bounce.end();
    assert_eq!((code, &report["total"]["lost_total"]), (Some(0), &0.into()), "{report}");
    assert_eq!(sum(&report, "passed"), PACKETS, "{report}");
    let given = workers.map(Worker::end);
    assert_eq!(given.iter().sum::<u64>(), PACKETS);
    assert!(given.iter().all(|&given| given > 0), "{given:?}");
    verified(&bounce.out, PACKETS);
}

#[test]
fn a_verdict_drops_by_name() {
    let mut bounce = Bounce::start("inline-drop", "deadline=1s");
    let worker = bounce.worker(0, "drop:3");
    bounce.feed(0, 10);
    let (code, report) = bounce.end();
    let dropped = PACKETS / 3;
    assert_eq!(worker.end(), PACKETS);
    assert_eq!(code, Some(0), "it is what was asked for: {report}");
    assert_eq!(report["total"]["lost"]["dropped_by_verdict"], dropped, "{report}");
    assert_eq!((sum(&report, "passed"), sum(&report, "dropped")), (PACKETS - dropped, dropped));
    verified(&bounce.out, PACKETS - dropped);
}

#[test]
fn other_bytes_go_on_in_a_packets_place() {
    let mut bounce = Bounce::start("inline-replace", "deadline=1s");
    let worker = bounce.worker(0, "replace:, replaced");
    bounce.feed(0, 10);
    let (code, report) = bounce.end();
    assert_eq!((code, worker.end()), (Some(0), PACKETS), "{report}");
    assert_eq!((sum(&report, "replaced"), sum(&report, "no_room")), (PACKETS, 0));
    let file = fs::read(&bounce.out).unwrap();
    let marked = file.windows(10).filter(|window| window == b", replaced").count();
    assert_eq!(marked as u64, PACKETS);
    // Replaced by their own bytes: each once, in order, intact.
    let mut bounce = Bounce::start("inline-same", "workers=2&deadline=1s");
    let workers = [0, 1].map(|log| bounce.worker(log, "replace:"));
    bounce.feed(0, 10);
    let (code, report) = bounce.end();
    assert_eq!((code, sum(&report, "replaced")), (Some(0), PACKETS), "{report}");
    let _given = workers.map(Worker::end);
    verified(&bounce.out, PACKETS);
}

#[test]
fn a_worker_that_stalls_loses_its_own_packets_only() {
    for (fate, is_open) in [("closed", false), ("open", true)] {
        // Long, so that the other worker may wait for a core.
        let query = format!("workers=2&{fate}&deadline=1s");
        let mut bounce = Bounce::start(&format!("inline-stall-{fate}"), &query);
        let (stalled, other) = (bounce.worker(0, "stall:100"), bounce.worker(1, "pass"));
        bounce.feed(0, 10);
        let (code, report) = bounce.end();
        let workers = &report["bounce"]["inline"]["workers"];
        let late = workers[0]["offered"].as_u64().unwrap() - 100;
        assert!(late > 0);
        assert_eq!((&workers[0]["passed"], &workers[0]["late"]), (&100.into(), &late.into()));
        assert_eq!(workers[1]["passed"], workers[1]["offered"], "{report}");
        let lost = &report["total"]["lost"]["verdict_late"];
        if is_open {
            assert_eq!((code, lost), (Some(0), &Value::Null), "{report}");
            verified(&bounce.out, PACKETS);
        } else {
            assert_eq!((code, lost), (Some(0), &late.into()), "{report}");
            verified(&bounce.out, PACKETS - late);
        }
        stalled.kill();
        assert_eq!(Value::from(other.end()), workers[1]["offered"]);
    }
}

/// Waiting packets fail immediately, and the next worker gets later ones.
#[test]
fn a_killed_worker_fails_at_once_and_the_next_one_goes_on() {
    for (fate, is_open) in [("closed", false), ("open", true)] {
        let query = format!("{fate}&deadline=1s");
        let mut bounce = Bounce::start(&format!("inline-kill-{fate}"), &query);
        let first = bounce.worker(0, "stall:100");
        bounce.feed(0, 3);
        bounce.names.wait_for("ips", "it stalls", |found| {
            found["readers"][0]["delivered"].as_u64().is_some_and(|delivered| delivered >= 100)
        });
        first.kill();
        bounce.names.wait_for_readers("ips", 0);
        bounce.feed(3, 6);
        bounce.names.wait_until_published("ips", PACKETS / 2);
        let second = bounce.worker(0, "pass");
        bounce.feed(6, 10);
        let (code, report) = bounce.end();
        let given = second.end();
        let failed = sum(&report, "no_verdict") + sum(&report, "late");
        assert!(given > 0 && sum(&report, "no_verdict") > 0, "{report}");
        assert_eq!(sum(&report, "passed") + failed, PACKETS, "{report}");
        assert!(sum(&report, "passed") <= 100 + given, "{report}");
        assert_eq!(code, Some(0), "{report}");
        let lost = report["total"]["lost_total"].as_u64().unwrap();
        assert_eq!(lost, if is_open { 0 } else { failed }, "{report}");
        verified(&bounce.out, PACKETS - lost);
    }
}

#[test]
fn a_flow_that_is_passed_waits_no_more_and_stays_in_order() {
    let mut bounce = Bounce::start("inline-flow", "workers=2&deadline=1s");
    let workers = [0, 1].map(|log| bounce.worker(log, "flow"));
    // The first packets of each flow are decided before the rest arrives.
    bounce.feed(0, 1);
    bounce.names.wait_for("ips", "both have read", |found| {
        let readers = found["readers"].as_array().unwrap();
        let delivered = |reader: &Value| reader["delivered"].as_u64().unwrap();
        let all: u64 = readers.iter().map(delivered).sum();
        let has_read = |reader: &Value| delivered(reader) > 0 && reader["lag"] == 0;
        readers.len() == 2 && all >= FLOWS && readers.iter().all(has_read)
    });
    bounce.feed(1, 10);
    let (code, report) = bounce.end();
    assert_eq!((code, &report["total"]["lost_total"]), (Some(0), &0.into()), "{report}");
    let inline = &report["bounce"]["inline"];
    assert_eq!((&inline["flows"], &inline["flows_forgotten"]), (&FLOWS.into(), &0.into()));
    assert!(inline["skipped"].as_u64().unwrap() > PACKETS / 2, "{report}");
    verified(&bounce.out, PACKETS);
    let given: u64 = workers.into_iter().map(Worker::end).sum();
    assert_eq!(given, sum(&report, "offered"), "what waited was seen by a worker");
}

#[test]
fn verdicts_that_come_late_count_for_no_other_packet() {
    let mut bounce = Bounce::start("inline-late", "open&deadline=1ms");
    let worker = bounce.worker(0, "late");
    bounce.feed(0, 1);
    bounce.names.wait_until_published("ips", PACKETS / 20);
    worker.signal("-STOP");
    worker.signal("-CONT");
    bounce.feed(1, 2);
    bounce.feed(2, 10);
    let (code, report) = bounce.end();
    let (late, dropped) = (sum(&report, "late"), sum(&report, "dropped"));
    assert_eq!((code, late + dropped), (Some(0), PACKETS), "{report}");
    assert!(late > PACKETS / 2, "{report}");
    verified(&bounce.out, late);
    worker.kill();
}

/// Either of two verdicts counts, and one for a packet that has left counts for no other packet.
#[test]
fn a_packet_that_is_decided_twice_is_decided_once() {
    let mut bounce = Bounce::start("inline-twice", "workers=2&deadline=1s");
    let (twice, other) = (bounce.worker(0, "twice"), bounce.worker(1, "pass"));
    bounce.feed(0, 10);
    let (code, report) = bounce.end();
    let workers = &report["bounce"]["inline"]["workers"];
    let number = |key: &str| workers[0][key].as_u64().unwrap();
    assert!(number("offered") > 0, "{report}");
    assert_eq!(number("passed") + number("dropped"), number("offered"), "{report}");
    assert_eq!(workers[1]["passed"], workers[1]["offered"], "{report}");
    let lost = report["total"]["lost_total"].as_u64().unwrap();
    assert_eq!((code, lost), (Some(0), number("dropped")), "{report}");
    assert_eq!(twice.end() + other.end(), PACKETS);
    verified(&bounce.out, PACKETS - lost);
}

#[test]
fn a_worker_gone_mad_spoils_its_own_packets_only() {
    let mut bounce = Bounce::start("inline-mad", "workers=2&deadline=1s");
    let (mad, other) = (bounce.worker(0, "mad"), bounce.worker(1, "pass"));
    bounce.feed(0, 10);
    let (code, report) = bounce.end();
    let workers = &report["bounce"]["inline"]["workers"];
    let number = |key: &str| workers[0][key].as_u64().unwrap();
    assert!(number("invalid") > 0, "{report}");
    // A random word can match a packet that is yet to come, and then means pass.
    assert_eq!(number("invalid") + number("late") + number("passed"), number("offered"));
    assert_eq!(workers[1]["passed"], workers[1]["offered"], "{report}");
    let lost = &report["total"]["lost"];
    assert_eq!((code, &lost["verdict_invalid"]), (Some(0), &workers[0]["invalid"]), "{report}");
    mad.kill();
    other.end();
}

#[test]
fn without_a_worker_packets_go_on_or_are_lost_by_name() {
    for (fate, is_open) in [("closed", false), ("open", true)] {
        let mut bounce = Bounce::start(&format!("inline-none-{fate}"), fate);
        bounce.feed(0, 10);
        let (code, report) = bounce.end();
        assert_eq!(sum(&report, "no_verdict"), PACKETS);
        match is_open {
            true => {
                assert_eq!((code, &report["total"]["lost_total"]), (Some(0), &0.into()));
                verified(&bounce.out, PACKETS);
            }
            false => {
                assert_eq!(report["total"]["lost"]["no_verdict"], PACKETS, "{report}");
                assert_eq!(code, Some(1), "all is lost: {report}");
            }
        }
    }
}

#[test]
fn absurd_values_have_one_clear_line() {
    for (inline, said) in [
        ("", "no name: write --inline NAME"),
        ("ips?workers=0", "workers=0"),
        ("ips?workers=1000000", "1-32"),
        ("ips?deadline=0s", "deadline=0s"),
        ("ips?deadline=1h", "deadline=1h"),
        ("ips?open&closed", "give one of them"),
        ("ips?fail=open", "unknown key 'fail'"),
    ] {
        assert_says(&["bounce", "gen:?packets=1", "null:", "--inline", inline], 2, said);
    }
    let both = run(&["bounce", "xdp:lo", "xdp:lo", "--both", "--inline", "ips"]);
    assert!(both.code == Some(2) && both.stderr.contains("separate sockets"), "{}", both.stderr);
    assert_eq!(both.stderr.trim_end().lines().count(), 1);
}
