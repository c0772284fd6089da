//! A figure, as the table `figures.toml` has it: who stands beside ours, and whether it is a point
//! of a scenario's.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::compared::Better;
use crate::contenders;
use crate::programs;
use crate::rivals::hyperscan;
use crate::scenario::machine;

/// A comparison that can be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The rival that ours takes turns with: its name in records.
    pub(super) rival: String,
    /// What that is, in a few words.
    pub(super) about: String,
    /// Whether it takes minutes by itself, and is measured only if it is named, or with `FULL=1`.
    #[serde(default)]
    pub is_long: bool,
    /// Whose point it is. `None`: the figure has its own code.
    pub(super) scenario: Option<String>,
    /// Of a frame, FCS included.
    #[serde(default)]
    pub(super) size_bytes: u32,
    /// Frames a second; `None`: as fast as it goes.
    pub(super) rate_pps: Option<u64>,
    pub(super) case: Option<String>,
    /// The contenders that are ours and the rival.
    #[serde(default)]
    pub(super) ours: String,
    #[serde(default)]
    pub(super) other: String,
    /// Others, who have a turn before each of ours.
    #[serde(default)]
    pub(super) beside: Vec<String>,
    /// Sizes and cases of the scenario that are measured besides, for a line each.
    #[serde(default)]
    pub(super) more: Vec<(u32, String)>,
    #[serde(default)]
    pub(super) metric: Metric,
    /// How long a turn is, in s. Else 2 s on interfaces, and in memory what the scenario says.
    #[serde(default)]
    pub(super) seconds: u64,
    /// The same with `FULL=1`.
    pub(super) full_seconds: Option<u64>,
    /// Pieces whose instructions are counted: of ours, and of the rival, if it has one.
    #[serde(default)]
    pub(super) counted: Vec<String>,
}

/// What a figure compares.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Packets a second, by the clock.
    #[default]
    Mpps,
    /// For each second that the contender's core was busy with anything: the program, its system
    /// calls, and the softirqs that its packets cause.
    MppsPerBusyS,
    /// Of polls that found packets, for each packet.
    Cycles,
    /// Of whole processes, for each frame that was offered, so that losing some does not look
    /// cheap.
    Ns,
}

/// What a figure shows of a scenario's record.
pub(super) struct Shown {
    /// In the scenario's record.
    pub(super) metric: &'static str,
    /// In the figure's, and its unit.
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
}

impl Metric {
    pub(super) fn shown(self) -> Shown {
        let (metric, name, unit, better) = match self {
            Self::Mpps => ("mpps", "mpps", "Mpps", Better::Higher),
            Self::MppsPerBusyS => {
                ("mpps_per_busy_s", "mpps_per_busy_s", "M/busy s", Better::Higher)
            }
            Self::Cycles => ("busy_cycles", "cycles", "cycles", Better::Lower),
            Self::Ns => ("process_ns", "ns", "ns", Better::Lower),
        };
        Shown { metric, name, unit, better }
    }
}

/// All of them, in the order in which they are measured.
///
/// # Panics
/// Never: a test reads them all.
pub fn all() -> &'static [Entry] {
    static ALL: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let mut table: BTreeMap<String, Vec<Entry>> =
            toml::from_str(include_str!("../../figures.toml")).expect("a test reads them all");
        table.remove("figure").unwrap_or_default()
    });
    &ALL
}

/// As the rival reports it, if it is another project's program or library.
pub(super) fn version_of(rival: &str) -> String {
    match contenders::named(rival) {
        Some(adapter) => adapter.version(),
        None if rival == "scattered-matcher" => {
            hyperscan::version().map_or_else(|why| why, |version| format!("Hyperscan {version}"))
        }
        None if rival == "suricata" => crate::sensors::version(),
        None if ["scapy", "dpkt"].contains(&rival) => super::python::version(rival),
        None if ["capinfos", "dd", "tshark"].contains(&rival) => {
            programs::first_line(rival, &["--version"])
        }
        None if ["nfdump", "nfpcapd"].contains(&rival) => programs::first_line(rival, &["-V"]),
        // Its help has the version in the second line.
        None if rival == "softflowd" => programs::line_with(rival, &["-h"], "version"),
        None => format!("in this program: {}", machine::build().rustc),
    }
}

