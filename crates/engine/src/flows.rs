//! Makes flow records, run to completion: each worker has its source and its own table.
//!
//! ```text
//! worker 0:  source 0 --lend--> burst ──► table ──► outbox ─┐
//! worker 1:  source 1 --lend--> burst ──► table ──► outbox ─┴─► records: sinks
//! ```
//!
//! A separate thread writes the records (`burstline_flow`). If it is too slow, records are dropped
//! and counted; only packets of sources that can wait ever wait for it.
//!
//! Invariants:
//! - F1: a worker owns its source, scratch, table and outbox exclusively.
//! - F2: packets of all records + packets without a flow = packets delivered. Any difference is
//!   `unaccounted`.
//! - F3: however the job ends, every conversation is ended, and sinks are finished.

use burstline_flow::{
    FlowTable, LostRecords, NoFlow, NotWritten, Outbox, Place, Record, RecordSink, Shows,
    SinkAccount, TableConfig, TableCounts, Writer, queue,
};
use burstline_port::{Lent, PortAccount, PortTable};
use burstline_sys::clock;

use crate::balance::links::Links;
use crate::runtime::{Job, spawn};
use crate::work::{self, Reported, Work, run_works};
use crate::{EngineError, Inlet, Report, Run, Threads};

/// Name of the threads that make records.
const STAGE: &str = "flows";
/// Name of the queue's loss, listed with the losses of the sinks.
const QUEUE_FULL: &str = "queue_full";

/// The settings of a flow table.
#[derive(Clone, Debug)]
pub struct FlowsOptions {
    /// Maximum number of open conversations, over all sources.
    pub flows: usize,
    /// Idle timeout: a conversation ends after this long without a packet, in ns.
    pub idle_ns: u64,
    /// Active timeout: a conversation open this long ends its record and begins another, in ns.
    pub active_ns: u64,
    /// The interfaces of the sources.
    pub table: PortTable,
}

/// The account of packets and records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowsReport {
    /// Counters of all tables.
    pub counts: TableCounts,
    /// Records that the queue had no room for.
    pub records_dropped: u64,
    /// Packets in the dropped records.
    pub packets_dropped: u64,
    /// Delivered packets that are neither in a record nor without a flow. Any value but 0 is a bug.
    pub unaccounted: i64,
    /// Total size of all tables, in bytes.
    pub state_bytes: u64,
    /// Total capacity of all tables, in conversations.
    pub flows: u64,
    /// Records that each sink wrote and lost.
    pub sinks: Vec<SinkAccount>,
    /// Records that the previous run did not write.
    pub last: Option<NotWritten>,
}

impl FlowsReport {
    /// Returns the packets without a flow, by reason.
    pub fn without_flow(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NoFlow::ALL.iter().map(|reason| reason.name()).zip(self.counts.without_flow)
    }

    fn add(&mut self, table: &TableEnd) {
        self.counts.add(&table.counts);
        self.state_bytes += table.state_bytes;
        self.flows += table.flows;
    }

    /// Returns the number of records that were dropped or that a sink lost.
    #[must_use]
    pub fn records_lost(&self) -> u64 {
        self.lost_by_name().iter().map(|lost| lost.records).sum()
    }

    /// Returns the lost records by name, the queue's first. Counts of 0 are omitted.
    #[must_use]
    pub fn lost_by_name(&self) -> Vec<LostRecords> {
        let (records, packets) = (self.records_dropped, self.packets_dropped);
        let queue = LostRecords { name: QUEUE_FULL, records, packets };
        let of_sinks = self.sinks.iter().flat_map(|sink| sink.lost.iter().copied());
        std::iter::once(queue).chain(of_sinks).filter(|lost| lost.records > 0).collect()
    }
}

/// Makes records of the packets of all sources, each on its own thread, and gives them to `sinks`
/// on another. Many files share a few threads for each core.
///
/// # Errors
/// If the threads cannot be started, pinned or given their scheduling class. Later failures of a
/// source or a sink are in the report's `errors`.
pub fn flows(
    mut sources: Vec<Inlet>,
    mut sinks: Vec<Box<dyn RecordSink>>,
    options: &FlowsOptions,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    threads.check(sources.len())?;
    let job = Job::start(threads, run);
    run.progress.start(0);
    let can_wait: Vec<_> =
        sources.iter().map(|source| source.port.info().capabilities.can_wait).collect();
    let shows = Shows::new(sources.len());
    let (outboxes, writer) = queue(&can_wait, &shows);
    let each = (options.flows / sources.len().max(1)).max(1);
    let works = sources
        .iter()
        .zip(outboxes)
        .enumerate()
        .map(|(index, (source, outbox))| Recording::new(source, index, outbox, options, each));
    let works = works.collect();
    let crew = std::thread::scope(|scope| {
        let write = || write(&job, writer, &mut sinks);
        let written = spawn(scope, "records", write)?;
        let crew = run_works(&job, &mut sources, works, STAGE);
        let written = written.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(crew)
    })?;
    let Reported { mut report, outcomes } = work::report(&job, &sources, crew, STAGE);
    let made = shows.made();
    let mut flows = FlowsReport {
        records_dropped: made.records_dropped,
        packets_dropped: made.packets_dropped,
        sinks: sinks.iter().map(|sink| sink.account()).collect(),
        ..FlowsReport::default()
    };
    outcomes.iter().for_each(|table| flows.add(table));
    let delivered: u64 = report.ports.iter().map(|port| port.delivered).sum();
    let told = flows.counts.packets_in_records + flows.counts.packets_without_flow();
    flows.unaccounted = delivered as i64 - told as i64;
    let failed = flows.sinks.iter().filter_map(|sink| sink.first_error.clone());
    report.errors.extend(failed.map(EngineError::Records));
    report.flows = Some(flows);
    Ok(report)
}

