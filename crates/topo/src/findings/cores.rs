//! Findings about the kernel, nodes, cores and frequencies.

use std::fmt;

use burstline_sys::affinity::format_cores;

use super::{Finding, plural};
use crate::inventory::{Core, Inventory};

/// Source: crates/sys, which lists the system calls.
const KERNEL_LEAST: (u32, u32) = (5, 14);

/// A kernel feature, and the first version that has it.
#[derive(Clone, Copy, Debug)]
pub struct KernelNeed {
    /// The version's major number.
    pub major: u32,
    /// The version's minor number.
    pub minor: u32,
    /// The feature.
    pub what: &'static str,
}

/// Formats like `no timestamps by an XDP program (Linux 6.1)`.
impl fmt::Display for KernelNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} (Linux {}.{})", self.what, self.major, self.minor)
    }
}

const fn since(major: u32, minor: u32, what: &'static str) -> KernelNeed {
    KernelNeed { major, minor, what }
}

/// The features that Burstline uses.
pub const KERNEL_NEEDS: [KernelNeed; 5] = [
    since(5, 11, "busy polling of XDP sockets"),
    since(5, 18, "XDP packets of several buffers"),
    since(6, 1, "timestamps by an XDP program"),
    since(6, 3, "drivers report their XDP features"),
    since(6, 6, "XDP sockets for packets longer than a frame"),
];

pub(super) fn kernel(inventory: &Inventory) -> Vec<Finding> {
    let name = "kernel";
    let release = &inventory.kernel;
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let version = numbers
        .next()
        .and_then(|major| Some((major.parse::<u32>().ok()?, numbers.next()?.parse::<u32>().ok()?)));
    let Some(version) = version else {
        return vec![Finding::fine(name, "its version is not known")];
    };
    if version < KERNEL_LEAST {
        let (major, minor) = KERNEL_LEAST;
        let what = format!("Linux {release}: at least {major}.{minor} is needed");
        let cost = "memory cannot be populated in advance: Burstline cannot run";
        return vec![Finding::defect(name, what, cost, "crates/sys/src/lib.rs", Vec::new())];
    }
    let missing = KERNEL_NEEDS.iter().filter(|need| version < (need.major, need.minor));
    let missing: Vec<String> = missing.map(ToString::to_string).collect();
    vec![Finding::fine(
        name,
        match missing.is_empty() {
            true => format!("Linux {release} has everything that Burstline uses"),
            false => format!("Linux {release}: {}", missing.join(", ")),
        },
    )]
}

pub(super) fn nodes(inventory: &Inventory) -> Vec<Finding> {
    let name = "nodes";
    let node = |node: &crate::Node| {
        let cores = match node.cores.is_empty() {
            true => "no core".to_owned(),
            false => format!("cores {}", format_cores(&node.cores)),
        };
        let memory = match node.memory_bytes {
            0 => "no memory".to_owned(),
            bytes => format!("{:.1} GiB, {:.1} free", gibibytes(bytes), gibibytes(node.free_bytes)),
        };
        let others = node.distances.iter().filter(|(id, _)| *id != node.id);
        let others: Vec<String> = others.map(|(id, far)| format!("{far} to node {id}")).collect();
        let others =
            if others.is_empty() { String::new() } else { format!(", {}", others.join(", ")) };
        format!("node {}: {cores}, {memory}{others}", node.id)
    };
    let all: Vec<String> = inventory.nodes.iter().map(node).collect();
    let mut findings = vec![Finding::fine(name, all.join("; "))];
    for node in inventory.nodes.iter().filter(|node| !node.cores.is_empty()) {
        let why = match (node.memory_bytes, node.is_allowed) {
            (0, _) => "has no memory",
            (_, false) => "has no memory for this process (cpuset)",
            _ => continue,
        };
        let id = node.id;
        findings.push(Finding::defect(
            name,
            format!("node {id} {why}: its cores use memory of another node"),
            "each access to a packet crosses between nodes; contiguous bursts of 64-byte \
             packets kept 38 of 40 Gbit/s, scattered ones 13 of 24",
            FAR_SOURCE,
            Vec::new(),
        ));
    }
    findings
}

/// Source for the cost of packets on another node than their reader.
pub const FAR_SOURCE: &str =
    "Napatech, \"Burst! Does it matter if packet bursts are contiguous or scattered?\", across QPI";

pub(super) fn cores(inventory: &Inventory) -> Vec<Finding> {
    let name = "cores";
    let usable: Vec<_> =
        inventory.cores.iter().filter(|core| core.is_usable).map(|core| core.id).collect();
    let has_siblings = inventory.cores.iter().any(|core| core.siblings.len() > 1);
    let isolated: Vec<_> =
        inventory.cores.iter().filter(|core| core.is_isolated).map(|core| core.id).collect();
    let mut what = format!("{} of {} can be used", format_cores(&usable), inventory.cores.len());
    if has_siblings {
        let pairs = inventory.cores.iter().filter(|core| core.siblings.first() == Some(&core.id));
        what += &format!(", {} physical", pairs.count());
    }
    if !isolated.is_empty() {
        what += &format!(", {} isolated", format_cores(&isolated));
    }
    let mut findings = vec![Finding::fine(name, what)];
    if !inventory.offline.is_empty() {
        let mend = inventory
            .offline
            .iter()
            .map(|core| format!("echo 1 > /sys/devices/system/cpu/cpu{core}/online"));
        findings.push(Finding::defect(
            name,
            format!("{} offline", plural("core", &inventory.offline)),
            format!("{} fewer threads", inventory.offline.len()),
            "this machine",
            mend.collect(),
        ));
    }
    let limit = inventory.settings.cores_limit.as_ref();
    if let Some((limit, file)) = limit.filter(|(limit, _)| *limit < usable.len() as f64) {
        findings.push(Finding::defect(
            name,
            format!("a limit of {limit:.2} cores for {} of them ({file})", usable.len()),
            "spinning threads use it up, then stop for the rest of each 100 ms and lose packets",
            "Documentation/scheduler/sched-bwc.rst",
            vec![format!("echo max > {file}")],
        ));
    }
    findings
}

pub(super) fn frequency(inventory: &Inventory) -> Vec<Finding> {
    let name = "frequency";
    let slow: Vec<&Core> = (inventory.cores.iter())
        .filter(|core| core.is_usable)
        .filter(|core| core.governor.as_deref().is_some_and(|name| name != "performance"))
        .collect();
    let Some(first) = slow.first() else {
        let is_known = inventory.cores.iter().any(|core| core.governor.is_some());
        return vec![Finding::fine(
            name,
            match is_known {
                true => "always the highest (governor performance)",
                false => "cannot be set on this machine",
            },
        )];
    };
    let cores: Vec<_> = slow.iter().map(|core| core.id).collect();
    let governor = first.governor.clone().unwrap_or_default();
    let cost = match first.frequencies_khz.filter(|(least, _)| *least > 0) {
        Some((least, most)) => format!(
            "after a pause a core starts at {:.1} GHz of {:.1}: up to {:.1} times as slow",
            least as f64 / 1e6,
            most as f64 / 1e6,
            most as f64 / least as f64
        ),
        None => "after a pause a core starts below its highest frequency".to_owned(),
    };
    let mend = "for core in /sys/devices/system/cpu/cpu[0-9]*; do \
                echo performance > $core/cpufreq/scaling_governor; done";
    vec![Finding::defect(
        name,
        format!("governor {governor} on cores {}", format_cores(&cores)),
        cost,
        "this machine's cpuinfo_min_freq and cpuinfo_max_freq",
        vec![mend.to_owned()],
    )]
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
