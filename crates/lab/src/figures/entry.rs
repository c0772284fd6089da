//! The entries of `figures.toml`. An entry names a figure, its rival, and its scenario if it is a
//! point of one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::compared::Better;
use crate::contenders;
use crate::programs;
use crate::rivals::hyperscan;
use crate::scenario::{Work, machine};

/// A comparison of the bench.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The rival's name in records.
    pub(super) rival: String,
    /// A few words about the rival.
    pub(crate) about: String,
    /// Whether it takes minutes. Then it is measured only if named, or with `FULL=1`.
    #[serde(default)]
    pub is_long: bool,
    /// The scenario of its point; `None` if the figure has its own code.
    pub(super) scenario: Option<String>,
    /// Frame size, with FCS.
    #[serde(default)]
    pub(super) size_bytes: u32,
    /// Frames a second; `None` for full speed.
    pub(super) rate_pps: Option<u64>,
    pub(super) case: Option<String>,
    /// Names of our contender and the rival.
    #[serde(default)]
    pub(super) ours: String,
    #[serde(default)]
    pub(super) other: String,
    /// Other contenders, each with a turn before each of ours.
    #[serde(default)]
    pub(super) beside: Vec<String>,
    /// More sizes and cases of the scenario to measure, for one line each.
    #[serde(default)]
    pub(super) more: Vec<(u32, String)>,
    #[serde(default)]
    pub(super) metric: Metric,
    /// Length of a turn in s. Default: 2 s on interfaces, and in memory the scenario's value.
    #[serde(default)]
    pub(super) seconds: u64,
    /// Length of a turn with `FULL=1`.
    pub(super) full_seconds: Option<u64>,
    /// Pieces whose instructions are counted: ours, and the rival's if it has one.
    #[serde(default)]
    pub(super) counted: Vec<String>,
}

/// The metric that a figure compares.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Packets a second of wall time.
    #[default]
    Mpps,
    /// Packets per second that the contender's core was busy, whether with the program, its system
    /// calls or the softirqs of its packets.
    MppsPerBusyS,
    /// Cycles per packet of polls that found packets.
    Cycles,
    /// CPU time of whole processes per offered frame, so that losing frames does not look cheap.
    Ns,
}

/// How a figure shows a metric of a scenario's record.
pub(super) struct Shown {
    /// The metric's name in the scenario's record.
    pub(super) metric: &'static str,
    /// Its name in the figure's record, and its unit.
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

/// Returns all figures, in the order of measurement.
///
/// # Panics
/// Never: a test parses all of them.
pub fn all() -> &'static [Entry] {
    static ALL: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let mut table: BTreeMap<String, Vec<Entry>> =
            toml::from_str(include_str!("../../figures.toml")).expect("a test reads them all");
        table.remove("figure").unwrap_or_default()
    });
    &ALL
}

/// Returns the version of the rival, or of our compiler if the rival is part of this program.
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

/// Sources that every figure and every scenario depends on.
const LAB: [&str; 14] = [
    "Cargo.toml",
    "crates/lab/scenarios",
    "crates/lab/src/arena.rs",
    "crates/lab/src/contenders",
    "crates/lab/src/lines.rs",
    "crates/lab/src/measuring",
    "crates/lab/src/ours.rs",
    "crates/lab/src/pages.rs",
    "crates/lab/src/rivals",
    "crates/lab/src/scenario",
    "crates/lab/src/traffic.rs",
    "crates/log",
    "crates/sys",
    "rust-toolchain.toml",
];
/// Further sources of figures.
const FIGURES: [&str; 2] = ["crates/lab/figures.toml", "crates/lab/src/figures"];
/// Further sources of figures with a port or a job, and of scenarios.
const ENGINE: [&str; 6] =
    ["crates/afpacket", "crates/engine", "crates/port", "crates/topo", "crates/wire", "crates/xdp"];
