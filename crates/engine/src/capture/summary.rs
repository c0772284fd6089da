//! What came of a capture: the threads' counts put together, and held against each other.

use burstline_log::Log;
use burstline_port::{InterfaceTotals, Loss, LossPlace, Losses, Port, PortAccount, PortTable};
use burstline_sys::usage;

use super::receive::Took;
use super::record::Recorded;
use super::{in_place, merge, stage_name};
use crate::job::{Owners, Source};
use crate::merge::MergeReport;
use crate::report::{Ending, MemoryReport};
use crate::stage::Usage;
use crate::tally::Tally;
use crate::{EngineError, PortReport, Report, StageReport};

/// All threads' counts.
pub(super) struct Summary {
    /// Packets appended to a log, by source.
    received: Vec<u64>,
    /// The source of each interface.
    owners: [u8; PortTable::MAX_ENTRIES],
    /// Interfaces there are.
    interfaces: usize,
    /// By receive thread; source i was thread i modulo their number's.
    threads: Vec<Took>,
    pub(super) recorded: Recorded,
    /// One thread did all.
    is_in_place: bool,
}

/// A source's part of what the recorder counted by interface.
struct Part {
    written: Tally,
    lost: Losses,
    /// Packets that its log took back before the recorder had read them, or that had expired.
    missed: u64,
}

/// What the recorder did not see of one log, as far as it is not given to a source yet.
#[derive(Clone, Debug, Default)]
struct Unasked {
    unseen: u64,
    expired: u64,
}

