//! A machine as one text file: the input of [`crate::Inventory`], as `tail -n +1 FILE...` prints
//! it.
//!
//! ```text
//!   ==> sys/devices/system/node/online <==
//!   0-1
//!
//!   ==> sys/devices/system/node/node0/distance <==
//!   10 21
//! ```
//!
//! `burstline doctor snapshot` takes one, for bug reports and tests. It contains no address and no
//! name of a host or a user. A snapshot may come from anyone, so a path that would leave its folder
//! is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use burstline_sys::folder;
use burstline_sys::temporary::TemporaryFolder;

/// The files of a snapshot. A `*` stands for any name; `..` after `device` is the device that a
/// virtio device is a part of.
const PATTERNS: [&str; 56] = [
    "proc/cpuinfo",
    "proc/interrupts",
    "proc/irq/*/effective_affinity_list",
    "proc/irq/*/smp_affinity_list",
    "proc/self/status",
    "proc/swaps",
    "proc/*/comm",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/osrelease",
    "proc/sys/net/core/rps_sock_flow_entries",
    "sys/bus/pci/devices/*/iommu_group/devices/*/uevent",
    "sys/bus/pci/devices/*/iommu_group/type",
    "sys/bus/pci/devices/*/net/*/flags",
    "sys/bus/pci/devices/*/numa_node",
    "sys/bus/pci/devices/*/uevent",
    "sys/bus/pci/devices/*/virtio*/net/*/flags",
    "sys/class/net/*/device/../msi_irqs/*",
    "sys/class/net/*/device/../numa_node",
    "sys/class/net/*/device/msi_irqs/*",
    "sys/class/net/*/device/numa_node",
    "sys/class/net/*/device/uevent",
    "sys/class/net/*/queues/rx-*/rps_cpus",
    "sys/class/net/*/queues/rx-*/rps_flow_cnt",
    "sys/class/net/*/queues/tx-*/xps_cpus",
    "sys/devices/system/cpu/cpu*/cache/index2/level",
    "sys/devices/system/cpu/cpu*/cache/index2/shared_cpu_list",
    "sys/devices/system/cpu/cpu*/cache/index2/size",
    "sys/devices/system/cpu/cpu*/cache/index2/type",
    "sys/devices/system/cpu/cpu*/cache/index3/level",
    "sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list",
    "sys/devices/system/cpu/cpu*/cache/index3/size",
    "sys/devices/system/cpu/cpu*/cache/index3/type",
    "sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq",
    "sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_min_freq",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
    "sys/devices/system/cpu/isolated",
    "sys/devices/system/cpu/offline",
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/has_memory",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/devices/system/node/node*/hugepages/*/free_hugepages",
    "sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "sys/devices/system/node/node*/meminfo",
    "sys/devices/system/node/online",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/memory.max",
    "sys/kernel/mm/hugepages/*/free_hugepages",
    "sys/kernel/mm/hugepages/*/nr_hugepages",
    "sys/kernel/mm/hugepages/*/resv_hugepages",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "sys/module/uio_pci_generic/version",
    "sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
    "sys/module/vfio_pci/parameters/disable_idle_d3",
];

/// Only these lines of these files are included: the others are long, or identify a user.
const LINES: [(&str, &[&str]); 4] = [
    ("proc/cpuinfo", &["model name"]),
    ("proc/self/status", &["Cpus_allowed_list", "Mems_allowed_list"]),
    ("sys/bus/pci/devices", &["DRIVER", "PCI_CLASS", "PCI_ID"]),
    ("sys/class/net", &["DRIVER"]),
];

/// A process that moves interrupts. A snapshot names no other processes.
const BALANCER: &str = "irqbalance";

/// Why a text is not a snapshot, or could not be laid out as files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It does not start with a file's name.
    #[error("not a snapshot of a machine: line {line} is not ==> PATH <==")]
    NoPath {
        /// The line, from 1.
        line: usize,
    },
    /// A path outside of the folder.
    #[error("snapshot of a machine: line {line}: {path} is not below proc/ or sys/")]
    Outside {
        /// The line, from 1.
        line: usize,
        /// The path.
        path: String,
    },
    /// A file could not be written, or the snapshot could not be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A snapshot as files in a temporary folder; dropping it removes the folder.
#[derive(Debug)]
pub struct Snapshot {
    root: TemporaryFolder,
}

impl Snapshot {
    /// Lays out `text` as files below the folder for temporary files.
    ///
    /// # Errors
    /// [`SnapshotError`], with the line.
    pub fn lay_out(text: &str) -> Result<Self, SnapshotError> {
        let place = std::env::temp_dir();
        let made = TemporaryFolder::create_in(&place, "burstline-machine-");
        let made = made.map_err(|error| SnapshotError::File { path: place, error });
        Self::lay_out_in(made?, text)
    }

    /// Lays out `text` as files in this folder.
    ///
    /// # Errors
    /// [`SnapshotError`], with the line.
    pub fn lay_out_in(folder: TemporaryFolder, text: &str) -> Result<Self, SnapshotError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| SnapshotError::File { path, error }
        };
        let snapshot = Self { root: folder };
        for (path, text) in parse(text)? {
            let path = snapshot.root().join(path);
            let folder = path.parent().unwrap_or(snapshot.root());
            fs::create_dir_all(folder).map_err(failed(folder))?;
            fs::write(&path, text).map_err(failed(&path))?;
        }
        Ok(snapshot)
    }

    /// Returns the folder that replaces `/`.
    pub fn root(&self) -> &Path {
        self.root.path()
    }
}

