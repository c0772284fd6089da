//! Rights of this process and features of the kernel: queried, and tried if a query is not enough.
//!
//! Source: proc(5), capabilities(7), user_namespaces(7).

use std::fs;

use crate::limits::LockedMemory;
use crate::memory::{PageChoice, PageKind, Region, RegionRequest};
use crate::topology::{HugePages, Topology};
use crate::{namespace, pcap};

/// A capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its name: `CAP_NET_RAW`.
    pub name: &'static str,
    /// Its number. Source: include/uapi/linux/capability.h.
    pub number: u32,
}

/// The capabilities that ports, memory and threads need.
pub mod capability {
    use super::Capability;

    /// XDP programs and interfaces.
    pub const NET_ADMIN: Capability = Capability { name: "CAP_NET_ADMIN", number: 12 };
    /// Packet sockets and XDP sockets.
    pub const NET_RAW: Capability = Capability { name: "CAP_NET_RAW", number: 13 };
    /// Locked memory above the limit.
    pub const IPC_LOCK: Capability = Capability { name: "CAP_IPC_LOCK", number: 14 };
    /// Namespaces; stands in for `CAP_BPF`.
    pub const SYS_ADMIN: Capability = Capability { name: "CAP_SYS_ADMIN", number: 21 };
    /// Scheduling classes.
    pub const SYS_NICE: Capability = Capability { name: "CAP_SYS_NICE", number: 23 };
    /// BPF maps and programs.
    pub const BPF: Capability = Capability { name: "CAP_BPF", number: 39 };

    /// All of them.
    pub const ALL: [Capability; 6] = [NET_RAW, NET_ADMIN, BPF, SYS_ADMIN, IPC_LOCK, SYS_NICE];
}

/// The rights of the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// A bit for each effective capability.
    pub effective: u64,
    /// A bit for each capability that a started program could ever have.
    pub bounding: u64,
    /// Whether they hold for the whole machine. In a user namespace they apply only to resources of
    /// the namespace, and BPF is not one.
    pub is_machine_wide: bool,
}

impl Rights {
    /// Reads the rights. Unreadable ones count as none.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let map = fs::read_to_string("/proc/thread-self/uid_map").unwrap_or_default();
        Self {
            effective: mask(&status, "CapEff:"),
            bounding: mask(&status, "CapBnd:"),
            is_machine_wide: is_identity(&map),
        }
    }

    /// Returns whether the thread has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective & 1 << capability.number != 0
    }
}

/// Returns the path of this program, for commands in error messages.
pub fn program() -> String {
    std::env::current_exe().map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string())
}

fn mask(status: &str, field: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix(field));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The first user namespace maps every number to itself.
fn is_identity(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The kernel, and the rights of this process. Unknown values are `None`.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The capabilities of this thread.
    pub rights: Rights,
    /// Whether a user namespace can be made, or why not.
    pub user_namespace: Result<(), String>,
    /// `kernel.unprivileged_bpf_disabled`: 0, 1 or 2.
    pub unprivileged_bpf_disabled: Option<u32>,
    /// How much memory this process may lock.
    pub locked_memory: LockedMemory,
    /// Reserved huge pages, by ascending size.
    pub huge_pages: Vec<HugePages>,
    /// How many nodes there are.
    pub nodes: usize,
    /// The setting of transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_pages: Option<String>,
    /// Whether memory could be collapsed into a 2 MiB page, or why not, with the fix.
    pub collapse: Result<(), String>,
    /// libpcap's version, or why it is not available.
    pub libpcap: Result<String, String>,
}

impl Machine {
    /// Queries and tries everything. Cost: some milliseconds, 2 MiB of memory for a moment, and a
    /// child process that exits immediately.
    pub fn examine() -> Self {
        let topology = Topology::read().ok();
        let nodes = topology.as_ref().map_or(1, |topology| topology.nodes.len());
        Self {
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            rights: Rights::read(),
            user_namespace: namespace::try_user_namespace().map_err(|error| error.to_string()),
            unprivileged_bpf_disabled: first_line("/proc/sys/kernel/unprivileged_bpf_disabled")
                .and_then(|text| text.parse().ok()),
            locked_memory: LockedMemory::of_this_process(),
            huge_pages: topology.map(|topology| topology.huge_pages).unwrap_or_default(),
            nodes,
            transparent_pages: first_line("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            collapse: try_collapse(),
            libpcap: pcap::version().map_err(|error| error.to_string()),
        }
    }

    /// Returns whether the kernel is at least this version. False if the release is not a number.
    pub fn is_kernel_at_least(&self, major: u32, minor: u32) -> bool {
        version(&self.kernel).is_some_and(|kernel| kernel >= (major, minor))
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

/// Makes a region of one transparent page.
fn try_collapse() -> Result<(), String> {
    let request = RegionRequest {
        name: "burstline-doctor".to_owned(),
        bytes: PageKind::Transparent.bytes(),
        pages: PageChoice::Transparent,
        node: None,
    };
    let region = Region::create(&request).map_err(|error| error.to_string())?;
    match region.placement().page {
        PageKind::Transparent => Ok(()),
        _ => Err(region.placement().notes.join("; ")),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version("5.4"), Some((5, 4)));
        assert!(version("6.18").unwrap() > version("6.6.1").unwrap());
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn rights_are_read_from_what_the_kernel_writes() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000008000003000\n";
        let rights = Rights {
            effective: mask(status, "CapEff:"),
            bounding: mask(status, "CapBnd:"),
            is_machine_wide: is_identity("         0          0 4294967295\n"),
        };
        let has = capability::ALL.map(|capability| rights.has(capability));
        assert_eq!(has, [true, true, true, false, false, false]);
        assert_eq!((rights.bounding, rights.is_machine_wide), (0, true));
        assert!(!is_identity("0 1000 1\n"));
    }

    #[test]
    fn this_machine_is_examined_without_leaving_a_child() {
        let machine = Machine::examine();
        assert!(machine.is_kernel_at_least(3, 0) && !machine.is_kernel_at_least(1 << 20, 0));
        let thread = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        assert_eq!(thread.trim(), "");
    }
}
