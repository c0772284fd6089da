//! The machine's hardware and settings.
//!
//! Nodes with their distances and memory, cores with their siblings and caches, interfaces with
//! their queues and interrupts, and the settings that cost packets. `sys` itself reads what it
//! needs to allocate memory (nodes, cores, huge pages); this module reads the rest.
//!
//! # Invariants
//! - I1. Lists are ascending by number or name; a core or node occurs once.
//! - I2. `None` means "unknown to the kernel", never "no".
//!
//! Source: Documentation/ABI/stable/sysfs-devices-node, Documentation/ABI/testing/
//! {sysfs-devices-system-cpu,sysfs-class-net-queues,sysfs-bus-pci}, core-api/irq/irq-affinity.rst,
//! admin-guide/cgroup-v2.rst, proc(5).

mod cards;
mod cores;
mod interfaces;
mod outline;
mod settings;

use std::path::Path;

use burstline_sys::affinity::CoreId;
pub use burstline_sys::caches::Cache;
use burstline_sys::device::Device;
use burstline_sys::memory::NodeId;
use burstline_sys::topology::{HugePages, Topology, TopologyError};

use crate::files::Files;
pub use cards::{Card, Group, Lenders, PciId, Presence};
pub use outline::{Outline, OutlineCore};

/// A machine, as this process sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory {
    /// The kernel's release, as `uname -r` prints it; empty if unknown.
    pub kernel: String,
    /// The processor's name for itself.
    pub processor: Option<String>,
    /// The nodes, at least one.
    pub nodes: Vec<Node>,
    /// The cores that are online.
    pub cores: Vec<Core>,
    /// The cores that are present but offline.
    pub offline: Vec<CoreId>,
    /// The cores that this process runs on by default.
    pub allowed: Vec<CoreId>,
    /// Cores to which other processes of this program have pinned threads. Only of this machine.
    pub taken: Vec<CoreId>,
    /// The network interfaces, without loopback.
    pub interfaces: Vec<Interface>,
    /// The network cards on the PCI bus, with any driver.
    pub cards: Vec<Card>,
    /// The kernel's drivers that hand a card to a program; `None` if cards were not read.
    pub lenders: Option<Lenders>,
    /// Huge pages of the whole machine, by ascending size.
    pub huge_pages: Vec<HugePages>,
    /// The machine's settings.
    pub settings: Settings,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its online cores; empty for a memory-only node.
    pub cores: Vec<CoreId>,
    /// Its memory, in bytes; 0 if it has none.
    pub memory_bytes: u64,
    /// Its free memory, in bytes.
    pub free_bytes: u64,
    /// Whether this process may use its memory.
    pub is_allowed: bool,
    /// Distance to each node, including itself: 10 is local, 20 twice as far. Source: ACPI 6.5,
    /// section 5.2.17 (SLIT).
    pub distances: Vec<(NodeId, u32)>,
    /// Its huge pages, by ascending size.
    pub huge_pages: Vec<HugePages>,
}

/// An online core (logical CPU).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub id: CoreId,
    /// Its node.
    pub node: NodeId,
    /// Whether a thread of this process can be pinned to it.
    pub is_usable: bool,
    /// Whether the scheduler reserves it for explicitly pinned threads (`isolcpus=`).
    pub is_isolated: bool,
    /// The logical CPUs of the same physical core, including itself.
    pub siblings: Vec<CoreId>,
    /// Its data caches, the nearest first; in a snapshot from the second level on.
    pub caches: Vec<Cache>,
    /// Its frequency governor: `performance`, `schedutil`, ...
    pub governor: Option<String>,
    /// The lowest and the highest frequency, in kHz.
    pub frequencies_khz: Option<(u64, u64)>,
}

/// Attachment of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// To this node.
    Node(NodeId),
    /// Unknown to the kernel: `numa_node` is -1.
    Unknown,
    /// None: it is a software interface.
    Software,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its attachment.
    pub attached: Attached,
    /// The name of its driver, if it is hardware.
    pub driver: Option<String>,
    /// Its receive queues.
    pub receive: Vec<ReceiveQueue>,
    /// Its transmit queues.
    pub transmit: Vec<TransmitQueue>,
    /// Current and maximum frames of its receive ring. Only of this machine.
    pub receive_ring: Option<(u32, u32)>,
}

/// A receive queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Its number.
    pub number: u32,
    /// The interrupt for received packets.
    pub interrupt: Option<Interrupt>,
    /// Cores that received packets are steered to (RPS); empty if that is off.
    pub steered_to: Vec<CoreId>,
    /// Flows that are steered to their readers' cores (RFS); 0 if that is off.
    pub flows: u64,
}

/// A transmit queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransmitQueue {
    /// Its number.
    pub number: u32,
    /// The cores that send through it (XPS); empty if unknown.
    pub cores: Vec<CoreId>,
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number: the `38` of `/proc/irq/38`.
    pub number: u32,
    /// The cores it may go to.
    pub allowed: Vec<CoreId>,
    /// The cores it goes to.
    pub effective: Vec<CoreId>,
}

