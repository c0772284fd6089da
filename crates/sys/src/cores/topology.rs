//! The machine's NUMA nodes, their cores and their huge pages.
//!
//! ```text
//!   ROOT/devices/system/node/node0/cpulist                              cores of node 0
//!   ROOT/devices/system/node/node0/meminfo                              its memory
//!   ROOT/devices/system/node/node0/hugepages/hugepages-2048kB/          its 2 MiB pages
//!   ROOT/kernel/mm/hugepages/hugepages-2048kB/                          2 MiB pages of all nodes
//! ```
//!
//! ROOT is `/sys`. Tests use their own directory, since a machine with several nodes is seldom at
//! hand. A kernel without NUMA has no node directory: we report node 0 with every core. The data is
//! read once and never refreshed. Other code decides which core a plan uses.
//!
//! Source: the kernel's Documentation/ABI/stable/sysfs-devices-node and
//! Documentation/admin-guide/mm/hugetlbpage.rst.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::affinity::{CoreId, parse_cores};
use crate::folder;
use crate::memory::NodeId;

const SYS: &str = "/sys";

/// The nodes of a machine and its huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The nodes, ascending, at least one.
    pub nodes: Vec<Node>,
    /// Huge pages of the whole machine, by ascending size.
    pub huge_pages: Vec<HugePages>,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its cores, ascending; empty for a node with memory only.
    pub cores: Vec<CoreId>,
    /// Its huge pages, by ascending size.
    pub huge_pages: Vec<HugePages>,
}

/// The pool of huge pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// The size of a page, in bytes.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Pages not in use.
    pub free: u64,
    /// Free pages that are promised to a mapping. The kernel reports it for the whole machine only:
    /// 0 for a node.
    pub promised: u64,
}

/// A topology file could not be read or parsed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct TopologyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: io::Error,
}

impl From<TopologyError> for io::Error {
    fn from(error: TopologyError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

impl Topology {
    /// Reads the topology of this machine.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn read() -> Result<Self, TopologyError> {
        Self::read_from(Path::new(SYS))
    }

    /// Reads a topology below `root`, which stands for `/sys`.
    ///
    /// # Errors
    /// [`TopologyError`] for the first file that is missing or is not what the kernel writes.
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        let node = |(id, cores)| {
            let huge_pages = read_pools(&pools(root, Some(id)))?;
            Ok(Node { id, cores, huge_pages })
        };
        let nodes = node_cores(root)?.into_iter().map(node).collect::<Result<_, _>>()?;
        let huge_pages = read_pools(&pools(root, None))?;
        Ok(Self { nodes, huge_pages })
    }

    /// Returns the node of a core, or `None` if there is no such core.
    pub fn node_of(&self, core: CoreId) -> Option<NodeId> {
        self.nodes.iter().find(|node| node.cores.contains(&core)).map(|node| node.id)
    }
}

impl HugePages {
    /// Pages available to a new mapping.
    pub fn unpromised(&self) -> u64 {
        self.free.saturating_sub(self.promised)
    }

    /// Reads a pool directory, such as `/sys/kernel/mm/hugepages/hugepages-2048kB`.
    pub(crate) fn read(pool: &Path) -> Result<Self, TopologyError> {
        let name = pool.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kibibytes: u64 = name
            .strip_prefix("hugepages-")
            .and_then(|rest| rest.strip_suffix("kB"))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| malformed(pool, "its name has no page size"))?;
        let promised = pool.join("resv_hugepages");
        Ok(Self {
            page_bytes: kibibytes.saturating_mul(1024),
            total: read_number(&pool.join("nr_hugepages"))?,
            free: read_number(&pool.join("free_hugepages"))?,
            promised: if promised.exists() { read_number(&promised)? } else { 0 },
        })
    }
}

/// Returns the nodes below `root`, which stands for `/sys`, and the cores of each, both ascending.
/// At least one node. Cost: reads a file for each node.
///
/// # Errors
/// As [`Topology::read_from`].
pub fn node_cores(root: &Path) -> Result<Vec<(NodeId, Vec<CoreId>)>, TopologyError> {
    let node = |id| {
        let directory = node_directory(root, id);
        let cores = match directory.exists() {
            true => read_cores(&directory.join("cpulist"))?,
            false => read_cores(&root.join("devices/system/cpu/online"))?,
        };
        Ok((id, cores))
    };
    node_ids(root)?.into_iter().map(node).collect()
}

/// Returns the node of a core of this machine, or `None` if there is no such core. Cost: lists one
/// folder.
pub fn node_of(core: CoreId) -> Option<NodeId> {
    node_below(Path::new(SYS), core)
}

