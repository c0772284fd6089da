//! `burstline run` when the system provides no more threads: the service and its jobs continue.

use std::fs;

use crate::run_metrics::{answered, answering, start_with};
use crate::support::live::wait_until;
use crate::support::service::Service;
use crate::support::{Directory, other_or_skip};
use crate::watched::{asked, scraped};
use serde_json::Value;

fn job(name: &str) -> String {
    let source = "gen:?rate=2k&pace=yes&flows=4";
    format!("[job.{name}]\nverb = 'count'\nports = '{source}'\nrestart = 'never'\n")
}

fn service_pid(service: &Service) -> u32 {
    let starting = service.wait_for("it starts", |event| event["event"] == "starting");
    starting["pid"].as_u64().unwrap() as u32
}

/// Limits the address space of a process to what it has and a little more; a thread's stack takes 2
/// MiB. `None` without prlimit, after counting the test as skipped.
fn limit(pid: u32, more_kib: Option<u64>) -> Option<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let has = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let has: u64 = has.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    let most = more_kib.map_or("unlimited".to_owned(), |more| ((has + more) << 10).to_string());
    let set = other_or_skip("prlimit", &["--pid", &pid.to_string(), &format!("--as={most}:")])?;
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    Some(())
}

/// Returns the number of children that have ended and were not waited for.
fn zombies(parent: u32) -> usize {
    let folders = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = folders.filter_map(|folder| fs::read_to_string(folder.path().join("stat")).ok());
    // State and parent follow the name's bracket: proc_pid_stat(5).
    let of = format!("Z {parent} ");
    stats.filter(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(&of))).count()
}

#[test]
fn without_threads_a_scrape_has_no_lines_of_jobs_and_the_service_goes_on() {
    let directory = Directory::new("run-short-metrics");
    // In a container root may set limits of its own processes only.
    let own = [("BURSTLINE_CONFINE", "off")];
    let (service, address) = start_with(&directory, &job("one"), &own);
    // The process that answers asks each job on a thread. It has started none yet: libc would keep
    // its stack for the next one.
    let status = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    wait_until("it answers", || asked(&address, status).1.contains("running"));
    let pid = answering(&service);
    let Some(()) = limit(pid, Some(1024)) else { return };
    assert_eq!(answered(&scraped(&address), "one"), Some(0.0));
    limit(pid, None);
    wait_until("it has threads again", || answered(&scraped(&address), "one") == Some(1.0));
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
}

#[test]
fn without_threads_a_job_is_not_started_and_nothing_is_left_of_it() {
    let directory = Directory::new("run-short-start");
    let service = Service::start(&directory, &job("one"));
    service.wait_for("it runs", |event| event["event"] == "running");
    let pid = service_pid(&service);
    let Some(()) = limit(pid, Some(1024)) else { return };
    service.reload(&(job("one") + &job("two")));
    let is_told = |event: &Value| {
        let text = event["text"].as_str().unwrap_or_default();
        event["job"] == "two" && text.starts_with("cannot be started: ")
    };
    service.wait_for("it cannot be started", is_told);
    assert_eq!(zombies(pid), 0, "a process was not waited for");
    limit(pid, None);
    let (status, events) = service.stop();
    // Job two has failed for good.
    assert_eq!(status.code(), Some(1), "{events:#?}");
}
