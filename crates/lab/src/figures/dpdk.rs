//! DPDK itself beside us, with the feature `dpdk`: its mbufs, mempools and rings in this process,
//! and its own program, testpmd.
//!
//! | figure | ours | peer |
//! |---|---|---|
//! | `dpdk-pipeline-N` | the log, filled in place | mbufs filled in place, a pointer ring |
//! | `dpdk-pipeline-N-pmd` | `dpdk:net_null` received into the log | net_null, the same ring |
//! | `dpdk-pipeline-live` | `xdp:` received into the log, live frames | net_af_xdp, the same ring |
//! | `dpdk-rtc-64` | `burstline count dpdk:net_null0` | `dpdk-testpmd` rxonly |
//! | `dpdk-bounce-64` | `burstline bounce dpdk:net_null0 dpdk:net_null1` | `dpdk-testpmd` io |
//! | `dpdk-balance-MODE-64` | the balancer's logs | the NUMA document's balancer on mbufs |
//!
//! Those of merging are points of the scenarios `burst-merge` and `burst-merge-live`.
//!
//! What comes of a figure in memory when frames come in by an interface, its end-to-end figure
//! says, and it prints which one that is:
//!
//! | in memory | end to end |
//! |---|---|
//! | `dpdk-pipeline-N`, `dpdk-pipeline-N-pmd` | `dpdk-pipeline-live` |
//! | `dpdk-rtc-64` | `xdp-rx-testpmd` |
//! | `dpdk-bounce-64` | `bounce-64` |
//!
//! In this process our log lies in transparent huge pages, and DPDK has reserved ones where enough
//! are free; testpmd is run without.

#[cfg(feature = "dpdk")]
mod balance;
#[cfg(feature = "dpdk")]
mod live;
#[cfg(feature = "dpdk")]
mod pipeline;
#[cfg(feature = "dpdk")]
mod programs;

use super::{Context, Entry, view};
use crate::compared::Outcome;

/// All of them.
pub(super) const FIGURES: [Entry; 12] = [
    Entry { name: "dpdk-pipeline-60", measure },
    Entry { name: "dpdk-pipeline-1514", measure },
    Entry { name: "dpdk-pipeline-60-pmd", measure },
    Entry { name: "dpdk-pipeline-1514-pmd", measure },
    Entry { name: "dpdk-pipeline-live", measure },
    Entry { name: "dpdk-rtc-64", measure },
    Entry { name: "dpdk-bounce-64", measure },
    Entry { name: "dpdk-merge-4x64", measure: view::measure },
    Entry { name: "dpdk-merge-4x64-ordered", measure: view::measure },
    Entry { name: "dpdk-merge-live", measure: view::measure },
    Entry { name: "dpdk-balance-copy-64", measure },
    Entry { name: "dpdk-balance-share-64", measure },
];

/// The figure that has live frames in place of those in memory, or of net_null's.
#[cfg(any(feature = "dpdk", test))]
fn end_to_end(name: &str) -> Option<&'static str> {
    match name {
        "dpdk-pipeline-live" => None,
        "dpdk-rtc-64" => Some("xdp-rx-testpmd"),
        "dpdk-bounce-64" => Some("bounce-64"),
        _ => name.starts_with("dpdk-pipeline").then_some("dpdk-pipeline-live"),
    }
}

#[cfg(feature = "dpdk")]
fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let mut outcome = measure_one(context, name)?;
    if let (Outcome::Measured(compared), Some(live)) = (&mut outcome, end_to_end(name)) {
        compared.details.insert(0, format!("end to end, with live frames: {live}"));
    }
    Ok(outcome)
}

#[cfg(feature = "dpdk")]
fn measure_one(context: &Context, name: &str) -> Result<Outcome, String> {
    match name {
        "dpdk-pipeline-live" => live::measure(context, name),
        "dpdk-rtc-64" => programs::run_to_completion(context, name),
        "dpdk-bounce-64" => programs::bounce(context, name),
        "dpdk-balance-copy-64" | "dpdk-balance-share-64" => balance::measure(context, name),
        _ => pipeline::measure(context, name),
    }
}

#[cfg(not(feature = "dpdk"))]
fn measure(_: &Context, _: &str) -> Result<Outcome, String> {
    Ok(Outcome::NotHere("libdpdk is missing: make dpdk".to_owned()))
}

/// A piece of a figure's work; `None`: no figure here has it.
pub(super) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    #[cfg(feature = "dpdk")]
    return pipeline::do_rounds(piece, rounds).or_else(|| balance::do_rounds(piece, rounds));
    #[cfg(not(feature = "dpdk"))]
    {
        let _ = (piece, rounds);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_an_end_to_end_figure_names_one_that_is_there() {
        let all = super::super::all();
        let named: Vec<_> = FIGURES.iter().filter_map(|entry| end_to_end(entry.name)).collect();
        assert!(named.iter().all(|name| all.iter().any(|entry| entry.name == *name)), "{named:?}");
        // All but the live one itself, the two balancers and the three merges.
        assert_eq!(named.len(), FIGURES.len() - 6);
    }
}
