//! `--web` in Chromium: what the page shows while a job runs, ends and fails.

use std::process::{Child, Command, Stdio};

use crate::browser::{Browser, Look};
use crate::support::live::wait_until;
use crate::support::{Directory, other};
use crate::watched::Watched;
use burstline_skip::skip;
use serde_json::Value;

const SOURCE: &str = "gen:?rate=20k&pace=yes&flows=4";

const PHONE: Look = Look { width: 360, height: 740, is_dark: false };
const DESK: Look = Look { width: 1280, height: 900, is_dark: false };

/// Starts the browser; without one the test is skipped and reported.
fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        skip("chromium is not installed: scripts/setup report");
    }
    browser
}

/// Starts a program that reads `tap` as soon as it is published.
fn read_tap(names: &Directory) -> Child {
    wait_until("it is published", || names.0.join("tap").exists());
    let mut reader = Command::new(crate::support::PROGRAM);
    reader.args(["count", "log:tap", "--quiet"]).env("BURSTLINE_RUN", &names.0);
    reader.stderr(Stdio::null()).spawn().unwrap()
}

/// Ends a reader: the log has ended, so it waits for the next publisher.
fn leave(mut reader: Child) {
    burstline_testbed::signal(reader.id(), "-INT").unwrap();
    assert!(reader.wait().unwrap().success());
}

