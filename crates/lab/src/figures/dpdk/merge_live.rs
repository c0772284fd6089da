//! The merge end to end: live frames of four interfaces through drivers into one memory, on one
//! core, while the other core injects.
//!
//! ```text
//!   injector ─► v1..v4, native XDP ─► 4 `xdp:`      ─► order by packet ─► the log     ours
//!    core 0                        └► 4 net_af_xdp ─► rings, by burst ─► memory        peer
//! ```
//!
//! Frames are dealt over the interfaces, 256 to each in turn, with a number by interface: so their
//! true order is known, and runs of their own look whether it was kept. Ours has a time of each
//! packet, of the XDP program; net_af_xdp knows none, so that the rival has those of its polls, and
//! its variant by packet can order no more than they say.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread;
use std::time::Duration;

use burstline_engine::{
    CaptureOptions, Limits, MergeOptions, PollMode, Progress, Report, Source, Threads, merge,
};
use burstline_log::{Burst, LogConfig};
use burstline_port::{
    Capabilities, OpenOptions, Port, PortAccount, PortError, PortInfo, PortTable, TimestampSource,
    open_sink,
};
use burstline_sys::memory::PageChoice;
use burstline_testbed::sequence_of;

use super::super::Context;
use super::super::merge::LOG_BYTES;
use super::live::{Run, SECONDS, contest, summary, summary_of_one, under_load, with_share};
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::lines::LINES;
use crate::live::{FRAME_BYTES, Road, missing};
use crate::ours::SEGMENT_BYTES;
use crate::rivals::BURST;
use crate::rivals::dpdk::merge_live::MergeLive;
use crate::rivals::dpdk::{self, Manner, SLOTS, Shape};

/// Enough for what four drivers put into their fill rings, and for the rings.
const SHAPE: Shape = Shape { objects: 16_383, cache: 512, slots: SLOTS, is_single: 1 };
const ORDERED: Manner = Manner { is_ordered: 1, ..Manner::PLAIN };

/// Frames of an interface's turn. Source: DEALT_FRAMES of the testbed's injector.
const DEALT: u64 = 256;

/// Whose times ours has.
#[derive(Clone, Copy)]
enum Times {
    /// The XDP program's, of each packet.
    Program,
    /// The poll's, as the rival's.
    Poll,
}

/// `dpdk-merge-live`: packets a second, of an injector at its top speed.
pub(super) fn measure(context: &Context, _: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    dpdk::start()?;
    let conditions = Conditions::watch(context.cores);
    let (rounds, runs) = contest(
        context,
        || Ok(our_run(context, Times::Program, false)?.0),
        || Ok(peer_run(context, Manner::PLAIN)?.0),
    )?;
    let variants = variants(context)?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "numbered frames of {FRAME_BYTES} bytes for {} s at top speed, {DEALT} to each of \
             {LINES} veths in turn, native XDP, copy mode",
            SECONDS.as_secs()
        ),
        format!(
            "ours: {LINES} xdp: ports of 4096 frames, a time of each packet by the XDP program, \
             merged by packet into a log of {} KiB and counted there; peer: {LINES} net_af_xdp, \
             busy_budget=0, rings of 2048, a time by poll, pool of {}, cache {}, SP/SC rings of \
             {SLOTS} pointers, bursts of {BURST}, the oldest burst first, rte_memcpy into {} KiB, \
             freed; all of a side in turns on one core, this process",
            LOG_BYTES >> 10,
            SHAPE.objects,
            SHAPE.cache,
            dpdk::OUTPUT_BYTES >> 10
        ),
    ];
    details.extend([summary("ours", &runs.ours), summary("peer", &runs.peer)]);
    details.extend(variants);
    details.extend(runs.doubt());
    details.extend(conditions.report());
    let (unit, better) = ("Mpps", Better::Higher);
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

/// One run each of what else there is, and of those that look at the order.
fn variants(context: &Context) -> Result<Vec<String>, String> {
    let by_poll = our_run(context, Times::Poll, false)?.0;
    let ordered = peer_run(context, ORDERED)?.0;
    let checking = |manner: Manner| peer_run(context, Manner { is_checking: 1, ..manner });
    let looked_at = [
        ("ours", our_run(context, Times::Program, true)?),
        ("ours by the times of polls", our_run(context, Times::Poll, true)?),
        ("peer by burst", checking(Manner::PLAIN)?),
        ("peer by packet, by the times of polls", checking(ORDERED)?),
    ];
    let violations = looked_at.iter().map(|(name, (run, violations))| {
        let taken = run.taken().max(1);
        format!("{name} {violations} of {taken}")
    });
    Ok(vec![
        summary_of_one("ours by the times of polls, one run", &by_poll),
        summary_of_one("peer by packet, by the times of polls, one run", &ordered),
        format!(
            "after a frame that was sent later, in a run of each that looks: {}",
            violations.collect::<Vec<_>>().join(", ")
        ),
    ])
}

