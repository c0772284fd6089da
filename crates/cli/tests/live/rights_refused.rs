//! A kernel that refuses to take rights away, for a reason that may be gone a moment later.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::support::rights::{CALLS, assert_read_without_rights, can_trace};
use crate::support::{Directory, PROGRAM, REAL, assert_says, last_object, other, run, run_json};

/// No thread goes on with rights that it could not give up, and nothing says that the kernel lacks
/// what it has.
#[test]
fn who_cannot_give_up_rights_does_not_go_on() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-refused");
    for (call, error) in [
        ("setgroups", "ENOMEM"),
        ("setresgid", "ENOMEM"),
        ("setresuid", "ENOMEM"),
        ("setresuid", "EAGAIN"),
        ("capset", "EPERM"),
        ("seccomp", "ENOMEM"),
        ("landlock_create_ruleset", "ENOMEM"),
        ("landlock_restrict_self", "ENOMEM"),
    ] {
        let inject = format!("inject={call}:error={error}:when=1");
        let job = ["count", "gen:?packets=9", "-q"];
        let trace = directory.file("trace");
        let flags = ["-f", "-o", &trace, "-e", &format!("trace={call}"), "-e", &inject];
        let done = other("strace", &[&flags[..], &[PROGRAM], &job].concat()).unwrap();
        let said = done.stderr.lines().last().unwrap_or_default();
        assert_eq!(done.code, Some(1), "{call}={error}: {}{}", done.stdout, done.stderr);
        assert!(said.contains("drop "), "{call}={error}: {}", done.stderr);
        assert!(!done.stderr.contains("kernel has no"), "{call}={error}: {}", done.stderr);
    }
    // Kernels that lack them say so, and the job goes on.
    for (call, error, what) in [
        ("seccomp", "ENOSYS", "this kernel has no seccomp filters"),
        ("landlock_create_ruleset", "EOPNOTSUPP", "this kernel has no Landlock"),
    ] {
        let inject = format!("inject={call}:error={error}");
        let trace = directory.file("trace");
        let flags = ["-f", "-o", &trace, "-e", &format!("trace={call}"), "-e", &inject];
        let job = ["count", "gen:?packets=9"];
        let done = other("strace", &[&flags[..], &[PROGRAM], &job].concat()).unwrap();
        assert_eq!(done.code, Some(0), "{call}={error}: {}", done.stderr);
        assert!(done.stderr.contains(what), "{call}={error}: {}", done.stderr);
    }
}

/// A helper follows no link of /proc. A job that has such a path looks at its files as before, and
/// nothing is left out of a set without a word.
#[test]
fn what_a_helper_does_not_follow_is_read_or_named() {
    let directory = Directory::new("rights-links");
    let at = |name: &str| directory.file(name);
    symlink("/dev/stdin", at("in")).unwrap();
    symlink("y.pcapng", at("out.pcapng")).unwrap();
    let folder = directory.0.display();
    for (script, packets) in [
        (format!("cd {folder} && {PROGRAM} count in --json < '{REAL}'"), 149),
        (format!("cd {folder} && {PROGRAM} count /proc/$$/fd/9 --json 9< '{REAL}'"), 149),
        (
            format!(
                "cd {folder} && {PROGRAM} capture '{REAL}' -w out.pcapng --follow-links -q && \
                 {PROGRAM} count y.pcapng --json"
            ),
            149,
        ),
    ] {
        let done = other("sh", &["-c", &script]).unwrap();
        assert_eq!(done.code, Some(0), "{script}: {}", done.stderr);
        assert_eq!(last_object(&done.stdout)["total"]["delivered"], packets, "{script}");
    }
    let set = at("set");
    fs::create_dir(&set).unwrap();
    fs::copy(REAL, format!("{set}/b.pcap")).unwrap();
    symlink(format!("/proc/self/root{REAL}"), format!("{set}/a.pcap")).unwrap();
    let done = run(&["count", &format!("set:{set}"), "--json"]);
    match done.code {
        Some(0) => assert_eq!(last_object(&done.stdout)["total"]["delivered"], 298),
        _ => assert!(done.stderr.contains("a.pcap"), "{}", done.stderr),
    }
}

/// Whether an ordinary user has a right to files of others is not asked of a helper.
#[test]
fn a_user_with_a_right_to_files_reads_them() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-ambient");
    let file = directory.file("roots.pcap");
    fs::copy(REAL, &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let program = directory.file("program");
    fs::copy(PROGRAM, &program).unwrap();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let right = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
    let job = [&program, "count", &file, "--json"];
    let done = other("setpriv", &[&user[..], &right, &job].concat()).unwrap();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(last_object(&done.stdout)["total"]["delivered"], 149);
    let done = other("setpriv", &[&user[..], &job].concat()).unwrap();
    assert!(done.code == Some(1) && done.stderr.contains("Permission denied"), "{}", done.stderr);
}

/// An ordinary user's files are read without rights, too, and beside a name that the job takes.
#[test]
fn no_thread_of_an_ordinary_user_has_rights_when_files_are_read() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-ordinary");
    let [file, program, own] = ["in.pcap", "program", "own"].map(|name| directory.file(name));
    fs::copy(REAL, &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::copy(PROGRAM, &program).unwrap();
    fs::create_dir(&own).unwrap();
    chown(&own, Some(65534), Some(65534)).unwrap();
    let (trace, name) = (directory.file("trace"), format!("{own}/name"));
    let strace = ["-f", "-y", "-o", &trace, "-e", CALLS, "setpriv"];
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let raw = ["--inh-caps=+net_raw", "--ambient-caps=+net_raw"];
    for right in [&[][..], &raw] {
        for job in [&["count", &file, "-q"][..], &["count", &file, "-q", "--publish", &name]] {
            let words = [&strace[..], &user, right, &[&program], job].concat();
            let done = other("strace", &words).unwrap();
            assert_eq!(done.code, Some(0), "{job:?}: {}", done.stderr);
            let lines = fs::read_to_string(&trace).unwrap();
            assert_read_without_rights(job, &lines, "/in.pcap");
            assert!(!Path::new(&name).exists(), "{right:?} {job:?}");
        }
    }
}

/// A name is taken before files are read. It is given back if they cannot be.
#[test]
fn a_job_that_does_not_begin_leaves_no_name() {
    let directory = Directory::new("rights-name");
    let [name, bad] = ["name", "bad.pcap"].map(|name| directory.file(name));
    fs::write(&bad, "no capture").unwrap();
    let socket_is_gone = |job: &[&str]| {
        let left = fs::read_dir(&directory.0).unwrap().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|left| left != "name.lock" && left != "bad.pcap").collect();
        assert!(left.is_empty(), "{job:?}: {left:?}");
    };
    for file in [&bad, &directory.file("missing.pcap")] {
        let job = ["count", file, "--publish", &name];
        assert_says(&job, 1, file);
        socket_is_gone(&job);
    }
    let job = ["capture", REAL, "-w", "/nowhere/x.pcap", "--publish", &name];
    assert_says(&job, 1, "/nowhere");
    socket_is_gone(&job);
    // The socket is root's, whoever the job becomes.
    let job = ["count", REAL, "--publish", &name];
    for user in [&[][..], &["-Z", "nobody"], &["-Z", "root"]] {
        run_json(&[&job[..], user].concat(), 0);
        socket_is_gone(&[&job[..], user].concat());
    }
}
