//! The report of a capture: combines the threads' counts and checks them against each other.

use burstline_port::{InterfaceTotals, Loss, Losses, PortAccount, PortTable, Sink};

use super::in_place;
use super::merge::{self, Merged};
use crate::merge::MergeReport;
use crate::report::Ending;
use crate::runtime::logs::gaps::totals_of;
use crate::runtime::logs::receive::{Took, stage_name};
use crate::runtime::logs::record::Recorded;
use crate::runtime::{Done, Owners, Tally, tally_of_log};
use crate::{Inlet, PortReport, Report, StageReport};

/// The counts of all threads.
pub(super) struct Summary {
    /// Packets appended to a log, by source.
    received: Vec<u64>,
    /// The source of each interface.
    owners: [u8; PortTable::MAX_ENTRIES],
    /// Number of interfaces.
    interfaces: usize,
    /// By receive thread; source i belongs to thread i modulo their number.
    threads: Vec<Done<Took>>,
    pub(super) recorded: Done<Recorded>,
    /// The outcome of the merge, if the sources were merged.
    merged: Option<Merged>,
    /// One thread did everything, without a log.
    pub(super) is_in_place: bool,
}

/// A source's share of the recorder's counts by interface.
struct Part {
    written: Tally,
    lost: Losses,
    /// Packets overwritten in its log before the recorder had read them, or expired.
    missed: u64,
}

/// Packets of one log that the recorder did not see and that are not assigned to a source yet.
#[derive(Clone, Debug, Default)]
struct Unasked {
    unseen: u64,
    expired: u64,
}

impl Unasked {
    /// Returns how many of a source's `unseen` packets had expired. The log's numbers are exact. If
    /// several sources share a log that was also too slow, each gets a proportional share.
    fn share(&mut self, unseen: u64) -> u64 {
        let all = u128::from(self.unseen.max(1));
        let share = u128::from(self.expired.min(self.unseen)) * u128::from(unseen) / all;
        let share = share as u64; // at most `unseen`
        self.unseen -= unseen;
        self.expired -= share;
        share
    }
}

impl Summary {
    pub(super) fn new(
        sources: &[Inlet],
        threads: Vec<Done<Took>>,
        recorded: Done<Recorded>,
        merged: Option<Merged>,
        interfaces: usize,
    ) -> Self {
        let mut received = vec![0; sources.len()];
        for &(source, packets) in threads.iter().flat_map(|done| &done.outcome.received) {
            received[source] += packets;
        }
        let owners = threads.iter().map(|done| done.outcome.owners.clone());
        let owners = Owners::merge(sources, owners);
        Self { received, owners, interfaces, threads, recorded, merged, is_in_place: false }
    }

    /// Returns the totals of each interface. Losses of a source, and packets of it that a lapped
    /// recorder missed, belong to the source. An interface gets these losses only if it is the
    /// source's only one.
    pub(super) fn totals(&self, sources: &[Inlet]) -> Vec<InterfaceTotals> {
        let recorded = &self.recorded.outcome;
        let owners = &self.owners[..self.interfaces];
        let interface = |(port, seen): (usize, &Tally)| {
            let owner = usize::from(owners[port]);
            let (port, lost) = (port as u8, recorded.lost(port).total());
            if self.owned_by(owner).count() != 1 {
                let received = Some(seen.packets);
                return InterfaceTotals { port, received, lost, ..InterfaceTotals::default() };
            }
            let overrun = self.received[owner].saturating_sub(seen.packets);
            let mut account = sources[owner].port.account();
            self.add_merged(owner, &mut account);
            totals_of(&account, port, overrun + lost)
        };
        recorded.seen.iter().enumerate().take(self.interfaces).map(interface).collect()
    }

    /// Returns the job's report, without memory and places.
    pub(super) fn report(self, sources: &[Inlet], sink: &dyn Sink, mut ending: Ending) -> Report {
        self.threads.iter().for_each(|done| ending.add(done));
        self.leader().into_iter().for_each(|done| ending.add(done));
        ending.add(&self.recorded);
        ending.span = self.recorded.outcome.span;
        ending.bytes_copied = sink.account().bytes_copied;
        if self.merged.is_some() && self.leader().is_none() {
            ending.bytes_copied += self.threads.iter().map(|d| d.outcome.log.bytes).sum::<u64>();
        }
        let mut missed_by_log = vec![0; self.threads.len()];
        let mut ports = Vec::new();
        let mut unasked = self.unasked();
        for (index, source) in sources.iter().enumerate() {
            let part = self.part_of(index, &mut unasked);
            missed_by_log[index % self.threads.len()] += part.missed;
            let mut account = source.port.account();
            self.add_merged(index, &mut account);
            ending.bytes_copied += account.bytes_copied;
            let name = &source.port.info().name;
            ports.push(PortReport::new(name, &account, &part.written, &part.lost));
        }
        let mut report = Report::new(ports, &ending);
        self.check(&mut report, sink, &missed_by_log);
        report.merge = self.merged(&report);
        report.stages = self.stages(ending.elapsed_ns, sink);
        report.hear(sources);
        report.hear_port(sink);
        report.errors.extend(self.threads.into_iter().flat_map(|done| done.outcome.errors));
        report.errors.extend(self.recorded.outcome.error);
        report.tell_left_out();
        report
    }

    /// Returns the cost of the merging thread, if it only named packets of others' logs.
    fn leader(&self) -> Option<&Done<()>> {
        self.merged.as_ref().and_then(|merged| merged.leader.as_ref())
    }

    /// Adds packets that a source lent and the merging thread did not pass on to those in flight.
    fn add_merged(&self, source: usize, account: &mut PortAccount) {
        if let Some(merged) = &self.merged {
            account.in_flight += merged.in_hand[source];
            account.truncated += merged.cut[source];
        }
    }

