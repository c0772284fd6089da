//! Flow records, run to completion: each worker has its source and its own table.
//!
//! ```text
//! worker 0:  source 0 --lend--> burst ──► table ──► outbox ─┐
//! worker 1:  source 1 --lend--> burst ──► table ──► outbox ─┴─► records: sinks
//! ```
//!
//! Records pass to one thread beside, which writes them (`burstline_flow`). It may be slow: then
//! records are dropped, and counted, but no packet waits for it, except of sources that can wait.
//!
//! Invariants:
//! - F1: a worker owns its source, scratch, table and outbox alone.
//! - F2: packets of all records + packets without a flow = packets delivered. What does not add up
//!   is `unaccounted`.
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

/// What the threads that make records are called.
const STAGE: &str = "flows";
/// The queue's loss beside those of the sinks.
const QUEUE_FULL: &str = "queue_full";

/// How records are made.
#[derive(Clone, Debug)]
pub struct FlowsOptions {
    /// Conversations that may be open at a time, over all sources.
    pub flows: usize,
    /// Without a packet for longer than this one is over, in ns.
    pub idle_ns: u64,
    /// Open for this long, its record ends and the next begins, in ns.
    pub active_ns: u64,
    /// The interfaces of the sources.
    pub table: PortTable,
}

/// What became of packets and records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowsReport {
    /// What the tables counted.
    pub counts: TableCounts,
    /// Records that the queue had no room for.
    pub records_dropped: u64,
    /// Packets of these.
    pub packets_dropped: u64,
    /// Delivered packets that are neither in a record nor without a flow: 0, or there is a mistake
    /// in this program.
    pub unaccounted: i64,
    /// Bytes of state that all tables have room for.
    pub state_bytes: u64,
    /// Conversations that all tables have room for.
    pub flows: u64,
    /// What each sink wrote and lost.
    pub sinks: Vec<SinkAccount>,
    /// What the start before has not written.
    pub last: Option<NotWritten>,
}

impl FlowsReport {
    /// Packets without a flow, by reason.
    pub fn without_flow(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NoFlow::ALL.iter().map(|reason| reason.name()).zip(self.counts.without_flow)
    }

    fn add(&mut self, table: &TableEnd) {
        self.counts.add(&table.counts);
        self.state_bytes += table.state_bytes;
        self.flows += table.flows;
    }

    /// Records that are in no file: dropped, or lost by a sink.
    #[must_use]
    pub fn records_lost(&self) -> u64 {
        self.lost_by_name().iter().map(|lost| lost.records).sum()
    }

    /// The same by name, those of the queue first; each at least 1.
    #[must_use]
    pub fn lost_by_name(&self) -> Vec<LostRecords> {
        let (records, packets) = (self.records_dropped, self.packets_dropped);
        let queue = LostRecords { name: QUEUE_FULL, records, packets };
        let of_sinks = self.sinks.iter().flat_map(|sink| sink.lost.iter().copied());
        std::iter::once(queue).chain(of_sinks).filter(|lost| lost.records > 0).collect()
    }
}

/// Makes records of the packets of all sources, each on its own thread, and gives them to `sinks`
/// on another.
///
/// # Errors
/// The threads could not be started, pinned or given their class. What goes wrong with a source or
/// a sink later is in the report's `errors`.
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

/// The thread of the records.
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
    /// When packets last came, by the monotonic clock, and how many there had been.
    came_ns: u64,
    came: u64,
    /// The time of the last of them.
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

    /// Nothing came for some time: records end nevertheless.
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

    /// Ends all conversations. No packet comes any more, so it may wait for the writer.
    fn close(&mut self) {
        self.outbox.wait_from_now();
        let outbox = &mut self.outbox;
        self.table.end(&mut |record: &Record| outbox.push(record));
        self.outbox.flush();
    }

    /// The outbox goes, which is how the writer learns of the end.
    fn end(self) -> TableEnd {
        TableEnd {
            counts: self.table.counts(),
            state_bytes: self.table.state_bytes() as u64,
            flows: self.table.flows() as u64,
        }
    }
}

/// Where a packet of a burst is.
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

/// What a table tells at the end.
struct TableEnd {
    counts: TableCounts,
    state_bytes: u64,
    flows: u64,
}
