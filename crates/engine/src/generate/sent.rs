//! The results of a sender at its end, and the report made from them.

use burstline_port::{Losses, PortAccount};
use hdrhistogram::Histogram;

use super::lane::SinkBooks;
use super::{Generated, Limit};
use crate::report::Ending;
use crate::runtime::{Done, Span, Tally};
use crate::{EngineError, Inlet, Latency, PortReport, Report};

/// The fraction of a requested rate that counts as reaching it; the first and last packet may
/// account for the rest.
const KEPT: f64 = 0.99;

/// The results of the thread; its sinks count the packets they were given.
pub(super) struct Sent {
    pub(super) span: Span,
    /// When the first packet was due, and when the last one had been sent: monotonic clock.
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: u64,
    /// Time spent making packets, and sending them.
    pub(super) making_ns: u64,
    pub(super) sending_ns: u64,
    pub(super) lateness: Histogram<u64>,
    pub(super) error: Option<EngineError>,
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            span: Span::default(),
            first_ns: None,
            last_ns: 0,
            making_ns: 0,
            sending_ns: 0,
            lateness: crate::verify::histogram(),
            error: None,
        }
    }
}

/// Creates the report of what was sent.
pub(super) fn conclude(
    done: Done<Sent>,
    stage: &'static str,
    source: &Inlet,
    lanes: &SinkBooks,
    mut ending: Ending,
) -> Generated {
    ending.add(&done);
    let (cost, mut sent) = (done.cost, done.outcome);
    let mut account = source.port.account();
    // Packets that were due and not made are not in the ledger.
    account.offered -= std::mem::take(&mut account.in_flight);
    let given: Vec<PortAccount> = lanes.all.iter().map(|lane| lane.sink.account()).collect();
    let (copied, source_copied) =
        (given.iter().map(|given| given.bytes_copied).sum::<u64>(), account.bytes_copied);
    let source_lost = account.lost.total();
    let offered = account.offered;
    let rows = rows(source, account, lanes, &given);
    ending.span = sent.span;
    ending.bytes_copied = source_copied + copied;
    let mut report = Report::new(rows, &ending);
    let (ours, theirs) =
        (lanes.made().packets, given.iter().map(|given| given.offered).sum::<u64>());
    // With one sink the row uses the source's count, with several each sink's own.
    let counted = if lanes.all.len() == 1 { ours } else { offered - source_lost };
    if counted != theirs {
        report.total.unaccounted += counted as i64 - theirs as i64;
        report.notes.push(format!(
            "packets given to the sink: one counter says {counted}, another {theirs}"
        ));
    }
    let taken = lanes.taken();
    let mut cost = cost.report(stage, ending.elapsed_ns, &taken);
    cost.packets_in = ours;
    let mut lost = Losses::default();
    given.iter().for_each(|given| lost.merge(&given.lost));
    cost.lost = lost.total();
    report.stages.push(cost);
    report.hear(std::slice::from_ref(source));
    lanes.all.iter().for_each(|lane| report.hear_port(&*lane.sink));

    let pacing = source.port.pacing();
    // One packet has no rate.
    let has_rate = |pps: &f64| *pps > 0.0 && ours > 1;
    let asked_pps = pacing.map(|pacing| pacing.packets_per_s).filter(has_rate);
    let reached_pps = sent.reached_pps(ours);
    report.errors.extend(sent.error.take());
    Generated {
        stage,
        report,
        asked_pps,
        reached_pps,
        limit: asked_pps.filter(|asked| reached_pps < asked * KEPT).map(|_| sent.limit(&lost)),
        lateness: pacing.map(|_| Latency::of(&sent.lateness)),
    }
}

impl Sent {
    /// Returns the achieved rate. Each packet but the first ends an interval.
    fn reached_pps(&self, made: u64) -> f64 {
        let span_ns = self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns));
        match span_ns {
            0 => 0.0,
            _ => made.saturating_sub(1).max(1) as f64 * 1e9 / span_ns as f64,
        }
    }

    /// Returns the limit that took longer, or the sink if it refused packets.
    fn limit(&self, lost: &Losses) -> Limit {
        match lost.missing() > 0 || self.sending_ns > self.making_ns {
            true => Limit::Sink,
            false => Limit::Core,
        }
    }
}

/// Returns one row for the source and its only sink. With several sinks, returns one for each and
/// one for packets that the source gave to none.
fn rows(
    source: &Inlet,
    account: PortAccount,
    lanes: &SinkBooks,
    given: &[PortAccount],
) -> Vec<PortReport> {
    let from = &source.port.info().name;
    let row = |at: usize, account: PortAccount| {
        let (lane, given) = (&lanes.all[at], &given[at]);
        let name = format!("{from} > {}", lane.sink.info().name);
        let mut taken = lane.taken();
        let account = PortAccount { in_flight: given.in_flight, ..account };
        taken.packets -= given.in_flight.min(taken.packets);
        PortReport::new(&name, &account, &taken, &given.lost)
    };
    if given.len() == 1 {
        return vec![row(0, account)];
    }
    let of_sink = |at: usize| PortAccount {
        offered: given[at].offered,
        truncated: given[at].truncated,
        ..PortAccount::default()
    };
    let mut rows: Vec<PortReport> = (0..given.len()).map(|at| row(at, of_sink(at))).collect();
    if account.lost.total() > 0 {
        let offered = account.lost.total();
        let kept = PortAccount { offered, lost: account.lost, ..PortAccount::default() };
        rows.push(PortReport::new(from, &kept, &Tally::default(), &Losses::default()));
    }
    rows
}
