//! The report of a balancer: combines the threads' counts and checks them against each other.

use burstline_log::Log;
use burstline_port::{InterfaceTotals, Loss, Losses, Sink};

use super::elephants::Herd;
use super::report::{BalanceReport, GroupReport, WorkerReport};
use super::spread::{FromSource, worker_of};
use super::{BalanceOptions, Balanced, Mode};
use crate::ledger::remainder;
use crate::report::Ending;
use crate::runtime::logs::gaps::{Origin, totals_of};
use crate::runtime::logs::receive::stage_name;
use crate::runtime::logs::record::Recorded;
use crate::runtime::{self, Owners, Tally};
use crate::{Inlet, PortReport, Report, StageReport};

/// Returns the totals of the interfaces that each worker saw, for its sink. Counts of packets
/// received and lost before spreading are those of the whole interface, the same for all workers.
pub(super) fn totals(sources: &[Inlet], done: &Balanced) -> Vec<Vec<InterfaceTotals>> {
    let origins = Origin::of_all(sources);
    let of_worker = |recorded: &Recorded| {
        let seen = recorded.seen.iter().enumerate().filter(|(_, seen)| seen.packets > 0);
        let totals = seen.map(|(port, seen)| {
            let (port, lost) = (port as u8, recorded.lost(port).total());
            let owner = origins.iter().position(|origin| origin.interface == Some(port));
            let Some(owner) = owner else {
                let received = Some(seen.packets);
                return InterfaceTotals { port, received, lost, ..InterfaceTotals::default() };
            };
            let missed = match &origins[..] {
                [_] => recorded.missed.iter().sum(),
                _ => 0,
            };
            totals_of(&sources[owner].port.account(), port, lost + missed)
        });
        totals.collect()
    };
    done.crew.readers.iter().map(|done| of_worker(&done.outcome)).collect()
}

/// Adds the node of each worker's logs to the report; each receive thread has made as many logs.
pub(super) fn describe_logs(report: &mut Report, logs: &[Log]) {
    let Some(balance) = &mut report.balance else { return };
    let each: usize = match balance.mode {
        Mode::Copy => balance.groups.iter().map(|group| group.workers.len()).sum(),
        Mode::Share => 1,
    };
    for worker in balance.groups.iter_mut().flat_map(|group| &mut group.workers) {
        let own = logs.iter().skip(worker.number % each).step_by(each);
        let mut nodes: Vec<_> = own.flat_map(|log| log.placement().nodes.keys().copied()).collect();
        nodes.dedup();
        worker.log_node = if let [node] = nodes[..] { Some(node) } else { None };
    }
}

/// Returns the job's report, without memory.
pub(super) fn report(
    options: &BalanceOptions,
    sources: &[Inlet],
    sinks: &[Box<dyn Sink>],
    done: Balanced,
    mut ending: Ending,
) -> Report {
    done.crew.front.iter().for_each(|took| ending.add(took));
    done.crew.readers.iter().for_each(|recorder| ending.add(recorder));
    for spread in &done.spread {
        ending.span.merge(&spread.span);
        ending.bytes_copied += spread.written.iter().map(|log| log.bytes).sum::<u64>();
    }
    ending.bytes_copied += sinks.iter().map(|sink| sink.account().bytes_copied).sum::<u64>();
    let groups = groups(options, sinks, &done);
    let (ports, unseen) = ports(options, sources, &done);
    let mut report = Report::new(ports, &ending);
    report.notes.extend(doubts(sinks, &groups));
    // Compares both counts of missed packets: by source, and by the logs' own numbers.
    for (number, (group, unseen)) in groups.iter().zip(unseen).enumerate() {
        let missed = group.lost.of(Loss::ReaderOverrun);
        report.total.unaccounted += group.unaccounted;
        if options.has_workers && missed != unseen {
            report.total.unaccounted += unseen as i64 - missed as i64;
            let note = format!(
                "group {number} missed packets: one counter says {unseen}, another {missed}"
            );
            report.notes.push(note);
        }
    }
    report.stages = stages(&done, ending.elapsed_ns);
    report.hear(sources);
    sinks.iter().for_each(|sink| report.hear_port(&**sink));
    let herds = done.spread.iter().map(|spread| &spread.herd);
    let workers_of = |hash| numbers_of(hash, &options.groups);
    let elephants = Herd::largest(herds, workers_of);
    let (mode, distribution) = (options.mode, options.distribution);
    report.balance = Some(BalanceReport { mode, distribution, groups, elephants });
    report.errors.extend(done.crew.front.into_iter().flat_map(|done| done.outcome.errors));
    report.errors.extend(done.crew.readers.into_iter().filter_map(|done| done.outcome.error));
    report.tell_left_out();
    report
}

