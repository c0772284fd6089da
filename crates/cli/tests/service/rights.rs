//! Rights of verbs that ask jobs and publishers, whose answers are not trusted, and of the service.

use std::path::Path;

use burstline_testbed::Terminal;

use crate::run_metrics;
use crate::support::live::wait_until;
use crate::support::rights::{
    assert_all_nobodys, assert_nobodys, can_trace, held, held_by, nobody, reads_without_rights,
    traced,
};
use crate::support::sharing::Names;
use crate::support::{Directory, PROGRAM};
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
    for (verb, socket) in [
        (&["switch", "show", "lab"][..], "<UNIX"),
        (&["top", &job.address, "--once"], "<TCP:"),
        (&["top", "--once"], "<UNIX"),
        (&["doctor", "logs"], "<UNIX"),
        (&["doctor", "logs", "tap"], "<UNIX"),
        (&["extcap", "--extcap-interfaces"], "<UNIX"),
    ] {
        let calls = "trace=read,recvfrom,recvmsg,seccomp,clone";
        let lines = traced(&names.0, &["-yy", "-e", calls], verb);
        let reads = reads_without_rights(&lines, socket);
        assert!(reads.is_ok_and(|reads| reads > 0), "{verb:?}: {reads:?}\n{lines}");
    }
    job.end();
}

#[test]
fn no_thread_of_top_has_rights_but_the_one_that_finds_published_names() {
    let Some(nobody) = nobody() else { return };
    let names = Directory::new("rights-top");
    let job = Watched::start("--metrics", &["count", SOURCE]);
    for (verb, with_rights) in [(&["top", &job.address][..], 0), (&["top"], 1)] {
        let mut terminal = Terminal::start(PROGRAM, verb, 100, 30, |command| {
            command.env("BURSTLINE_RUN", &names.0);
        })
        .unwrap();
        let process = terminal.process_id();
        wait_until("its threads have no rights", || {
            let held = held(process);
            let free = held.iter().filter(|held| !held.is_filtered).count();
            held.len() >= 3 && free == with_rights
        });
        assert!(assert_nobodys(process, &nobody) >= 2, "{verb:?}");
        terminal.press("q").unwrap();
        assert!(terminal.wait(std::time::Duration::from_secs(20)).unwrap().success());
    }
    job.end();
}

/// The service starts jobs, which give up their own rights. Its thread that answers strangers has
/// none.
#[test]
fn the_service_answers_without_rights() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-service");
    let site = format!("[job.one]\nverb = 'count'\nports = '{SOURCE}'\n");
    let (service, address) = run_metrics::start(&directory, &site);
    wait_until("its job answers", || run_metrics::answered(&scraped(&address), "one") == Some(1.0));
    let serving = held_by(service.id(), "serve");
    assert!(serving.is_filtered && serving.has_no_new_privileges, "{serving:?}");
    // A process of nobody could end the service by a signal to a thread of nobody.
    let said = (serving.user, serving.capabilities, serving.bounding);
    assert_eq!(said, (0, 0, 0), "{serving:?}");
    assert_all_nobodys(service.pid("one"), &nobody);
}
