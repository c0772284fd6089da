//! The rights of a process's threads, and who reads what with which rights.
#![allow(dead_code)] // each test file uses a part

use std::collections::HashSet;
use std::fs;

use burstline_skip::skip;
use burstline_sys::privileges::Held;
use burstline_sys::users::{Account, account};

use super::is_root;
use super::live::wait_until;

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
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let status = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    status.map(|status| Held::of(&status)).collect()
}

/// Returns the rights of the thread of this name.
pub(crate) fn held_by(process: u32, name: &str) -> Held {
    let status = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let mut status =
        status.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let line = format!("Name:\t{name}");
    Held::of(&status.find(|status| status.lines().next() == Some(&line[..])).unwrap())
}

/// Counts the reads of this file in strace's output. Returns the first read by a thread that has
/// not entered its filter, if any. New threads inherit the filter of their creator.
pub(crate) fn reads_without_rights<'a>(lines: &'a str, file: &str) -> Result<usize, &'a str> {
    let (mut filtered, mut reads) = (HashSet::new(), 0);
    for line in lines.lines() {
        let thread = line.split_whitespace().next().unwrap_or_default();
        if line.contains(" seccomp(SECCOMP_SET_MODE_FILTER") {
            filtered.insert(thread.to_owned());
        }
        if let Some((_, child)) = line.rsplit_once(" = ")
            && line.contains(" clone")
            && filtered.contains(thread)
        {
            filtered.insert(child.trim().to_owned());
        }
        if line.contains(file) {
            reads += 1;
            if !filtered.contains(thread) {
                return Err(line);
            }
        }
    }
    Ok(reads)
}
