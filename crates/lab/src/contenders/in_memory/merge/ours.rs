//! Runs our merge on ports that lend packets in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use burstline_engine::{
    CaptureOptions, Inlet, MergeOptions, PollMode, Progress, Report, Run as Bounds, Threads, merge,
    merge_shared,
};
use burstline_log::LogConfig;
use burstline_port::{OpenOptions, Sink, open_sink};
use burstline_sys::memory::PageChoice;

use super::memory::{MemoryPort, OrderSink, Shared};
use super::{LOG_BYTES, Run, Traffic};
use crate::lines::LINES;
use crate::ours::SEGMENT_BYTES;
use crate::pages;
use crate::threads::Cores;

/// How our threads may wait for packets.
pub(super) const POLLS: [PollMode; 2] = [PollMode::Adaptive, PollMode::Busy];

/// One huge page more than the log needs.
const SPARE_BYTES: usize = 2 << 20;

/// How our merge runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) poll: PollMode,
    /// Whether the reader checks all times.
    pub(super) is_checking: bool,
    /// Whether each line has a log, out of which nothing is copied.
    pub(super) is_shared: bool,
}

/// Merges the lines into a log in the best pages available, or out of logs of the same size.
///
/// # Errors
/// Errors of a port or the log, or packets that are not accounted for.
pub(super) fn run(traffic: &Traffic, how: How) -> Result<Run, String> {
    // With one core the parts take turns, as the rival's do.
    let merging = MergeOptions { is_one_thread: !traffic.are_two, ..MergeOptions::default() };
    pages::with_best(LOG_BYTES + SPARE_BYTES, |pages| run_with(traffic, how, &merging, pages))
}

/// Merges on one thread, which also counts the packets it has merged.
pub(super) fn in_turns(traffic: &Traffic) -> Result<Run, String> {
    let options = MergeOptions { is_one_thread: true, ..MergeOptions::default() };
    let how = How { poll: PollMode::Busy, is_checking: false, is_shared: false };
    run_with(traffic, how, &options, PageChoice::Size4K)
}

fn run_with(
    traffic: &Traffic,
    how: How,
    merging: &MergeOptions,
    pages: PageChoice,
) -> Result<Run, String> {
    let How { poll, is_checking, is_shared } = how;
    let ports = OpenOptions::default();
    let sources = sources(traffic, &ports)?;
    let bytes = if is_shared { LOG_BYTES / LINES } else { LOG_BYTES };
    let log = LogConfig { bytes, segment_bytes: SEGMENT_BYTES, pages, ..LogConfig::default() };
    let Cores { producer, consumer } = traffic.cores;
    // The receive threads of a shared merge have the core of the one that orders.
    let mut cores = vec![producer; if is_shared { LINES + 1 } else { 1 }];
    cores.push(if traffic.are_two { consumer } else { producer });
    let options = CaptureOptions {
        threads: Threads { cores, poll, ..Threads::default() },
        log,
        policy: None,
        table: ports.table.clone(),
        publish: None,
    };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let violations = Arc::new(AtomicU64::new(0));
    let sink = || match is_checking {
        true => {
            let sink = OrderSink::new(|packet| Some(packet.time_ns()), Arc::clone(&violations));
            Ok(Box::new(sink) as Box<dyn Sink>)
        }
        false => open_sink(&"null:".parse()?, &ports),
    };
    let bounds = Bounds::new(&stop, &progress);
    let report = match is_shared {
        false => merge(sources, sink, &options, merging, &bounds),
        true => merge_shared(sources, sink, &options, merging, &bounds),
    };
    let report = report.map_err(|error| error.to_string())?;
    checked(traffic, &report, violations.load(Relaxed)) // all threads have ended
}

fn sources(traffic: &Traffic, ports: &OpenOptions) -> Result<Vec<Inlet>, String> {
    let shared = Shared::of(traffic.all());
    let source = |(number, line): (u8, &Option<_>)| {
        let port = MemoryPort::new(number, line.clone(), traffic.most, shared.clone());
        // Registers a separate interface for the source.
        let address = "gen:?packets=1".parse().map_err(|error| format!("{error}"))?;
        let source = Inlet::open(&address, ports).map_err(|error| error.to_string())?;
        Ok(source.wrap(|_| Box::new(port)))
    };
    (0..).zip(&traffic.lines).map(source).collect()
}

/// Returns the results of a report if it is consistent.
fn checked(traffic: &Traffic, report: &Report, violations: u64) -> Result<Run, String> {
    let merged = report.merge.as_ref().ok_or("no merge")?;
    let (delivered, lost) = (report.total.delivered, report.total.lost.total());
    if (delivered, lost, report.total.unaccounted) != (traffic.all(), 0, 0) {
        return Err(format!("{delivered} of {} packets, {lost} lost", traffic.all()));
    }
    if merged.late != violations && violations > 0 {
        return Err(format!("{violations} out of order, {} by its report", merged.late));
    }
    let elapsed_s = report.elapsed_ns as f64 / 1e9;
    let cpu_s = merged.cores_used * elapsed_s;
    let page = pages::kind_of(&report.memory.page_kind).ok_or("no kind of page")?;
    Ok(Run { packets: delivered, cpu_s, elapsed_s, violations: merged.late, page })
}