/// Settings of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_pages: Option<String>,
    /// The same for shared memory, which logs use.
    pub transparent_shared_pages: Option<String>,
    /// Whether the kernel moves pages to the nodes that use them.
    pub has_numa_balancing: Option<bool>,
    /// Flows that the machine steers to their readers' cores.
    pub steered_flows: Option<u64>,
    /// Whether irqbalance runs; `None` if processes were not read.
    pub has_irqbalance: Option<bool>,
    /// Size of the swap space, in bytes.
    pub swap_bytes: u64,
    /// Memory limit of this process and its group in bytes, and the file with the limit.
    pub memory_limit_bytes: Option<(u64, String)>,
    /// CPU limit of both, in cores (1.5 is one and a half), and the file with the limit.
    pub cores_limit: Option<(f64, String)>,
}

impl Inventory {
    /// Reads this machine, and queries the drivers of its interfaces. Cost: some milliseconds.
    ///
    /// # Errors
    /// See [`read_from`](Self::read_from).
    pub fn read() -> Result<Self, TopologyError> {
        let root = Path::new("/");
        let mut inventory = Self::read_from(root)?;
        for interface in &mut inventory.interfaces {
            interface.receive_ring = Device::ask(&interface.name, 0).receive_ring;
        }
        inventory.taken = settings::taken_cores(&Files::below(root));
        Ok(inventory)
    }

    /// Reads what a plan for a job with these interfaces needs of this machine. Other interfaces,
    /// cards and whether irqbalance runs are not read. Cost: a millisecond, and more with many
    /// cores or processes.
    ///
    /// # Errors
    /// See [`read_from`](Self::read_from).
    pub fn read_for(names: &[&str]) -> Result<Self, TopologyError> {
        let files = Files::below(Path::new("/"));
        let mut inventory = Self::planned(&files, |name| names.contains(&name))?;
        inventory.taken = settings::taken_cores(&files);
        Ok(inventory)
    }

    /// Reads a machine below `root`, which replaces `/`.
    ///
    /// # Errors
    /// Files about nodes, cores or huge pages do not have the kernel's format.
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        let files = Files::below(root);
        let mut inventory = Self::planned(&files, |_| true)?;
        inventory.cards = cards::cards(&files);
        inventory.lenders = Some(cards::lenders(&files));
        inventory.settings.has_irqbalance = Some(settings::has_irqbalance(&files));
        Ok(inventory)
    }

    /// Reads what a plan needs, with the interfaces that `is_wanted` names.
    fn planned(files: &Files, is_wanted: impl Fn(&str) -> bool) -> Result<Self, TopologyError> {
        let topology = Topology::read_from(&files.path("sys"))?;
        let outline = Outline::below(files)?;
        Ok(Self {
            kernel: files.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            processor: files.field("proc/cpuinfo", "model name"),
            nodes: cores::nodes(files, &topology),
            cores: cores::cores(files, &outline),
            offline: files.list("sys/devices/system/cpu/offline").unwrap_or_default(),
            allowed: outline.allowed,
            taken: Vec::new(),
            interfaces: interfaces::interfaces(files, is_wanted),
            cards: Vec::new(),
            lenders: None,
            huge_pages: topology.huge_pages,
            settings: settings::settings(files),
        })
    }

    /// Returns an online core.
    pub fn core(&self, id: CoreId) -> Option<&Core> {
        self.cores.iter().find(|core| core.id == id)
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns an interface.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// Returns the cores of a node that threads can be pinned to.
    pub fn usable_on(&self, node: NodeId) -> impl Iterator<Item = &Core> {
        self.cores.iter().filter(move |core| core.node == node && core.is_usable)
    }

    /// Returns the nodes by distance from `node`, which is first if it exists; equally near ones
    /// are in order of their number.
    pub fn nearest(&self, node: NodeId) -> Vec<&Node> {
        let distances = self.node(node).map(|node| &node.distances[..]).unwrap_or_default();
        let distance = |other: &Node| {
            let known = distances.iter().find(|(id, _)| *id == other.id);
            (other.id != node, known.map_or(u32::MAX, |(_, distance)| *distance), other.id)
        };
        let mut nodes: Vec<&Node> = self.nodes.iter().collect();
        nodes.sort_by_key(|other| distance(other));
        nodes
    }
}

impl Node {
    /// Returns whether logs and stacks can be placed there.
    pub fn has_memory(&self) -> bool {
        self.memory_bytes > 0 && self.is_allowed
    }
}

impl Core {
    /// Returns the cache that it shares with the most cores.
    pub fn last_cache(&self) -> Option<&Cache> {
        self.caches.last()
    }
}

impl Interface {
    /// Returns the cores that handle its receive interrupts.
    pub fn interrupt_cores(&self) -> impl Iterator<Item = CoreId> {
        let interrupts = self.receive.iter().filter_map(|queue| queue.interrupt.as_ref());
        interrupts.flat_map(|interrupt| interrupt.effective.iter().copied())
    }
}

#[cfg(test)]
pub(crate) mod tests;