/// Parses a number as formatted by the page.
fn number(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

/// Returns the cells of a section's table, by row.
fn cells(browser: &mut Browser, section: &str) -> Vec<Vec<String>> {
    let rows = format!(
        "[...document.querySelectorAll('#{section} tbody tr')].map(row => \
         [...row.cells].map(cell => cell.textContent))"
    );
    serde_json::from_value(browser.value(&rows)).unwrap()
}

#[test]
fn the_page_shows_what_the_ledger_says_while_a_job_runs_and_when_it_ends() {
    let Some(mut browser) = browser() else { return };
    let names = Directory::new("web-names");
    let file = names.file("x.pcapng");
    let words = ["capture", SOURCE, "-w", &file, "--publish", "tap", "--filter", "not udp port 9"];
    let in_names = |job: &mut Command| {
        job.env("BURSTLINE_RUN", &names.0);
    };
    let job = Watched::start_at("--web", "127.0.0.1:0", &words, in_names);
    let reader = read_tap(&names);
    browser.open(&job.page(), DESK);
    browser.wait("document.getElementById('state')?.dataset.state === 'running'");
    browser.wait("Number(document.getElementById('delivered').innerText.replace(/,/g, '')) > 0");
    let early = number(&browser.text("delivered"));
    browser.wait("document.querySelectorAll('#readers tbody tr').length === 1");
    let status = job.status();
    let ports = cells(&mut browser, "ports");
    assert_eq!(ports[0][0], SOURCE);
    assert!(number(&ports[0][1]) <= status["ports"][0]["offered"].as_u64().unwrap());
    let row = "document.querySelector('#workers tbody tr')";
    browser.wait(&format!("{row}?.cells[5]?.textContent === {file:?}"));
    let readers = cells(&mut browser, "readers");
    assert!(readers[0][0].starts_with(&format!("burstline ({})", reader.id())), "{readers:?}");
    let threads = cells(&mut browser, "threads");
    assert_eq!(threads.len(), 2, "{threads:?}");
    browser.wait(&format!(
        "Number(document.getElementById('delivered').innerText.replace(/,/g, '')) > {early} && \
         document.querySelector('#pps-picture path:last-child').getAttribute('d').includes('L')"
    ));
    let report = job.end();
    browser.wait("document.getElementById('state').dataset.state === 'ended'");
    let state = browser.text("state");
    assert_eq!(state, "The job has ended: no packets lost, 0 unaccounted");
    assert_eq!(number(&browser.text("delivered")), report["total"]["delivered"], "{report}");
    let ports = cells(&mut browser, "ports");
    let row = &report["ports"][0];
    let shown: Vec<Value> = ports[0][1..3].iter().map(|cell| number(cell).into()).collect();
    assert_eq!(shown, [row["offered"].clone(), row["delivered"].clone()]);
    assert_eq!(browser.complaints, [""; 0]);
    leave(reader);
}

#[test]
fn a_job_that_fails_says_so_with_its_losses() {
    let Some(mut browser) = browser() else { return };
    let directory = Directory::new("web-fails");
    let pipe = directory.file("pipe");
    assert!(other("mkfifo", &[&pipe]).is_some_and(|made| made.code == Some(0)));
    let mut reader =
        Command::new("sh").args(["-c", "exec cat < $0 > /dev/null", &pipe]).spawn().unwrap();
    let job = Watched::start("--web", &["capture", SOURCE, "-w", &pipe]);
    browser.open(&job.page(), DESK);
    browser.wait("document.getElementById('state')?.dataset.state === 'running'");
    reader.kill().unwrap();
    reader.wait().unwrap();
    let report = job.wait(false);
    browser.wait("document.getElementById('state').dataset.state === 'failed'");
    let state = browser.text("state");
    let error = report["errors"][0].as_str().unwrap();
    assert!(state.starts_with("The job has failed: ") && state.contains(error), "{state}");
    assert!(state.contains(", 0 unaccounted"), "{state}");
    let lost = report["total"]["lost"].as_object().unwrap();
    assert!(!lost.is_empty(), "{report}");
    let shown = cells(&mut browser, "losses");
    let shown: Vec<_> = shown.iter().map(|row| (row[0].clone(), number(&row[1]))).collect();
    let lost: Vec<_> =
        lost.iter().map(|(cause, packets)| (cause.clone(), packets.as_u64().unwrap())).collect();
    assert_eq!(shown, lost);
    let missing = lost.iter().map(|(_, packets)| packets).sum::<u64>();
    assert_eq!(number(&browser.text("lost")), missing);
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn a_connection_that_is_lost_is_no_end() {
    let Some(mut browser) = browser() else { return };
    let mut job = Watched::start("--web", &["count", SOURCE]);
    browser.open(&job.page(), DESK);
    browser.wait("document.getElementById('state')?.dataset.state === 'running'");
    job.signal("-STOP");
    browser.wait("document.getElementById('state').dataset.state === 'late'");
    job.signal("-CONT");
    browser.wait("document.getElementById('state').dataset.state === 'running'");
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    browser.wait("document.getElementById('state').dataset.state === 'lost'");
    let state = browser.text("state");
    assert!(state.starts_with("Connection lost. The figures are from "), "{state}");
}

#[test]
fn it_fits_a_phone_is_dark_where_that_is_wished_and_takes_keys_only() {
    let Some(mut browser) = browser() else { return };
    let directory = Directory::new("web-phone");
    let file = directory.file("a-file-with-a-name-that-is-rather-long-for-a-phone.pcapng");
    let job = Watched::start("--web", &["capture", SOURCE, "-w", &file]);
    browser.open(&job.page(), PHONE);
    browser.wait("document.querySelectorAll('#threads tbody tr').length === 2");
    assert_eq!(browser.value("document.scrollingElement.scrollWidth"), PHONE.width);
    let beyond = "[...document.body.querySelectorAll('*')].filter(e => !e.closest('.scroll') && \
        !e.closest('.skip') && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => \
        e.tagName + '#' + e.id)";
    assert_eq!(browser.value(beyond), serde_json::json!([]), "nothing is cut off");
    // The dark scheme has light text on a dark background.
    let light = "(color => { const [r, g, b] = color.match(/\\d+/g); \
        return (+r + +g + +b) / 3; })";
    let of_body = |what: &str| format!("{light}(getComputedStyle(document.body).{what})");
    assert!(browser.value(&of_body("backgroundColor")).as_f64() > Some(200.0));
    browser.look(Look { is_dark: true, ..PHONE });
    assert!(browser.value(&of_body("backgroundColor")).as_f64() < Some(60.0));
    assert!(browser.value(&of_body("color")).as_f64() > Some(200.0));
    // By keyboard: the first Tab skips the header, the second reaches the pause button.
    browser.press("Tab", "", 9);
    assert_eq!(browser.value("document.activeElement.className"), "skip");
    browser.press("Tab", "", 9);
    assert_eq!(browser.value("document.activeElement.id"), "pause");
    browser.press("Enter", "\r", 13);
    browser.wait("document.getElementById('state').dataset.state === 'paused'");
    browser.press("Enter", "\r", 13);
    browser.wait("document.getElementById('state').dataset.state === 'running'");
    browser.press("Tab", "", 9);
    let scrolls = "document.activeElement.className + ' ' + document.activeElement.tabIndex";
    assert_eq!(browser.value(scrolls), "scroll 0", "what scrolls is reached by keys");
    // The content for screen readers.
    let aloud = browser.read_aloud();
    for wanted in
        ["heading: Traffic", "button: Pause", "region: Ports", "columnheader: offered", "table: "]
    {
        assert!(aloud.iter().any(|node| node.starts_with(wanted)), "{wanted}: {aloud:#?}");
    }
    let of_status = aloud.iter().filter(|node| node.starts_with("status:")).count();
    let picture = aloud.iter().find(|node| node.contains("Packets a second over the last"));
    assert_eq!((of_status, picture.is_some()), (1, true), "{aloud:#?}");
    assert_eq!(browser.complaints, [""; 0]);
    job.end();
}

#[test]
fn elsewhere_than_here_a_page_takes_its_token() {
    let Some(mut browser) = browser() else { return };
    let job = Watched::start_at("--web", "0.0.0.0:0", &["count", SOURCE], |_| {});
    let port = job.address.split(':').next_back().unwrap().to_owned();
    let token = job.path.strip_prefix("/?token=").unwrap().to_owned();
    assert_eq!(token.len(), 32);
    browser.open(&format!("http://127.0.0.1:{port}/"), DESK);
    browser.wait("document.body?.innerText.includes('requires a token')");
    browser.open(&format!("http://127.0.0.1:{port}/?token={token}"), DESK);
    browser.wait("document.getElementById('state')?.dataset.state === 'running'");
    wait_until("the page has news", || number(&browser.text("delivered")) > 0);
    job.end();
    browser.wait("document.getElementById('state').dataset.state === 'ended'");
    assert_eq!(browser.complaints, [""; 0]);
}

/// For visual checks:
/// `WEB_PICTURES=folder cargo test -p burstline --test service -- --ignored pictures`.
#[test]
#[ignore = "for the eye: WEB_PICTURES names its folder"]
fn pictures_are_taken_where_they_are_asked_for() {
    let into = std::env::var_os("WEB_PICTURES").expect("WEB_PICTURES names a folder");
    let Some(mut browser) = browser() else { return };
    let directory = Directory::new("web-pictures");
    let file = directory.file("tap.pcapng");
    let in_names = |job: &mut Command| {
        job.env("BURSTLINE_RUN", &directory.0);
    };
    let words = ["capture", SOURCE, "-w", &file, "--publish", "tap"];
    let job = Watched::start_at("--web", "127.0.0.1:0", &words, in_names);
    let reader = read_tap(&directory);
    let looks = [
        ("desk", Look { height: 1180, width: 1000, is_dark: false }),
        ("phone", Look { height: 1400, ..PHONE }),
        ("dark", Look { height: 1180, width: 1000, is_dark: true }),
    ];
    browser.open(&job.page(), looks[0].1);
    browser.wait("document.querySelectorAll('#readers tbody tr').length === 1");
    std::thread::sleep(std::time::Duration::from_secs(20));
    for (name, look) in looks {
        browser.look(look);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let path = std::path::Path::new(&into).join(format!("{name}.base64"));
        std::fs::write(path, browser.picture()).unwrap();
    }
    job.end();
    leave(reader);
}

/// Takes a screenshot of the page at `BURSTLINE_PAGE`, of a job elsewhere, as base64 in the file
/// `BURSTLINE_PICTURE`.
#[test]
#[ignore = "scripts/guest-service runs it"]
fn a_page_elsewhere_has_its_picture_taken() {
    let of = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let mut browser = Browser::start().expect("chromium is needed: scripts/setup report");
    browser.open(&of("BURSTLINE_PAGE"), Look { width: 900, height: 1250, is_dark: false });
    browser.wait("document.getElementById('state')?.dataset.state === 'running'");
    browser.wait("Number(document.getElementById('delivered').innerText.replace(/,/g, '')) > 0");
    browser.wait(
        "document.querySelector('#pps-picture path:last-child').getAttribute('d').includes('L')",
    );
    assert_eq!(browser.complaints, [""; 0]);
    std::fs::write(of("BURSTLINE_PICTURE"), browser.picture()).unwrap();
}
