//! The log of `burstline run`: a process without rights writes it, and the service does without it.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdout, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::live::wait_until;
use crate::support::service::{Service, is, is_alive, journal_of, ledger};
use crate::support::{Directory, assert_closed, command};
use burstline_skip::skip;
use burstline_testbed::{Killed, descriptor_of, signal};
use serde_json::Value;

const SOURCE: &str = "gen:?rate=2k&pace=yes&flows=4";

/// Lines of a job that are 25 MB together, more than 16 MiB may wait.
const LONG: usize = 10_000;
const LONG_LINES: usize = 2_500;

fn job(name: &str, more: &str) -> String {
    format!("[job.{name}]\nverb = 'count'\nports = '{SOURCE}'\n{more}\n")
}

/// Returns where a process prints: what is written there comes from it.
fn printed_by(process: u32, number: i32) -> Option<File> {
    match descriptor_of(process, number) {
        Ok(pipe) => Some(File::from(pipe)),
        Err(error) => {
            skip(format!("pidfd_getfd: {error}"));
            None
        }
    }
}

/// A job that was taken over prints 100,000 lines to break who reads them.
#[test]
fn hostile_lines_are_logged_and_change_nothing() {
    let directory = Directory::new("run-journal-hostile");
    let service = Service::start(&directory, &(job("bad", "") + &job("good", "")));
    service.wait_for("ready", |event| event["event"] == "ready");
    let pids = [service.pid("bad"), service.pid("good"), service.journal()];
    let deep = "[".repeat(100_000);
    let lines: [&[u8]; 8] = [
        b"\x1b[2J\x1b]0;x\x07\xe2\x80\xae",
        b"\xff\xfe\xc0\x80\xed\xa0\x80",
        deep.as_bytes(),
        b"{\"interval\":{\"x\":[[[[1e999]]]]}}",
        b"{\"event\":\"stopped\",\"interval\":\"\\u001b[2J\\u202e\"}",
        b"burstline: 2026-11-21 21:44:01.123 UTC: forged",
        b"\0\0\0\r\r\x0b",
        b"",
    ];
    let writers = [1, 2].map(|number| {
        let mut pipe = printed_by(pids[0], number)?;
        let lines = lines.map(<[u8]>::to_vec);
        Some(thread::spawn(move || {
            for round in 0..50_000 {
                // The deep one is long.
                let which = if round % 1000 == 0 { 2 } else { [0, 1, 3, 4, 5, 6, 7][round % 7] };
                pipe.write_all(&[&lines[which], &b"\n"[..]].concat()).unwrap();
            }
            pipe
        }))
    });
    for (writer, last) in writers.into_iter().zip(["the last line", "the last message"]) {
        let Some(writer) = writer else { return };
        let mut pipe = writer.join().unwrap();
        // Lines may be dropped, this one as any other.
        wait_until(last, || {
            pipe.write_all(format!("{last}\n").as_bytes()).unwrap();
            String::from_utf8(service.log()).unwrap().contains(last)
        });
    }
    assert_eq!(service.journal(), pids[2]);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let text = String::from_utf8(service.log()).unwrap();
    let is_order = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
    assert!(!text.contains(is_order));
    let whole = text.rsplit_once('\n').unwrap().0;
    let events: Vec<Value> =
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_bad = events.iter().filter(|event| event["job"] == "bad").count() as u64;
    let dropped = events.iter().filter_map(|event| event["lines"].as_u64()).sum::<u64>();
    assert!(of_bad + dropped >= 100_002, "{of_bad} and {dropped}");
    assert!(events.iter().all(|event| event["event"] != "stopped"));
    let (status, events) = service.stop();
    assert!(status.success());
    for job in ["bad", "good"] {
        assert_closed(ledger(&events, job));
    }
}

/// Any process of nobody may do that.
#[test]
fn the_log_goes_on_after_its_process_was_killed_five_times() {
    let directory = Directory::new("run-journal-killed");
    let site = job("one", "stats = '20ms'") + &job("two", "");
    let service = Service::start(&directory, &site);
    service.wait_for("ready", |event| event["event"] == "ready");
    let pids = [service.pid("one"), service.pid("two")];
    for round in 1..=5 {
        service.wait_for("it prints", is("stats", "one"));
        signal(service.journal(), "-KILL").unwrap();
        service.wait_for_count("journal_started", round);
        let stats =
            |events: &[Value]| events.iter().filter(|event| is("stats", "one")(event)).count();
        let before = stats(&service.events());
        wait_until("lines go on", || stats(&service.events()) > before);
    }
    assert_eq!([service.pid("one"), service.pid("two")], pids);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
    let ended: Vec<_> = events.iter().filter(|event| event["event"] == "journal_ended").collect();
    assert_eq!(ended.len(), 5);
    assert!(ended[0]["text"].as_str().unwrap().contains("lines may be missing"), "{ended:?}");
    for job in ["one", "two"] {
        assert_closed(ledger(&events, job));
    }
    assert_eq!(events.last().unwrap()["event"], "stopped");
}

