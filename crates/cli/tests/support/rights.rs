//! The rights of a process's threads, and who reads what with which rights.
#![allow(dead_code)] // each test file uses a part

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

use burstline_skip::skip;
use burstline_sys::privileges::{self, Held};
use burstline_sys::users::{Account, account};
use burstline_testbed::Host;

use super::live::{wait_until, whole_statuses};
use super::{Directory, PROGRAM, is_root, other, other_or_skip};

/// Returns an unprivileged user.
pub(crate) fn nobody() -> Option<Account> {
    let found = account("nobody").filter(|_| is_root());
    if found.is_none() {
        skip("it takes root, and a user nobody");
    }
    found
}

/// Returns the rights of each thread, once all have dropped theirs.
pub(crate) fn rights(process: u32) -> Vec<Held> {
    let has_given_up = |held: &Held| held.is_filtered && held.has_no_new_privileges;
    wait_until("no rights", || held(process).iter().all(has_given_up));
    held(process)
}

pub(crate) fn held(process: u32) -> Vec<Held> {
    whole_statuses(process).iter().map(|status| Held::of(status)).collect()
}

/// Prints the rights of each thread, for the table of campaign R22.
pub(crate) fn tell(process: u32) {
    let words = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = words.split('\0').skip(1);
    let verb = words.next().unwrap_or_default();
    // Those that read what a DPDK device receives have its threads, too.
    let device = if words.any(|word| word.contains("dpdk:")) { " of dpdk:" } else { "" };
    for status in whole_statuses(process) {
        let of_field = |field: &str| status.lines().find_map(|line| line.strip_prefix(field));
        let [name, groups] = ["Name:\t", "Groups:\t"].map(|it| of_field(it).unwrap_or_default());
        let groups = if groups.trim().is_empty() { "none" } else { groups.trim() };
        let Held { user, capabilities, bounding, is_filtered, has_no_new_privileges, .. } =
            Held::of(&status);
        let (capabilities, bounding) = (capabilities.count_ones(), bounding.count_ones());
        let calls = if is_filtered { "listed calls" } else { "all calls" };
        let new = if has_no_new_privileges { "no" } else { "new" };
        let memory = if user != 0 && !is_dumpable(process) { ", not dumpable" } else { "" };
        println!(
            "rights: {verb}{device} | {name} | user {user}, other groups {groups}, {capabilities} \
             capabilities, {bounding} bounding, {new} privileges by programs, {calls}{memory}"
        );
    }
}

/// What strace follows to tell who reads what with which rights.
pub(crate) const CALLS: &str = "trace=read,pread64,preadv,readv,preadv2,mmap,seccomp,\
    landlock_restrict_self,clone,clone3";

/// Checks by strace's output that only threads which had given up their rights read a file.
pub(crate) fn assert_read_by_confined(verb: &[&str], lines: &str, file: &str) {
    let reads = reads_without_rights(lines, file);
    assert!(reads.is_ok_and(|reads| reads > 0), "{verb:?}: {reads:?}\n{lines}");
    assert_eq!(enters_no_ruleset(lines), None, "{verb:?}\n{lines}");
}

/// The same, and that all other threads had given up theirs when the first byte was read. Prints
/// that for the table of campaign R22.
pub(crate) fn assert_read_without_rights(verb: &[&str], lines: &str, file: &str) {
    assert_read_by_confined(verb, lines, file);
    let free = threads_with_rights(lines, file);
    assert!(free.is_empty(), "{verb:?}: {free:?}\n{lines}");
    let words = if ["lab", "flows", "doctor"].contains(&verb[0]) { 2 } else { 1 };
    let verb: Vec<_> = verb.iter().take(words).filter(|word| !word.contains(['/', '-'])).collect();
    let verb = verb.into_iter().copied().collect::<Vec<_>>().join(" ");
    println!(
        "rights: {verb} | before the first byte | all threads in a ruleset of Landlock and in \
         their list of calls"
    );
}

/// Whether other processes of its user may look at a process's memory. If not, files below
/// /proc/PID belong to root.
fn is_dumpable(process: u32) -> bool {
    fs::metadata(format!("/proc/{process}/mem")).unwrap().uid() != 0
}

/// Checks that all threads that have dropped their rights are of this user and its groups, and have
/// no capabilities; and that others cannot read the process's memory. Returns how many there are.
pub(crate) fn assert_nobodys(process: u32, nobody: &Account) -> usize {
    let all = whole_statuses(process);
    let dropped: Vec<_> = all.iter().filter(|status| Held::of(status).is_filtered).collect();
    for status in &dropped {
        let held = Held::of(status);
        assert_eq!((held.capabilities, held.bounding), (0, 0), "{status}");
        assert!(held.has_no_new_privileges, "{status}");
        let numbers = |field: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            line.split_whitespace().map(|number| number.parse().unwrap()).collect()
        };
        assert_eq!(
            (numbers("Uid:"), numbers("Gid:")),
            (vec![nobody.user; 4], vec![nobody.group; 4])
        );
        assert_eq!(numbers("Groups:"), nobody.groups, "{status}");
    }
    tell(process);
    assert!(!is_dumpable(process), "process {process} is dumpable");
    dropped.len()
}

/// The same, once all threads have dropped their rights.
pub(crate) fn assert_all_nobodys(process: u32, nobody: &Account) {
    let threads = rights(process).len();
    assert_eq!(assert_nobodys(process, nobody), threads);
}

