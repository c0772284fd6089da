//! Who stands beside ours in each figure, and what code of ours it measures.

use crate::contenders;
use crate::programs;
use crate::scenario::machine;

/// Whom ours takes turns with in a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rival {
    /// Its name in records.
    pub(super) name: &'static str,
    /// What it is, in a few words.
    pub(super) about: &'static str,
}

/// Of each figure, or of several.
const RIVALS: [(&[&str], Rival); 59] = [
    (
        &["handoff-60", "handoff-1514"],
        Rival {
            name: "scattered-pool",
            about: "pool of 2 KiB buffers, caches, ring of pointers; the best of its sizes",
        },
    ),
    (
        &["handoff-60-lean", "handoff-1514-lean"],
        Rival {
            name: "scattered-lean",
            about: "without a pool: buffers come back by a second ring; the best of its sizes",
        },
    ),
    (
        &["handoff-60-bare", "handoff-1514-bare"],
        Rival {
            name: "bare-layout",
            about: "our layout in a bare loop, without reader, writer, or prefetch",
        },
    ),
    (
        &["append-latency"],
        Rival { name: "bare-line", about: "a bare cache line handed over and back" },
    ),
    (
        &["balance-hash-64"],
        Rival { name: "bare-append", about: "packets appended to one log, not hashed" },
    ),
    (
        &["balance-copy-64"],
        Rival {
            name: "scattered-spread",
            about: "four workers on a core: pointers to buffers, a ring each; ours a log each",
        },
    ),
    (
        &["balance-share-64"],
        Rival {
            name: "scattered-spread",
            about: "the same; ours one log that all four workers read",
        },
    ),
    (&["balance-crossover"], Rival { name: "scattered-spread", about: "the same, by packet size" }),
    (
        &["stalled-worker"],
        Rival {
            name: "without-the-stalled-one",
            about: "three workers; ours has a fourth that stands still",
        },
    ),
    (
        &["cross-process-60"],
        Rival {
            name: "reader-in-this-process",
            about: "a reader in this process; ours in another one",
        },
    ),
    (
        &["stopped-reader"],
        Rival {
            name: "without-the-stopped-one",
            about: "one reader; ours has a second one that is stopped",
        },
    ),
    (
        &["idle-cpu"],
        Rival {
            name: "poll-busy",
            about: "`--poll busy` on an idle interface; ours `--poll adaptive`",
        },
    ),
    (
        &["pacing"],
        Rival { name: "clock-loop", about: "a loop that reads the clock until each packet is due" },
    ),
    (&["pacing-xdp"], Rival { name: "clock-loop", about: "the same; ours sends through `xdp:`" }),
    (
        &["inject-64"],
        Rival {
            name: "through-a-cable",
            about: "`generate` sends the same frames through a veth pair",
        },
    ),
    (
        &["capture-tcpdump"],
        Rival { name: "tcpdump", about: "`tcpdump -w`, 0.8 Mpps: processor time a frame" },
    ),
    (&["capture-tcpdump-fast"], Rival { name: "tcpdump", about: "the same at up to 1.7 Mpps" }),
    (
        &["capture-dumpcap"],
        Rival { name: "dumpcap", about: "`dumpcap`, 0.8 Mpps: processor time a frame" },
    ),
    (&["capture-dumpcap-fast"], Rival { name: "dumpcap", about: "the same at up to 1.7 Mpps" }),
    (
        &["count-file-tcpdump"],
        Rival { name: "tcpdump", about: "`tcpdump -r --count` of a file in memory" },
    ),
    (
        &["count-file-capinfos"],
        Rival { name: "capinfos", about: "`capinfos -c`; ours with the flow hash" },
    ),
    (
        &["generate-afpacket-trafgen"],
        Rival { name: "trafgen", about: "`trafgen`, one frame over and over" },
    ),
    (
        &["generate-xdp-testpmd"],
        Rival {
            name: "testpmd",
            about: "`dpdk-testpmd` txonly over net_af_xdp, one frame over and over",
        },
    ),
    (
        &["generate-log-64"],
        Rival {
            name: "testpmd",
            about: "`dpdk-testpmd` txonly over net_null, one packet over and over",
        },
    ),
    (
        &["generate-log-64-flows"],
        Rival { name: "testpmd", about: "the same with `--txonly-multi-flow`; ours 256 flows" },
    ),
    (
        &["dpdk-rtc-64"],
        Rival { name: "testpmd", about: "`dpdk-testpmd` rxonly over net_null; ours `count dpdk:`" },
    ),
    (
        &["dpdk-bounce-64"],
        Rival {
            name: "testpmd",
            about: "`dpdk-testpmd` io over two net_null; ours `bounce dpdk:`",
        },
    ),
    (
        &["bounce-64"],
        Rival {
            name: "testpmd",
            about: "`dpdk-testpmd` io over net_af_xdp; a second of a busy core, kernel included",
        },
    ),
    (&["bounce-1514"], Rival { name: "testpmd", about: "the same, frames of 1,514 bytes" }),
    (
        &["xdp-rx-testpmd"],
        Rival { name: "testpmd", about: "`dpdk-testpmd` rxonly over net_af_xdp, at top speed" },
    ),
    (&["xdp-cycles-testpmd"], Rival { name: "testpmd", about: "the same: busy cycles a packet" }),
    (&["xdp-cycles-testpmd-paced"], Rival { name: "testpmd", about: "the same at 1 Mpps" }),
    (
        &["hash-64"],
        Rival {
            name: "bare-append",
            about: "packets appended to a log, not hashed; ours five-tuple",
        },
    ),
    (&["hash-64-inner"], Rival { name: "bare-append", about: "the same; ours `--hash inner`" }),
    (&["hash-64-ip"], Rival { name: "bare-append", about: "the same; ours `--hash ip`" }),
    (&["hash-64-rss"], Rival { name: "bare-append", about: "the same; ours `--hash rss`" }),
    (
        &["merge-4x64"],
        Rival {
            name: "staged-merge",
            about: "receive, merge by burst, copy, by pointers, on two cores",
        },
    ),
    (
        &["merge-4x64-bursts"],
        Rival { name: "staged-merge", about: "the same; ports take turns, 32 packets each" },
    ),
    (
        &["merge-4x64-idle"],
        Rival { name: "staged-merge", about: "the same; one of the four ports is idle" },
    ),
    (
        &["merge-4x64-one-core"],
        Rival { name: "staged-merge", about: "the same, its stages in turns on one core" },
    ),
    (
        &["nicsim-rx-64"],
        Rival {
            name: "descriptor-writeback",
            about: "driver of a simulated card that writes descriptors back; ours: data in front",
        },
    ),
    (
        &["nicsim-rx-contiguous-64"],
        Rival { name: "descriptor-writeback", about: "the same; ours: packets back to back" },
    ),
    (
        &["nicsim-bounce-64"],
        Rival { name: "descriptor-writeback", about: "the same, received and sent" },
    ),
    (
        &["instrumentation-xdp-64"],
        Rival { name: "not-instrumented", about: "without clocks, a live interface" },
    ),
    (
        &["instrumentation-memory-64"],
        Rival { name: "not-instrumented", about: "without clocks, in memory" },
    ),
    (
        &["startup-loss-adaptive"],
        Rival {
            name: "without-silence",
            about: "starts without silence; ours after it: share of a second received",
        },
    ),
    (
        &["startup-loss-busy"],
        Rival { name: "without-silence", about: "the same with `--poll busy`" },
    ),
    (
        &["share-readers-1"],
        Rival { name: "nobody-reading", about: "a log that nobody reads; ours has one reader" },
    ),
    (
        &["share-readers-4"],
        Rival { name: "nobody-reading", about: "the same; ours four readers, which share a core" },
    ),
    (
        &["share-readers-1-copy"],
        Rival { name: "nobody-reading", about: "one reader, by a writer that copies its packets" },
    ),
    (
        &["share-readers-4-copy"],
        Rival { name: "nobody-reading", about: "four readers, by such a writer" },
    ),
    (
        &["dpdk-pipeline-60", "dpdk-pipeline-1514"],
        Rival {
            name: "dpdk-pipeline",
            about: "DPDK's mbufs, mempool and ring, core to core; the best of its sizes",
        },
    ),
    (
        &["dpdk-pipeline-60-pmd", "dpdk-pipeline-1514-pmd"],
        Rival {
            name: "dpdk-pipeline",
            about: "the same, both fed by net_null: ours copies each packet",
        },
    ),
    (
        &["dpdk-pipeline-live"],
        Rival {
            name: "dpdk-pipeline",
            about: "net_af_xdp into the ring, from a live veth; ours `xdp:` into the log",
        },
    ),
    (
        &["dpdk-merge-4x64"],
        Rival {
            name: "dpdk-merge",
            about: "receive, merge by burst, copy, on DPDK's mbufs and rings",
        },
    ),
    (
        &["dpdk-merge-4x64-ordered"],
        Rival { name: "dpdk-merge", about: "the same, ordered packet by packet, as ours is" },
    ),
    (
        &["dpdk-merge-live"],
        Rival { name: "dpdk-merge", about: "the same over net_af_xdp, from four live veths" },
    ),
    (
        &["dpdk-balance-copy-64"],
        Rival {
            name: "dpdk-spread",
            about: "mempool and a ring for each of four workers; ours a log each",
        },
    ),
    (
        &["dpdk-balance-share-64"],
        Rival { name: "dpdk-spread", about: "the same; ours one log that all four read" },
    ),
];

/// A figure's rival. One without a line above has a rival of the name `peer`; a test says so.
pub(super) fn rival_of(figure: &str) -> Rival {
    let found = RIVALS.iter().find(|(figures, _)| figures.contains(&figure));
    found.map_or(Rival { name: "peer", about: "" }, |(_, rival)| *rival)
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
            assert_ne!(rival_of(figure.name).name, "peer", "{}", figure.name);
            let sources = sources_of(figure.name);
            assert!(sources.iter().all(|folder| FOLDERS.contains(folder)), "{sources:?}");
        }
    }
}
