//! The list of calls that a thread may make once it has given up its rights.

use libc::c_long;

use super::never::NEVER;

/// Activities of some jobs that need additional calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Reads and fills maps of XDP programs.
    Maps,
    /// The same, and injects frames into the kernel by running a program on them.
    Injections,
    /// Creates folders.
    Folders,
    /// Connects to a collector, a bus or a job, which may have an IPv6 address.
    Collector,
    /// Shares memory with others, and wakes peers by their eventfds. A write could block, so the
    /// completion of an asynchronous read signals the eventfd.
    Bells,
}

/// What a job does later to files and names, and whose code does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateFiles {
    /// Gives such files a mode or an owner that the user named.
    pub has_modes: bool,
    /// Binds UNIX sockets at paths, connects to those of others, and changes modes and owners by
    /// path.
    pub has_names: bool,
    /// Opens files for other threads: see [`helper`](crate::helper).
    pub is_helper: bool,
    /// Such a helper that opens ports, too: it makes maps, and loads and attaches programs.
    pub opens_ports: bool,
    /// Runs a library whose calls are not known before, such as a driver of a device. A call that
    /// is in no row fails, and does not end the process.
    pub has_library: bool,
    /// That library accepts peers at UNIX sockets, and connects to theirs.
    pub has_library_peers: bool,
}

/// The jobs that a row is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Only {
    With(Need),
    Modes,
    Names,
    Helper,
    Ports,
    Library,
    LibraryPeers,
    /// Starts a program of the user.
    Starts,
    /// Answers questions with that program, or is it.
    Answers,
}

#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) number: c_long,
    pub(super) rule: Rule,
    /// `None` if it is for every job.
    pub(super) only: Option<Only>,
}

/// The condition for a call. Arguments count from 0.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Allowed,
    /// Never, also where other calls only fail.
    Refused,
    /// Fails with this error: libc then tries another call.
    Fails(i32),
    /// Allowed with one of these values.
    OneOf {
        argument: u32,
        values: &'static [u32],
    },
    /// Allowed with one of these values; fails with EINVAL for others.
    Known {
        argument: u32,
        values: &'static [u32],
    },
    /// A socket of one of these families, and not of a protocol that connects and that Landlock
    /// does not know. One of `AF_UNIX` is allowed only for questions about interfaces, unless
    /// `has_unix`. Otherwise it fails with EINVAL.
    Socket {
        families: &'static [u32],
        has_unix: bool,
    },
    /// Allowed with all values but these, for which it fails with EPERM.
    Except {
        argument: u32,
        values: &'static [u32],
    },
    /// Allowed without any of these bits; fails with EPERM otherwise.
    WithoutBits {
        argument: u32,
        bits: u32,
    },
    /// Allowed with the flags of a thread and without those of a namespace.
    Thread {
        with: u32,
        without: u32,
    },
    /// Allowed for the filter's processes.
    Own,
    /// Allowed for these, and for the caller, which is given as 0.
    OwnLimits,
}

const ABORT: &[u32] = &[libc::SIGABRT as u32];
/// `CLONE_NEWNS`, `CGROUP`, `UTS`, `IPC`, `USER`, `PID` and `NET`.
const NAMESPACES: u32 = 0x7e02_0000;
/// `TIOCSTI` and `TIOCLINUX`: inject typed or pasted input for the terminal's next reader.
/// Then `FIOSETOWN` and `SIOCSPGRP`: see `OWNERS`.
const TYPES: &[u32] = &[0x5412, 0x541c, 0x8901, 0x8902];
/// `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`: by these a descriptor sends any signal to any process.
const OWNERS: &[u32] = &[8, 10, 15];
/// `AF_UNIX`, `AF_INET` (interface queries), `AF_NETLINK`, `AF_PACKET`, `AF_XDP`.
const FAMILIES: &[u32] = &[1, 2, 16, 17, 44];
/// `MSG_FASTOPEN`.
const FAST_OPEN: u32 = 0x2000_0000;
/// The same families, and `AF_INET6`.
const FAMILIES_TO_COLLECTORS: &[u32] = &[1, 2, 10, 16, 17, 44];
/// Look up, update, delete, next key, look up and delete, information; `BPF_LINK_DETACH`.
const OF_MAPS: &[u32] = &[1, 2, 3, 4, 15, 21, 34];
/// The same, and `BPF_PROG_TEST_RUN`.
const OF_INJECTIONS: &[u32] = &[1, 2, 3, 4, 10, 15, 21, 34];
/// Make a map, load a program, attach it.
const OF_PROGRAMS: &[u32] = &[0, 5, 28];
/// The signal when a parent ends, names, dumpable, seccomp's mode, timer slack, `no_new_privs`,
/// ambient set, mapping names.
const OPTIONS: &[u32] = &[1, 3, 4, 15, 16, 21, 23, 29, 30, 38, 39, 47, 0x5356_4d41];

