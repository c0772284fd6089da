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
    FlowTable, NoFlow, NotWritten, Outbox, Record, RecordSink, Shows, SinkAccount, TableConfig,
    TableCounts, Writer, queue,
};
use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{Losses, PortTable, Received};
use burstline_sys::clock;

use crate::balance::links::Links;
use crate::runtime::{
    self, Crew, Job, Next, Pause, Polled, Post, Round, Span, Step, Tally, spawn, tally,
};
use crate::{EngineError, Inlet, PortReport, Report, Run, Threads};

/// What is asked of records.
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

    /// Records that are in no file: dropped, or lost by a sink.
    #[must_use]
    pub fn records_lost(&self) -> u64 {
        let of_sinks = self.sinks.iter().flat_map(|sink| &sink.lost);
        self.records_dropped + of_sinks.map(|lost| lost.records).sum::<u64>()
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
    let posts = sources.iter_mut().zip(outboxes).enumerate().map(|(index, (source, outbox))| {
        let step = Worker::new(&job, index, source, outbox, options, each);
        Post { index, name: stage_name(index), step }
    });
    let posts: Vec<_> = posts.collect();
    let crew = std::thread::scope(|scope| {
        let write = || write(&job, writer, &mut sinks);
        let written = spawn(scope, "records", write)?;
        let crew = runtime::run_alone(&job, posts);
        let written = written.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(crew)
    })?;
    let mut report = report(&job, &sources, crew);
    if let Some(flows) = &mut report.flows {
        let made = shows.made();
        (flows.records_dropped, flows.packets_dropped) =
            (made.records_dropped, made.packets_dropped);
        flows.sinks = sinks.iter().map(|sink| sink.account()).collect();
        let failed = flows.sinks.iter().filter_map(|sink| sink.first_error.clone());
        report.errors.extend(failed.map(EngineError::Records));
    }
    Ok(report)
}

/// The thread of the records.
fn write(
    job: &Job<'_>,
    writer: Writer<'_>,
    sinks: &mut [Box<dyn RecordSink>],
) -> Result<(), EngineError> {
    let given_up = job.threads.drop_privileges().inspect_err(|_| job.clock.break_off());
    writer.run(sinks);
    given_up
}

/// What a worker has counted.
struct Counted {
    tally: Tally,
    span: Span,
    counts: TableCounts,
    state_bytes: u64,
    flows: u64,
    error: Option<EngineError>,
}

struct Worker<'a> {
    job: &'a Job<'a>,
    index: usize,
    source: &'a mut Inlet,
    scratch: Scratch,
    table: FlowTable,
    links: Links,
    outbox: Outbox<'a>,
    tally: Tally,
    span: Span,
    error: Option<EngineError>,
    is_ended: bool,
    tells_gaps: bool,
    /// When packets last came, by the monotonic clock, and how many there had been.
    came_ns: u64,
    came: u64,
    /// The time of the last of them.
    last_ns: u64,
}

impl<'a> Worker<'a> {
    fn new(
        job: &'a Job<'a>,
        index: usize,
        source: &'a mut Inlet,
        outbox: Outbox<'a>,
        options: &FlowsOptions,
        flows: usize,
    ) -> Self {
        let tells_gaps = source.port.info().capabilities.tells_gaps;
        let FlowsOptions { idle_ns, active_ns, .. } = *options;
        let config = TableConfig { flows, idle_ns, active_ns, port: index as u16, tells_gaps };
        Self {
            job,
            index,
            source,
            scratch: Scratch::new(),
            table: FlowTable::new(config),
            links: Links::new(&options.table),
            outbox,
            tally: Tally::default(),
            span: Span::default(),
            error: None,
            is_ended: false,
            tells_gaps,
            came_ns: clock::monotonic_ns(),
            came: 0,
            last_ns: 0,
        }
    }

    /// Nothing came for some time: records end nevertheless.
    fn rest(&mut self) {
        let (now_ns, packets) = (clock::monotonic_ns(), self.tally.packets);
        if packets != self.came {
            (self.came, self.came_ns, self.last_ns) = (packets, now_ns, self.table.now_ns());
            return;
        }
        let outbox = &mut self.outbox;
        let idle_ns = now_ns.saturating_sub(self.came_ns);
        self.table.rest(self.last_ns, idle_ns, &mut |record: &Record| outbox.push(record));
    }
}