/// A kernel with NUMA puts a link to the core's node into the core's folder. Source:
/// drivers/base/node.c, `register_cpu_under_node`.
fn node_below(root: &Path, core: CoreId) -> Option<NodeId> {
    let directory = root.join(format!("devices/system/cpu/cpu{core}"));
    let names = folder::names(&directory).ok()?.into_iter();
    let node = |name: OsString| name.to_str()?.strip_prefix("node")?.parse().ok();
    Some(NodeId(names.filter_map(node).next().unwrap_or(0)))
}

/// Returns the nodes of this machine, ascending.
pub(crate) fn nodes_online() -> Result<Vec<NodeId>, TopologyError> {
    node_ids(Path::new(SYS))
}

/// Returns the directory that counts the huge pages of one size, of one node or of all.
pub(crate) fn huge_page_pool(node: Option<NodeId>, page_bytes: u64) -> PathBuf {
    pools(Path::new(SYS), node).join(format!("hugepages-{}kB", page_bytes / 1024))
}

/// Returns the bytes available without swapping, on a node or on the whole machine.
///
/// For a node that is free memory plus file pages, because nodes have no `MemAvailable`.
///
/// # Errors
/// The kernel's file cannot be read or parsed.
pub fn available_bytes(node: Option<NodeId>) -> Result<u64, TopologyError> {
    let (path, fields): (PathBuf, &[&str]) = match node {
        Some(id) if node_directory(Path::new(SYS), id).exists() => (
            node_directory(Path::new(SYS), id).join("meminfo"),
            &["MemFree:", "Active(file):", "Inactive(file):"],
        ),
        _ => (PathBuf::from("/proc/meminfo"), &["MemAvailable:"]),
    };
    let text = read(&path)?;
    let kibibytes = meminfo_sum(&text, fields)
        .ok_or_else(|| malformed(&path, &format!("it lacks some of {}", fields.join(" "))))?;
    Ok(kibibytes.saturating_mul(1024))
}

/// Returns the sum of the named fields of a meminfo file, in KiB; `None` if one is missing.
fn meminfo_sum(text: &str, fields: &[&str]) -> Option<u64> {
    fields.iter().try_fold(0_u64, |sum, field| {
        let value = text.lines().find_map(|line| {
            // A node's file has `Node 0 ` in front of each field.
            let mut words = line.split_whitespace().skip_while(|word| word != field);
            words.nth(1)
        })?;
        sum.checked_add(value.parse().ok()?)
    })
}

fn node_ids(root: &Path) -> Result<Vec<NodeId>, TopologyError> {
    let path = root.join("devices/system/node/online");
    if !path.exists() {
        return Ok(vec![NodeId(0)]);
    }
    // Node numbers have the same list format as cores.
    let cores = read_cores(&path)?;
    Ok(cores.into_iter().map(|CoreId(number)| NodeId(number)).collect())
}

fn node_directory(root: &Path, node: NodeId) -> PathBuf {
    root.join(format!("devices/system/node/node{node}"))
}

fn pools(root: &Path, node: Option<NodeId>) -> PathBuf {
    match node {
        Some(node) => node_directory(root, node).join("hugepages"),
        None => root.join("kernel/mm/hugepages"),
    }
}

fn read_pools(directory: &Path) -> Result<Vec<HugePages>, TopologyError> {
    let names = match folder::names(directory) {
        Ok(names) => names,
        // A kernel without huge pages has no such directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(TopologyError { path: directory.to_owned(), source });
        }
    };
    let mut pools = Vec::new();
    for name in names {
        pools.push(HugePages::read(&directory.join(name))?);
    }
    pools.sort_by_key(|pool| pool.page_bytes);
    Ok(pools)
}

fn read_cores(path: &Path) -> Result<Vec<CoreId>, TopologyError> {
    let text = read(path)?;
    match text.trim() {
        "" => Ok(Vec::new()),
        list => parse_cores(list).map_err(|error| malformed(path, &error.to_string())),
    }
}

fn read_number(path: &Path) -> Result<u64, TopologyError> {
    let text = read(path)?;
    text.trim().parse().map_err(|_| malformed(path, &format!("`{}` is not a number", text.trim())))
}

fn read(path: &Path) -> Result<String, TopologyError> {
    fs::read_to_string(path).map_err(|source| TopologyError { path: path.to_owned(), source })
}

fn malformed(path: &Path, what: &str) -> TopologyError {
    let source = io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    TopologyError { path: path.to_owned(), source }
}

#[cfg(all(test, not(miri)))]
mod tests;
