//! Describes the machine and the build of the program.

mod interfaces;
mod memory;

use std::fs;
use std::path::Path;

use burstline_sys::affinity::{CoreId, allowed_cores};
use burstline_sys::topology::Topology;
use burstline_topo::Inventory;

use crate::perf::counters::{Counter, Event};
use crate::record::{Build, Cache, Machine};
pub(crate) use interfaces::{Served, of_host, on_hosts};

/// Examines the machine. Unknown values are empty or 0.
pub fn examine() -> Machine {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let kibibytes = value(&memory, "MemTotal", ':').and_then(|text| {
        text.split_whitespace().next().and_then(|number| number.parse::<f64>().ok())
    });
    let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = fs::read_to_string(governor).ok().map(|text| text.trim().to_owned());
    let flags = value(&processor, "flags", ':').unwrap_or_default();
    Machine {
        cpu: value(&processor, "model name", ':').unwrap_or_default(),
        cores: allowed_cores().map_or(1, |cores| cores.len()),
        nodes: Topology::read().map_or(1, |topology| topology.nodes.len()),
        memory_gib: (kibibytes.unwrap_or(0.0) / 1024.0 / 1024.0 * 10.0).round() / 10.0,
        kernel: first_line("/proc/sys/kernel/osrelease"),
        os: value(&release, "PRETTY_NAME", '=').unwrap_or_default().trim_matches('"').to_owned(),
        governor,
        is_virtual: flags.split_whitespace().any(|flag| flag == "hypervisor"),
        counters: counters(),
        caches: caches(),
        memory_speed: memory::speed(),
    }
}

/// Returns how this program was compiled, as found by `build.rs`.
pub fn build() -> Build {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Build {
        rustc: text(option_env!("BURSTLINE_RUSTC")),
        profile: text(option_env!("BURSTLINE_PROFILE")),
        target: text(option_env!("BURSTLINE_TARGET")),
        rust_flags: text(option_env!("BURSTLINE_RUST_FLAGS")),
        c_compiler: text(option_env!("BURSTLINE_C_COMPILER")),
        c_flags: text(option_env!("BURSTLINE_C_FLAGS")),
        dpdk: text(option_env!("BURSTLINE_DPDK")),
    }
}

/// Returns the data caches, equal ones combined, from the nearest.
fn caches() -> Vec<Cache> {
    let inventory = Inventory::read_from(Path::new("/"));
    let cores = inventory.map(|inventory| inventory.cores).unwrap_or_default();
    let (mut seen, mut found) = (Vec::new(), Vec::<Cache>::new());
    for cache in cores.iter().flat_map(|core| &core.caches) {
        // Each core that shares a cache lists it.
        if seen.contains(&cache) {
            continue;
        }
        seen.push(cache);
        let (level, kib, shared_by) = (cache.level, cache.bytes >> 10, cache.shared_with.len());
        let is_alike = |other: &&mut Cache| {
            (other.level, other.kib, other.shared_by) == (level, kib, shared_by)
        };
        match found.iter_mut().find(is_alike) {
            Some(known) => known.count += 1,
            None => found.push(Cache { level, kib, shared_by, count: 1 }),
        }
    }
    found.sort_by_key(|cache| cache.level);
    found
}

/// Returns the commit of the sources, for an optimised build in a git repository, as found by
/// `build.rs`.
pub fn commit() -> Option<String> {
    option_env!("BURSTLINE_COMMIT").map(str::to_owned)
}

/// Describes the available hardware counters.
fn counters() -> String {
    let core = allowed_cores().ok().and_then(|cores| cores.first().copied()).unwrap_or(CoreId(0));
    let (mut there, mut why) = (Vec::new(), String::new());
    for event in Event::HARDWARE {
        match Counter::on_core(event, core) {
            Ok(_) => there.push(event.name()),
            Err(error) if why.is_empty() => why = format!("{}: {error}", event.name()),
            Err(_) => {}
        }
    }
    if there.is_empty() { format!("none: {why}") } else { there.join(", ") }
}

/// Returns the value of the first line with this key.
fn value(text: &str, key: &str, separator: char) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(separator));
    lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_memory_and_a_kernel() {
        let machine = examine();
        assert!(machine.cores >= 1 && machine.nodes >= 1 && machine.memory_gib > 0.0);
        assert!(machine.kernel.contains('.') && !machine.counters.is_empty(), "{machine:?}");
        assert!(!machine.memory_speed.is_empty(), "{machine:?}");
    }

    #[test]
    fn each_core_has_caches_alone_or_with_others() {
        let caches = caches();
        let online = first_line("/sys/devices/system/cpu/online");
        let online = burstline_sys::affinity::parse_cores(&online).unwrap().len();
        for level in caches.iter().map(|cache| cache.level) {
            let of_level = caches.iter().filter(|cache| cache.level == level);
            let cores: usize = of_level.map(|cache| cache.shared_by * cache.count).sum();
            assert_eq!(cores, online, "{caches:?}");
        }
    }

    #[test]
    fn how_the_program_was_compiled_is_known() {
        let build = build();
        assert!(build.rustc.starts_with("rustc ") && build.target.contains('-'), "{build:?}");
        assert!(build.profile.contains("opt-level ") && !build.rust_flags.is_empty(), "{build:?}");
        let is_without = !cfg!(feature = "dpdk");
        for text in [&build.c_compiler, &build.dpdk] {
            assert_eq!(text.starts_with("none: "), is_without, "{build:?}");
        }
        assert_eq!(build.c_flags.is_empty(), is_without, "{build:?}");
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "model\t\t: 1\nmodel name\t: A: B\nmodel name\t: C\n";
        assert_eq!(value(text, "model name", ':').as_deref(), Some("A: B"));
        assert_eq!(value(text, "name", ':'), None);
    }
}
