//! Verifies what a confined thread is refused: 30 system calls, and files, processes and abstract
//! sockets of others.
//!
//! Each attempt is a process: this program, started again with the number of the attempt.

mod raw_call;

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use burstline_sys::direct::{Creation, OutputFile, QueueMode, WriteQueue, keep_rings};
use burstline_sys::privileges::{self, Access, CallFilter, Confinement, Refusal, Ruleset};
use burstline_sys::temporary::random_name;
use burstline_sys::users::Account;
use raw_call::call;

/// The number of the attempt that this process makes.
const TRY: &str = "BURSTLINE_TEST_TRY";
/// The folder that the process may write.
const FOLDER: &str = "BURSTLINE_TEST_FOLDER";
/// If it is set, calls are only logged.
const LOGS: &str = "BURSTLINE_TEST_LOGS";

/// Calls, with first arguments that the kernel would look at.
const FORBIDDEN: [(&str, libc::c_long, libc::c_long); 30] = [
    ("execve", libc::SYS_execve, 0),
    ("execveat", libc::SYS_execveat, -100),
    ("ptrace", libc::SYS_ptrace, libc::PTRACE_TRACEME as libc::c_long),
    ("process_vm_readv", libc::SYS_process_vm_readv, 1),
    ("process_vm_writev", libc::SYS_process_vm_writev, 1),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, 0),
    ("mount", libc::SYS_mount, 0),
    ("umount2", libc::SYS_umount2, 0),
    ("pivot_root", libc::SYS_pivot_root, 0),
    ("chroot", libc::SYS_chroot, 0),
    ("unshare", libc::SYS_unshare, libc::CLONE_NEWUSER as libc::c_long),
    ("setns", libc::SYS_setns, 0),
    ("clone of a namespace", libc::SYS_clone, libc::CLONE_NEWUSER as libc::c_long),
    ("clone of a process", libc::SYS_clone, libc::SIGCHLD as libc::c_long),
    ("setuid", libc::SYS_setuid, 0),
    ("setresuid", libc::SYS_setresuid, 0),
    ("setgroups", libc::SYS_setgroups, 0),
    ("bpf", libc::SYS_bpf, 5),
    ("perf_event_open", libc::SYS_perf_event_open, 0),
    ("init_module", libc::SYS_init_module, 0),
    ("finit_module", libc::SYS_finit_module, 0),
    ("kexec_load", libc::SYS_kexec_load, 0),
    ("reboot", libc::SYS_reboot, 0),
    ("keyctl", libc::SYS_keyctl, 0),
    ("add_key", libc::SYS_add_key, 0),
    ("userfaultfd", libc::SYS_userfaultfd, 0),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, 0),
    ("kill of another process", libc::SYS_kill, 1),
    ("mknodat", libc::SYS_mknodat, -100),
    ("settimeofday", libc::SYS_settimeofday, 0),
];

/// Calls by which a thread would make a ring without restrictions, or widen one.
const RINGS: [(&str, libc::c_long, libc::c_long); 2] = [
    ("io_uring_setup", libc::SYS_io_uring_setup, 1),
    ("io_uring_register", libc::SYS_io_uring_register, -1),
];

/// Calls that fail with an error instead: (name, number, arguments, error).
fn failing() -> [(&'static str, libc::c_long, [libc::c_long; 3], i32); 12] {
    let run = libc::c_long::from(libc::PROT_EXEC | libc::PROT_READ);
    [
        ("mprotect of code", libc::SYS_mprotect, [4096, 4096, run], libc::EPERM),
        ("a file that runs as its owner", libc::SYS_fchmod, [-1, 0o4755, 0], libc::EPERM),
        ("typing into the terminal", libc::SYS_ioctl, [0, 0x5412, 0], libc::EPERM),
        ("a UNIX socket that connects", libc::SYS_socket, [1, 1, 0], libc::EINVAL),
        ("a socket of SCTP", libc::SYS_socket, [2, 1, 132], libc::EINVAL),
        ("a socket of MPTCP", libc::SYS_socket, [2, 1, 262], libc::EINVAL),
        ("a packet that opens a connection", libc::SYS_sendmsg, [-1, 0, 0x2000_0000], libc::EPERM),
        ("an owner of a descriptor", libc::SYS_fcntl, [-1, 8, 1], libc::EPERM),
        ("a mode of an open file", libc::SYS_fchmod, [-1, 0o666, 0], libc::EPERM),
        ("an owner of a file", libc::SYS_fchownat, [-100, 0, 0], libc::EPERM),
        ("a socket of IPv6", libc::SYS_socket, [10, 2, 0], libc::EINVAL),
        ("an unknown option", libc::SYS_prctl, [22, 2, 0], libc::EINVAL),
    ]
}

fn give_up(folder: &Path) {
    let files = Ruleset::new().unwrap();
    if let Some(files) = &files {
        files.allow(Path::new("/proc"), Access::Read).unwrap();
        files.allow(folder, Access::Write).unwrap();
    }
    let user = None::<Account>;
    let refusal = if std::env::var_os(LOGS).is_some() { Refusal::Log } else { Refusal::Kill };
    let calls = Some(CallFilter::new(&[], refusal));
    assert!(privileges::name_confinement(Confinement { user, files, calls }));
    privileges::give_up().unwrap();
}

/// Makes an attempt in its process. The process continues if nothing was refused.
fn attempt(which: usize) {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    give_up(&folder);
    // A new thread has no more rights.
    let tried = std::thread::spawn(move || match FORBIDDEN.iter().chain(&RINGS).nth(which) {
        Some(&(_, number, first)) => call(number, [first, 0, 0]).map(drop),
        None => Ok(()),
    });
    let _ = tried.join();
}

fn start(which: usize, folder: &Path) -> ExitStatus {
    command(which, folder).output().unwrap().status
}

fn command(which: usize, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "thirty_calls_end_the_process", "--nocapture"]);
    command.env(TRY, which.to_string()).env(FOLDER, folder);
    command
}

