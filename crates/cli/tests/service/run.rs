//! `burstline run`: jobs of one file are restarted, reloaded and ended; nothing is left behind.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::support::live::wait_until;
use crate::support::service::{Service, is, is_alive, ledger};
use crate::support::{Directory, assert_closed, assert_says, other, run, run_with_code};
use burstline_testbed::signal;
use serde_json::Value;

/// Returns a job that counts endlessly at a low rate.
fn endless(name: &str, more: &str) -> String {
    let source = "gen:?rate=2k&pace=yes&flows=4";
    format!("[job.{name}]\nverb = 'count'\nports = '{source}'\n{more}\n")
}

#[test]
fn jobs_run_until_they_end_and_each_has_its_ledger() {
    let directory = Directory::new("run-ends");
    let site = "[job.one]\nverb = 'capture'\nports = 'gen:?packets=1000'\nwrite = '/dev/null'\n\
                [job.two]\nverb = 'count'\nports = ['gen:?packets=200', 'gen:?packets=300']\n";
    let (status, events) = Service::start(&directory, site).end();
    assert!(status.success(), "{events:#?}");
    for (job, packets) in [("one", 1000), ("two", 500)] {
        let report = ledger(&events, job);
        assert_closed(report);
        assert_eq!(report["total"]["delivered"], packets);
    }
    assert_eq!(events.last().unwrap()["event"], "stopped");
    // The same as text.
    let text = run_with_code(&["run", &directory.file("site.toml")], 0);
    assert_eq!(text.stdout.matches(": done: no packets lost, 0 unaccounted").count(), 2);
    assert!(text.stdout.contains(" UTC two: counted  500 packets"), "{}", text.stdout);
    assert!(text.stdout.ends_with(" UTC every job has ended well\n"), "{}", text.stdout);
}

#[test]
fn a_file_with_faults_starts_nothing_and_names_them_all() {
    let directory = Directory::new("run-faults");
    let path = directory.file("site.toml");
    let output = directory.file("made.pcapng");
    let site = format!(
        "[job.good]\nverb = 'capture'\nports = 'gen:?packets=10'\nwrite = '{output}'\n\
         [job.bad]\nverb = 'count'\nports = 'gen:'\nfiltre = 'udp'\npackets = 'x'\n"
    );
    fs::write(&path, site).unwrap();
    for words in [&["run", &path][..], &["run", "--check", &path]] {
        let run = run(words);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert!(lines[0].starts_with(&format!("burstline: {path}:8:1: job bad: filtre: no such")));
        assert!(lines[1].starts_with(&format!("burstline: {path}:9:1: job bad: invalid value")));
        assert_eq!(lines[2], format!("burstline: {path}: 2 errors; nothing was started"));
        assert!(!fs::exists(&output).unwrap());
    }
    assert_says(&["run", &directory.file("absent.toml")], 2, "cannot be read: No such file");
    fs::write(&path, endless("a", "quiet = true")).unwrap();
    let good = run_with_code(&["run", "--check", &path], 0);
    let command = "a: burstline count --quiet -- 'gen:?rate=2k&pace=yes&flows=4'\n";
    assert_eq!(good.stdout, format!("{command}{path}: no errors\n"));
}

#[test]
fn a_job_that_dies_is_started_again_and_the_others_go_on() {
    let directory = Directory::new("run-crash");
    let site = endless("calm", "") + &endless("crash", "restart-delay = '10ms'");
    let service = Service::start(&directory, &site);
    service.wait_for("ready", |event| event["event"] == "ready");
    let calm = service.pid("calm");
    service.signal("-USR2"); // for nothing
    service.signal("-USR1");
    let told = service.wait_for("its state", |event| event["event"] == "status");
    assert_eq!(told["text"], "2 jobs: 2 running (calm, crash)");
    for round in 1..=3 {
        signal(service.pid("crash"), "-KILL").unwrap();
        service.wait_for_count("running", 2 + round);
    }
    assert_eq!(service.pid("calm"), calm);
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
    let killed = events.iter().filter(|event| is("ended", "crash")(event));
    assert_eq!(killed.filter(|event| event["code"].is_null()).count(), 3);
    for job in ["calm", "crash"] {
        assert_closed(ledger(&events, job));
    }
}

