//! Threads of a library become another user, and keep the calls that a driver may need. All threads
//! of a process do, so each attempt is a process: this program, started again.

mod raw_call;

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use burstline_sys::privileges::{
    self, Access, CallFilter, Confinement, Held, LateFiles, Refusal, Ruleset, drop_of_libraries,
    expect_library_threads, give_up_but_programs,
};
use burstline_sys::users::Account;
use raw_call::call;

/// The number of the attempt that this process makes.
const TRY: &str = "BURSTLINE_TEST_TRY";

/// Calls that end the process, with first arguments that the kernel would look at.
const FORBIDDEN: [(&str, libc::c_long, libc::c_long); 13] = [
    ("execve", libc::SYS_execve, 0),
    ("ptrace", libc::SYS_ptrace, libc::PTRACE_TRACEME as libc::c_long),
    ("process_vm_writev", libc::SYS_process_vm_writev, 1),
    ("mount", libc::SYS_mount, 0),
    ("unshare", libc::SYS_unshare, libc::CLONE_NEWUSER as libc::c_long),
    ("clone of a process", libc::SYS_clone, libc::SIGCHLD as libc::c_long),
    ("setresuid", libc::SYS_setresuid, 0),
    ("finit_module", libc::SYS_finit_module, 0),
    ("keyctl", libc::SYS_keyctl, 0),
    ("perf_event_open", libc::SYS_perf_event_open, 0),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, 0),
    ("kexec_load", libc::SYS_kexec_load, 0),
    ("kill of another process", libc::SYS_kill, 1),
];

/// Calls that fail with an error, so that a driver goes on without: name, number, arguments, error.
const FAILING: [(&str, libc::c_long, [libc::c_long; 3], i32); 9] = [
    ("setns", libc::SYS_setns, [0, 0, 0], libc::EPERM),
    ("userfaultfd", libc::SYS_userfaultfd, [0, 0, 0], libc::EPERM),
    ("a call of later kernels", 9999, [0, 0, 0], libc::EPERM),
    ("a folder", libc::SYS_mkdirat, [-100, 0, 0], libc::EPERM),
    ("a program of the kernel", libc::SYS_bpf, [5, 0, 0], libc::EINVAL),
    ("code", libc::SYS_mprotect, [4096, 4096, 5], libc::EPERM),
    ("a mode", libc::SYS_fchmod, [-1, 0o666, 0], libc::EPERM),
    ("a UNIX socket that connects", libc::SYS_socket, [1, 1, 0], libc::EINVAL),
    ("a ring of calls", libc::SYS_io_uring_setup, [1, 0, 0], libc::EPERM),
];

fn name_confinement(late: LateFiles) {
    let files = Ruleset::new().unwrap();
    if let Some(files) = &files {
        files.allow("/proc".as_ref(), Access::Read).unwrap();
    }
    let is_root = burstline_sys::users::effective_user() == 0;
    let user = is_root.then(Account::nobody);
    let calls = Some(CallFilter::with_late_files(&[], late, Refusal::Kill));
    assert!(privileges::name_confinement(Confinement { user, files, calls }));
}

fn own_status() -> String {
    fs::read_to_string("/proc/thread-self/status").unwrap()
}

/// Starts this program again for an attempt of the test of this name.
fn attempt(test: &str, which: usize) -> std::process::Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(TRY, which.to_string());
    command.output().unwrap()
}

fn asked() -> Option<usize> {
    std::env::var(TRY).ok().and_then(|which| which.parse().ok())
}

/// A library's thread waits, a thread of ours starts programs, and a third one drops all rights.
fn drop_all() {
    // Afterwards this thread may not ask either.
    let (has_landlock, nobody) = (privileges::landlock_version() > 0, Account::nobody());
    name_confinement(LateFiles { has_library: true, ..LateFiles::default() });
    let (ask, asked) = mpsc::channel::<()>();
    let waiting = thread::spawn(move || {
        asked.recv().unwrap();
        (own_status(), fs::read("/etc/passwd").map(drop), call(libc::SYS_socket, [10, 2, 0]))
    });
    let (done, is_done) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let starting = thread::spawn(move || {
        give_up_but_programs().unwrap();
        done.send(()).unwrap();
        goes_on.recv().unwrap();
        Command::new("true").status().map(|status| status.success())
    });
    is_done.recv().unwrap();
    expect_library_threads();
    thread::spawn(|| privileges::give_up().and_then(|()| drop_of_libraries()))
        .join()
        .unwrap()
        .unwrap();
    ask.send(()).unwrap();
    go_on.send(()).unwrap();
    let (status, read, socket) = waiting.join().unwrap();
    let held = Held::of(&status);
    assert_eq!((held.capabilities, held.bounding), (0, 0), "{status}");
    assert_eq!(
        (held.user, held.has_no_new_privileges, held.is_filtered),
        (nobody.user, true, true)
    );
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
    let groups: Vec<u32> = groups.split_whitespace().map(|one| one.parse().unwrap()).collect();
    assert_eq!(groups, nobody.groups, "{status}");
    let is_refused = read.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    assert_eq!(is_refused, has_landlock, "files outside the ruleset");
    let has_ipv6 = !matches!(&socket, Err(error) if error.raw_os_error() == Some(libc::EINVAL));
    assert!(has_ipv6, "{socket:?}");
    assert!(starting.join().unwrap().unwrap(), "a thread that starts programs goes on doing so");
}

#[test]
fn a_thread_of_a_library_becomes_nobody_and_one_that_starts_programs_does_not() {
    if asked().is_some() {
        return drop_all();
    }
    if burstline_sys::users::effective_user() != 0 {
        return burstline_skip::skip("needs root");
    }
    let test = "a_thread_of_a_library_becomes_nobody_and_one_that_starts_programs_does_not";
    let output = attempt(test, 0);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_no_driver_does_ends_the_process_and_other_calls_fail() {
    assert!(CallFilter::is_supported(), "Linux has it since 4.14");
    if let Some(which) = asked() {
        name_confinement(LateFiles { has_library: true, ..LateFiles::default() });
        privileges::give_up().unwrap();
        let (_, number, first) = FORBIDDEN[which];
        let _ = call(number, [first, 0, 0]);
        return;
    }
    let test = "what_no_driver_does_ends_the_process_and_other_calls_fail";
    for (which, (name, ..)) in FORBIDDEN.iter().enumerate() {
        let status = attempt(test, which).status;
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{name}: {status}");
    }
}

#[test]
fn a_driver_goes_on_without_calls_that_are_not_listed() {
    if asked().is_some() {
        name_confinement(LateFiles { has_library: true, ..LateFiles::default() });
        privileges::give_up().unwrap();
        for (name, number, arguments, error) in FAILING {
            let failed = call(number, arguments).unwrap_err();
            assert_eq!(failed.raw_os_error(), Some(error), "{name}");
        }
        return;
    }
    let output = attempt("a_driver_goes_on_without_calls_that_are_not_listed", 0);
    assert!(output.status.success(), "{output:?}");
}