/// Returns the rights of the thread of this name.
pub(crate) fn held_by(process: u32, name: &str) -> Held {
    let line = format!("Name:\t{name}");
    let all = whole_statuses(process);
    Held::of(all.iter().find(|status| status.lines().next() == Some(&line[..])).unwrap())
}

/// Whether this test can trace the program as root; if not, it is skipped.
pub(crate) fn can_trace() -> bool {
    nobody().is_some() && other_or_skip("strace", &["-V"]).is_some()
}

/// Runs the program to its end under strace with these flags. Returns what was traced.
pub(crate) fn traced(directory: &Directory, flags: &[&str], arguments: &[&str]) -> String {
    let trace = directory.file("trace");
    let strace = ["-f", "-o", &trace, "-E", &format!("BURSTLINE_RUN={}", directory.0.display())];
    let done = other("strace", &[&strace[..], flags, &[PROGRAM], arguments].concat()).unwrap();
    assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.stdout, done.stderr);
    fs::read_to_string(&trace).unwrap()
}

/// The same in the namespace of this host.
pub(crate) fn traced_at(
    host: &Host,
    directory: &Directory,
    flags: &[&str],
    arguments: &[&str],
) -> String {
    let trace = directory.file("trace");
    let strace = ["-f", "-o", &trace, "-E", &format!("BURSTLINE_RUN={}", directory.0.display())];
    host.command("strace", &[&strace[..], flags, &[PROGRAM], arguments].concat()).unwrap();
    fs::read_to_string(&trace).unwrap()
}

/// Passes each line of strace's output to `look`, with whether its thread is marked. A call that
/// `is_mark` knows marks a thread, and those that it creates later.
fn follow<'a>(lines: &'a str, is_mark: impl Fn(&str) -> bool, mut look: impl FnMut(&'a str, bool)) {
    let thread_of = |line: &'a str| line.split_whitespace().next().unwrap_or_default();
    let made_by = |line: &'a str| {
        let made = line.rsplit_once(" = ").filter(|_| line.contains(" clone"))?.1.trim();
        Some((made, thread_of(line)))
    };
    let makers: HashMap<_, _> = lines.lines().filter_map(made_by).collect();
    let (mut marked, mut made) = (HashSet::new(), HashSet::new());
    for line in lines.lines() {
        let thread = thread_of(line);
        // A thread may have lines before the one that says who made it.
        let is_new = !made.contains(thread);
        let inherits = is_new && makers.get(thread).is_some_and(|maker| marked.contains(maker));
        if is_mark(line) || inherits {
            marked.insert(thread);
        }
        if let Some((child, maker)) = made_by(line) {
            made.insert(child);
            if marked.contains(maker) {
                marked.insert(child);
            }
        }
        look(line, marked.contains(thread));
    }
}

const ENTERS_FILTER: &str = " seccomp(SECCOMP_SET_MODE_FILTER";

/// Returns a line of a thread that entered a filter of calls and no ruleset of Landlock before.
pub(crate) fn enters_no_ruleset(lines: &str) -> Option<&str> {
    let is_ruled =
        |line: &str| line.contains("landlock_restrict_self") && line.trim_end().ends_with("= 0");
    let mut found = None;
    follow(lines, is_ruled, |line, is_ruled| {
        if line.contains(ENTERS_FILTER) && !is_ruled && privileges::landlock_version() > 0 {
            found = found.or(Some(line));
        }
    });
    found
}

/// Counts the reads of this file in strace's output. Returns the first read by a thread that has
/// not entered its filter, if any.
pub(crate) fn reads_without_rights<'a>(lines: &'a str, file: &str) -> Result<usize, &'a str> {
    let mut reads = Ok(0);
    follow(
        lines,
        |line| line.contains(ENTERS_FILTER),
        |line, is_filtered| {
            if line.contains(file) {
                match (&mut reads, is_filtered) {
                    (Ok(count), true) => *count += 1,
                    (Ok(_), false) => reads = Err(line),
                    (Err(_), _) => {}
                }
            }
        },
    );
    reads
}

/// Returns the threads that had not entered their filters when the first of them read this file.
/// `clone` and `clone3` have to be traced. Threads of processes that it forks do not count.
pub(crate) fn threads_with_rights<'a>(lines: &'a str, file: &str) -> Vec<&'a str> {
    let (mut free, mut filtered) = (Vec::new(), HashSet::new());
    // The flags of calls that had not returned.
    let mut cloning: HashMap<&str, &str> = HashMap::new();
    for line in lines.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or_default();
        if free.is_empty() && filtered.is_empty() {
            free.push(thread);
        }
        if line.contains(file) {
            break;
        }
        if line.contains(ENTERS_FILTER) {
            filtered.insert(thread);
        }
        if line.contains(" clone") && call.contains("flags=") {
            cloning.insert(thread, call);
        }
        let made = line.rsplit_once(" = ").filter(|_| line.contains(" clone"));
        if let (Some((_, made)), Some(flags)) = (made, cloning.get(thread))
            && flags.contains("CLONE_THREAD")
            && free.contains(&thread)
            && !filtered.contains(thread)
        {
            free.push(made.split_whitespace().next().unwrap_or_default());
        }
        if line.contains("+++ exited") {
            filtered.insert(thread);
        }
    }
    free.retain(|thread| !filtered.contains(thread));
    free
}