#[test]
fn a_job_that_fails_again_and_again_is_given_up() {
    let directory = Directory::new("run-limit");
    let broken = directory.file("broken.pcap");
    fs::write(&broken, "this is no capture file at all").unwrap();
    let policy = "restart-delay = '1ms'\nrestart-limit = 3\n";
    let site = format!("[job.bad]\nverb = 'count'\nports = '{broken}'\n{policy}");
    let (status, events) = Service::start(&directory, &site).end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(events.iter().filter(|event| is("started", "bad")(event)).count(), 4);
    assert!(events.iter().any(is("given_up", "bad")), "{events:#?}");
    assert!(events.iter().any(|event| is("message", "bad")(event)
        && event["text"].as_str().is_some_and(|text| text.contains("broken.pcap"))));
    // With `never` there is one start.
    let site = format!("[job.bad]\nverb = 'count'\nports = '{broken}'\nrestart = 'never'\n");
    let (status, events) = Service::start(&directory, &site).end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(events.iter().filter(|event| is("started", "bad")(event)).count(), 1);
}

#[test]
fn a_job_waits_for_its_port_and_a_reader_for_its_publisher() {
    let directory = Directory::new("run-wait");
    let late = directory.file("late.pcap");
    let site = format!(
        "[job.late]\nverb = 'count'\nports = '{late}'\nmissing-port = 'wait'\n\
         [job.reader]\nverb = 'count'\nports = 'log:tap'\npackets = 100\n\
         [job.tap]\nverb = 'capture'\nports = 'gen:?rate=2k&pace=yes'\npublish = 'tap'\n"
    );
    let service = Service::start(&directory, &site);
    let waits = service.wait_for("it waits", is("waiting", "late"));
    assert_eq!(waits["for"], format!("file {late}"));
    service.wait_for("ready", |event| event["event"] == "ready");
    service.wait_for("the reader has read", is("ledger", "reader"));
    fs::copy(crate::support::REAL, directory.file("new")).unwrap();
    fs::rename(directory.file("new"), &late).unwrap();
    service.wait_for("it counts", is("ledger", "late"));
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
    assert_eq!(ledger(&events, "late")["total"]["delivered"], crate::support::REAL_PACKETS);
    assert_eq!(ledger(&events, "reader")["total"]["delivered"], 100);
}

#[test]
fn a_file_that_is_no_regular_file_is_refused_at_once() {
    let directory = Directory::new("run-fifo");
    let path = directory.file("site.toml");
    assert!(other("mkfifo", &[&path]).is_some_and(|made| made.code == Some(0)));
    for file in [&path, "/dev/zero", "/"] {
        assert_says(&["run", "--check", file], 2, "cannot be read: ");
    }
}

#[test]
fn an_address_of_the_service_is_no_jobs() {
    let directory = Directory::new("run-address");
    let path = directory.file("site.toml");
    fs::write(&path, endless("a", "web = '9180'")).unwrap();
    let run = run_with_code(&["run", "--check", &path, "--metrics", "9180"], 2);
    assert!(run.stderr.contains("job a of the file has it already"), "{}", run.stderr);
}

#[test]
fn a_job_waits_for_the_end_of_the_one_whose_name_it_takes() {
    let directory = Directory::new("run-renamed");
    let job = |name: &str| endless(name, "").replace("'count'", "'capture'") + "publish = 'tap'\n";
    let service = Service::start(&directory, &job("a"));
    service.wait_for("it runs", is("running", "a"));
    service.reload(&job("b"));
    let waits = service.wait_for("b waits", is("waiting", "b"));
    assert_eq!(waits["for"], "the end of job a, which uses the name of a log tap");
    service.wait_for("b runs", is("running", "b"));
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
    let failed =
        |event: &&Value| ["restarting", "given_up"].contains(&event["event"].as_str().unwrap());
    assert_eq!(events.iter().filter(failed).count(), 0, "{events:#?}");
}

