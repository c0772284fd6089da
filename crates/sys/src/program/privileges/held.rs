//! The rights of a thread, as the kernel reports them.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::Path;

use super::CONFINEMENT;
use crate::folder;

/// The rights of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Its uid, which decides what it may open.
    pub user: u32,
    /// Union of the effective, permitted, inheritable and ambient capabilities.
    pub capabilities: u64,
    /// Capabilities that a program started by it could ever have.
    pub bounding: u64,
    /// Whether programs that it starts gain no rights from their files.
    pub has_no_new_privileges: bool,
    /// Whether a filter restricts its system calls.
    pub is_filtered: bool,
    /// The version of Landlock that restricts its files; 0 for no restriction.
    pub landlock: u32,
}

impl Held {
    /// Reads the rights of the calling thread, which must already have given up its rights if it
    /// ever will. Values that the kernel does not report count as no rights and the user nobody.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        // The kernel does not report whether a thread has entered a ruleset.
        let rules = CONFINEMENT.get().and_then(|confinement| confinement.files.as_ref());
        let landlock = rules.map_or(0, |rules| rules.version);
        Self { landlock, ..Self::of(&status) }
    }

    /// Parses a text like `/proc/PID/status`, which does not include Landlock.
    pub fn of(status: &str) -> Self {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().split_whitespace().next().unwrap_or_default()
        };
        let set = |name| u64::from_str_radix(field(name), 16).unwrap_or(0);
        Self {
            user: field("Uid").parse().unwrap_or(u32::MAX),
            capabilities: set("CapEff") | set("CapPrm") | set("CapInh") | set("CapAmb"),
            bounding: set("CapBnd"),
            has_no_new_privileges: field("NoNewPrivs") == "1",
            is_filtered: field("Seccomp") == "2",
            landlock: 0,
        }
    }
}

/// Returns the rights of each thread of this process; of none without `/proc`. A thread that ends
/// meanwhile has none.
pub(super) fn of_all_threads() -> io::Result<Vec<Held>> {
    let (tasks, mut all) = (Path::new("/proc/self/task"), Vec::new());
    let threads = match folder::names(tasks) {
        Err(error) if is_gone(&error) => return Ok(all),
        threads => threads?,
    };
    for thread in threads {
        match fs::read_to_string(tasks.join(thread).join("status")) {
            Ok(status) => all.push(Held::of(&status)),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Whether a thread, or `/proc`, is not there. Source: proc(5), `ESRCH`.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

impl Display for Held {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "user {}, ", self.user)?;
        match self.capabilities.count_ones() {
            0 => write!(f, "no capabilities")?,
            some => write!(f, "{some} capabilities")?,
        }
        f.write_str(if self.is_filtered { ", calls filtered" } else { ", all calls" })?;
        match self.landlock {
            0 => f.write_str(", no Landlock"),
            version => write!(f, ", Landlock {version}"),
        }
    }
}
