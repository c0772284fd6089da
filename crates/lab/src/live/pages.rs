//! Tells which kinds of pages a running program uses, by the kernel's accounting of each mapping.
//! That is what the program got, not what it asked for.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{fs, process, thread};

use crate::record::Pages;

/// Counters of pages that are neither reserved nor small, in KiB.
const TRANSPARENT: [&str; 3] = ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"];
const RESERVED: [&str; 2] = ["Shared_Hugetlb", "Private_Hugetlb"];

/// How often threads are listed until two lists are the same.
const LISTS_MOST: usize = 8;

/// Returns the total for these processes and all their descendants.
pub(crate) fn pages_of(processes: impl IntoIterator<Item = u32>) -> Pages {
    let mut all = Pages::default();
    let mut left: Vec<u32> = processes.into_iter().collect();
    while let Some(process) = left.pop() {
        left.extend(children_of(process));
        let smaps = fs::read_to_string(format!("/proc/{process}/smaps"));
        add(&smaps.unwrap_or_default(), &mut all);
    }
    all
}

/// Returns the folders of a process's threads.
///
/// A list that the kernel makes while a thread ends may stop there. Source: `next_tid` in
/// fs/proc/base.c. So a list counts once the next one is the same.
fn threads_of(process: u32) -> Vec<PathBuf> {
    let list = || {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        threads.map(|thread| thread.path()).collect::<Vec<_>>()
    };
    let mut threads = list();
    // Threads may come and go all the time.
    for _ in 0..LISTS_MOST {
        let last = std::mem::replace(&mut threads, list());
        if threads == last {
            break;
        }
    }
    threads
}

fn children_of(process: u32) -> Vec<u32> {
    let mut all = Vec::new();
    // Each of its threads may have started processes.
    for thread in threads_of(process) {
        let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    all
}

/// Returns the programs that this process has started.
pub(crate) fn programs() -> Vec<u32> {
    let command = |process: u32| fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let (own, mut all) = (process::id(), children_of(process::id()));
    // Until a child executes its program, its memory is this process's.
    all.retain(|&child| command(child) != command(own));
    all
}

/// Does some work, and looks at the pages of these processes at this interval meanwhile. Returns
/// the pages when they had most memory: a process that ends releases it.
pub(crate) fn watched<T>(
    every: Duration,
    processes: impl Fn() -> Vec<u32> + Send,
    work: impl FnOnce() -> T,
) -> (T, Pages) {
    thread::scope(|scope| {
        // The looker also ends if the work panics, which drops this end.
        let (working, is_over) = mpsc::channel::<()>();
        let looker = scope.spawn(move || {
            let mut most = Pages::default();
            loop {
                let now = pages_of(processes());
                most = if now.all_mib() > most.all_mib() { now } else { most };
                if is_over.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        let done = work();
        drop(working);
        (done, looker.join().unwrap_or_default())
    })
}

/// Adds the mappings. Source: proc_pid_smaps(5). `Rss` does not include reserved pages.
fn add(smaps: &str, all: &mut Pages) {
    let mut page_kib = 0;
    for line in smaps.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let Some(kib) = value.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok())
        else {
            continue;
        };
        let mib = kib as f64 / 1024.0;
        if key == "KernelPageSize" {
            page_kib = kib;
        } else if key == "Rss" {
            all.small_mib += mib;
        } else if TRANSPARENT.contains(&key) {
            all.transparent_mib += mib;
            all.small_mib -= mib;
        } else if RESERVED.contains(&key) && kib > 0 {
            all.reserved_mib += mib;
            all.reserved_page_kib = all.reserved_page_kib.max(page_kib);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use burstline_skip::skip;
    use burstline_sys::memory::PageChoice;

    use super::*;
    use crate::arena::Arena;
    use crate::pages::Reservation;

    #[test]
    fn mappings_are_added_up_by_kind() {
        let smaps = "7f00-7f20 rw-p 0 00:00 0 \nSize: 2048 kB\nKernelPageSize: 4 kB\nRss: 3072 kB\n\
                     AnonHugePages: 2048 kB\nShared_Hugetlb: 0 kB\nVmFlags: rd wr\n\
                     7f30-7f40 rw-s 0 00:0f 9 /memfd:x (deleted)\nKernelPageSize: 2048 kB\n\
                     Rss: 0 kB\nShared_Hugetlb: 4096 kB\nPrivate_Hugetlb: 2048 kB\n";
        let mut pages = Pages::default();
        add(smaps, &mut pages);
        add(smaps, &mut pages);
        let expected = Pages {
            reserved_mib: 12.0,
            reserved_page_kib: 2048,
            transparent_mib: 4.0,
            small_mib: 2.0,
        };
        assert_eq!(pages, expected);
    }

    #[test]
    fn programs_of_this_process_and_what_it_has_meanwhile_are_seen() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(programs().contains(&cat.id()));
        let (done, pages) = watched(Duration::from_secs(3600), || vec![process::id()], || 7);
        assert!(done == 7 && pages.small_mib > 0.0, "{pages:?}");
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert!(!programs().contains(&cat.id()));
        let (_, none) = watched(Duration::from_secs(3600), Vec::new, || ());
        assert_eq!(none, Pages::default());
    }

    #[test]
    fn reserved_pages_of_this_process_are_seen() {
        let own = [std::process::id()];
        assert!(pages_of(own).small_mib > 0.0);
        let reservation = Reservation::take(4);
        let arena = Arena::create(8 << 20, PageChoice::Size2M);
        drop(reservation);
        let Ok(_arena) = arena else {
            return skip("no reserved pages are available");
        };
        let found = pages_of(own);
        assert!(found.reserved_mib >= 8.0 && found.reserved_page_kib == 2048, "{found:?}");
    }
}