/// Runs the thread that writes records.
fn write(
    job: &Job<'_>,
    writer: Writer<'_>,
    sinks: &mut [Box<dyn RecordSink>],
) -> Result<(), EngineError> {
    let given_up = job.threads.drop_privileges().inspect_err(|_| job.clock.break_off());
    writer.run_telling(sinks, &mut |what| job.progress.tell(what));
    given_up
}

/// Makes records of one source's packets.
struct Recording<'a> {
    table: FlowTable,
    links: Links,
    outbox: Outbox<'a>,
    tells_gaps: bool,
    /// When packets last arrived, by the monotonic clock, and the packet count at that time.
    came_ns: u64,
    came: u64,
    /// The timestamp of the last packet.
    last_ns: u64,
}

impl<'a> Recording<'a> {
    fn new(
        source: &Inlet,
        index: usize,
        outbox: Outbox<'a>,
        options: &FlowsOptions,
        flows: usize,
    ) -> Self {
        let tells_gaps = source.port.info().capabilities.tells_gaps;
        let FlowsOptions { idle_ns, active_ns, .. } = *options;
        let config = TableConfig { flows, idle_ns, active_ns, port: index as u16, tells_gaps };
        Self {
            table: FlowTable::new(config),
            links: Links::new(&options.table),
            outbox,
            tells_gaps,
            came_ns: clock::monotonic_ns(),
            came: 0,
            last_ns: 0,
        }
    }

    /// Advances the table's time while no packets arrive, so that idle records still end.
    fn rest(&mut self) {
        let (now_ns, packets) = (clock::monotonic_ns(), self.table.counts().packets);
        if packets != self.came {
            (self.came, self.came_ns, self.last_ns) = (packets, now_ns, self.table.now_ns());
            return;
        }
        let outbox = &mut self.outbox;
        let idle_ns = now_ns.saturating_sub(self.came_ns);
        self.table.rest(self.last_ns, idle_ns, &mut |record: &Record| outbox.push(record));
    }
}

impl Work for Recording<'_> {
    type Outcome = TableEnd;
    const GATHERS: bool = true;

    #[inline]
    fn see(&mut self, lent: &Lent<'_>) {
        let Self { table, links, outbox, .. } = self;
        let give = &mut |record: &Record| outbox.push(record);
        table.see(&lent.burst, |port| links.of(port).0, |index| place(lent, index), give);
    }

    #[inline]
    fn show(&mut self) {
        self.outbox.show(&self.table.counts());
    }

    fn hear(&mut self, account: &PortAccount) {
        if !self.tells_gaps {
            self.table.set_losses(account.lost.missing());
        }
        self.rest();
    }

    fn flush(&mut self) {
        self.outbox.flush();
    }

    /// Ends all conversations. No more packets arrive, so it may wait for the writer.
    fn close(&mut self) {
        self.outbox.wait_from_now();
        let outbox = &mut self.outbox;
        self.table.end(&mut |record: &Record| outbox.push(record));
        self.outbox.flush();
    }

    /// Drops the outbox, which signals the end to the writer.
    fn end(self) -> TableEnd {
        TableEnd {
            counts: self.table.counts(),
            state_bytes: self.table.state_bytes() as u64,
            flows: self.table.flows() as u64,
        }
    }
}

/// Returns the place of a packet of a burst.
fn place(lent: &Lent<'_>, index: usize) -> Place {
    match &lent.places {
        None => Place { number: lent.burst.first_packet() + index as u64 + 1, ..Place::default() },
        Some(places) => Place {
            file: places.file.and_then(|file| file.try_into().ok()),
            segment: places.segment.and_then(|segment| segment.try_into().ok()),
            number: places.number(index),
        },
    }
}

/// The results of a table at the end.
struct TableEnd {
    counts: TableCounts,
    state_bytes: u64,
    flows: u64,
}
