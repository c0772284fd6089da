//! What the machine has, and how it is set.
//!
//! Nodes with their distances and memory, cores with their siblings and caches, interfaces with
//! their queues and interrupts, and the settings that cost packets. `sys` reads what it needs
//! itself to make memory (nodes, cores, huge pages); the rest is read here.
//!
//! # Invariants
//! - I1. Lists are ascending by number or name; a core or node is in them once.
//! - I2. `None` is "the kernel does not say", never "no".
//!
//! Source: Documentation/ABI/stable/sysfs-devices-node, Documentation/ABI/testing/
//! {sysfs-devices-system-cpu,sysfs-class-net-queues,sysfs-bus-pci}, core-api/irq/irq-affinity.rst,
//! admin-guide/cgroup-v2.rst, proc(5).

mod cards;
mod cores;
mod interfaces;
mod settings;

use std::path::Path;

use burstline_sys::affinity::CoreId;
pub use burstline_sys::caches::Cache;
use burstline_sys::device::Device;
use burstline_sys::memory::NodeId;
use burstline_sys::topology::{HugePages, Topology, TopologyError};

use crate::files::Files;
pub use cards::{Card, Group, Lenders, PciId, Presence};

/// A machine, as this process sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory {
    /// The kernel's release, as `uname -r` prints it; empty if unknown.
    pub kernel: String,
    /// What the processor calls itself.
    pub processor: Option<String>,
    /// The nodes, at least one.
    pub nodes: Vec<Node>,
    /// The cores that are online.
    pub cores: Vec<Core>,
    /// The cores that are there and switched off.
    pub offline: Vec<CoreId>,
    /// The cores that this process runs on unless told otherwise.
    pub allowed: Vec<CoreId>,
    /// Cores that other processes of this program have pinned threads to. Only of this machine.
    pub taken: Vec<CoreId>,
    /// The network interfaces, loopback left out.
    pub interfaces: Vec<Interface>,
    /// The network cards on the PCI bus, with any driver.
    pub cards: Vec<Card>,
    /// The kernel's drivers that give a card up to a program.
    pub lenders: Lenders,
    /// Huge pages of the whole machine, by ascending size.
    pub huge_pages: Vec<HugePages>,
    /// How it is set.
    pub settings: Settings,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its cores that are online; none for a node that is memory only.
    pub cores: Vec<CoreId>,
    /// Its memory, in bytes; 0 for a node that has none.
    pub memory_bytes: u64,
    /// Of it, what is free, in bytes.
    pub free_bytes: u64,
    /// Whether this process may have memory there.
    pub is_allowed: bool,
    /// How far it is to each node, itself included: 10 is here, 20 twice as far.
    /// Source: ACPI 6.5, section 5.2.17 (SLIT).
    pub distances: Vec<(NodeId, u32)>,
    /// Its huge pages, by ascending size.
    pub huge_pages: Vec<HugePages>,
}

/// One core (logical CPU) that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub id: CoreId,
    /// Its node.
    pub node: NodeId,
    /// Whether a thread of this process can be pinned to it.
    pub is_usable: bool,
    /// Whether the scheduler leaves it to those who ask for it (`isolcpus=`).
    pub is_isolated: bool,
    /// The logical CPUs of the same physical core, itself included.
    pub siblings: Vec<CoreId>,
    /// Its data caches, the nearest first; of a snapshot from the second level on.
    pub caches: Vec<Cache>,
    /// How its frequency is chosen: `performance`, `schedutil`, ...
    pub governor: Option<String>,
    /// The least and the highest frequency, in kHz.
    pub frequencies_khz: Option<(u64, u64)>,
}

/// Where an interface is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// At this node.
    Node(NodeId),
    /// The kernel does not know: `numa_node` is -1.
    Unknown,
    /// Nowhere: it is made of software.
    Software,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Where it is plugged in.
    pub attached: Attached,
    /// Its driver's name, of one that is plugged in.
    pub driver: Option<String>,
    /// Its receive queues.
    pub receive: Vec<ReceiveQueue>,
    /// Its transmit queues.
    pub transmit: Vec<TransmitQueue>,
    /// Frames that its receive ring has now, and could have. Only of this machine.
    pub receive_ring: Option<(u32, u32)>,
}

