//! Rights of verbs that ask jobs and publishers, whose answers are not trusted, and of the service.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use burstline_testbed::Terminal;

use crate::run_metrics;
use crate::support::live::wait_until;
use crate::support::rights::{
    assert_all_nobodys, can_trace, held, nobody, reads_without_rights, threads_with_rights, traced,
};
use crate::support::sharing::Names;
use crate::support::{Directory, PROGRAM, other};
use crate::watched::{Watched, scraped};

const SOURCE: &str = "gen:?rate=20k&pace=yes&flows=4";

/// strace reports who reads what jobs and publishers send.
#[test]
fn answers_are_read_without_rights() {
    if !can_trace() {
        return;
    }
    let names = Names::new("rights-answers");
    let tap = Path::new(&names.0.0).join("tap");
    let publish = ["count", SOURCE, "--publish", "tap"];
    let job = Watched::start_at("--metrics", "127.0.0.1:0", &publish, |command| {
        command.env("BURSTLINE_RUN", &names.0.0);
    });
    wait_until("it is published", || tap.exists());
    let ports = ["--port", "gen:?rate=1000&pace=yes", "--port", "afpacket:lo"];
    let _switch = names.start(&[&["switch", "--name", "lab"][..], &ports].concat());
    let shows = || names.run(&["switch", "show", "lab"]).code == Some(0);
    wait_until("the switch answers", shows);
    let calls = "trace=read,recvfrom,recvmsg,seccomp,clone,clone3";
    for (verb, socket) in
        [(&["switch", "show", "lab"][..], "<UNIX"), (&["top", &job.address, "--once"], "<TCP:")]
    {
        let lines = traced(&names.0, &["-yy", "-e", calls], verb);
        let reads = reads_without_rights(&lines, socket);
        assert!(reads.is_ok_and(|reads| reads > 0), "{verb:?}: {reads:?}\n{lines}");
    }
    for verb in [
        &["top", "--once"][..],
        &["doctor", "logs"],
        &["doctor", "logs", "tap"],
        &["extcap", "--extcap-interfaces"],
    ] {
        let lines = traced(&names.0, &["-e", calls], verb);
        // Each message of a publisher begins with it.
        let magic = "brstshar";
        let free = threads_with_rights(&lines, magic);
        assert!(lines.contains(magic) && free.is_empty(), "{verb:?}: {free:?}\n{lines}");
    }
    job.end();
}

/// Root asks publishers whose sockets are another user's alone, and those that come later.
#[test]
fn publishers_of_other_users_are_asked() {
    if nobody().is_none() {
        return;
    }
    let names = Names::new("rights-others");
    let mut terminal = Terminal::start(PROGRAM, &["top", "--interval", "50ms"], 100, 30, |top| {
        top.env("BURSTLINE_RUN", &names.0.0);
    })
    .unwrap();
    wait_until("it is on the screen", || terminal.shown().contains("published logs"));
    let _publisher = names.start(&["count", SOURCE, "--publish", "tap"]);
    let tap = Path::new(&names.0.0).join("tap");
    wait_until("it is published", || tap.exists());
    chown(&tap, Some(1000), Some(1000)).unwrap();
    fs::set_permissions(&tap, fs::Permissions::from_mode(0o600)).unwrap();
    wait_until("it is on the screen", || terminal.shown().contains("tap: process"));
    for asked in [&["doctor", "logs"][..], &["doctor", "logs", "tap"]] {
        let said = names.run(asked);
        assert!(
            said.code == Some(0) && said.stdout.contains("tap"),
            "{asked:?}: {}{}",
            said.stdout,
            said.stderr
        );
    }
    let listed = names.run(&["extcap", "--extcap-interfaces"]).stdout;
    assert!(listed.contains("burst-tap"), "{listed}");
    terminal.press("q").unwrap();
    assert!(terminal.wait(std::time::Duration::from_secs(20)).unwrap().success());
}

#[test]
fn no_thread_of_top_has_rights() {
    let Some(nobody) = nobody() else { return };
    let names = Directory::new("rights-top");
    let job = Watched::start("--metrics", &["count", SOURCE]);
    for verb in [&["top", &job.address][..], &["top"]] {
        let mut terminal = Terminal::start(PROGRAM, verb, 100, 30, |command| {
            command.env("BURSTLINE_RUN", &names.0);
        })
        .unwrap();
        let process = terminal.process_id();
        wait_until("its threads have no rights", || {
            let held = held(process);
            held.len() >= 3 && held.iter().all(|held| held.is_filtered)
        });
        assert_all_nobodys(process, &nobody);
        terminal.press("q").unwrap();
        assert!(terminal.wait(std::time::Duration::from_secs(20)).unwrap().success());
    }
    job.end();
}