impl Unasked {
    /// How many of a source's `unseen` packets had expired. The log's numbers are exact; where
    /// several sources share a log that was also too slow, each gets its share of them.
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
        sources: &[Source],
        threads: Vec<Took>,
        recorded: Recorded,
        interfaces: usize,
        is_in_place: bool,
    ) -> Self {
        let mut received = vec![0; sources.len()];
        for &(source, packets) in threads.iter().flat_map(|took| &took.received) {
            received[source] += packets;
        }
        let owners = Owners::merge(sources, threads.iter().map(|took| took.owners.clone()));
        Self { received, owners, interfaces, threads, recorded, is_in_place }
    }

    /// What is known of each interface. What its source lost, and what a lapped recorder missed of
    /// it, belongs to the source; it is told of an interface only where the source has just one.
    pub(super) fn totals(&self, sources: &[Source]) -> Vec<InterfaceTotals> {
        let recorded = &self.recorded;
        let owners = &self.owners[..self.interfaces];
        let interface = |(port, (seen, written)): (usize, (&Tally, &Tally))| {
            let owner = usize::from(owners[port]);
            let (port, lost) = (port as u8, seen.packets - written.packets);
            if self.owned_by(owner).count() != 1 {
                let received = Some(seen.packets);
                return InterfaceTotals { port, received, lost, ..InterfaceTotals::default() };
            }
            let overrun = self.received[owner].saturating_sub(seen.packets);
            totals_of(&sources[owner].port.account(), port, overrun + lost)
        };
        let tallies = recorded.seen.iter().zip(&recorded.written).enumerate();
        tallies.take(self.interfaces).map(interface).collect()
    }

    /// The job's report, memory and places aside.
    pub(super) fn report(
        self,
        sources: &[Source],
        sink: &dyn Port,
        elapsed_ns: u64,
        usage: Usage,
    ) -> Report {
        let recorded = &self.recorded;
        let empty_ns: u64 = self.threads.iter().map(|took| took.cost.empty_ns).sum();
        let lost_first_second: u64 = self.threads.iter().map(|took| took.lost_first_second).sum();
        let mut ending = Ending {
            elapsed_ns,
            usage,
            empty_ns: empty_ns + recorded.cost.empty_ns,
            span: recorded.span,
            lost_first_second: lost_first_second + recorded.lost_first_second,
            bytes_copied: sink.account().bytes_copied,
        };
        let merged = self.threads.iter().filter(|took| took.merged.is_some());
        ending.bytes_copied += merged.map(|took| took.log.bytes).sum::<u64>();
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
        report.stages = self.stages(elapsed_ns, sink);
        report.hear(sources);
        report.hear_port(sink);
        report.errors.extend(self.threads.into_iter().flat_map(|took| took.errors));
        report.errors.extend(self.recorded.error);
        for cause in [Loss::LinkMismatch, Loss::TooLong] {
            let packets = report.total.lost.of(cause);
            if packets > 0 {
                report.errors.push(EngineError::LeftOut { packets, cause });
            }
        }
        report
    }

    /// What a source lent and the merging thread did not pass on is in flight.
    fn add_merged(&self, source: usize, account: &mut PortAccount) {
        for merged in self.threads.iter().filter_map(|took| took.merged.as_ref()) {
            account.in_flight += merged.in_hand[source];
            account.truncated += merged.cut[source];
        }
    }

    /// What there is to say of a merge, if it was one.
    fn merged(&self, report: &Report) -> Option<MergeReport> {
        let cpu_ns = self.threads.iter().map(|took| took.cost.cpu_ns).sum::<u64>();
        let cpu_ns = cpu_ns + self.recorded.cost.cpu_ns;
        let merged = self.threads.iter().find_map(|took| took.merged.as_ref())?;
        Some(MergeReport::new(merged.ports.clone(), merged.lateness_ns, cpu_ns, report))
    }

    /// What the recorder did not see of each log, and how much of that had expired.
    fn unasked(&self) -> Vec<Unasked> {
        let mut unasked = vec![Unasked::default(); self.threads.len()];
        for (log, expired) in unasked.iter_mut().zip(&self.recorded.expired) {
            log.expired = *expired;
        }
        for (source, &received) in self.received.iter().enumerate() {
            let seen = self.owned_by(source).map(|port| self.recorded.seen[port].packets);
            let log = &mut unasked[source % self.threads.len()];
            log.unseen += received.saturating_sub(seen.sum());
        }
        unasked
    }

    /// The interfaces of a source.
    fn owned_by(&self, source: usize) -> impl Iterator<Item = usize> {
        let owners = self.owners[..self.interfaces].iter().enumerate();
        owners.filter(move |&(_, &owner)| usize::from(owner) == source).map(|(port, _)| port)
    }

    fn part_of(&self, source: usize, unasked: &mut [Unasked]) -> Part {
        let (mut seen, mut written) = (Tally::default(), Tally::default());
        let mut lost = Losses::default();
        for port in self.owned_by(source) {
            seen.add(&self.recorded.seen[port]);
            written.add(&self.recorded.written[port]);
            lost.merge(&self.recorded.lost[port]);
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

    /// Holds our counts against those of each log and of the sink, which were made apart from
    /// them.
    fn check(&self, report: &mut Report, sink: &dyn Port, missed_by_log: &[u64]) {
        let sink = sink.account();
        let by_sink = sink.offered as i64 - sink.lost.total() as i64 - sink.in_flight as i64;
        let mut pairs = vec![("packets written", report.total.delivered as i64, by_sink)];
        for (number, took) in self.threads.iter().enumerate() {
            let received: u64 = took.received.iter().map(|&(_, packets)| packets).sum();
            pairs.push(("packets in a log", received as i64, took.log.packets as i64));
            let expired = self.recorded.expired.get(number).unwrap_or(&0);
            let (ours, theirs) = (missed_by_log[number], self.recorded.missed[number] + expired);
            pairs.push(("packets missed by the recorder", ours as i64, theirs as i64));
        }
        for (what, ours, theirs) in pairs {
            if ours != theirs {
                report.total.unaccounted += ours - theirs;
                report.notes.push(format!("{what}: {ours} by one count, {theirs} by another"));
            }
        }
    }

    fn stages(&self, elapsed_ns: u64, sink: &dyn Port) -> Vec<StageReport> {
        let sum = |tallies: &[Tally]| {
            let mut sum = Tally::default();
            tallies.iter().for_each(|tally| sum.add(tally));
            sum
        };
        let recorded = &self.recorded;
        let (seen, written) = (sum(&recorded.seen), sum(&recorded.written));
        let count = self.threads.len();
        let receive = |(number, took): (usize, &Took)| {
            let (packets, bytes) = (took.log.packets, took.log.bytes);
            // What was cut is known by interface only, so by thread where there is one.
            let wire_bytes = if count == 1 { seen.wire_bytes } else { bytes };
            let through = Tally { packets, bytes, wire_bytes };
            let name = match took.merged {
                Some(_) => merge::STAGE.to_owned(),
                None => stage_name(number, count),
            };
            let mut stage = took.cost.report(&name, elapsed_ns, &through);
            stage.packets_in = packets + took.lost;
            stage.lost = took.lost;
            stage
        };
        let (name, receivers, mut missed) = match self.is_in_place {
            true => (in_place::STAGE, &[][..], self.threads.iter().map(|took| took.lost).sum()),
            false => ("record", &self.threads[..], 0),
        };
        let mut stages: Vec<_> = receivers.iter().enumerate().map(receive).collect();
        let mut merged = self.threads.iter().filter_map(|took| took.merged.as_ref());
        if merged.any(|merged| merged.is_one_thread) {
            return stages;
        }
        missed += recorded.missed.iter().sum::<u64>();
        let mut record = recorded.cost.report(name, elapsed_ns, &seen);
        record.packets_in = seen.packets + missed;
        record.packets_out = written.packets;
        record.lost = missed + sink.account().lost.total() + recorded.lost_after_error;
        let high_water = self.threads.iter().map(|took| took.log.segments_high_water).max();
        record.high_water = high_water.unwrap_or(0).into();
        stages.push(record);
        stages
    }
}

/// What is known of the only interface of a source, of which the job has `lost` so many besides.
pub(crate) fn totals_of(account: &PortAccount, port: u8, lost: u64) -> InterfaceTotals {
    InterfaceTotals {
        port,
        received: Some(account.offered),
        missed: account.lost.at(LossPlace::Interface),
        lost: account.lost.at(LossPlace::Host) + lost,
        unwanted: account.lost.at(LossPlace::Nowhere),
    }
}

/// Says what memory the logs lie in; where they differ, the first one's.
pub(crate) fn describe_memory(report: &mut Report, logs: &[Log]) {
    let Some(first) = logs.first() else { return };
    let mut nodes: Vec<_> = logs.iter().flat_map(|log| log.placement().nodes.keys()).collect();
    nodes.dedup();
    report.memory = MemoryReport {
        page_bytes: first.placement().page_bytes,
        page_kind: first.placement().page.to_string(),
        node: if let [node] = nodes[..] { Some(*node) } else { None },
        log_bytes: logs.iter().map(|log| log.config().bytes).sum(),
        segment_bytes: first.config().segment_bytes,
        resident: usage::resident().unwrap_or_default(),
    };
    for note in logs.iter().flat_map(|log| &log.placement().notes) {
        if !report.memory_notes.contains(note) {
            report.memory_notes.push(note.clone());
        }
    }
}
