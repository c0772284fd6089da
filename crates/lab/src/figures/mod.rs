//! Runs the figures by name.

mod entry;
mod first_packet;
mod idle;
mod in_memory;
mod inject;
mod inline;
mod instrumentation;
mod kept_up;
mod of_files;
mod pacing;
mod run;
mod sensors;
mod startup;
mod switched;
mod view;

use in_memory::{hash, latency, nicsim, sharing, stalled};
use of_files::{asking, capture_file, count_file, flowing, indexed, python, recording};

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use burstline_testbed::{Amount, Bed};

use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contenders::{self, Sample};
use crate::contest::{Rounds, alternate};
use crate::live::{programs, watched};
use crate::record::{Interface, Pages};
use crate::scenario::machine::{Served, on_hosts};
use crate::threads::Cores;
pub use entry::{Entry, all, sources_of, sources_of_work};
pub use run::{Done, run, table};

/// The settings for all figures.
pub struct Context {
    /// Use tiny sizes and report no figures.
    pub smoke: bool,
    /// Make long live runs.
    pub full: bool,
    /// Measured runs per side.
    pub runs: usize,
    /// The cores to run on.
    pub cores: Cores,
    /// Set when the user stops the run.
    pub stop: Arc<AtomicBool>,
    /// What was seen of a figure whose turns return only a number.
    pub seen: Seen,
}

/// What was seen of a figure's turns.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Had>);

#[derive(Debug, Default)]
struct Had {
    /// The interfaces that packets went through.
    interfaces: Vec<Interface>,
    /// The pages of the programs of ours and of the peer; no bytes if none was seen.
    pages: [Option<Pages>; 2],
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Had> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // each part is replaced as a whole
    }
}

/// A comparison that has begun. Other programs' load of the machine is measured from then on.
struct Comparison<'c> {
    context: &'c Context,
    conditions: Conditions,
}

impl Comparison<'_> {
    /// Returns the outcome of one value per turn, as [`Compared::of`] does. Adds the conditions to
    /// the details. In a smoke run, only success counts.
    fn outcome(
        self,
        unit: &'static str,
        better: Better,
        rounds: Rounds,
        details: Vec<String>,
    ) -> Outcome {
        self.measured(details, |details| Compared::of(unit, better, rounds, details))
    }

    /// The same of several metrics per turn, as [`Compared::of_samples`] does.
    fn outcome_of_samples(
        self,
        metric: &'static str,
        better: Better,
        rounds: Rounds<Sample>,
        details: Vec<String>,
    ) -> Outcome {
        self.measured(details, |details| Compared::of_samples(metric, better, rounds, details))
    }

    fn measured(
        self,
        mut details: Vec<String>,
        compared: impl FnOnce(Vec<String>) -> Compared,
    ) -> Outcome {
        if self.context.smoke {
            return Outcome::Smoke;
        }
        details.extend(self.conditions.report());
        Outcome::Measured(compared(details))
    }
}

/// Interval between looks at the pages of a side, some of which live for a few ms.
const LOOK: Duration = Duration::from_millis(2);

impl Context {
    /// Begins a comparison.
    fn begin(&self) -> Comparison<'_> {
        Comparison { context: self, conditions: Conditions::watch(self.cores) }
    }

    /// Runs both sides as [`alternate`] does.
    fn alternate<T>(
        &self,
        runs: usize,
        ours: impl FnMut() -> Result<T, String>,
        peer: impl FnMut() -> Result<T, String>,
    ) -> Result<Rounds<T>, String> {
        alternate(runs, &self.stop, ours, peer)
    }

    /// Looks at the interfaces of a turn's hosts, after its first turn. `before` is from before its
    /// packets came.
    fn look_at(&self, bed: &Bed, before: &Served) {
        let mut seen = self.seen.lock();
        if seen.interfaces.is_empty() {
            seen.interfaces = on_hosts(bed, before);
        }
    }

    /// Runs both sides, whose turns start programs, as [`alternate`] does.
    fn turns<T>(
        &self,
        runs: usize,
        mut ours: impl FnMut() -> Result<T, String>,
        mut peer: impl FnMut() -> Result<T, String>,
    ) -> Result<Rounds<T>, String> {
        let ours = || self.turn(0, &mut ours);
        self.alternate(runs, ours, || self.turn(1, &mut peer))
    }

    /// Does a turn. In the first of a side, looks at the pages of the programs that it starts.
    fn turn<T>(&self, side: usize, work: impl FnOnce() -> T) -> T {
        if self.seen.lock().pages[side].is_some() {
            return work();
        }
        let (done, pages) = watched(LOOK, programs, work);
        self.saw(side, || pages);
        done
    }

    /// Keeps the pages of a side's first turn.
    fn saw(&self, side: usize, pages: impl FnOnce() -> Pages) {
        self.seen.lock().pages[side].get_or_insert_with(pages);
    }

    /// Returns what to inject in a turn: in a smoke run this many frames, else for this long.
    fn amount(&self, frames: u64, time: Duration) -> Amount {
        if self.smoke { Amount::Frames(frames) } else { Amount::Time(time) }
    }

    /// Measured runs a side where each is a process that has to be started.
    fn process_runs(&self) -> usize {
        if self.smoke { 1 } else { self.runs }
    }
}

