//! The figures by name.

pub(crate) mod balance;
mod bounce;
mod capture_file;
mod capture_live;
mod count_file;
mod dpdk;
mod generate;
mod handoff;
mod hash;
mod idle;
mod inject;
mod instrumentation;
mod kept_up;
mod latency;
mod nicsim;
mod rival;
mod run;
mod send;
mod sharing;
mod startup;
mod view;
mod xdp_receive;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_engine::Mode;

use crate::compared::Outcome;
use crate::contenders;
use crate::threads::Cores;
pub use rival::sources_of;
pub use run::{Done, run, table};

/// What every figure is told.
pub struct Context {
    /// Tiny sizes, no figures.
    pub smoke: bool,
    /// Long live runs.
    pub full: bool,
    /// Measured runs a side.
    pub runs: usize,
    /// Where to run.
    pub cores: Cores,
    /// Raised when the user wants an end.
    pub stop: Arc<AtomicBool>,
}

impl Context {
    /// Measured runs a side where each is a process that has to be started.
    fn process_runs(&self) -> usize {
        if self.smoke { 1 } else { self.runs }
    }
}

/// A comparison that can be made.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Makes it; takes the name. The error says why it could not be made, or what went wrong.
    pub measure: fn(&Context, &str) -> Result<Outcome, String>,
}

/// All of them, in the order in which they are measured.
pub fn all() -> Vec<Entry> {
    let mut all = vec![
        Entry { name: "handoff-60", measure: handoff::against_pool::<60> },
        Entry { name: "handoff-1514", measure: handoff::against_pool::<1514> },
        Entry { name: "handoff-60-lean", measure: handoff::against_lean::<60> },
        Entry { name: "handoff-1514-lean", measure: handoff::against_lean::<1514> },
        Entry { name: "handoff-60-bare", measure: handoff::against_bare::<60> },
        Entry { name: "handoff-1514-bare", measure: handoff::against_bare::<1514> },
        Entry { name: "hash-64", measure: hash::measure },
        Entry { name: "hash-64-inner", measure: hash::measure },
        Entry { name: "hash-64-ip", measure: hash::measure },
        Entry { name: "hash-64-rss", measure: hash::measure },
        Entry { name: "balance-hash-64", measure: hash::spread },
        Entry { name: "balance-copy-64", measure: balance::measure },
        Entry { name: "balance-share-64", measure: balance::measure },
        Entry { name: "balance-crossover", measure: balance::crossover },
        Entry { name: "stalled-worker", measure: balance::stalled },
        Entry { name: "cross-process-60", measure: sharing::cross_process },
        Entry { name: "share-readers-1", measure: sharing::readers::<1> },
        Entry { name: "share-readers-4", measure: sharing::readers::<4> },
        Entry { name: "share-readers-1-copy", measure: sharing::readers_of_copies::<1> },
        Entry { name: "share-readers-4-copy", measure: sharing::readers_of_copies::<4> },
        Entry { name: "stopped-reader", measure: sharing::stopped },
        Entry { name: "merge-4x64", measure: view::measure },
        Entry { name: "merge-4x64-bursts", measure: view::measure },
        Entry { name: "merge-4x64-idle", measure: view::measure },
        Entry { name: "merge-4x64-one-core", measure: view::measure },
        Entry { name: "nicsim-rx-64", measure: nicsim::receive },
        Entry { name: "nicsim-rx-contiguous-64", measure: nicsim::receive },
        Entry { name: "nicsim-bounce-64", measure: nicsim::bounce },
        Entry { name: "append-latency", measure: latency::measure },
        Entry { name: "count-file-tcpdump", measure: count_file::against_tcpdump },
        Entry { name: "count-file-capinfos", measure: count_file::against_capinfos },
        Entry { name: "xdp-rx-testpmd", measure: xdp_receive::rate },
        Entry { name: "xdp-cycles-testpmd", measure: xdp_receive::cycles },
        Entry { name: "xdp-cycles-testpmd-paced", measure: xdp_receive::cycles_paced },
        Entry { name: "capture-tcpdump", measure: capture_live::against_tcpdump },
        Entry { name: "capture-tcpdump-fast", measure: capture_live::against_tcpdump_fast },
        Entry { name: "capture-dumpcap", measure: capture_live::against_dumpcap },
        Entry { name: "capture-dumpcap-fast", measure: capture_live::against_dumpcap_fast },
        Entry { name: "idle-cpu", measure: idle::measure },
        Entry { name: "generate-log-64", measure: generate::fixed },
        Entry { name: "generate-log-64-flows", measure: generate::varied },
        Entry { name: "pacing", measure: generate::pacing },
        Entry { name: "pacing-xdp", measure: generate::pacing_xdp },
        Entry { name: "bounce-64", measure: bounce::against_testpmd::<60> },
        Entry { name: "bounce-1514", measure: bounce::against_testpmd::<1514> },
        Entry { name: "generate-xdp-testpmd", measure: send::xdp },
        Entry { name: "generate-afpacket-trafgen", measure: send::afpacket },
        Entry { name: "inject-64", measure: inject::measure },
        Entry { name: "instrumentation-xdp-64", measure: instrumentation::live },
        Entry { name: "instrumentation-memory-64", measure: instrumentation::in_memory },
        Entry {
            name: "startup-loss-adaptive",
            measure: |context, _| startup::measure(context, "adaptive"),
        },
        Entry {
            name: "startup-loss-busy",
            measure: |context, _| startup::measure(context, "busy"),
        },
    ];
    all.extend(dpdk::FIGURES);
    all
}

/// Does a piece of a figure's work so many times over and nothing else, for
/// [`instructions`](crate::instructions).
///
/// # Errors
/// There is no such piece, or it went wrong.
pub fn do_rounds(piece: &str, rounds: u64) -> Result<(), String> {
    match piece {
        "append" => hash::do_rounds(false, rounds),
        "spread" => hash::do_rounds(true, rounds),
        "balance-copy-64" => balance::do_rounds(Mode::Copy, rounds),
        "balance-share-64" => balance::do_rounds(Mode::Share, rounds),
        _ => dpdk::do_rounds(piece, rounds)
            .or_else(|| contenders::merge_rounds(piece, rounds))
            .unwrap_or_else(|| Err(format!("no piece of work is called `{piece}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_in_this_process_runs_and_both_sides_agree() {
        let stop = Arc::new(AtomicBool::new(false));
        let context = Context { smoke: true, full: false, runs: 1, cores: Cores::allowed(), stop };
        let is_in_process = |entry: &Entry| {
            let kinds = [
                "handoff",
                "append",
                "hash",
                "merge",
                "balance",
                "stalled",
                "nicsim",
                "instrumentation-memory",
            ];
            let is_dpdk = ["dpdk-pipeline", "dpdk-balance", "dpdk-merge"]
                .iter()
                .any(|k| entry.name.starts_with(k));
            kinds.iter().any(|kind| entry.name.starts_with(kind))
                || cfg!(feature = "dpdk") && is_dpdk && !entry.name.ends_with("-live")
        };
        for entry in all().into_iter().filter(is_in_process) {
            let outcome = (entry.measure)(&context, entry.name);
            assert!(matches!(outcome, Ok(Outcome::Smoke)), "{}: {outcome:?}", entry.name);
        }
    }
}