/// Returns a folder in a folder of this test, which [`remove`] removes.
fn folder(test: &str) -> PathBuf {
    let name = random_name(&format!("burstline-forbidden-{test}-"));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).unwrap();
    fs::create_dir(folder.join("own")).unwrap();
    folder.join("own")
}

fn remove(folder: &Path) {
    fs::remove_dir_all(folder.parent().unwrap()).unwrap();
}

#[test]
fn thirty_calls_end_the_process() {
    assert!(CallFilter::is_supported(), "Linux has it since 4.14");
    if let Some(which) = std::env::var(TRY).ok().and_then(|which| which.parse().ok()) {
        return attempt(which);
    }
    let folder = folder("calls");
    assert_eq!(start(usize::MAX, &folder).code(), Some(0), "nothing is tried");
    for (which, (name, ..)) in FORBIDDEN.iter().enumerate() {
        let status = start(which, &folder);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{name}: {status}");
    }
    // All calls were refused.
    let calls = FORBIDDEN.len() as u64;
    burstline_skip::ledger(calls, calls, &[]);
    remove(&folder);
}

/// What tests and developers ask for: the kernel logs the call, and the process goes on.
#[test]
fn where_calls_are_only_logged_the_process_goes_on() {
    let folder = folder("logged");
    // They fail because an argument or a capability is missing.
    for wanted in ["process_vm_readv", "mount", "chroot", "setns", "add_key", "mknodat"] {
        let which = FORBIDDEN.iter().position(|(name, ..)| *name == wanted).unwrap();
        let output = command(which, &folder).env(LOGS, "1").output().unwrap();
        assert!(output.status.success(), "{wanted}: {output:?}");
    }
    remove(&folder);
}

#[test]
fn a_call_for_another_ring_ends_the_process() {
    let folder = folder("rings");
    for (number, (name, ..)) in RINGS.iter().enumerate() {
        let status = start(FORBIDDEN.len() + number, &folder);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{name}: {status}");
    }
    remove(&folder);
}

/// Recordings that are opened later share the rings from before.
#[test]
fn a_recording_takes_a_ring_from_before_and_gives_it_back() {
    const BYTES: usize = 16 << 10;
    let test = "a_recording_takes_a_ring_from_before_and_gives_it_back";
    let Some(folder) = std::env::var_os(FOLDER) else {
        let folder = folder("pool");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(FOLDER, &folder);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let report = String::from_utf8_lossy(&output.stderr);
        if let Some((_, reason)) = report.split_once("no ring here: ") {
            burstline_skip::skip(reason.lines().next().unwrap_or_default());
        }
        return remove(&folder);
    };
    let folder = PathBuf::from(folder);
    let before = WriteQueue::new(1, BYTES).unwrap();
    let has_rings = matches!(before.mode(), QueueMode::Ring { .. });
    if !has_rings {
        eprintln!("no ring here: {}", before.mode());
    }
    drop(before);
    keep_rings(1);
    let record = move |name: &str| {
        let path = folder.join(name);
        let mut file = OutputFile::create(&path, &Creation::default()).unwrap();
        let mut queue = WriteQueue::new(4, BYTES).unwrap();
        for number in 0..20 {
            queue.bytes_mut().fill(number as u8);
            queue.submit(&mut file, number * BYTES as u64).unwrap();
        }
        queue.wait_all(&mut file).unwrap();
        let content = fs::read(&path).unwrap();
        let is_it = |(number, part): (usize, &[u8])| part.iter().all(|&byte| byte == number as u8);
        assert!(content.len() == 20 * BYTES && content.chunks(BYTES).enumerate().all(is_it));
        queue
    };
    // On another thread: the test harness still has to end the process.
    std::thread::spawn(move || {
        give_up(Path::new(&std::env::var_os(FOLDER).unwrap()));
        let is_ring = |queue: &WriteQueue| matches!(queue.mode(), QueueMode::Ring { .. });
        let (first, second) = (record("first"), record("second"));
        assert_eq!((is_ring(&first), is_ring(&second)), (has_rings, false), "{}", second.mode());
        drop(first);
        assert_eq!(is_ring(&record("third")), has_rings);
    })
    .join()
    .unwrap();
}