/// The service starts jobs, which give up their own rights, and a process that answers strangers,
/// which has none.
#[test]
fn the_service_answers_without_rights() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-service");
    let site = format!("[job.one]\nverb = 'count'\nports = '{SOURCE}'\n");
    let (service, address) = run_metrics::start(&directory, &site);
    wait_until("its job answers", || run_metrics::answered(&scraped(&address), "one") == Some(1.0));
    let answering = run_metrics::answering(&service);
    assert_all_nobodys(answering, &nobody);
    assert_all_nobodys(service.pid("one"), &nobody);
    assert_all_nobodys(service.journal(), &nobody);
    // A process of the same user ends the one that answers, and cannot reach the service.
    let kill = |pid: u32| {
        let mut command = Command::new("kill");
        command.uid(nobody.user).gid(nobody.group).arg("-KILL").arg(pid.to_string());
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(!kill(service.id()));
    assert!(kill(answering));
    service.wait_for_count("metrics_started", 2);
    let next = run_metrics::answering(&service);
    assert_ne!(next, answering);
    wait_until("it answers again", || {
        run_metrics::answered(&scraped(&address), "one") == Some(1.0)
    });
    assert_all_nobodys(next, &nobody);
    let (status, _) = service.stop();
    assert!(status.success());
}

/// strace reports that neither the service nor a thread with rights reads what scrapers and jobs
/// send.
#[test]
fn requests_to_the_service_are_read_without_rights() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-requests");
    let site = directory.file("site.toml");
    let text = "[job.one]\nverb = 'count'\nports = 'gen:?rate=1000&pace=yes&packets=8000'\n";
    fs::write(&site, text).unwrap();
    // Nobody else is likely to get the port before the service does.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let scraper = thread::spawn({
        let address = free.clone();
        move || {
            let mut answered = 0;
            wait_until("it answers", || {
                let is_there = TcpStream::connect(&address).is_ok();
                let text = if is_there { scraped(&address) } else { String::new() };
                answered += u32::from(run_metrics::answered(&text, "one") == Some(1.0));
                answered >= 2
            });
        }
    });
    let calls = "trace=read,recvfrom,recvmsg,seccomp,clone,clone3";
    let run = ["run", &site, "--metrics", &free];
    let lines = traced(&directory, &["-yy", "-e", calls], &run);
    scraper.join().unwrap();
    // A socket that the service passes to its own processes is no read from it.
    let is_kept = |line: &&str| !line.contains("SCM_RIGHTS");
    let lines = lines.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
    let reads = reads_without_rights(&lines, "<TCP:");
    assert!(reads.is_ok_and(|reads| reads >= 4), "{reads:?}");
}

/// strace reports that neither the service nor a thread with rights reads what jobs print.
#[test]
fn what_jobs_print_is_read_without_rights() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-printed");
    let site = directory.file("site.toml");
    let job = |name: &str, packets: u32| {
        format!("[job.{name}]\nverb = 'count'\nports = 'gen:?packets={packets}'\n")
    };
    fs::write(&site, job("one", 7001) + &job("two", 7002)).unwrap();
    let calls = "trace=read,readv,recvfrom,recvmsg,seccomp,clone,clone3";
    let lines = traced(&directory, &["-yy", "-s", "65536", "-e", calls], &["run", &site]);
    for printed in ["counted  7,001 packets", "counted  7,002 packets"] {
        let reads = reads_without_rights(&lines, printed);
        assert!(reads.is_ok_and(|reads| reads > 0), "{printed}: {reads:?}");
    }
    // Messages, too: a job that fails says why.
    let broken = directory.file("broken.pcap");
    fs::write(&broken, "this is no capture file at all").unwrap();
    let broken = format!("[job.a]\nverb = 'count'\nports = '{broken}'\nrestart = 'never'\n");
    fs::write(&site, broken).unwrap();
    let trace = directory.file("trace-errors");
    let flags = ["-f", "-o", &trace, "-yy", "-s", "65536", "-e", calls];
    other("strace", &[&flags[..], &[PROGRAM, "run", &site]].concat()).unwrap();
    let lines = fs::read_to_string(&trace).unwrap();
    let reads = reads_without_rights(&lines, "not a capture file");
    assert!(reads.is_ok_and(|reads| reads > 0), "{reads:?}\n{lines}");
}