/// A receive queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Its number.
    pub number: u32,
    /// What tells that packets came.
    pub interrupt: Option<Interrupt>,
    /// Where received packets are steered to (RPS); no core if that is off.
    pub steered_to: Vec<CoreId>,
    /// Flows that are steered to where they are read (RFS); 0 if that is off.
    pub flows: u64,
}

/// A transmit queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransmitQueue {
    /// Its number.
    pub number: u32,
    /// The cores that send through it (XPS); none if unknown.
    pub cores: Vec<CoreId>,
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number: the `38` of `/proc/irq/38`.
    pub number: u32,
    /// Where it may go.
    pub allowed: Vec<CoreId>,
    /// Where it goes.
    pub effective: Vec<CoreId>,
}

/// How the machine is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_pages: Option<String>,
    /// The same for shared memory, which logs are.
    pub transparent_shared_pages: Option<String>,
    /// Whether the kernel moves pages to where they are used.
    pub has_numa_balancing: Option<bool>,
    /// Flows that the machine steers to where they are read.
    pub steered_flows: Option<u64>,
    /// Whether irqbalance runs.
    pub has_irqbalance: bool,
    /// Room for memory on disks, in bytes.
    pub swap_bytes: u64,
    /// What this process and its group may have, in bytes, and the file that says so.
    pub memory_limit_bytes: Option<(u64, String)>,
    /// What they may have of the cores, and the file that says so: 1.5 is one and a half.
    pub cores_limit: Option<(f64, String)>,
}

impl Inventory {
    /// Reads this machine, and asks the drivers of its interfaces. Cost: some milliseconds.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn read() -> Result<Self, TopologyError> {
        let root = Path::new("/");
        let mut inventory = Self::read_from(root)?;
        for interface in &mut inventory.interfaces {
            interface.receive_ring = Device::ask(&interface.name, 0).receive_ring;
        }
        inventory.taken = settings::taken_cores(&Files::below(root));
        Ok(inventory)
    }

    /// Reads a machine below `root`, which stands for `/`.
    ///
    /// # Errors
    /// Nodes, cores or huge pages are not as the kernel writes them.
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        let files = Files::below(root);
        let topology = Topology::read_from(&files.path("sys"))?;
        let allowed = cores::allowed(&files, &topology);
        Ok(Self {
            kernel: files.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            processor: files.field("proc/cpuinfo", "model name"),
            nodes: cores::nodes(&files, &topology),
            cores: cores::cores(&files, &topology, &allowed),
            offline: files.list("sys/devices/system/cpu/offline").unwrap_or_default(),
            allowed,
            taken: Vec::new(),
            interfaces: interfaces::interfaces(&files),
            cards: cards::cards(&files),
            lenders: cards::lenders(&files),
            huge_pages: topology.huge_pages,
            settings: settings::settings(&files),
        })
    }

    /// A core that is online.
    pub fn core(&self, id: CoreId) -> Option<&Core> {
        self.cores.iter().find(|core| core.id == id)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// An interface.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The cores of a node that threads can be pinned to.
    pub fn usable_on(&self, node: NodeId) -> impl Iterator<Item = &Core> {
        self.cores.iter().filter(move |core| core.node == node && core.is_usable)
    }

    /// The nodes from the nearest to `node`, itself first where it is there; of equally near ones
    /// the lower number.
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
    /// Whether logs and stacks can be there.
    pub fn has_memory(&self) -> bool {
        self.memory_bytes > 0 && self.is_allowed
    }
}

impl Core {
    /// The cache that it shares with most others.
    pub fn last_cache(&self) -> Option<&Cache> {
        self.caches.last()
    }
}

impl Interface {
    /// Cores that take its receive interrupts.
    pub fn interrupt_cores(&self) -> impl Iterator<Item = CoreId> {
        let interrupts = self.receive.iter().filter_map(|queue| queue.interrupt.as_ref());
        interrupts.flat_map(|interrupt| interrupt.effective.iter().copied())
    }
}

#[cfg(test)]
pub(crate) mod tests;
