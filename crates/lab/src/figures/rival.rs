//! Who stands beside ours in each figure, and what code of ours it measures.

use crate::contenders;
use crate::programs;
use crate::scenario::machine;

/// A figure's rival: its name in records, and its version if it is another program.
///
/// A figure without a line here has a rival of the name `peer`; a test says so.
pub(super) fn rival_of(figure: &str) -> &'static str {
    match figure {
        "handoff-60" | "handoff-1514" => "scattered-pool",
        "handoff-60-lean" | "handoff-1514-lean" => "scattered-lean",
        "handoff-60-bare" | "handoff-1514-bare" => "bare-layout",
        "append-latency" => "bare-line",
        "balance-hash-64" => "bare-append",
        "balance-copy-64" | "balance-share-64" | "balance-crossover" => "scattered-spread",
        "stalled-worker" => "without-the-stalled-one",
        "cross-process-60" => "reader-in-this-process",
        "stopped-reader" => "without-the-stopped-one",
        "idle-cpu" => "poll-busy",
        "pacing" | "pacing-xdp" => "clock-loop",
        "inject-64" => "through-a-cable",
        "capture-tcpdump" | "capture-tcpdump-fast" | "count-file-tcpdump" => "tcpdump",
        "capture-dumpcap" | "capture-dumpcap-fast" => "dumpcap",
        "count-file-capinfos" => "capinfos",
        "generate-afpacket-trafgen" => "trafgen",
        "dpdk-rtc-64" | "dpdk-bounce-64" => "testpmd",
        _ if figure.starts_with("hash-64") => "bare-append",
        _ if figure.starts_with("share-readers") => "nobody-reading",
        _ if figure.starts_with("merge-4x64") => "staged-merge",
        _ if figure.starts_with("nicsim") => "descriptor-writeback",
        _ if figure.starts_with("instrumentation") => "not-instrumented",
        _ if figure.starts_with("startup-loss") => "without-silence",
        _ if figure.starts_with("dpdk-pipeline") => "dpdk-pipeline",
        _ if figure.starts_with("dpdk-merge") => "dpdk-merge",
        _ if figure.starts_with("dpdk-balance") => "dpdk-spread",
        _ if figure.starts_with("xdp-") || figure.starts_with("bounce-") => "testpmd",
        _ if figure.starts_with("generate-") => "testpmd",
        _ => "peer",
    }
}

/// As it says itself, if it is a program or a library of somebody else's.
pub(super) fn version_of(rival: &str) -> String {
    match contenders::named(rival) {
        Some(adapter) => adapter.version(),
        None if rival == "capinfos" => programs::first_line("capinfos", &["--version"]),
        None => format!("in this program: {}", machine::build().rustc),
    }
}

/// What every figure in memory depends on.
const LOG: [&str; 4] =
    ["crates/lab/src/figures", "crates/lab/src/rivals", "crates/log/src", "crates/sys/src"];
/// What those do besides that have a port or a job.
const ENGINE: [&str; 3] = ["crates/engine/src", "crates/port/src", "crates/wire/src"];
/// What those do besides that start the program.
const PROGRAM: [&str; 1] = ["crates/cli/src"];
/// What those do besides that have DPDK in this process or in ours.
const DPDK: [&str; 2] = ["crates/dpdk/src", "crates/lab/rivals-dpdk"];

/// The folders of the sources that a figure depends on.
pub fn sources_of(figure: &str) -> Vec<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|word| figure.starts_with(word));
    let mut folders = LOG.to_vec();
    if !begins(&["handoff", "append", "stalled", "cross-process", "share-readers", "stopped"]) {
        folders.extend(ENGINE);
    }
    if begins(&["count", "xdp", "capture", "idle", "bounce", "startup", "dpdk-rtc", "dpdk-bounce"])
    {
        folders.extend(PROGRAM);
    }
    if begins(&["dpdk"]) {
        folders.extend(DPDK);
    }
    if begins(&["nicsim"]) {
        folders.push("crates/nicsim/src");
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::FOLDERS;

    #[test]
    fn every_figure_has_a_rival_with_a_name_and_sources_that_are_known() {
        for figure in super::super::all() {
            assert_ne!(rival_of(figure.name), "peer", "{}", figure.name);
            let sources = sources_of(figure.name);
            assert!(sources.iter().all(|folder| FOLDERS.contains(folder)), "{sources:?}");
        }
    }
}
