//! `burstline switch --inline`: packets wait for verdicts before they are switched.
//!
//! ```text
//!   guest 2 -- g2 ==== c2 --> log 0 --.          ^
//!                                     +-- switch |  each a worker: this test program once more
//!   guest 3 -- t3 ----------> log 1 --'          v
//! ```

use crate::support::live::wait_until;
use crate::support::verdicts::{Worker, sum};
use burstline_testbed::serve_bytes;
use serde_json::Value;

use super::switch::{Guest, Lab, Running, number};

const PORTS: &str = "--port afpacket:c2 --port tap:t3";

/// Two guests, and a switch with `--inline` between them.
struct Line {
    lab: Lab,
    running: Running,
    near: Guest,
    far: Guest,
}

impl Line {
    fn or_skip(query: &str, words: &str) -> Option<Self> {
        let lab = Lab::or_skip()?;
        let near = lab.guest_behind_cable(2);
        let name = lab.directory.file("ips");
        let running = lab.start(&format!("{PORTS} --inline {name}{query} {words}"));
        let far = lab.guest_behind_tap(3);
        Some(Self { lab, running, near, far })
    }

    fn worker(&self, log: u32, what: &str) -> Worker {
        Worker::start(&self.lab.directory.0, &self.lab.directory.file("ips"), log, what)
    }

    fn end(self) -> Value {
        self.running.stop()
    }
}

/// Returns the ledger's count for a cause.
fn lost(report: &Value, cause: &str) -> u64 {
    report["total"]["lost"][cause].as_u64().unwrap_or(0)
}

#[test]
fn guests_reach_each_other_by_verdicts_only() {
    let Some(line) = Line::or_skip("?deadline=1s", "") else { return };
    assert!(line.near.is_deaf_to(&line.far.address), "nobody gives a verdict");
    let workers = [0, 1].map(|log| line.worker(log, "pass"));
    assert!(line.near.pings(&line.far.address) && line.far.pings(&line.near.address));
    let status = line.lab.port("afpacket:c2");
    assert!(number(&status["in"]["lost"]["no_verdict"]) > 0, "{status}");
    let report = line.end();
    let given: u64 = workers.into_iter().map(Worker::end).sum();
    let [offered, passed, missed] =
        ["offered", "passed", "no_verdict"].map(|key| sum(&report, key));
    assert!(passed > 0 && passed <= given && offered == passed + missed, "{report}");
    assert_eq!(lost(&report, "no_verdict"), missed, "{report}");
    assert_eq!(report["published"]["readers_total"], 2, "{report}");
}

#[test]
fn who_is_rejected_is_told_by_the_port_that_it_came_in_by() {
    let Some(line) = Line::or_skip("?deadline=1s", "") else { return };
    let near = line.worker(0, "reject");
    let far = line.worker(1, "pass");
    let server = serve_bytes(&line.far.host, &line.far.address, 10).unwrap();
    let curl = format!("curl -sS -m 20 http://{server}/ 2>&1 || true");
    let refused = line.near.host.command("sh", &["-c", &curl]).unwrap();
    assert!(refused.contains("(7)"), "by a reset, and not by a timeout: {refused}");
    // The tap's guest gets rejections, too.
    drop((near, far));
    let workers = [0, 1].map(|log| line.worker(log, "reject"));
    let ping = format!("ping -c 1 -W 20 {} 2>&1 || true", line.near.address);
    let told = line.far.host.command("sh", &["-c", &ping]).unwrap();
    let is_told = ["filtered", "rohibited"].iter().any(|word| told.contains(word));
    assert!(is_told && told.contains("0 received"), "{told}");
    let report = line.end();
    drop(workers);
    assert_eq!(lost(&report, "rejected_by_verdict"), sum(&report, "rejected"), "{report}");
    assert!(number(&report["switch"]["inline"]["answers"]) >= 2, "{report}");
}

#[test]
fn one_port_may_wait_alone_and_leave_with_packets_that_wait() {
    let Some(line) = Line::or_skip("?open&deadline=1s", "--inline-port afpacket:c2") else {
        return;
    };
    // The worker attaches but gives no verdict: its packets wait for the deadline.
    let worker = line.worker(0, "stall:0");
    let words = ["-c", "20", "-i", "0.01", "-W", "1", &line.far.address];
    let _ = line.near.host.command("ping", &words);
    wait_until("a packet went on without a verdict", || {
        number(&line.lab.port("afpacket:c2")["in"]["switched"]) > 0
    });
    let switched = number(&line.lab.port("tap:t3")["in"]["switched"]);
    assert!(switched > 0, "what comes in by the other port does not wait");
    line.lab.run("switch del-port lab afpacket:c2").unwrap();
    let report = line.end();
    drop(worker);
    assert!(sum(&report, "late") > 0, "{report}");
    assert_eq!(sum(&report, "offered"), sum(&report, "late"), "{report}");
    assert_eq!(report["switch"]["inline"]["workers"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_wait_is_said() {
    let Some(lab) = Lab::or_skip() else { return };
    for (words, reason) in [
        ("--inline ips --inline-port tap:t9", "the switch does not begin with such a port"),
        ("--inline ips?workers=32 --port tap:t4", "3 ports with 32 workers need 96 logs"),
        ("--inline-port tap:t3", "--inline <NAME[?KEYS]>"),
    ] {
        let error = lab.run(&format!("switch --port tap:t2 --port tap:t3 {words}")).unwrap_err();
        assert!(error.to_string().contains(reason), "{words}: {error}");
    }
}
