//! A kernel that refuses to take rights away, for a reason that may be gone a moment later.

use crate::support::rights::can_trace;
use crate::support::{Directory, PROGRAM, other};

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
