//! `burstline run`: a restarted recorder keeps its earlier recording.

use std::fs;

use crate::support::live::wait_until;
use crate::support::service::{Service, is};
use crate::support::{Directory, run};
use burstline_testbed::signal;
use serde_json::Value;

/// Returns an endless recorder and a second job, so that the service continues after a failure.
fn site(file: &str, more: &str) -> String {
    let source = "gen:?rate=2k&pace=yes&flows=4";
    format!(
        "[job.a]\nverb = 'capture'\nports = '{source}'\nwrite = '{file}'\nflush = '10ms'\n{more}\n\
         [job.calm]\nverb = 'count'\nports = '{source}'\n"
    )
}

/// Starts the service, and returns when packets are in the file.
fn recording(directory: &Directory, file: &str, more: &str) -> Service {
    let service = Service::start(directory, &site(file, more));
    service.wait_for("ready", |event| event["event"] == "ready");
    wait_until("packets are in the file", || fs::metadata(file).is_ok_and(|file| file.len() > 0));
    service
}

/// Returns how often an event of the recorder was logged.
fn times(service: &Service, name: &'static str) -> usize {
    service.events().iter().filter(|event| is(name, "a")(event)).count()
}

/// Waits until the recorder continues in its next file, and checks that the first is unchanged.
fn assert_left(directory: &Directory, service: Service, before: &[u8]) {
    let (file, next) = (directory.file("x.pcapng"), directory.file("x-2.pcapng"));
    wait_until("it goes on in the next file", || fs::metadata(&next).is_ok());
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
    assert!(fs::read(&file).unwrap() == before, "the first file has changed");
    assert_eq!(run(&["check", &next]).code, Some(0));
}

#[test]
fn a_recorder_that_starts_again_leaves_its_recording() {
    let directory = Directory::new("run-recorder");
    let file = directory.file("x.pcapng");
    let service = recording(&directory, &file, "restart-delay = '10ms'");
    signal(service.pid("a"), "-KILL").unwrap();
    service.wait_for("it has ended", is("ended", "a"));
    let before = fs::read(&file).unwrap();
    wait_until("it runs again", || times(&service, "running") == 2);
    assert_left(&directory, service, &before);
}

#[test]
fn a_reload_after_a_failure_for_good_leaves_the_recording() {
    let directory = Directory::new("run-recorder-failed");
    let file = directory.file("x.pcapng");
    let never = "restart = 'never'";
    let service = recording(&directory, &file, never);
    signal(service.pid("a"), "-KILL").unwrap();
    service.wait_for("it has ended", is("ended", "a"));
    let before = fs::read(&file).unwrap();
    service.reload(&site(&file, never));
    wait_until("it runs again", || times(&service, "started") == 2);
    assert_left(&directory, service, &before);
}

#[test]
fn a_definition_that_is_changed_back_leaves_the_recording() {
    let directory = Directory::new("run-recorder-back");
    let (file, next) = (directory.file("x.pcapng"), directory.file("x-2.pcapng"));
    let service = recording(&directory, &file, "");
    // The process does not end yet, and its successor changes in the meantime.
    let pid = service.pid("a");
    signal(pid, "-STOP").unwrap();
    service.reload(&site(&file, "verbose = true"));
    wait_until("it is being ended", || {
        service.signal("-USR1");
        let is_ending = |event: &Value| {
            let text = event["text"].as_str().unwrap_or_default();
            event["event"] == "status" && text.contains("1 ending (a)")
        };
        service.events().iter().any(is_ending)
    });
    let marker = "[job.marker]\nverb = 'count'\nports = 'gen:?packets=1'\n";
    service.reload(&(site(&file, "") + marker));
    service.wait_for("it was read again", is("started", "marker"));
    signal(pid, "-CONT").unwrap();
    wait_until("it runs again", || times(&service, "started") == 2);
    let events = service.events();
    let started = events.iter().rev().find(|event| is("started", "a")(event)).unwrap();
    let command = started["command"].as_str().unwrap();
    assert!(command.contains("--resume") && !command.contains("--verbose"), "{command}");
    wait_until("it goes on in the next file", || fs::metadata(&next).is_ok());
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
}
