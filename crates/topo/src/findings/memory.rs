//! Huge pages, limits, and what moves pages about.

use super::Finding;
use crate::inventory::Inventory;

/// What a log has unless told otherwise, and the pages that hold it. Source: `capture --buffer`.
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
            format!("node {id}: {mebibytes} MiB free of the 64 that a log takes"),
            "a log takes transparent pages, which the kernel may not find in one piece; of 4 KiB \
             pages it needs 512 times as many entries of the TLB",
            PAGES_SOURCE,
            vec![format!(
                "echo {total} > /sys/devices/system/node/node{id}/hugepages/hugepages-2048kB/nr_hugepages"
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
        "a log without reserved huge pages is in pages of 4 KiB",
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
        format!("{mebibytes} MiB ({file}), a log takes 64"),
        "who exceeds it is killed, in the middle of a capture",
        "Documentation/admin-guide/cgroup-v2.rst",
        vec![format!("echo max > {file}")],
    )]
}

/// What takes pages away from where they were put.
pub(super) fn moving(inventory: &Inventory) -> Vec<Finding> {
    let mut findings = Vec::new();
    if inventory.settings.has_numa_balancing == Some(true) {
        findings.push(Finding::defect(
            "page migration",
            "the kernel moves pages to where they are used (kernel.numa_balancing)",
            "it unmaps pages to see who touches them: a fault, 1,000 ns and more, each time",
            "Documentation/admin-guide/sysctl/kernel.rst; the duration is an order of magnitude",
            vec!["sysctl -w kernel.numa_balancing=0".to_owned()],
        ));
    } else {
        findings.push(Finding::fine("page migration", "pages stay where they were put"));
    }
    if inventory.settings.swap_bytes > 0 {
        findings.push(Finding::defect(
            "swap",
            format!("{} MiB of swap", inventory.settings.swap_bytes >> 20),
            "a log that lay idle may be on a disk when the burst comes: some 100 us a page",
            "an order of magnitude for a solid-state disk",
            vec!["swapoff -a".to_owned()],
        ));
    }
    findings
}