impl Step for Worker<'_> {
    type Outcome = Counted;
    const POLLS_A_LOOK: u32 = 8;

    /// Borrows packets and enters them.
    #[inline]
    fn poll(&mut self, _now_ns: u64) -> Polled {
        let mut round = Round::default();
        if self.is_ended {
            return round.polled(Next::Wait);
        }
        let Self { job, source, scratch, table, links, outbox, tally: sum, span, .. } = self;
        let taken = round.poll(&job.budget, SCRATCH_PACKETS as u64, |granted| {
            let lent = source.port.lend(scratch, granted)?;
            let give = &mut |record: &Record| outbox.push(record);
            table.see(&lent.burst, |port| links.of(port).0, give);
            sum.add(&tally(&lent.burst, span));
            Ok(Received { packets: lent.burst.len() as u64, state: lent.state })
        });
        self.is_ended = taken.unwrap_or_else(|error: EngineError| {
            self.error = Some(error);
            true
        });
        round.polled(Next::Wait)
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        pause.on(std::iter::once(self.source.port()))
    }

    #[inline]
    fn show(&mut self) {
        self.job.progress.received[self.index].store(&self.tally);
        self.outbox.show(&self.table.counts());
    }

    fn show_losses(&mut self) -> u64 {
        let account = self.source.port.account();
        if !self.tells_gaps {
            self.table.set_losses(account.lost.missing());
        }
        self.rest();
        self.job.show_account(self.index, account)
    }

    fn flush(&mut self) {
        self.outbox.flush();
    }

    fn stop_sources(&mut self) -> bool {
        if self.is_ended || !self.source.port.info().capabilities.can_drain {
            return false;
        }
        self.error = self.source.port.finish().err().map(EngineError::from);
        self.error.is_none()
    }

    /// Ends all conversations. No packet comes any more, so it may wait for the writer.
    fn close(&mut self) {
        self.show_losses();
        self.outbox.wait_from_now();
        let outbox = &mut self.outbox;
        self.table.end(&mut |record: &Record| outbox.push(record));
        self.outbox.flush();
    }

    fn end(self) -> Counted {
        Counted {
            counts: self.table.counts(),
            state_bytes: self.table.state_bytes() as u64,
            flows: self.table.flows() as u64,
            tally: self.tally,
            span: self.span,
            error: self.error,
        }
    }
}

fn report(job: &Job<'_>, sources: &[Inlet], crew: Crew<Counted, ()>) -> Report {
    let mut ending = job.ending();
    let (mut ports, mut stages) = (Vec::new(), Vec::new());
    let mut flows = FlowsReport::default();
    let mut delivered = 0;
    for (index, (source, done)) in sources.iter().zip(&crew.front).enumerate() {
        let (account, counted) = (source.port.account(), &done.outcome);
        let none = Losses::default();
        let row = PortReport::new(&source.port.info().name, &account, &counted.tally, &none);
        stages.push(done.cost.report(&stage_name(index), ending.elapsed_ns, &counted.tally));
        ports.push(row);
        ending.add(done);
        ending.span.merge(&counted.span);
        ending.bytes_copied += account.bytes_copied;
        flows.counts.add(&counted.counts);
        flows.state_bytes += counted.state_bytes;
        flows.flows += counted.flows;
        delivered += counted.tally.packets;
    }
    let told = flows.counts.packets_in_records + flows.counts.packets_without_flow();
    flows.unaccounted = delivered as i64 - told as i64;
    let mut report = Report::new(ports, &ending);
    report.flows = Some(flows);
    report.stages = stages;
    report.memory.node = crew.places.first().and_then(|place| place.node);
    job.describe(&mut report, crew.places);
    report.hear(sources);
    report.errors.extend(crew.front.into_iter().filter_map(|done| done.outcome.error));
    report
}

fn stage_name(index: usize) -> String {
    format!("flows-{index}")
}