    /// Returns the report of a merge, if it was one.
    fn merged(&self, report: &Report) -> Option<MergeReport> {
        let merged = self.merged.as_ref()?;
        let cpu_ns = self.threads.iter().map(|done| done.cost.cpu_ns).sum::<u64>();
        let cpu_ns = cpu_ns + self.recorded.cost.cpu_ns;
        let cpu_ns = cpu_ns + self.leader().map_or(0, |done| done.cost.cpu_ns);
        Some(MergeReport::new(merged.ports.clone(), merged.lateness_ns, cpu_ns, report))
    }

    /// Returns the packets of each log that the recorder did not see, and how many had expired.
    fn unasked(&self) -> Vec<Unasked> {
        let mut unasked = vec![Unasked::default(); self.threads.len()];
        for (log, expired) in unasked.iter_mut().zip(&self.recorded.outcome.expired) {
            log.expired = *expired;
        }
        for (source, &received) in self.received.iter().enumerate() {
            let seen = self.owned_by(source).map(|port| self.recorded.outcome.seen[port].packets);
            let log = &mut unasked[source % self.threads.len()];
            log.unseen += received.saturating_sub(seen.sum());
        }
        unasked
    }

    /// Returns the interfaces of a source.
    fn owned_by(&self, source: usize) -> impl Iterator<Item = usize> {
        let owners = self.owners[..self.interfaces].iter().enumerate();
        owners.filter(move |&(_, &owner)| usize::from(owner) == source).map(|(port, _)| port)
    }

    fn part_of(&self, source: usize, unasked: &mut [Unasked]) -> Part {
        let (mut seen, mut written) = (Tally::default(), Tally::default());
        let mut lost = Losses::default();
        for port in self.owned_by(source) {
            seen.add(&self.recorded.outcome.seen[port]);
            written.add(&self.recorded.outcome.written(port));
            lost.merge(&self.recorded.outcome.lost(port));
        }
        let missed = self.received[source].saturating_sub(seen.packets);
        let expired = unasked[source % self.threads.len()].share(missed);
        for (cause, packets) in [(Loss::Expired, expired), (Loss::ReaderOverrun, missed - expired)]
        {
            if packets > 0 {
                lost.add(cause, packets);
            }
        }
        Part { written, lost, missed }
    }

    /// Compares the counts with those of each log and of the sink, which were made independently.
    fn check(&self, report: &mut Report, sink: &dyn Sink, missed_by_log: &[u64]) {
        let sink = sink.account();
        let by_sink = sink.offered as i64 - sink.lost.total() as i64 - sink.in_flight as i64;
        let mut pairs = vec![("packets written", report.total.delivered as i64, by_sink)];
        for (number, done) in self.threads.iter().enumerate() {
            let took = &done.outcome;
            let received: u64 = took.received.iter().map(|&(_, packets)| packets).sum();
            pairs.push(("packets in a log", received as i64, took.log.packets as i64));
            let expired = self.recorded.outcome.expired.get(number).unwrap_or(&0);
            let (ours, theirs) =
                (missed_by_log[number], self.recorded.outcome.missed[number] + expired);
            pairs.push(("packets missed by the recorder", ours as i64, theirs as i64));
        }
        for (what, ours, theirs) in pairs {
            if ours != theirs {
                report.total.unaccounted += ours - theirs;
                report.notes.push(format!("{what}: one counter says {ours}, another {theirs}"));
            }
        }
    }

    fn stages(&self, elapsed_ns: u64, sink: &dyn Sink) -> Vec<StageReport> {
        let recorded = &self.recorded.outcome;
        let (mut seen, written) = (Tally::default(), recorded.total());
        recorded.seen.iter().for_each(|tally| seen.add(tally));
        let count = self.threads.len();
        let receive = |(number, done): (usize, &Done<Took>)| {
            let took = &done.outcome;
            let mut through = tally_of_log(&took.log);
            if count == 1 {
                // Truncation is known only by interface, so for a thread only if there is just one.
                through.wire_bytes = seen.wire_bytes;
            }
            let name = match &self.merged {
                Some(Merged { leader: None, .. }) => merge::STAGE.to_owned(),
                _ => stage_name(number, count),
            };
            let mut stage = done.cost.report(&name, elapsed_ns, &through);
            (stage.packets_in, stage.lost) = (through.packets + took.lost, took.lost);
            stage
        };
        let lost_by_sources = || self.threads.iter().map(|done| done.outcome.lost).sum();
        let (name, receivers, mut missed) = match self.is_in_place {
            true => (in_place::STAGE, &[][..], lost_by_sources()),
            false => ("record", &self.threads[..], 0),
        };
        let mut stages: Vec<_> = receivers.iter().enumerate().map(receive).collect();
        if let Some(merged) = &self.merged {
            if merged.is_one_thread {
                return stages;
            }
            if let Some(leader) = &merged.leader {
                let stage = leader.cost.report(merge::STAGE, elapsed_ns, &seen);
                let (packets_in, packets_out) = (merged.packets, merged.packets);
                stages.push(StageReport { packets_in, packets_out, ..stage });
            }
        }
        missed += recorded.missed.iter().sum::<u64>();
        let mut record = self.recorded.cost.report(name, elapsed_ns, &seen);
        record.packets_in = seen.packets + missed;
        record.packets_out = written.packets;
        record.lost = missed + sink.account().lost.total() + recorded.refused();
        let high_water = self.threads.iter().map(|done| done.outcome.log.segments_high_water);
        record.high_water = high_water.max().unwrap_or(0).into();
        stages.push(record);
        stages
    }
}