/// Further sources of scenarios.
const SCENARIO: [&str; 3] = ["crates/dpdk", "crates/lab/rivals-dpdk", "crates/nicsim"];
/// How frames are injected, and the time of programs and of cores is measured.
const LIVE: [&str; 7] = [
    "crates/lab/src/live",
    "crates/lab/src/perf",
    "crates/lab/src/perf.rs",
    PROGRAMS,
    "crates/lab/src/symbols",
    "crates/lab/src/symbols.rs",
    "crates/testbed",
];
/// The switch and its ports.
const SWITCH: [&str; 4] = ["crates/memif", "crates/peer", "crates/switch", "crates/vhost"];
/// How rivals and our program are started, and what is read from their output.
const PROGRAMS: &str = "crates/lab/src/programs";
/// Sources of programs that read or write a log of another process.
const SHARE: &str = "crates/share";

/// Figures, by the beginnings of their names, that depend on further sources.
struct Further {
    figures: &'static [&'static str],
    folders: &'static [&'static str],
}

/// Figures without a port or a job.
const IN_MEMORY: [&str; 8] = [
    "handoff",
    "append",
    "core-distance",
    "stalled",
    "cross-process",
    "share-readers",
    "stopped",
    "matcher",
];

const FURTHER: [Further; 10] = [
    // They start the program.
    Further {
        figures: &[
            "bounce",
            "capture",
            "count",
            "dpdk-bounce",
            "dpdk-rtc",
            "extract",
            "file",
            "flows",
            "generate-afpacket",
            "generate-xdp",
            "guest",
            "idle",
            "inject",
            "inline",
            "instrumentation-xdp",
            "memif",
            "pcap",
            "query",
            "record",
            "start",
            "suricata",
            "switch",
            "tap",
            "xdp",
        ],
        folders: &["crates/cli", PROGRAMS],
    },
    // Their frames are injected, or go through interfaces that are made for them; or a core is
    // watched.
    Further {
        figures: &[
            "bounce",
            "capture",
            "dpdk-merge-live",
            "dpdk-pipeline-live",
            "generate-afpacket",
            "generate-xdp",
            "guest",
            "idle",
            "inject",
            "instrumentation",
            "memif",
            "pacing-xdp",
            "pcap",
            "record-disk",
            "start",
            "suricata",
            "switch",
            "tap",
            "xdp",
        ],
        folders: &LIVE,
    },
    // Only their rival is a program.
    Further { figures: &["generate-log"], folders: &[PROGRAMS] },
    // Readers of a log are processes of the bench.
    Further {
        figures: &["cross-process", "inline", "share-readers", "stopped"],
        folders: &["crates/lab/src/sharing", SHARE],
    },
    // Our libpcap.
    Further {
        figures: &["pcap", "suricata"],
        folders: &["crates/lab/src/sensors", "crates/pcap", SHARE],
    },
    Further {
        figures: &["python"],
        folders: &["crates/lab/rivals-python", "crates/python", SHARE],
    },
    Further { figures: &["guest", "memif", "switch", "tap"], folders: &SWITCH },
    // DPDK in this process or in ours.
    Further { figures: &["dpdk"], folders: &["crates/dpdk", "crates/lab/rivals-dpdk"] },
    // The records, and the trees of files that they are written to and asked from.
    Further { figures: &["flows", "query"], folders: &["crates/fleet", "crates/flow"] },
    Further { figures: &["nicsim"], folders: &["crates/nicsim"] },
];

