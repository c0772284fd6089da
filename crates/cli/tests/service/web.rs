//! `--web` without a browser: events, limits, misbehaving clients, tokens, invalid requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Directory, assert_closed, run};
use crate::watched::Watched;
use serde_json::Value;

const SOURCE: &str = "gen:?rate=20k&pace=yes&flows=4";

/// Maximum number of pages, as documented in docs/web.md.
const MOST_PAGES: usize = 100;

/// A page's event stream.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(job: &Watched) -> Self {
        let mut stream = TcpStream::connect(&job.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", job.address).unwrap();
        Self(BufReader::new(stream))
    }

    /// Returns the status of the answer.
    fn status(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line[9..12].to_owned()
    }

    /// Returns the name and data of the next event, or `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut name, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

#[test]
fn events_go_from_the_first_state_to_the_report() {
    let job = Watched::start("--web", &["count", SOURCE, "--packets", "30k"]);
    let mut events = Events::open(&job);
    assert_eq!(events.status(), "200");
    let (first, past) = events.next().unwrap();
    assert_eq!((first.as_str(), past["elapsed_s"].is_array()), ("past", true));
    let mut delivered = 0;
    let last = loop {
        let (name, state) = events.next().unwrap();
        let now = state["total"]["delivered"].as_u64().unwrap();
        assert!(now >= delivered, "{state}");
        delivered = now;
        if name == "end" {
            break state;
        }
        assert_eq!((name.as_str(), &state["command"]), ("state", &"count".into()));
    };
    assert!(events.next().is_none(), "the stream ends with the job");
    let report = job.wait(true);
    assert_eq!((&last["state"], delivered), (&"ended".into(), 30_000));
    for key in ["total", "ports", "outcome", "stages", "errors"] {
        assert_eq!(last[key], report[key], "{key}");
    }
    assert_closed(&report);
}

#[test]
fn a_hundred_pages_some_of_them_slow_or_rude_hold_up_nobody() {
    let more = ["--metrics", "127.0.0.1:0"];
    let job = Watched::start("--web", &[&["count", SOURCE], &more[..]].concat());
    let mut pages: Vec<Events> = (0..MOST_PAGES).map(|_| Events::open(&job)).collect();
    for page in &mut pages {
        assert_eq!(page.status(), "200");
    }
    let mut one_more = Events::open(&job);
    assert_eq!(one_more.status(), "503");
    let _rude = job.rude_clients("/events");
    let begun = Instant::now();
    assert_eq!(job.status()["state"], "running");
    let (head, _) = job.ask("GET /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "the same address has both: {head}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // A page that closes, and one that sends more, make room for others.
    drop(pages.pop());
    pages[0].0.get_mut().write_all(b"more").unwrap();
    let ended = std::iter::from_fn(|| pages[0].next()).count();
    assert!(ended < 30, "it was closed");
    let begun = Instant::now();
    while Events::open(&job).status() != "200" {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    // All other pages, half of which have read nothing so far, get the last event.
    let report = job.end();
    assert_closed(&report);
    for page in &mut pages[1..] {
        let last = std::iter::from_fn(|| page.next()).last().unwrap();
        assert_eq!((last.0.as_str(), &last.1["state"]), ("end", &"ended".into()));
    }
}

#[test]
fn a_token_comes_from_a_file_and_is_never_in_the_page() {
    let directory = Directory::new("web-token");
    let file = directory.file("token");
    std::fs::write(&file, "not-to-be-guessed-0123\n").unwrap();
    let job = Watched::start("--web", &["count", SOURCE, "--web-token", &file]);
    assert_eq!(job.path, "/?token=not-to-be-guessed-0123");
    assert_eq!(job.status()["pid"], job.child.id());
    let host = format!("Host: {}\r\n\r\n", job.address);
    for path in ["/", "/status", "/events", "/?token=x"] {
        let (head, body) = job.ask(&format!("GET {path} HTTP/1.1\r\n{host}"));
        assert!(head.starts_with("HTTP/1.1 401 "), "{path}: {head}");
        assert!(!body.contains("guessed"), "{body}");
    }
    let (head, body) = job.ask(&format!("GET {} HTTP/1.1\r\n{host}", job.path));
    assert!(head.starts_with("HTTP/1.1 200 ") && !body.contains("guessed"), "{head}");
    job.end();
}

#[test]
fn what_cannot_be_is_one_line() {
    let directory = Directory::new("web-words");
    let (short, absent) = (directory.file("short"), directory.file("absent"));
    std::fs::write(&short, "secret").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (words, code, said) in [
        (&["--web", &taken][..], 1, "name another port"),
        (&["--web", "localhost:1"], 2, "ADDRESS:PORT"),
        (&["--web", "0.0.0.0:0", "--quiet"], 2, "--web-token"),
        (&["--web", "127.0.0.1:0", "--web-token", &short], 2, "at least 16"),
        (&["--web", "127.0.0.1:0", "--web-token", &absent], 1, "No such file"),
        (&["--web-token", &short], 2, "--web <ADDRESS>"),
    ] {
        let refused = run(&[&["count", "gen:?packets=10"], words].concat());
        assert_eq!(refused.code, Some(code), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{words:?}: {}", refused.stderr);
        assert!(refused.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn a_job_that_cannot_begin_tells_its_page() {
    let directory = Directory::new("web-begin");
    let pipe = directory.file("pipe");
    let made = crate::support::other("mkfifo", &[&pipe]);
    assert!(made.is_some_and(|made| made.code == Some(0)));
    // It waits for a reader of the pipe, and the page shows that.
    let job = Watched::start("--web", &["capture", SOURCE, "-w", &pipe]);
    let mut events = Events::open(&job);
    let states = std::iter::from_fn(|| events.next()).filter(|(name, _)| name == "state");
    let starting = states.take(2).last().unwrap().1;
    assert_eq!(
        (&starting["state"], &starting["total"]["delivered"]),
        (&"starting".into(), &0.into())
    );
    let reader = std::fs::File::open(&pipe).unwrap();
    let mut running = std::iter::from_fn(|| events.next());
    assert!(running.any(|(_, state)| state["state"] == "running"));
    drop(reader);
    let last = std::iter::from_fn(|| events.next()).last().unwrap();
    assert_eq!((last.0.as_str(), &last.1["state"]), ("end", &"failed".into()));
    let report = job.wait(false);
    assert_eq!(last.1["errors"], report["errors"]);
    let mut rest = Vec::new();
    events.0.read_to_end(&mut rest).unwrap();
}