/// Returns the worker of a hash in each group, by its number through all groups.
fn numbers_of(hash: u32, groups: &[usize]) -> Vec<usize> {
    let mut first = 0;
    let number = |&workers: &usize| {
        let number = first + worker_of(hash, workers);
        first += workers;
        number
    };
    groups.iter().map(number).collect()
}

fn groups(options: &BalanceOptions, sinks: &[Box<dyn Sink>], done: &Balanced) -> Vec<GroupReport> {
    let mut number = 0;
    let mut groups = Vec::new();
    for &workers in &options.groups {
        let mut group = GroupReport::default();
        for _ in 0..workers {
            let worker = worker(number, sinks.get(number).map(|sink| &**sink), done);
            group.offered += worker.offered;
            group.delivered += worker.delivered;
            group.lost.merge(&worker.lost);
            group.unaccounted += worker.unaccounted;
            group.workers.push(worker);
            number += 1;
        }
        groups.push(group);
    }
    groups
}

/// Returns how many packets a sink has taken by its own account.
fn taken_by(sink: &dyn Sink) -> i64 {
    let account = sink.account();
    remainder(account.offered, 0, account.lost.total(), account.in_flight)
}

/// Returns notes on workers whose count differs from their sink's.
fn doubts(sinks: &[Box<dyn Sink>], groups: &[GroupReport]) -> Vec<String> {
    let workers = groups.iter().flat_map(|group| &group.workers);
    let differ = workers.zip(sinks).map(|(worker, sink)| (worker, taken_by(&**sink)));
    let differ = differ.filter(|(worker, taken)| worker.delivered as i64 != *taken);
    let note = |(worker, taken): (&WorkerReport, i64)| {
        let (number, delivered) = (worker.number, worker.delivered);
        format!(
            "worker {number} delivered {delivered} packets by its own counter, {taken} by its \
             sink's"
        )
    };
    differ.map(note).collect()
}

fn worker(number: usize, sink: Option<&dyn Sink>, done: &Balanced) -> WorkerReport {
    let name = sink.map(|sink| sink.info().name.clone());
    let mut worker = WorkerReport { number, sink: name, ..WorkerReport::default() };
    let mut add = |cause, packets| {
        if packets > 0 {
            worker.lost.add(cause, packets);
        }
    };
    let (mut written, mut refused) = (Tally::default(), 0);
    for spread in &done.spread {
        let (packets, bytes) = spread.given[number];
        written.add(&Tally::whole(packets, bytes));
        refused += spread.refused[number];
    }
    add(Loss::LogFull, refused);
    let mut delivered = written;
    if let Some(recorder) = done.crew.readers.get(number) {
        let recorded = &recorder.outcome;
        add(Loss::ReaderOverrun, recorded.missed.iter().sum());
        worker.lost.merge(&recorded.losses());
        delivered = recorded.total();
    }
    worker.offered = written.packets + refused;
    (worker.delivered, worker.bytes) = (delivered.packets, delivered.bytes);
    worker.unaccounted = remainder(worker.offered, worker.delivered, worker.lost.total(), 0);
    // The worker's count of delivered packets, checked against the sink's separate count.
    let by_sink = sink.map_or(delivered.packets as i64, taken_by);
    worker.unaccounted += delivered.packets as i64 - by_sink;
    worker
}