#[test]
fn a_reload_touches_only_what_has_changed() {
    let directory = Directory::new("run-reload");
    let kept = endless("kept", "");
    let site = format!("{kept}{}{}", endless("changed", ""), endless("removed", ""));
    let service = Service::start(&directory, &site);
    service.wait_for("ready", |event| event["event"] == "ready");
    let pids = ["kept", "changed", "removed"].map(|job| service.pid(job));
    // A file with a fault changes nothing.
    service.reload(&format!("{kept}[job.x]\nverb = 'cout'\n"));
    service.wait_for("it is refused", |event| event["event"] == "reload_failed");
    let fault = service.wait_for("the fault", |event| event["event"] == "fault");
    assert!(fault["text"].as_str().unwrap().contains(":6:8: job x: verb: 'cout' is not a job"));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    // Changing only the policy keeps the process.
    let kept = endless("kept", "restart = 'always'");
    service.reload(&format!(
        "{kept}{}{}",
        endless("changed", "verbose = true"),
        endless("new", "")
    ));
    service.wait_for("reloaded", |event| event["event"] == "reloaded" && running(event) == 3);
    assert_eq!(service.pid("kept"), pids[0]);
    assert_ne!(service.pid("changed"), pids[1]);
    assert!(is_alive(pids[0]) && !is_alive(pids[1]) && !is_alive(pids[2]));
    let (status, events) = service.stop();
    assert!(status.success(), "{events:#?}");
    for job in ["kept", "changed", "removed", "new"] {
        assert_closed(ledger(&events, job));
    }
}

/// Returns how many jobs run, according to an event.
fn running(event: &Value) -> u64 {
    let text = event["text"].as_str().unwrap_or_default();
    let number = text.split(": ").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[test]
fn no_job_outlives_a_service_that_is_killed() {
    let directory = Directory::new("run-killed");
    let site = endless("one", "publish = 'left-behind'") + &endless("two", "");
    let mut service = Service::start(&directory, &site);
    service.wait_for("ready", |event| event["event"] == "ready");
    let pids = [service.pid("one"), service.pid("two"), service.journal()];
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    service.kill();
    wait_until("its processes have ended", || pids.iter().all(|pid| !is_alive(*pid)));
    // Each job ended on its own and removed its name.
    assert!(!fs::exists(directory.file("left-behind")).unwrap());
}

/// A process that has not begun yet is ended by the signal itself.
#[test]
fn a_service_that_is_ended_at_once_ends_well() {
    let directory = Directory::new("run-ended-at-once");
    let site: String = (0..24).map(|number| endless(&format!("j{number}"), "")).collect();
    let service = Service::start(&directory, &site);
    service.wait_for("it starts", |event| event["event"] == "starting");
    let (status, events) = service.stop();
    let signalled = |event: &&Value| event["event"] == "ended" && event["code"].is_null();
    let signalled = events.iter().filter(signalled).count();
    assert!(status.success(), "{signalled} ended by the signal: {events:#?}");
}

#[test]
fn a_service_manager_hears_what_it_waits_for() {
    let directory = Directory::new("run-notify");
    let socket = directory.file("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let hear = || {
        let mut room = [0; 4096];
        let bytes = manager.recv(&mut room).unwrap();
        String::from_utf8(room[..bytes].to_vec()).unwrap()
    };
    let hear_until = |wanted: &str| {
        let mut heard = Vec::new();
        while !heard.last().is_some_and(|text: &String| text.starts_with(wanted)) {
            heard.push(hear());
            assert!(heard.len() < 1000, "{wanted}: {heard:?}");
        }
        heard
    };
    let site = endless("a", "") + &endless("b", "");
    let variables = [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "200000")];
    let service = Service::start_with(&directory, &site, &[], &variables);
    let heard = hear_until("READY=1");
    assert!(heard.contains(&"STATUS=2 jobs: 2 running (a, b)".to_owned()), "{heard:?}");
    for _ in 0..3 {
        hear_until("WATCHDOG=1");
    }
    service.reload(&(endless("a", "") + &endless("b", "verbose = true")));
    let reloading = hear_until("RELOADING=1").pop().unwrap();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(since.parse::<u64>().unwrap() > 0);
    hear_until("READY=1");
    service.signal("-TERM");
    hear_until("STOPPING=1");
    let (status, _) = service.end();
    assert!(status.success());
    // The watchdog is for another process, so none of our messages count for it.
    let other =
        [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")];
    let short = "[job.a]\nverb = 'count'\nports = 'gen:?packets=10'\n";
    manager.set_nonblocking(true).unwrap();
    while manager.recv(&mut [0; 4096]).is_ok() {}
    Service::start_with(&directory, short, &[], &other).end();
    let mut heard = Vec::new();
    let mut room = [0; 4096];
    while let Ok(bytes) = manager.recv(&mut room) {
        heard.push(String::from_utf8_lossy(&room[..bytes]).into_owned());
    }
    assert!(!heard.is_empty() && heard.iter().all(|text| text != "WATCHDOG=1"), "{heard:?}");
}
