//! System calls that fail where libraries expect none to fail: no thread panics, the job goes on,
//! and its name is gone afterwards. Campaign R10 tries all calls.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::sharing::Names;
use crate::support::{PROGRAM, Run, last_object, other_or_skip};

#[test]
fn a_call_that_fails_once_in_each_thread_ends_no_job_that_publishes() {
    if other_or_skip("strace", &["-V"]).is_none() {
        return;
    }
    let names = Names::new("calls-that-fail");
    for (call, error, which) in [
        ("recvfrom", "EIO", 1),
        ("recvfrom", "EIO", 2),
        ("prlimit64", "EIO", 1),
        ("prlimit64", "EINTR", 1),
        // Of a folder. In the main thread it is one of the loader, which ignores it.
        ("close", "EIO", 1),
        ("getdents64", "EIO", 1),
        // When its name is removed: of the job itself, as it has no helper.
        ("unlink", "EINTR", 2),
    ] {
        let what = format!("{call} {error} {which}");
        let inject = format!("inject={call}:error={error}:when={which}");
        let trace = format!("trace={call}");
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-o", "/dev/null", "-e", &trace, "-e", &inject, PROGRAM]);
        command.args(["count", "gen:?packets=2000&rate=20k&pace=yes", "--publish", "tap"]);
        command.args(["--pages", "4k", "--buffer", "4m", "--json"]);
        command.args((call == "unlink").then_some("--keep-privileges"));
        command.env("BURSTLINE_RUN", &names.0.0).stdin(Stdio::null());
        let run = Run::from(command.output().unwrap());
        assert_eq!(run.code, Some(0), "{what}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{what}: {}", run.stderr);
        assert_eq!(last_object(&run.stdout)["total"]["delivered"], 2000, "{what}");
        let left: Vec<_> =
            fs::read_dir(&names.0.0).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["tap.lock"], "{what}");
    }
}
