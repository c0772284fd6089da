//! Findings about huge pages, limits, and settings that move pages.

use super::Finding;
use crate::inventory::Inventory;

/// The default size of a log, and of its pages. Source: `capture --buffer`.
const LOG_BYTES: u64 = 64 << 20;
const PAGE_BYTES: u64 = 2 << 20;

const PAGES_SOURCE: &str = "Documentation/admin-guide/mm/hugetlbpage.rst";

pub(super) fn huge_pages(inventory: &Inventory) -> Vec<Finding> {
    let name = "huge pages";
    let needed = LOG_BYTES / PAGE_BYTES;
    let mut findings = Vec::new();
    let nodes = inventory.nodes.iter().filter(|node| node.has_memory() && !node.cores.is_empty());
    for node in nodes {
        let pools = node.huge_pages.iter();
        let fitting: Vec<_> = pools.filter(|pool| pool.page_bytes >= PAGE_BYTES).collect();
        if fitting.is_empty() {
            continue;
        }
        let bytes: u64 =
            fitting.iter().map(|pool| pool.page_bytes.saturating_mul(pool.unpromised())).sum();
        let (id, mebibytes) = (node.id, bytes >> 20);
        if bytes >= LOG_BYTES {
            findings.push(Finding::fine(name, format!("node {id}: {mebibytes} MiB free")));
            continue;
        }
        let total = fitting.iter().find(|pool| pool.page_bytes == PAGE_BYTES);
        let total = total.map_or(0, |pool| pool.total).saturating_add(needed);
        findings.push(Finding::defect(
            name,
            format!("node {id}: {mebibytes} MiB free, a log needs 64"),
            "a log uses transparent pages, if the kernel finds contiguous memory; with 4 KiB \
             pages it needs 512 times as many TLB entries",
            PAGES_SOURCE,
            vec![format!(
                "echo {total} > /sys/devices/system/node/node{id}/hugepages/\
                 hugepages-2048kB/nr_hugepages"
            )],
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::fine(name, "this kernel has none"));
    }
    findings
}

pub(super) fn transparent(inventory: &Inventory) -> Vec<Finding> {
    let name = "transparent pages";
    let settings = &inventory.settings;
    let shared = settings.transparent_shared_pages.as_deref();
    let (what, file, word) = match (settings.transparent_pages.as_deref(), shared) {
        (None, _) => return vec![Finding::fine(name, "this kernel has none")],
        (Some("never"), _) => ("never", "enabled", "madvise"),
        (_, Some("deny")) => ("denied to shared memory", "shmem_enabled", "advise"),
        (Some(setting), _) => return vec![Finding::fine(name, setting)],
    };
    vec![Finding::defect(
        name,
        what,
        "a log without reserved huge pages uses 4 KiB pages",
        "Documentation/admin-guide/mm/transhuge.rst",
        vec![format!("echo {word} > /sys/kernel/mm/transparent_hugepage/{file}")],
    )]
}

pub(super) fn limits(inventory: &Inventory) -> Vec<Finding> {
    let name = "memory limit";
    let Some((limit, file)) = &inventory.settings.memory_limit_bytes else { return Vec::new() };
    let mebibytes = limit >> 20;
    if *limit >= 2 * LOG_BYTES {
        return vec![Finding::fine(name, format!("{mebibytes} MiB (cgroup)"))];
    }
    vec![Finding::defect(
        name,
        format!("{mebibytes} MiB ({file}), a log needs 64"),
        "the kernel kills a process that exceeds it, in the middle of a capture",
        "Documentation/admin-guide/cgroup-v2.rst",
        vec![format!("echo max > {file}")],
    )]
}

/// Reports settings that move pages from where they were placed.
pub(super) fn moving(inventory: &Inventory) -> Vec<Finding> {
    let mut findings = Vec::new();
    if inventory.settings.has_numa_balancing == Some(true) {
        findings.push(Finding::defect(
            "page migration",
            "the kernel moves pages to where they are used (kernel.numa_balancing)",
            "the kernel unmaps pages to see who uses them: a fault of 1,000 ns or more each time",
            "Documentation/admin-guide/sysctl/kernel.rst; the duration is an order of magnitude",
            vec!["sysctl -w kernel.numa_balancing=0".to_owned()],
        ));
    } else {
        findings.push(Finding::fine("page migration", "pages stay where they were placed"));
    }
    if inventory.settings.swap_bytes > 0 {
        findings.push(Finding::defect(
            "swap",
            format!("{} MiB of swap", inventory.settings.swap_bytes >> 20),
            "an idle log may be on a disk when a burst arrives: about 100 us per page",
            "an order of magnitude for a solid-state disk",
            vec!["swapoff -a".to_owned()],
        ));
    }
    findings
}
