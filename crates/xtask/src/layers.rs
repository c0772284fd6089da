//! Dependencies between our crates point down, so that each can be read without those above it.
//!
//! Each crate has a level. A crate uses only crates of lower levels; its tests may also use crates
//! of the same level. `xtask` is independent: no crate uses it, and it uses none, except that its
//! tests use the crate that counts skipped ones.

use crate::finding::Finding;
use crate::metadata::{Metadata, Package};
use crate::tree::Tree;

/// The level of each crate, lowest first.
const LEVELS: [(&str, u8); 23] = [
    ("burstline-skip", 0),
    ("burstline-wire", 0),
    ("burstline-sys", 0),
    ("burstline-topo", 1),
    ("burstline-log", 1),
    ("burstline-afpacket", 1),
    ("burstline-peer", 1),
    ("burstline-xdp", 2),
    ("burstline-share", 2),
    ("burstline-nicsim", 2),
    ("burstline-switch", 2),
    ("burstline-dpdk", 2),
    ("burstline-vhost", 2),
    ("burstline-memif", 2),
    ("burstline-testbed", 3),
    ("burstline-port", 3),
    ("burstline-flow", 3),
    ("burstline-engine", 4),
    ("burstline-fleet", 4),
    ("burstline-lab", 5),
    ("burstline-capi", 5),
    ("burstline-pcap", 5),
    ("burstline", 6),
];

/// The independent crate.
const APART: &str = "xtask";

/// The crate that all tests may use.
const FOR_TESTS: &str = "burstline-skip";

/// Checks every edge between members of the workspace.
pub(crate) fn check(workspace: &Metadata, tree: &Tree) -> Vec<Finding> {
    let names: Vec<&str> = workspace.members().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in workspace.members() {
        let place = |name: &str| {
            let manifest = tree.file(&package.manifest).map_or("", |file| file.text.as_str());
            1 + manifest.lines().position(|line| line.starts_with(name)).unwrap_or(0)
        };
        if level(&package.name).is_none() && package.name != APART {
            let what = format!("{} has no level (0 of {} match)", package.name, LEVELS.len());
            let mend = "give it one in crates/xtask/src/layers.rs";
            findings.push(Finding::new(&package.manifest, 1, what, mend));
        }
        for edge in package.dependencies.iter().filter(|d| names.contains(&d.name.as_str())) {
            if let Some(what) = fault(package, &edge.name, edge.is_dev) {
                let mend = "move the code down, or reverse the dependency";
                findings.push(Finding::new(&package.manifest, place(&edge.name), what, mend));
            }
        }
    }
    findings
}

fn fault(package: &Package, to: &str, is_dev: bool) -> Option<String> {
    let from = package.name.as_str();
    if is_dev && to == FOR_TESTS {
        return None;
    }
    if from == APART || to == APART {
        return Some(format!("{from} depends on {to} (xtask stands apart)"));
    }
    // A crate without a level has a separate finding.
    let (above, below) = (level(from)?, level(to)?);
    let is_down = below < above || (is_dev && below == above);
    (!is_down).then(|| format!("{from} (level {above}) depends on {to} (level {below})"))
}

fn level(name: &str) -> Option<u8> {
    LEVELS.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let edge = |(name, is_dev): &(&str, bool)| Dependency {
            name: (*name).to_owned(),
            is_dev: *is_dev,
        };
        Package {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            is_member: true,
            dependencies: dependencies.iter().map(edge).collect(),
            ..Package::default()
        }
    }

    fn findings(packages: Vec<Package>) -> Vec<String> {
        let workspace = Metadata { packages };
        let tree =
            Tree::of(&[("burstline-log/Cargo.toml", "[dependencies]\nburstline-port = 1\n")]);
        check(&workspace, &tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn edges_down_are_fine_and_so_are_tests_sideways() {
        let log = package("burstline-log", &[("burstline-sys", false), ("libc", false)]);
        let sys = package("burstline-sys", &[("burstline-wire", true)]);
        assert!(findings(vec![log, sys, package("burstline-wire", &[])]).is_empty());
    }

    #[test]
    fn an_edge_up_is_named_with_its_line() {
        let log = package("burstline-log", &[("burstline-port", false)]);
        let found = findings(vec![log, package("burstline-port", &[])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("burstline-log/Cargo.toml:2: burstline-log (level 1)"));
    }

    #[test]
    fn sideways_edges_and_tests_that_look_up_are_faults() {
        let sys = package("burstline-sys", &[("burstline-wire", false), ("burstline-log", true)]);
        let others = [package("burstline-wire", &[]), package("burstline-log", &[])];
        assert_eq!(findings([sys].into_iter().chain(others).collect()).len(), 2);
    }

    #[test]
    fn xtask_stands_apart_and_newcomers_need_a_level() {
        let xtask = package("xtask", &[("burstline-wire", true)]);
        let new = package("burstline-new", &[]);
        assert_eq!(findings(vec![xtask, new, package("burstline-wire", &[])]).len(), 2);
    }
}
