//! Reads the machine's settings, and relevant other processes.

use burstline_sys::affinity::{CoreId, parse_cores};

use super::Settings;
use crate::files::Files;

const CGROUP: &str = "sys/fs/cgroup";
const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";

pub(super) fn settings(files: &Files) -> Settings {
    let limits = limit_folders(files);
    Settings {
        transparent_pages: files.choice(&format!("{TRANSPARENT}/enabled")),
        transparent_shared_pages: files.choice(&format!("{TRANSPARENT}/shmem_enabled")),
        has_numa_balancing: files
            .number("proc/sys/kernel/numa_balancing")
            .map(|setting| setting != 0),
        steered_flows: files.number("proc/sys/net/core/rps_sock_flow_entries"),
        has_irqbalance: None,
        swap_bytes: swap_bytes(files),
        memory_limit_bytes: (limits.iter())
            .map(|folder| format!("{folder}/memory.max"))
            .filter_map(|file| Some((files.number(&file)?, format!("/{file}"))))
            .min(),
        cores_limit: (limits.iter())
            .map(|folder| format!("{folder}/cpu.max"))
            .filter_map(|file| Some((quota(&files.text(&file)?)?, format!("/{file}"))))
            .min_by(|(one, _), (other, _)| one.total_cmp(other)),
    }
}

/// Returns whether irqbalance runs. Cost: reads a file for each process of the machine.
pub(super) fn has_irqbalance(files: &Files) -> bool {
    let processes = files.numbered("proc", "").into_iter();
    let mut names = processes.filter_map(|id| files.text(&format!("proc/{id}/comm")));
    names.any(|name| name == "irqbalance")
}

/// Returns the cgroup folders whose limits apply: the process's own and those above. Version 2
/// only.
fn limit_folders(files: &Files) -> Vec<String> {
    let path = files.field("proc/self/cgroup", "0::").unwrap_or_default();
    let mut folder = CGROUP.to_owned();
    let mut folders = vec![folder.clone()];
    for name in path.split('/').filter(|name| !matches!(*name, "" | "." | "..")) {
        folder += &format!("/{name}");
        folders.push(folder.clone());
    }
    folders
}

/// Parses a quota: `150000 100000` is one and a half cores; `max 100000` is no limit.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

fn swap_bytes(files: &Files) -> u64 {
    let text = files.text("proc/swaps").unwrap_or_default();
    let sizes = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2));
    sizes.filter_map(|size| size.parse::<u64>().ok()).sum::<u64>().saturating_mul(1024)
}

/// Returns the cores to which other processes of this program have pinned threads.
pub(super) fn taken_cores(files: &Files) -> Vec<CoreId> {
    let Some(own) = files.text("proc/self/comm") else { return Vec::new() };
    let mut cores = Vec::new();
    for id in files.numbered("proc", "").into_iter().filter(|&id| id != std::process::id()) {
        if files.text(&format!("proc/{id}/comm")).as_ref() != Some(&own) {
            continue;
        }
        for thread in files.numbered(&format!("proc/{id}/task"), "") {
            let status = format!("proc/{id}/task/{thread}/status");
            let allowed = files.field(&status, "Cpus_allowed_list");
            if let Some(Ok([core])) =
                allowed.as_deref().map(parse_cores).as_ref().map(|r| r.as_deref())
            {
                cores.push(*core);
            }
        }
    }
    cores.sort_unstable();
    cores.dedup();
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_cores() {
        assert_eq!(quota("150000 100000"), Some(1.5));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("1 0"), None);
    }
}