/// Returns a row for each source and group, and the packets that each group's workers have not
/// seen.
fn ports(
    options: &BalanceOptions,
    sources: &[Inlet],
    done: &Balanced,
) -> (Vec<PortReport>, Vec<u64>) {
    let owners =
        Owners::merge(sources, done.crew.front.iter().map(|took| took.outcome.owners.clone()));
    let owners = &owners[..options.job.table.len()];
    let (mut rows, mut unseen) = (Vec::new(), Vec::new());
    let mut first = 0;
    for (group, &workers) in options.groups.iter().enumerate() {
        let crew = done.crew.readers.get(first..first + workers).unwrap_or(&[]);
        first += workers;
        unseen.push(0);
        for (index, source) in sources.iter().enumerate() {
            let from = &done.spread[index % done.spread.len()].sources[index];
            let own = owners.iter().enumerate();
            let own = own.filter(|&(_, &owner)| usize::from(owner) == index).map(|(port, _)| port);
            let mut given = given(from, group);
            let mut lost = policy_losses(from, group);
            if options.has_workers {
                let found = seen(crew, own);
                let missed = given.packets.saturating_sub(found.seen.packets);
                unseen[group] += missed;
                if missed > 0 {
                    lost.add(Loss::ReaderOverrun, missed);
                }
                lost.merge(&found.lost);
                given = found.written;
            }
            let mut name = source.port().info().name.clone();
            if options.groups.len() > 1 {
                name += &format!(" > group {group}");
            }
            let mut account = source.port().account();
            account.truncated += from.cut[group].packets;
            rows.push(PortReport::new(&name, &account, &given, &lost));
        }
    }
    (rows, unseen)
}

/// Returns the tally written into the logs of a group.
fn given(from: &FromSource, group: usize) -> Tally {
    let mut given = from.taken;
    for lost in [&from.cut_off, &from.shed, &from.unjudged, &from.refused[group]] {
        given = given.without(lost);
    }
    given.bytes -= from.cut[group].bytes;
    given
}

fn policy_losses(from: &FromSource, group: usize) -> Losses {
    let mut lost = Losses::default();
    let refused = from.refused[group].packets;
    let causes = [
        (Loss::CutOff, from.cut_off.packets),
        (Loss::Shed, from.shed.packets),
        (Loss::Unjudged, from.unjudged.packets),
        (Loss::LogFull, refused),
    ];
    for (cause, packets) in causes.into_iter().filter(|&(_, packets)| packets > 0) {
        lost.add(cause, packets);
    }
    lost
}

/// The workers' counts of some interfaces.
#[derive(Default)]
struct ByWorkers {
    seen: Tally,
    written: Tally,
    /// Lost by their sinks.
    lost: Losses,
}

/// Sums the counts of the interfaces `own`.
fn seen(crew: &[runtime::Done<Recorded>], own: impl Iterator<Item = usize> + Clone) -> ByWorkers {
    let mut all = ByWorkers::default();
    for recorded in crew.iter().map(|done| &done.outcome) {
        for port in own.clone() {
            all.seen.add(&recorded.seen[port]);
            all.written.add(&recorded.written(port));
            all.lost.merge(&recorded.lost(port));
        }
    }
    all
}

fn stages(done: &Balanced, elapsed_ns: u64) -> Vec<StageReport> {
    let mut stages = Vec::new();
    let count = done.crew.front.len();
    for (number, (receiver, spread)) in done.crew.front.iter().zip(&done.spread).enumerate() {
        let took = &receiver.outcome;
        let mut through = Tally::default();
        for from in &spread.sources {
            through.add(&from.taken);
        }
        let name = stage_name(number, count);
        let mut stage = receiver.cost.report(&name, elapsed_ns, &through);
        (stage.packets_in, stage.lost) = (through.packets + took.lost, took.lost);
        stage.high_water = took.log.segments_high_water.into();
        stages.push(stage);
    }
    for (number, recorder) in done.crew.readers.iter().enumerate() {
        let name = format!("worker-{number}");
        stages.push(recorder.outcome.stage(&name, &recorder.cost, elapsed_ns));
    }
    stages
}