/// A thread that cannot continue aborts the process: by `tkill` in musl, by `tgkill` in glibc.
#[test]
fn a_thread_may_abort_the_process_and_kill_nobody_by_number() {
    const SIGNAL: &str = "BURSTLINE_TEST_SIGNAL";
    let test = "a_thread_may_abort_the_process_and_kill_nobody_by_number";
    if let Some(number) = std::env::var(SIGNAL).ok().and_then(|text| text.parse().ok()) {
        give_up(&PathBuf::from(std::env::var_os(FOLDER).unwrap()));
        let tried = std::thread::spawn(move || {
            // SAFETY: the call has no argument and reads no memory.
            let thread = unsafe { libc::syscall(libc::SYS_gettid) };
            call(libc::SYS_tkill, [thread, number, 0]).map(drop)
        });
        return drop(tried.join());
    }
    let folder = folder("signals");
    for (number, death) in [(libc::SIGABRT, libc::SIGABRT), (libc::SIGKILL, libc::SIGSYS)] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        command.env(SIGNAL, number.to_string()).env(FOLDER, &folder);
        let status = command.output().unwrap().status;
        assert_eq!(status.signal(), Some(death), "tkill with signal {number}: {status}");
    }
    remove(&folder);
}

#[test]
fn files_of_others_stay_closed_and_some_calls_fail() {
    let test = "files_of_others_stay_closed_and_some_calls_fail";
    let Some(folder) = std::env::var_os(FOLDER) else {
        let folder = folder("files");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(FOLDER, &folder);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        remove(&folder);
        if privileges::landlock_version() == 0 {
            burstline_skip::without("no Landlock here: files of others are not closed");
        }
        return;
    };
    let folder = PathBuf::from(folder);
    // On another thread: the test harness still has to end the process.
    std::thread::spawn(move || {
        let has_landlock = privileges::landlock_version() > 0;
        give_up(&folder);
        fs::write(folder.join("ours"), "x").unwrap();
        fs::rename(folder.join("ours"), folder.join("renamed")).unwrap();
        fs::remove_file(folder.join("renamed")).unwrap();
        assert!(call(libc::SYS_socket, [1, 2, 0]).is_ok(), "questions about interfaces");
        for (what, number, arguments, error) in failing() {
            let refused = call(number, arguments).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(error), "{what}");
        }
        if !has_landlock {
            return; // the other process has reported it
        }
        for path in ["/etc/passwd", "/tmp", "/dev/mem", "/root"] {
            let denied = fs::File::open(path).map(drop).unwrap_err();
            let kind = denied.kind();
            let is_refused =
                matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound);
            assert!(is_refused, "{path}: {denied}");
        }
        let outside = folder.parent().unwrap().join("outside");
        let denied = fs::write(&outside, "x").unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied, "{}", outside.display());
    })
    .join()
    .unwrap();
}

/// Without a filter of calls, so that Landlock has to refuse.
#[test]
fn processes_and_abstract_sockets_of_others_are_out_of_reach() {
    const SOCKET: &str = "BURSTLINE_TEST_SOCKET";
    let test = "processes_and_abstract_sockets_of_others_are_out_of_reach";
    let version = privileges::landlock_version();
    let Ok(name) = std::env::var(SOCKET) else {
        let name = format!("burstline-forbidden-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(SOCKET, &name);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        // Version 7 comes with Linux 6.15, which lets threads of one process send signals.
        if version < 7 {
            burstline_skip::without("an old Landlock here: processes of others stay in reach");
        }
        return;
    };
    // On another thread: the test harness still has to end the process.
    std::thread::spawn(move || {
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let connect = || UnixStream::connect_addr(&address).map(drop);
        let reach = |process: u32| call(libc::SYS_kill, [process.into(), 0, 0]).map(drop);
        connect().unwrap();
        reach(parent_id()).unwrap();
        let (user, files, calls) = (None::<Account>, Ruleset::new().unwrap(), None);
        assert!(privileges::name_confinement(Confinement { user, files, calls }));
        privileges::give_up().unwrap();
        // Its own process has threads outside of the ruleset.
        reach(std::process::id()).unwrap();
        let is_refused = |outcome: io::Result<()>| {
            outcome.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
        };
        assert_eq!(is_refused(connect()), version >= 6, "Landlock {version}");
        assert!(version < 7 || is_refused(reach(parent_id())), "Landlock {version}");
    })
    .join()
    .unwrap();
}