/// Takes a snapshot of the machine below `root`, which is `/` for this one.
pub fn take_snapshot(root: &Path) -> String {
    let mut files = BTreeMap::new();
    for pattern in PATTERNS {
        gather(root, &mut Vec::new(), pattern, &mut files);
    }
    let mut text = String::new();
    for (path, content) in files {
        let content = kept(&path, content.trim_end());
        let is_told = !path.ends_with("/comm") || content == BALANCER;
        if is_told {
            text += &format!("==> {path} <==\n{content}\n\n");
        }
    }
    text
}

/// Reads the files that match `pattern` below `root` and the names so far.
fn gather(
    root: &Path,
    names: &mut Vec<String>,
    pattern: &str,
    files: &mut BTreeMap<String, String>,
) {
    let (part, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let folder = names.iter().fold(root.to_owned(), |folder, name| folder.join(name));
    let fitting = match part.split_once('*') {
        None => vec![part.to_owned()],
        Some((prefix, _)) => {
            let found = folder::names(&folder).into_iter().flatten();
            let found = found.filter_map(|name| name.into_string().ok());
            found.filter(|name| name.starts_with(prefix)).collect()
        }
    };
    for name in fitting {
        names.push(name);
        match rest {
            "" => {
                let path = names.iter().fold(root.to_owned(), |path, name| path.join(name));
                if let Ok(content) = fs::read_to_string(path) {
                    files.insert(plain(names), content);
                }
            }
            rest => gather(root, names, rest, files),
        }
        names.pop();
    }
}

/// Returns a path without `..`. In the laid-out snapshot `device` is no link, so `..` would differ.
fn plain(names: &[String]) -> String {
    let mut path: Vec<&str> = Vec::new();
    for name in names {
        match name.as_str() {
            ".." => drop(path.pop()),
            name => path.push(name),
        }
    }
    path.join("/")
}

/// Returns the lines of a file that a snapshot includes.
fn kept(path: &str, content: &str) -> String {
    let chosen = LINES.iter().find(|(prefix, _)| path.starts_with(prefix));
    let Some((_, fields)) =
        chosen.filter(|(prefix, _)| *prefix == path || path.ends_with("uevent"))
    else {
        return content.to_owned();
    };
    let wanted = |line: &&str| fields.iter().any(|field| line.starts_with(field));
    let mut lines: Vec<&str> = content.lines().filter(wanted).collect();
    // Each core repeats its model's name: one is enough.
    lines.dedup();
    lines.join("\n")
}

fn parse(text: &str) -> Result<Vec<(&str, String)>, SnapshotError> {
    let mut files: Vec<(&str, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let path = line.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <=="));
        match (path, files.last_mut()) {
            (Some(path), _) => {
                let mut parts = path.split('/');
                let is_below = matches!(parts.next(), Some("proc" | "sys"));
                if !is_below || parts.any(|part| matches!(part, "" | "." | "..")) {
                    let path = path.to_owned();
                    return Err(SnapshotError::Outside { line: line_number, path });
                }
                files.push((path, String::new()));
            }
            (None, Some((_, content))) => *content += &format!("{line}\n"),
            // Comments at the top.
            (None, None) if line.is_empty() || line.starts_with('#') => {}
            (None, None) => return Err(SnapshotError::NoPath { line: line_number }),
        }
    }
    match files.is_empty() {
        true => Err(SnapshotError::NoPath { line: 1 }),
        false => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_what_is_laid_out() {
        let text = take_snapshot(Path::new("/"));
        assert!(text.contains("==> sys/devices/system/cpu/online <==\n"), "{text}");
        let snapshot = Snapshot::lay_out(&text).unwrap();
        assert_eq!(take_snapshot(snapshot.root()), text);
        let root = snapshot.root().to_owned();
        drop(snapshot);
        assert!(!root.exists());
    }

    #[test]
    fn nobody_is_named() {
        let text = take_snapshot(Path::new("/"));
        for line in text.lines().filter(|line| line.contains("allowed") || line.contains("model")) {
            let known = ["Cpus_allowed_list", "Mems_allowed_list", "model name"];
            assert!(known.iter().any(|field| line.starts_with(field)), "{line}");
        }
        assert!(!text.contains("PPid") && !text.contains("flags\t"), "{text}");
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["/etc/passwd", "etc/passwd", "sys/../../x", "sys//x", "sys/./x", ""] {
            let error = Snapshot::lay_out(&format!("\n==> {path} <==\nx\n")).unwrap_err();
            assert!(matches!(error, SnapshotError::Outside { line: 2, .. }), "{path}: {error}");
        }
        for text in ["", "0-1\n", "# only a remark\n"] {
            let error = Snapshot::lay_out(text).unwrap_err();
            assert!(matches!(error, SnapshotError::NoPath { line: 1 }), "{text}: {error}");
        }
    }
}