#[test]
fn a_service_ends_while_the_process_of_its_log_does_not_run() {
    let directory = Directory::new("run-journal-stopped");
    let service = Service::start(&directory, &job("one", ""));
    service.wait_for("ready", |event| event["event"] == "ready");
    let (journal, pid) = (service.journal(), service.pid("one"));
    signal(journal, "-STOP").unwrap();
    let (status, _) = service.stop();
    assert!(status.success() && !is_alive(journal) && !is_alive(pid));
    // The kernel continues it if the service is killed.
    let mut service = Service::start(&directory, &job("one", ""));
    service.wait_for("ready", |event| event["event"] == "ready");
    let (journal, pid) = (service.journal(), service.pid("one"));
    signal(journal, "-STOP").unwrap();
    service.kill();
    wait_until("nothing remains", || !is_alive(journal) && !is_alive(pid));
}

/// A manager's SIGTERM to all processes of a service leaves the last lines to be written.
#[test]
fn the_last_lines_are_written_if_all_processes_are_asked_to_end() {
    let directory = Directory::new("run-journal-asked");
    let service = Service::start(&directory, &job("one", ""));
    service.wait_for("ready", |event| event["event"] == "ready");
    for name in ["-TERM", "-INT", "-HUP"] {
        signal(service.journal(), name).unwrap();
    }
    let (status, events) = service.stop();
    assert!(status.success());
    assert!(events.iter().all(|event| event["event"] != "journal_ended"), "{events:#?}");
    assert_closed(ledger(&events, "one"));
    assert_eq!(events.last().unwrap()["event"], "stopped");
}

/// Starts a service whose log nobody reads after the line that says that it is ready. Its job has
/// printed more than may wait.
fn stalled(directory: &Directory) -> Option<(Killed, Lines<BufReader<ChildStdout>>)> {
    let site = directory.file("site.toml");
    std::fs::write(&site, job("one", "")).unwrap();
    let mut run = command(&["run", &site, "--log-format", "json"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut log = BufReader::new(run.stdout.take().unwrap()).lines();
    let run = Killed(run);
    let mut pid = 0;
    loop {
        let event: Value = serde_json::from_str(&log.next().unwrap().unwrap()).unwrap();
        pid = event["pid"].as_u64().filter(|_| event["event"] == "started").unwrap_or(pid);
        if event["event"] == "ready" {
            break;
        }
    }
    let mut pipe = printed_by(pid as u32, 2)?;
    // It comes to its end, so the job waits for nobody.
    (0..LONG_LINES).for_each(|_| pipe.write_all(&[&[b'x'; LONG - 1][..], b"\n"].concat()).unwrap());
    Some((run, log))
}

#[test]
fn a_reader_that_stalls_does_not_hold_up_the_end() {
    let directory = Directory::new("run-journal-stalled");
    let Some((mut service, _log)) = stalled(&directory) else { return };
    let journal = journal_of(service.id()).unwrap();
    signal(service.id(), "-TERM").unwrap();
    assert!(service.wait().unwrap().success());
    assert!(!is_alive(journal));
    // Nor does it keep the process, if the service is killed.
    let Some((mut service, _log)) = stalled(&directory) else { return };
    let journal = journal_of(service.id()).unwrap();
    service.kill().unwrap();
    service.wait().unwrap();
    wait_until("its process ends", || !is_alive(journal));
}

#[test]
fn what_a_reader_has_missed_is_counted() {
    let directory = Directory::new("run-journal-late");
    let Some((mut service, log)) = stalled(&directory) else { return };
    let events = Arc::new(Mutex::new(Vec::new()));
    let reading = thread::spawn({
        let events = Arc::clone(&events);
        move || {
            for line in log {
                let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
                events.lock().unwrap().push(event);
            }
        }
    });
    let sum = || {
        let events = events.lock().unwrap();
        let of_job = |event: &&Value| event["text"].as_str().map_or(0, str::len) == LONG - 1;
        let dropped = events.iter().filter_map(|event| event["lines"].as_u64()).sum::<u64>();
        (dropped, dropped + events.iter().filter(of_job).count() as u64)
    };
    wait_until("it says what was dropped", || {
        // Before its next line.
        signal(service.id(), "-USR1").unwrap();
        let (dropped, all) = sum();
        dropped > 0 && all >= LONG_LINES as u64
    });
    signal(service.id(), "-TERM").unwrap();
    assert!(service.wait().unwrap().success());
    reading.join().unwrap();
    assert_eq!(events.lock().unwrap().last().unwrap()["event"], "stopped");
}
