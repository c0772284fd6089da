//! `burstline run --metrics`: one text of all jobs, even while one of them does not answer.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::live::wait_until;
use crate::support::service::{Service, is, is_alive, ledger};
use crate::support::{Directory, run};
use crate::watched::{asked, scraped};
use burstline_skip::skip;
use burstline_testbed::{descriptor_of, signal};
use serde_json::Value;

const SOURCE: &str = "gen:?rate=2k&pace=yes&flows=4";

pub(crate) fn start(directory: &Directory, site: &str) -> (Service, String) {
    start_with(directory, site, &[])
}

/// The same with these variables.
pub(crate) fn start_with(
    directory: &Directory,
    site: &str,
    variables: &[(&str, &str)],
) -> (Service, String) {
    let service = Service::start_with(directory, site, &["--metrics", "127.0.0.1:0"], variables);
    let said = service.wait_for("where it answers", |event| event["event"] == "metrics");
    let text = said["text"].as_str().unwrap();
    let address = text.strip_prefix("metrics at http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap().to_owned();
    (service, address)
}

/// Returns the process that answers now.
pub(crate) fn answering(service: &Service) -> u32 {
    let events = service.events();
    let started = events.iter().rev().find(|event| event["event"] == "metrics_started");
    started.unwrap()["pid"].as_u64().unwrap() as u32
}

fn value(text: &str, line: &str) -> Option<f64> {
    text.lines().find_map(|other| other.strip_prefix(line)?.trim().parse().ok())
}

fn received(text: &str, job: &str) -> Option<f64> {
    let labels = format!("site_job=\"{job}\",source=\"{SOURCE}\",number=\"0\"");
    value(text, &format!("burstline_received_packets_total{{{labels}}}"))
}

pub(crate) fn answered(text: &str, job: &str) -> Option<f64> {
    value(text, &format!("burstline_site_job_answered{{site_job=\"{job}\"}}"))
}

#[test]
fn one_address_has_the_counters_of_all_jobs() {
    let directory = Directory::new("run-metrics");
    let job = |name: &str, more: &str| {
        format!("[job.{name}]\nverb = 'count'\nports = '{SOURCE}'\nrestart = 'always'\n{more}\n")
    };
    let site = job("one", "") + &job("two", "metrics = '127.0.0.1:0'");
    let (service, address) = start(&directory, &site);
    let has_both = |text: &str| {
        ["one", "two"].iter().all(|job| received(text, job).is_some_and(|packets| packets > 0.0))
    };
    let mut text = String::new();
    wait_until("both have packets", || {
        text = scraped(&address);
        has_both(&text)
    });
    for family in ["received_packets", "site_job_starts", "stage_sleeps", "unaccounted_packets"] {
        let kinds =
            text.lines().filter(|line| line.starts_with(&format!("# TYPE burstline_{family} ")));
        assert_eq!(kinds.count(), 1, "{family}: {text}");
    }
    for job in ["one", "two"] {
        let state = format!("burstline_site_job_state{{site_job=\"{job}\",state=\"running\"}}");
        assert_eq!((value(&text, &state), answered(&text, job)), (Some(1.0), Some(1.0)), "{text}");
    }
    // A job that does not answer has no lines, and does not affect the others' lines.
    let stopped = service.pid("two");
    signal(stopped, "-STOP").unwrap();
    let begun = Instant::now();
    // The other may be late with an answer, too, when no core is free.
    wait_until("one does not answer, the other does", || {
        text = scraped(&address);
        answered(&text, "two") == Some(0.0) && received(&text, "one").is_some()
    });
    assert!(received(&text, "two").is_none(), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    signal(stopped, "-CONT").unwrap();
    wait_until("it answers again", || answered(&scraped(&address), "two") == Some(1.0));
    // A restarted job has a new address.
    signal(service.pid("one"), "-KILL").unwrap();
    let starts = "burstline_site_job_starts_total{site_job=\"one\"}";
    wait_until("it runs again", || {
        let text = scraped(&address);
        value(&text, starts) == Some(2.0) && received(&text, "one").is_some()
    });
    let (_, status) = asked(&address, "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        status["jobs"][0],
        serde_json::json!({"job": "one", "state": "running", "starts": 2})
    );
    let (_, events) = service.stop();
    assert_eq!(ledger(&events, "two")["total"]["unaccounted"], 0);
}

/// A compromised job names another address: the service still queries the listener it gave the job.
#[test]
fn a_job_cannot_send_the_service_elsewhere() {
    let directory = Directory::new("run-metrics-elsewhere");
    let site = format!("[job.one]\nverb = 'count'\nports = '{SOURCE}'\n");
    let (service, address) = start(&directory, &site);
    wait_until("it answers", || answered(&scraped(&address), "one") == Some(1.0));
    let line = match descriptor_of(service.pid("one"), 0) {
        Ok(line) => UnixStream::from(line),
        Err(error) => return skip(format!("pidfd_getfd: {error}")),
    };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let elsewhere = other.local_addr().unwrap();
    (&line).write_all(format!("metrics {elsewhere}\n").as_bytes()).unwrap();
    let begun = Instant::now();
    // A job that gets no core in time has no lines in that answer.
    let mut answers = 0;
    while begun.elapsed() < Duration::from_secs(2) || answers < 3 {
        let text = scraped(&address);
        let is_there = answered(&text, "one") == Some(1.0);
        assert_eq!(received(&text, "one").is_some(), is_there, "{text}");
        answers += u32::from(is_there);
        assert_eq!(other.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
    }
    // The service reads the connection to its end.
    drop(line);
    service.stop();
}

/// Scrapers wait at the service's own socket meanwhile, and jobs do not notice.
#[test]
fn another_process_answers_if_the_one_that_does_is_killed() {
    let directory = Directory::new("run-metrics-killed");
    let site = format!("[job.one]\nverb = 'count'\nports = '{SOURCE}'\n");
    let (mut service, address) = start(&directory, &site);
    wait_until("it answers", || answered(&scraped(&address), "one") == Some(1.0));
    let job = service.pid("one");
    for (starts, name) in [(2, "-KILL"), (3, "-TERM")] {
        signal(answering(&service), name).unwrap();
        let killed = Instant::now();
        let text = scraped(&address);
        assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
        assert_eq!(value(&text, "burstline_site_job_starts_total{site_job=\"one\"}"), Some(1.0));
        service.wait_for_count("metrics_started", starts);
        service.wait_for_count("metrics_ended", starts - 1);
    }
    assert_eq!((service.pid("one"), is_alive(job)), (job, true));
    // A process that does not run holds nobody up but scrapers.
    let stopped = answering(&service);
    signal(stopped, "-STOP").unwrap();
    service.reload(&(site.clone() + "[job.two]\nverb = 'count'\nports = 'gen:?packets=9'\n"));
    service.wait_for("the new job has ended", is("ended", "two"));
    signal(stopped, "-CONT").unwrap();
    wait_until("it answers", || answered(&scraped(&address), "one") == Some(1.0));
    // It ends with the service, however that ends.
    service.kill();
    wait_until("it ends", || !is_alive(stopped));
    wait_until("the job ends", || !is_alive(job));
}

#[test]
fn a_service_that_ends_leaves_no_process() {
    let directory = Directory::new("run-metrics-end");
    let site = format!("[job.one]\nverb = 'count'\nports = '{SOURCE}'\n");
    let (service, address) = start(&directory, &site);
    wait_until("it answers", || answered(&scraped(&address), "one") == Some(1.0));
    let stopped = answering(&service);
    // It is ended even if it does not run.
    signal(stopped, "-STOP").unwrap();
    let (status, events) = service.stop();
    assert!(status.success() && !is_alive(stopped));
    assert_eq!(ledger(&events, "one")["total"]["unaccounted"], 0);
}

#[test]
fn an_address_that_cannot_be_had_starts_nothing() {
    let directory = Directory::new("run-metrics-taken");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (path, output) = (directory.file("site.toml"), directory.file("made.pcapng"));
    let site = format!("[job.a]\nverb = 'capture'\nports = 'gen:?packets=9'\nwrite = '{output}'\n");
    std::fs::write(&path, site).unwrap();
    let refused = run(&["run", &path, "--metrics", &address]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("--metrics {address}: ")), "{}", refused.stderr);
    assert!(!std::fs::exists(&output).unwrap());
}