const fn allowed(number: c_long) -> Row {
    with(number, Rule::Allowed)
}

const fn with(number: c_long, rule: Rule) -> Row {
    Row { number, rule, only: None }
}

const fn without_programs(number: c_long) -> Row {
    with(number, Rule::WithoutBits { argument: 2, bits: libc::PROT_EXEC as u32 })
}

/// A change of a file's mode, not to setuid or setgid. `argument` is the mode.
const fn without_ids(argument: u32) -> Rule {
    Rule::WithoutBits { argument, bits: libc::S_ISUID | libc::S_ISGID }
}

const fn only(only: Only, number: c_long, rule: Rule) -> Row {
    Row { number, rule, only: Some(only) }
}

const fn starts(number: c_long) -> Row {
    only(Only::Starts, number, Rule::Allowed)
}

const fn answers(number: c_long) -> Row {
    only(Only::Answers, number, Rule::Allowed)
}

const fn only_for(need: Need, number: c_long, rule: Rule) -> Row {
    only(Only::With(need), number, rule)
}

/// Returns the rows of [`LIST`], and those of what no library may do.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    let never = NEVER.iter().map(|&number| only(Only::Library, number, Rule::Refused));
    LIST.iter().copied().chain(never)
}

const LIST: &[Row] = &[
    with(libc::SYS_ioctl, Rule::Except { argument: 1, values: TYPES }),
    without_programs(libc::SYS_mmap),
    without_programs(libc::SYS_mprotect),
    without_programs(libc::SYS_pkey_mprotect),
    with(libc::SYS_prctl, Rule::Known { argument: 0, values: OPTIONS }),
    with(libc::SYS_clone, Rule::Thread { with: libc::CLONE_THREAD as u32, without: NAMESPACES }),
    // Its flags are in memory, where a filter cannot see them: libc then calls clone.
    with(libc::SYS_clone3, Rule::Fails(libc::ENOSYS)),
    // A question takes no socket: its program has pipes.
    only(Only::Starts, libc::SYS_socket, Rule::Fails(libc::EPERM)),
    only(Only::Answers, libc::SYS_socket, Rule::Fails(libc::EPERM)),
    only(Only::Starts, libc::SYS_socketpair, Rule::Fails(libc::EPERM)),
    only(Only::Answers, libc::SYS_socketpair, Rule::Fails(libc::EPERM)),
    // Before the narrower row: if a job has both needs, the first row counts.
    only(
        Only::Names,
        libc::SYS_socket,
        Rule::Socket { families: FAMILIES_TO_COLLECTORS, has_unix: true },
    ),
    only_for(
        Need::Collector,
        libc::SYS_socket,
        Rule::Socket { families: FAMILIES_TO_COLLECTORS, has_unix: false },
    ),
    // Drivers ask interfaces and the kernel by sockets of any of these families.
    only(
        Only::LibraryPeers,
        libc::SYS_socket,
        Rule::Socket { families: FAMILIES_TO_COLLECTORS, has_unix: true },
    ),
    only(
        Only::Library,
        libc::SYS_socket,
        Rule::Socket { families: FAMILIES_TO_COLLECTORS, has_unix: false },
    ),
    with(libc::SYS_socket, Rule::Socket { families: FAMILIES, has_unix: false }),
    // TCP Fast Open connects, and Landlock does not see it.
    with(libc::SYS_sendto, Rule::WithoutBits { argument: 3, bits: FAST_OPEN }),
    with(libc::SYS_sendmsg, Rule::WithoutBits { argument: 2, bits: FAST_OPEN }),
    with(libc::SYS_sendmmsg, Rule::WithoutBits { argument: 3, bits: FAST_OPEN }),
    with(libc::SYS_fcntl, Rule::Except { argument: 1, values: OWNERS }),
    // A file that Landlock does not open may belong to this user.
    only(Only::Names, libc::SYS_fchmodat, without_ids(2)),
    with(libc::SYS_fchmodat, Rule::Fails(libc::EPERM)),
    only(Only::Names, libc::SYS_fchownat, Rule::Allowed),
    with(libc::SYS_fchownat, Rule::Fails(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    only(Only::Names, libc::SYS_chmod, without_ids(1)),
    #[cfg(target_arch = "x86_64")]
    with(libc::SYS_chmod, Rule::Fails(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    only(Only::Names, libc::SYS_chown, Rule::Allowed),
    #[cfg(target_arch = "x86_64")]
    with(libc::SYS_chown, Rule::Fails(libc::EPERM)),
    // Nor is a file that may be read one whose mode may change.
    only(Only::Modes, libc::SYS_fchown, Rule::Allowed),
    with(libc::SYS_fchown, Rule::Fails(libc::EPERM)),
    only(Only::Modes, libc::SYS_fchmod, without_ids(1)),
    with(libc::SYS_fchmod, Rule::Fails(libc::EPERM)),
    with(libc::SYS_kill, Rule::Own),
    with(libc::SYS_tgkill, Rule::Own),
    // musl's abort ends the process with this call. It names no process, so we allow only SIGABRT.
    with(libc::SYS_tkill, Rule::OneOf { argument: 1, values: ABORT }),
    with(libc::SYS_prlimit64, Rule::OwnLimits),
    // Before the narrower row: if a job has both needs, the first row counts.
    only_for(Need::Injections, libc::SYS_bpf, Rule::OneOf { argument: 0, values: OF_INJECTIONS }),
    // What net_af_xdp also asks when it closes needs rights, and fails.
    only(Only::Library, libc::SYS_bpf, Rule::Known { argument: 0, values: OF_MAPS }),
    only_for(Need::Maps, libc::SYS_bpf, Rule::OneOf { argument: 0, values: OF_MAPS }),
    only(Only::Ports, libc::SYS_bpf, Rule::OneOf { argument: 0, values: OF_PROGRAMS }),
    // Its resolution flags are in memory. They only restrict.
    only(Only::Helper, libc::SYS_openat2, Rule::Allowed),
    only_for(Need::Folders, libc::SYS_mkdirat, Rule::Allowed),
    #[cfg(target_arch = "x86_64")]
    only_for(Need::Folders, libc::SYS_mkdir, Rule::Allowed),
    only_for(Need::Bells, libc::SYS_io_setup, Rule::Allowed),
    only_for(Need::Bells, libc::SYS_io_submit, Rule::Allowed),
    only_for(Need::Bells, libc::SYS_io_getevents, Rule::Allowed),
    // EAL's interrupt thread makes an epoll anew for each change, and panics if it gets none.
    #[cfg(target_arch = "x86_64")]
    only(Only::Library, libc::SYS_epoll_create, Rule::Allowed),
    // Timers, limits and memory of this process.
    only(Only::Library, libc::SYS_timer_create, Rule::Allowed),
    only(Only::Library, libc::SYS_timer_settime, Rule::Allowed),
    only(Only::Library, libc::SYS_timer_gettime, Rule::Allowed),
    only(Only::Library, libc::SYS_timer_getoverrun, Rule::Allowed),
    only(Only::Library, libc::SYS_timer_delete, Rule::Allowed),
    only(Only::Library, libc::SYS_getitimer, Rule::Allowed),
    only(Only::Library, libc::SYS_setitimer, Rule::Allowed),
    only(Only::Library, libc::SYS_signalfd4, Rule::Allowed),
    only(Only::Library, libc::SYS_getrlimit, Rule::Allowed),
    only(Only::Library, libc::SYS_setrlimit, Rule::Allowed),
    only(Only::Library, libc::SYS_mlockall, Rule::Allowed),
    only(Only::Library, libc::SYS_munlockall, Rule::Allowed),
    only(Only::Library, libc::SYS_futex_waitv, Rule::Allowed),
    only(Only::Library, libc::SYS_sched_setparam, Rule::Allowed),
    only(Only::Library, libc::SYS_sched_get_priority_max, Rule::Allowed),
    only(Only::Library, libc::SYS_sched_get_priority_min, Rule::Allowed),
    // To start a program: code is mapped, and a shell may be what starts it. Namespaces, and
    // signals to processes whose number is not known yet, are refused.
    starts(libc::SYS_execve),
    starts(libc::SYS_execveat),
    starts(libc::SYS_mmap),
    starts(libc::SYS_mprotect),
    starts(libc::SYS_prctl),
    starts(libc::SYS_seccomp),
    starts(libc::SYS_waitid),
    starts(libc::SYS_chdir),
    starts(libc::SYS_fchdir),
    starts(libc::SYS_umask),
    starts(libc::SYS_setsid),
    starts(libc::SYS_getsid),
    starts(libc::SYS_getpgid),
    starts(libc::SYS_setpgid),
    starts(libc::SYS_setitimer),
    starts(libc::SYS_getitimer),
    only(Only::Starts, libc::SYS_clone, Rule::WithoutBits { argument: 0, bits: NAMESPACES }),
    only(Only::Starts, libc::SYS_kill, Rule::Fails(libc::EPERM)),
    only(Only::Starts, libc::SYS_tgkill, Rule::Fails(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    starts(libc::SYS_fork),
    #[cfg(target_arch = "x86_64")]
    starts(libc::SYS_vfork),
    #[cfg(target_arch = "x86_64")]
    starts(libc::SYS_getpgrp),
    #[cfg(target_arch = "x86_64")]
    starts(libc::SYS_getrlimit),
    #[cfg(target_arch = "x86_64")]
    starts(libc::SYS_mkdir),
    // DuckDB opens the tree by names below it, and makes folders for what does not fit in memory.
    answers(libc::SYS_chdir),
    answers(libc::SYS_mkdirat),
    #[cfg(target_arch = "x86_64")]
    answers(libc::SYS_mkdir),
    #[cfg(target_arch = "x86_64")]
    answers(libc::SYS_rmdir),
    // Not a call: a debugger that skips a call replaces its number by -1.
    allowed(-1),
    // Reads and writes.
    allowed(libc::SYS_read),
    allowed(libc::SYS_write),
    allowed(libc::SYS_readv),
    allowed(libc::SYS_writev),
    allowed(libc::SYS_pread64),
    allowed(libc::SYS_pwrite64),
    allowed(libc::SYS_preadv),
    allowed(libc::SYS_pwritev),
    allowed(libc::SYS_preadv2),
    allowed(libc::SYS_pwritev2),
    allowed(libc::SYS_lseek),
    allowed(libc::SYS_copy_file_range),
    allowed(libc::SYS_sendfile),
    allowed(libc::SYS_splice),
    // For rings from before, which have their own restrictions. What is asked of a ring is in
    // memory, where a filter cannot see it, so no thread makes another ring.
    allowed(libc::SYS_io_uring_enter),
    // Descriptors and files: Landlock decides which ones.
    allowed(libc::SYS_openat),
    allowed(libc::SYS_close),
    allowed(libc::SYS_close_range),
    allowed(libc::SYS_dup),
    allowed(libc::SYS_dup3),
    allowed(libc::SYS_flock),
    allowed(libc::SYS_fstat),
    allowed(libc::SYS_newfstatat),
    allowed(libc::SYS_statx),
    allowed(libc::SYS_fstatfs),
    allowed(libc::SYS_statfs),
    allowed(libc::SYS_faccessat),
    allowed(libc::SYS_faccessat2),
    allowed(libc::SYS_readlinkat),
    allowed(libc::SYS_getdents64),
    allowed(libc::SYS_getcwd),
    allowed(libc::SYS_ftruncate),
    allowed(libc::SYS_fallocate),
    allowed(libc::SYS_fadvise64),
    allowed(libc::SYS_fsync),
    allowed(libc::SYS_fdatasync),
    allowed(libc::SYS_sync_file_range),
    allowed(libc::SYS_linkat),
    allowed(libc::SYS_renameat),
    allowed(libc::SYS_renameat2),
    allowed(libc::SYS_unlinkat),
    allowed(libc::SYS_pipe2),
    allowed(libc::SYS_memfd_create),
    // Memory.
    allowed(libc::SYS_brk),
    allowed(libc::SYS_munmap),
    allowed(libc::SYS_mremap),
    allowed(libc::SYS_madvise),
    allowed(libc::SYS_mincore),
    allowed(libc::SYS_msync),
    allowed(libc::SYS_mlock),
    allowed(libc::SYS_mlock2),
    allowed(libc::SYS_munlock),
    allowed(libc::SYS_mbind),
    allowed(libc::SYS_get_mempolicy),
    allowed(libc::SYS_set_mempolicy),
    allowed(libc::SYS_move_pages),
    allowed(libc::SYS_membarrier),
    // Threads.
    allowed(libc::SYS_futex),
    allowed(libc::SYS_exit),
    allowed(libc::SYS_exit_group),
    allowed(libc::SYS_set_robust_list),
    allowed(libc::SYS_get_robust_list),
    allowed(libc::SYS_set_tid_address),
    allowed(libc::SYS_rseq),
    allowed(libc::SYS_gettid),
    allowed(libc::SYS_getpid),
    allowed(libc::SYS_getppid),
    // Waits for its helper process to end.
    allowed(libc::SYS_wait4),
    allowed(libc::SYS_getcpu),
    allowed(libc::SYS_sched_yield),
    allowed(libc::SYS_sched_getaffinity),
    allowed(libc::SYS_sched_setaffinity),
    allowed(libc::SYS_sched_getparam),
    allowed(libc::SYS_sched_getscheduler),
    allowed(libc::SYS_sched_setscheduler),
    allowed(libc::SYS_sched_getattr),
    allowed(libc::SYS_getpriority),
    allowed(libc::SYS_setpriority),
    allowed(libc::SYS_getrusage),
    allowed(libc::SYS_sysinfo),
    allowed(libc::SYS_uname),
    allowed(libc::SYS_restart_syscall),
    // Ids; and capabilities, which may be dropped again.
    allowed(libc::SYS_getuid),
    allowed(libc::SYS_geteuid),
    allowed(libc::SYS_getgid),
    allowed(libc::SYS_getegid),
    allowed(libc::SYS_getgroups),
    allowed(libc::SYS_getresuid),
    allowed(libc::SYS_getresgid),
    allowed(libc::SYS_capget),
    allowed(libc::SYS_capset),
    // Time and events.
    allowed(libc::SYS_clock_gettime),
    allowed(libc::SYS_clock_getres),
    allowed(libc::SYS_clock_nanosleep),
    allowed(libc::SYS_nanosleep),
    allowed(libc::SYS_gettimeofday),
    allowed(libc::SYS_times),
    allowed(libc::SYS_timerfd_create),
    allowed(libc::SYS_timerfd_settime),
    allowed(libc::SYS_timerfd_gettime),
    allowed(libc::SYS_ppoll),
    allowed(libc::SYS_pselect6),
    allowed(libc::SYS_epoll_create1),
    allowed(libc::SYS_epoll_ctl),
    allowed(libc::SYS_epoll_pwait),
    allowed(libc::SYS_epoll_pwait2),
    allowed(libc::SYS_eventfd2),
    allowed(libc::SYS_getrandom),
    allowed(libc::SYS_rt_sigaction),
    allowed(libc::SYS_rt_sigprocmask),
    allowed(libc::SYS_rt_sigreturn),
    allowed(libc::SYS_rt_sigtimedwait),
    allowed(libc::SYS_rt_sigpending),
    allowed(libc::SYS_rt_sigsuspend),
    allowed(libc::SYS_sigaltstack),
    allowed(libc::SYS_pidfd_open),
    // Sockets.
    with(libc::SYS_socketpair, Rule::OneOf { argument: 0, values: &[libc::AF_UNIX as u32] }),
    allowed(libc::SYS_bind),
    allowed(libc::SYS_connect),
    allowed(libc::SYS_listen),
    allowed(libc::SYS_accept),
    allowed(libc::SYS_accept4),
    allowed(libc::SYS_getsockname),
    allowed(libc::SYS_getpeername),
    allowed(libc::SYS_getsockopt),
    allowed(libc::SYS_setsockopt),
    allowed(libc::SYS_recvfrom),
    allowed(libc::SYS_recvmsg),
    allowed(libc::SYS_recvmmsg),
    allowed(libc::SYS_shutdown),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_open),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_stat),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_access),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_readlink),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_rename),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_link),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_dup2),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_pipe),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_poll),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_select),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_epoll_wait),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_eventfd),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_pause),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_time),
    #[cfg(target_arch = "x86_64")]
    allowed(libc::SYS_arch_prctl),
];