impl Entry {
    /// Measures the figure.
    ///
    /// # Errors
    /// If this machine lacks something, or the measurement fails.
    pub(crate) fn measure(&'static self, context: &Context) -> Result<Outcome, String> {
        if self.scenario.is_some() {
            return view::measure(context, self);
        }
        let name = self.name.as_str();
        match name {
            "hash-64" | "hash-64-inner" | "hash-64-ip" | "hash-64-rss" => {
                hash::measure(context, name)
            }
            "balance-hash-64" => hash::spread(context, name),
            "stalled-worker" => stalled::measure(context),
            "cross-process-60" => sharing::cross_process(context),
            "share-readers-1" | "share-readers-1-copy" => sharing::readers::<1>(context, name),
            "share-readers-4" | "share-readers-4-copy" => sharing::readers::<4>(context, name),
            "stopped-reader" => sharing::stopped(context),
            "nicsim-rx-64" | "nicsim-rx-contiguous-64" => nicsim::receive(context, name),
            "nicsim-bounce-64" => nicsim::bounce(context, name),
            "append-latency" => latency::measure(context),
            "core-distance" => latency::distance(context),
            "count-file-tcpdump" => count_file::against_tcpdump(context),
            "count-file-capinfos" => count_file::against_capinfos(context),
            "python-scapy" | "python-dpkt" => python::measure(context, name),
            "flows-1k" | "flows-1m" => flowing::in_memory(context, name),
            "flows-softflowd" => flowing::against_softflowd(context),
            "flows-softflowd-limit" => flowing::limit_beside_softflowd(context),
            "flows-nfpcapd" => flowing::against_nfpcapd(context),
            "query-nfdump" => asking::measure(context),
            "record-dd" => recording::against_dd(context),
            "record-cpu" => recording::processor_time(context),
            "record-index" => indexed::measure(context),
            "extract-flow-tshark" | "extract-flow-tcpdump" => recording::flow(context, name),
            "extract-window" => recording::window(context),
            "file-overhead" => recording::overhead(context),
            "idle-cpu" => idle::measure(context),
            "pacing" => pacing::measure(context),
            "pacing-xdp" => pacing::measure_xdp(context),
            "inject-64" => inject::measure(context),
            "inline-cost" => inline::measure(context),
            "instrumentation-xdp-64" => instrumentation::live(context),
            "instrumentation-memory-64" => instrumentation::in_memory(context),
            "switch-64-ovs-dpdk" | "switch-64-io" | "switch-1k-flows" | "switch-100k-flows"
            | "memif-64" => switched::measure(context, name),
            "tap-iperf-ovs-dpdk" | "tap-iperf-bridge" => switched::measure_taps(context, name),
            "guest-iperf-ovs-dpdk" => switched::measure_guests(context),
            "switch-idle-cpu" => switched::measure_idle(context),
            "start-first-packet" => first_packet::measure(context),
            "startup-loss-adaptive" => startup::measure(context, "adaptive"),
            "startup-loss-busy" => startup::measure(context, "busy"),
            "pcap-tcpdump" => sensors::one_tcpdump(context),
            "pcap-four-readers" => sensors::four_readers(context),
            "matcher-contiguous" => sensors::match_contents(context),
            "suricata-afpacket" => sensors::suricata(context, 1),
            "suricata-fanout" => sensors::suricata(context, 2),
            "suricata-inline" => sensors::suricata_inline(context),
            _ => Err(format!("no code measures {name}")),
        }
    }
}

/// Repeats a piece of a figure's work this many times and does nothing else, for
/// [`instructions`](crate::instructions).
///
/// # Errors
/// If the piece is unknown or fails.
pub fn do_rounds(piece: &str, rounds: u64) -> Result<(), String> {
    match piece {
        "append" => hash::do_rounds(false, rounds),
        "spread" => hash::do_rounds(true, rounds),
        "record-indexed" => indexed::do_rounds(true, rounds),
        "record-bare" => indexed::do_rounds(false, rounds),
        _ => contenders::do_rounds(piece, rounds)
            .unwrap_or_else(|| Err(format!("no piece of work is called `{piece}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_in_this_process_runs_and_both_sides_agree() {
        let stop = Arc::new(AtomicBool::new(false));
        let context = Context {
            smoke: true,
            full: false,
            runs: 1,
            cores: Cores::allowed(),
            stop,
            seen: Seen::default(),
        };
        let is_in_process = |entry: &Entry| {
            let kinds = [
                "handoff",
                "append",
                "core-distance",
                "hash",
                "merge",
                "balance",
                "stalled",
                "nicsim",
                "instrumentation-memory",
                "flows-1",
                "record-index",
            ];
            let is_dpdk = ["dpdk-pipeline", "dpdk-balance", "dpdk-merge"]
                .iter()
                .any(|k| entry.name.starts_with(k));
            kinds.iter().any(|kind| entry.name.starts_with(kind))
                || cfg!(feature = "dpdk") && is_dpdk && !entry.name.ends_with("-live")
        };
        for entry in all().iter().filter(|entry| is_in_process(entry)) {
            let outcome = entry.measure(&context);
            let is_between_cores = ["append-latency", "core-distance"].contains(&&*entry.name);
            let takes_two = !context.cores.are_two() && is_between_cores;
            let is_as_expected = match outcome {
                Ok(Outcome::Smoke) => !takes_two,
                Ok(Outcome::NotHere(_)) => takes_two,
                _ => false,
            };
            assert!(is_as_expected, "{}: {outcome:?}", entry.name);
            let Had { pages, .. } = std::mem::take(&mut *context.seen.lock());
            assert_eq!(pages, [None; 2], "{}: both are in one process", entry.name);
        }
    }
}