/// Ours; with `is_checking` also how many frames came after one that was sent later.
fn our_run(context: &Context, times: Times, is_checking: bool) -> Result<(Run, u64), String> {
    let road = Road::with_ports(context.cores, LINES)?;
    let names = road.interfaces().to_vec();
    let ports = OpenOptions::default();
    let table = ports.table.clone();
    let sources = road.bed().far.run(move || open(&names, times, &ports))?;
    let violations = Arc::new(AtomicU64::new(0));
    let sink = is_checking.then(|| NumberSink::new(Arc::clone(&violations)));
    let run = under_load(context, &road, |is_over| {
        let report = merged(context, sources, &table, sink, is_over)?;
        let stage = report.stages.first().ok_or("no stage")?;
        Ok((report.total.delivered, stage.cpu_percent / 100.0))
    })?;
    Ok((run, violations.load(Relaxed))) // the merging thread has ended
}

fn open(names: &[String], times: Times, ports: &OpenOptions) -> Result<Vec<Source>, String> {
    let times = match times {
        Times::Program => "program",
        Times::Poll => "poll",
    };
    let open = |name: &String| {
        let address = format!("xdp:{name}?timestamps={times}").parse();
        let address = address.map_err(|error| format!("{error}"))?;
        Source::open(&address, ports).map_err(|error| error.to_string())
    };
    names.iter().map(open).collect()
}

/// Merges on the consumer's core, until `is_over` and nothing comes.
fn merged(
    context: &Context,
    sources: Vec<Source>,
    table: &PortTable,
    sink: Option<NumberSink>,
    is_over: &AtomicU32,
) -> Result<Report, String> {
    let cores = vec![context.cores.consumer];
    let options = CaptureOptions {
        limits: Limits::default(),
        threads: Threads { cores, poll: PollMode::Busy, ..Threads::default() },
        log: LogConfig {
            bytes: LOG_BYTES,
            segment_bytes: SEGMENT_BYTES,
            pages: PageChoice::Transparent,
            ..LogConfig::default()
        },
        policy: None,
        table: table.clone(),
        publish: None,
    };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let merging = MergeOptions { is_one_thread: true, ..MergeOptions::default() };
    let sink = || match sink {
        Some(sink) => Ok(Box::new(sink) as Box<dyn Port>),
        None => open_sink(&"null:".parse()?, &OpenOptions::default()),
    };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Pairs with the store in `under_load`.
            while is_over.load(Acquire) == 0 && !is_done.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Relaxed); // a flag only
        });
        let report = merge(sources, sink, &options, &merging, (&stop, &progress));
        is_done.store(true, Relaxed); // as above
        report.map_err(|error| error.to_string())
    })
}

/// The rival; the second is 0 unless it is checking.
fn peer_run(context: &Context, manner: Manner) -> Result<(Run, u64), String> {
    let road = Road::with_ports(context.cores, LINES)?;
    let mut rival = MergeLive::new(SHAPE)?;
    let names = road.interfaces().to_vec();
    let mut rival = road.bed().far.run(move || {
        for (number, name) in (10..).zip(names) {
            let queue = "start_queue=0,queue_count=1,busy_budget=0";
            rival.open(&format!("net_af_xdp{number},iface={name},{queue}"))?;
        }
        Ok::<MergeLive, String>(rival)
    })?;
    let mut violations = 0;
    let run = under_load(context, &road, |is_over| {
        let ((copied, found), share) = with_share(|| rival.take_turns(manner, is_over));
        violations = found;
        Ok((copied, share))
    })?;
    road.bed().far.run(move || drop(rival));
    Ok((run, violations))
}

/// A sink that counts frames which come after one that was sent later, by their numbers.
struct NumberSink {
    info: PortInfo,
    newest: u64,
    packets: u64,
    violations: Arc<AtomicU64>,
}

impl NumberSink {
    fn new(violations: Arc<AtomicU64>) -> Self {
        let (name, timestamps) = ("numbers".to_owned(), TimestampSource::Hardware);
        let info = PortInfo { name, capabilities: Capabilities::default(), timestamps };
        Self { info, newest: 0, packets: 0, violations }
    }
}

impl Port for NumberSink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let mut late = 0;
        for packet in burst.packets() {
            let Some(number) = sequence_of(packet.bytes()) else { continue };
            let place = (number / DEALT * LINES as u64 + u64::from(packet.port())) * DEALT;
            let place = place + number % DEALT;
            late += u64::from(place < self.newest);
            self.newest = self.newest.max(place);
        }
        self.violations.fetch_add(late, Relaxed); // a count, read at the end
        self.packets += burst.len() as u64;
        Ok(burst.len() as u64)
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.packets, ..PortAccount::default() }
    }
}