/// Returns the source folders and files that a figure depends on, each once.
pub fn sources_of(figure: &str) -> Vec<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|word| figure.starts_with(word));
    let mut folders = [&LAB[..], &FIGURES].concat();
    if !begins(&IN_MEMORY) {
        folders.extend(ENGINE);
    }
    let further = FURTHER.iter().filter(|further| begins(further.figures));
    folders.extend(further.flat_map(|further| further.folders));
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// Returns the source folders and files that a scenario with this work depends on.
pub fn sources_of_work(work: Work) -> Vec<&'static str> {
    let mut folders = [&LAB[..], &ENGINE, &SCENARIO].concat();
    // Sensors are programs, too.
    if work.is_live() || work == Work::Match {
        folders.extend(LIVE);
        folders.extend(["crates/cli", "crates/lab/src/remote", "crates/lab/src/rfc2544", SHARE]);
    }
    match work {
        Work::Match => folders.extend(["crates/lab/src/sensors", "crates/pcap"]),
        Work::Switch | Work::Latency | Work::Rfc2544 => folders.extend(SWITCH),
        _ => {}
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
    fn a_scenario_depends_on_its_own_code_and_on_programs_if_it_starts_some() {
        for work in Work::ALL {
            let sources = sources_of_work(work);
            let has = |own: &str| sources.contains(&own);
            assert!(sources.iter().all(|own| FOLDERS.contains(own)), "{work}");
            assert!(has("crates/lab/src/scenario") && has("crates/lab/scenarios"), "{work}");
            assert!(!has("crates/lab/figures.toml") && !has("crates/python"), "{work}");
            let starts = work.is_live() || work == Work::Match;
            for own in ["crates/cli", "crates/lab/src/perf", "crates/lab/src/symbols"] {
                assert_eq!(has(own), starts, "{work}: {own}");
            }
            assert_eq!(has("crates/pcap"), work == Work::Match, "{work}");
        }
        assert!(sources_of_work(Work::Switch).contains(&"crates/switch"));
        assert!(!sources_of_work(Work::Count).contains(&"crates/switch"));
    }

    fn depends(figure: &str, folders: &[&str]) -> bool {
        let known = sources_of(figure);
        folders.iter().all(|folder| known.contains(folder))
    }

    #[test]
    fn figures_depend_on_the_programs_that_they_start() {
        for figure in ["generate-xdp-testpmd", "generate-afpacket-trafgen", "inline-cost"] {
            assert!(depends(figure, &["crates/cli", PROGRAMS]), "{figure}");
        }
        assert!(depends("generate-log-64", &[PROGRAMS]), "its rival is testpmd");
        assert!(!depends("generate-log-64", &["crates/cli"]), "ours is in this process");
        let asked = ["crates/cli", "crates/fleet", "crates/flow"];
        assert!(depends("query-nfdump", &asked));
        let readers = ["share-readers-4-copy", "cross-process-60", "stopped-reader", "inline-cost"];
        for figure in readers {
            assert!(depends(figure, &["crates/lab/src/sharing", SHARE]), "{figure}");
        }
        assert!(!depends("handoff-60", &[SHARE]));
        let settings = ["Cargo.toml", "crates/lab/figures.toml", "crates/lab/scenarios"];
        assert!(all().iter().all(|figure| depends(&figure.name, &settings)));
    }

    #[test]
    fn figures_on_interfaces_depend_on_the_injector_and_on_how_contenders_are_started() {
        for figure in all().iter().filter(|figure| figure.scenario.is_some()) {
            let contenders: Vec<_> = figure.contenders().collect();
            let scenario =
                built_in().into_iter().find(|own| Some(&own.name) == figure.scenario.as_ref());
            let work = scenario.expect("another test checks it").work;
            // These have no interfaces.
            let is_live = work.is_live() && ![Work::Null, Work::Make].contains(&work);
            assert_eq!(depends(&figure.name, &LIVE), is_live, "{}", figure.name);
            let is_ours = contenders.iter().any(|one| one.name().starts_with("burstline-"));
            let starts_ours = is_ours && is_live && !work.is_within();
            assert!(!starts_ours || depends(&figure.name, &["crates/cli"]), "{}", figure.name);
        }
        for figure in ["idle-cpu", "switch-64-io", "suricata-inline", "start-first-packet"] {
            assert!(depends(figure, &LIVE), "{figure}");
        }
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
