//! What a thread has, as the kernel says.

use std::fmt::{self, Display, Formatter};
use std::fs;

use super::CONFINEMENT;

/// The rights of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of its user, which decides what it may open.
    pub user: u32,
    /// Effective, permitted, inheritable and ambient capabilities, together.
    pub capabilities: u64,
    /// Capabilities that a program which it starts could ever have.
    pub bounding: u64,
    /// Whether programs that it starts get no rights by their files.
    pub has_no_new_privileges: bool,
    /// Whether a filter says which system calls it may make.
    pub is_filtered: bool,
    /// The version of Landlock that says what it may open; 0: nothing says it.
    pub landlock: u32,
}

impl Held {
    /// Those of the calling thread, which has given up its rights if it ever will. What the kernel
    /// does not report counts as no rights and the user nobody.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        // The kernel does not tell whether a thread has entered a ruleset.
        let rules = CONFINEMENT.get().and_then(|confinement| confinement.files.as_ref());
        let landlock = rules.map_or(0, |rules| rules.version);
        Self { landlock, ..Self::of(&status) }
    }

    /// Those of a text like `/proc/PID/status`, which does not speak of Landlock.
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
