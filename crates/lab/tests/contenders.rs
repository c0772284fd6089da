//! Checks that contenders leave nothing behind, however they and the lab end.

use std::fs;
use std::process::{self, Command};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{env, thread};

use burstline_lab::live::{Contender, Road, with_all};
use burstline_lab::pages::Reservation;
use burstline_lab::programs::{Ready, Words};
use burstline_lab::threads::Cores;
use burstline_sys::affinity;
use burstline_testbed::Bed;

/// Makes this program the lab, and sets how long the contender's processes sleep.
const LAB: &str = "BURSTLINE_TEST_LAB";

/// A longer test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn road() -> Road {
    let core = affinity::allowed_cores().unwrap()[0];
    Road::new(Cores { producer: core, consumer: core }).unwrap()
}

fn start<'a>(road: &'a Road, command: &str, ready: &'static str) -> Contender<'a> {
    let core = road.cores().consumer.to_string();
    let program = Words { command: command.to_owned(), ready: Ready::line(ready) };
    Contender::start(road, &core, &program, &AtomicBool::new(false)).unwrap()
}

/// Counts processes that sleep for this long.
fn sleepers(seconds: &str) -> usize {
    let command = format!("sleep\0{seconds}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.filter(|found| *found == command.as_bytes()).count()
}

fn wait_for_sleepers(seconds: &str, count: usize) {
    let began = Instant::now();
    while sleepers(seconds) != count {
        let found = sleepers(seconds);
        assert!(began.elapsed() < PATIENCE, "{found} processes that sleep for {seconds} s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a sleep time that no other process uses: unique for this process.
fn own_seconds(test: u32) -> String {
    (10_000_000 * test + process::id()).to_string()
}

/// Returns a command for two sleeping processes, the second a child of the first.
fn family(seconds: &str) -> String {
    with_all(&format!("sh -c 'sleep {seconds} & echo ready; exec sleep {seconds}'"))
}

#[test]
fn all_processes_of_a_contender_end_with_it() {
    if Bed::or_skip().is_none() {
        return;
    }
    let (road, seconds) = (road(), own_seconds(1));
    let contender = start(&road, &family(&seconds), "ready");
    wait_for_sleepers(&seconds, 2);
    let (said, _) = contender.end().unwrap();
    assert_eq!(said, "ready\n");
    wait_for_sleepers(&seconds, 0);
    let contender = start(&road, &family(&seconds), "ready");
    wait_for_sleepers(&seconds, 2);
    drop(contender);
    wait_for_sleepers(&seconds, 0);
}

#[test]
fn who_ignores_an_interrupt_is_killed_and_it_is_said() {
    if Bed::or_skip().is_none() {
        return;
    }
    let (road, seconds) = (road(), own_seconds(2));
    let command = format!("sh -c 'trap \"\" INT; echo ready; exec sleep {seconds}'");
    let contender = start(&road, &command, "ready");
    wait_for_sleepers(&seconds, 1);
    let said = contender.end_within(Duration::from_millis(50)).unwrap_err();
    assert!(said.ends_with("ignored SIGINT for 0.05 s and was killed: ready"), "{said}");
    wait_for_sleepers(&seconds, 0);
}

/// The lab of the next test, in a separate process.
#[test]
#[ignore = "another test runs it"]
fn the_lab() {
    let Ok(seconds) = env::var(LAB) else { return };
    let (road, _pages) = (road(), Reservation::take(2));
    let _contender = start(&road, &family(&seconds), "ready");
    loop {
        thread::park();
    }
}

#[test]
fn nothing_outlives_a_lab_that_is_killed() {
    if Bed::or_skip().is_none() {
        return;
    }
    let seconds = own_seconds(3);
    let mut lab = Command::new(env::current_exe().unwrap());
    let mut lab = lab.args(["the_lab", "--exact", "--ignored"]).env(LAB, &seconds).spawn().unwrap();
    wait_for_sleepers(&seconds, 2);
    // `kill` sends SIGKILL.
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for_sleepers(&seconds, 0);
    // The next road removes its files, and the next reservation releases the pages that it had
    // reserved.
    let _road = road();
    drop(Reservation::take(0));
    for (place, prefix) in [("/dev/shm", "burstline-bench-"), ("/run", "burstline-pages-")] {
        let left = format!("{prefix}{}-", lab.id());
        let is_there = || {
            let mut files = fs::read_dir(place).into_iter().flatten().flatten();
            files.any(|file| file.file_name().to_string_lossy().starts_with(&left))
        };
        // The road of another test may have found them, and be removing them.
        let began = Instant::now();
        while is_there() {
            assert!(began.elapsed() < PATIENCE, "{place}/{left}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