/// What every figure in memory depends on.
const LOG: [&str; 5] = [
    "crates/lab/src/contenders",
    "crates/lab/src/figures",
    "crates/lab/src/rivals",
    "crates/log/src",
    "crates/sys/src",
];
/// What those do besides that have a port or a job.
const ENGINE: [&str; 5] = [
    "crates/afpacket/src",
    "crates/engine/src",
    "crates/port/src",
    "crates/wire/src",
    "crates/xdp/src",
];
/// What those do besides that start the program.
const PROGRAM: [&str; 1] = ["crates/cli/src"];
/// What those do besides that have our libpcap.
const PCAP: [&str; 3] = ["crates/lab/src/sensors", "crates/pcap/src", "crates/share/src"];
/// What those do besides that run in Python.
const PYTHON: [&str; 3] = ["crates/lab/rivals-python", "crates/python/src", "crates/share/src"];
/// What those do besides that are of the switch and its ports.
const SWITCH: [&str; 4] =
    ["crates/memif/src", "crates/peer/src", "crates/switch/src", "crates/vhost/src"];
/// What those do besides that have DPDK in this process or in ours.
const DPDK: [&str; 2] = ["crates/dpdk/src", "crates/lab/rivals-dpdk"];

/// The folders of the sources that a figure depends on.
pub fn sources_of(figure: &str) -> Vec<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|word| figure.starts_with(word));
    let mut folders = LOG.to_vec();
    if !begins(&[
        "handoff",
        "append",
        "core-distance",
        "stalled",
        "cross-process",
        "share-readers",
        "stopped",
        "matcher",
    ]) {
        folders.extend(ENGINE);
    }
    if begins(&["count", "xdp", "capture", "idle", "bounce", "start", "dpdk-rtc", "dpdk-bounce"])
        || begins(&["record", "extract", "file", "pcap", "suricata"])
    {
        folders.extend(PROGRAM);
    }
    if begins(&["dpdk"]) {
        folders.extend(DPDK);
    }
    if begins(&["pcap", "suricata"]) {
        folders.extend(PCAP);
    }
    if begins(&["python"]) {
        folders.extend(PYTHON);
    }
    if begins(&["switch", "memif", "tap", "guest"]) {
        folders.extend(PROGRAM);
        folders.extend(SWITCH);
    }
    if begins(&["flows"]) {
        folders.extend(PROGRAM);
        folders.push("crates/flow/src");
    }
    if begins(&["nicsim"]) {
        folders.push("crates/nicsim/src");
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Rate, built_in};
    use crate::sources::FOLDERS;

    #[test]
    fn every_figure_depends_on_sources_that_are_known_and_has_a_name_of_its_own() {
        let mut names: Vec<_> = all().iter().map(|figure| &*figure.name).collect();
        assert!(names.iter().flat_map(|name| sources_of(name)).all(|own| FOLDERS.contains(&own)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn who_is_a_point_is_one_of_its_scenario() {
        for figure in all().iter().filter(|figure| figure.scenario.is_some()) {
            let name = &figure.name;
            let scenario =
                built_in().into_iter().find(|own| Some(&own.name) == figure.scenario.as_ref());
            let scenario = scenario.unwrap_or_else(|| panic!("{name}: no such scenario"));
            let has = |case: &str| scenario.cases.iter().any(|known| known == case);
            assert!(scenario.sizes.contains(&figure.size_bytes), "{name}");
            assert!(figure.case.as_deref().map_or(scenario.cases.is_empty(), has), "{name}");
            assert!(figure.rate() == Rate::Max || scenario.work.takes_rates(), "{name}");
            for (size_bytes, case) in &figure.more {
                assert!(scenario.sizes.contains(size_bytes) && has(case), "{name}");
            }
            for contender in figure.contenders() {
                assert!(contender.works().contains(&scenario.work), "{name}");
            }
        }
    }
}
