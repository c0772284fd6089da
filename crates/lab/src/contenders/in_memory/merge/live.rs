//! The merge end to end: live frames go from four interfaces through drivers into one memory on one
//! core, while the other core injects.
//!
//! ```text
//!   injector ─► v1..v4, native XDP ─► 4 `xdp:`      ─► order by packet ─► the log     ours
//!    core 0                        └► 4 net_af_xdp ─► rings, by burst ─► memory        peer
//! ```
//!
//! The injector deals frames to the interfaces, 256 to each in turn, numbered by interface. So the
//! true order is known, and a shorter run checks that it was kept. Ours has a time for each packet,
//! from the XDP program. net_af_xdp has none, so the rival uses the times of its polls, as our
//! variant by poll does. Its variant by packet cannot order more finely than that.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread;
use std::time::Duration;

use burstline_engine::{
    CaptureOptions, Inlet, MergeOptions, PollMode, Progress, Report, Run, Threads, merge,
};
use burstline_log::{LogConfig, Packet};
use burstline_port::{OpenOptions, PortTable, Sink, open_sink};
use burstline_sys::memory::PageChoice;
use burstline_testbed::{Amount, sequence_of};

use super::memory::OrderSink;
use super::{Job, Kind, LOG_BYTES, Merger, Sample, pipeline, timed};
use crate::lines::LINES;
use crate::live::{Frames, Road, Turn, under_load};
use crate::ours::SEGMENT_BYTES;
use crate::pages::{self, PAGES_OF_A_START, Reservation};
use crate::threads::Cores;

/// Frames per turn of an interface. Source: DEALT_FRAMES of the testbed's injector.
const DEALT: u64 = 256;

/// Length of the run that checks the order.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a turn, and a shorter one that checks the order.
///
/// # Errors
/// Errors of an interface, a driver or the injector.
pub(super) fn measure(merger: &Merger, job: &Job<'_>) -> Result<Sample, String> {
    let amount = job.packets.map_or(Amount::Time(job.time), Amount::Frames);
    let frames = Frames { amount, bytes: job.frame_bytes(), stop: job.stop };
    let shorter =
        Frames { amount: job.packets.map_or(Amount::Time(LOOK), Amount::Frames), ..frames };
    let cores = pipeline::cores(job)?;
    let turn = |frames, is_checking| match merger.kind {
        Kind::Ours(times) => ours(cores, frames, times, is_checking),
        #[cfg(feature = "dpdk")]
        Kind::Dpdk(variant) => peer::run(cores, frames, variant, is_checking),
        _ => Err("it receives no frames from interfaces".to_owned()),
    };
    let (run, _) = turn(frames, false)?;
    let (looked_at, violations) = turn(shorter, true)?;
    let mut sample = timed::taken(&run, job.size_bytes);
    let percent = 100.0 * violations as f64 / looked_at.taken.max(1) as f64;
    sample.set("out_of_order", "% of packets", percent);
    Ok(sample)
}

/// Runs ours. If `is_checking`, also counts frames that arrived after one sent later.
fn ours(
    cores: Cores,
    frames: Frames<'_>,
    times: &'static str,
    is_checking: bool,
) -> Result<(Turn, u64), String> {
    let road = Road::with_ports(cores, LINES)?;
    let names = road.interfaces().to_vec();
    let ports = OpenOptions::default();
    let table = ports.table.clone();
    // Huge pages for the log, which is created when the merge starts, and for the ports' frames.
    let _pages = Reservation::take(PAGES_OF_A_START);
    let sources = road.bed().far.run(move || open(&names, times, &ports))?;
    let violations = Arc::new(AtomicU64::new(0));
    let sink = is_checking.then(|| OrderSink::new(place, Arc::clone(&violations)));
    let mut page = None;
    let turn = under_load(&road, frames, |is_over| {
        let report = merged(cores, sources, &table, sink, is_over)?;
        page = pages::kind_of(&report.memory.page_kind);
        let stage = report.stages.first().ok_or("no stage")?;
        Ok((report.total.delivered, stage.cpu_percent / 100.0))
    })?;
    let violations = violations.load(Relaxed); // the merging thread has ended
    Ok((Turn { page, ..turn }, violations))
}

fn open(names: &[String], times: &str, ports: &OpenOptions) -> Result<Vec<Inlet>, String> {
    let open = |name: &String| {
        let address = format!("xdp:{name}?timestamps={times}").parse();
        let address = address.map_err(|error| format!("{error}"))?;
        Inlet::open(&address, ports).map_err(|error| error.to_string())
    };
    names.iter().map(open).collect()
}

/// Merges on the consumer's core, until `is_over` and no more frames arrive.
fn merged(
    cores: Cores,
    sources: Vec<Inlet>,
    table: &PortTable,
    sink: Option<OrderSink>,
    is_over: &AtomicU32,
) -> Result<Report, String> {
    let cores = vec![cores.consumer];
    let options = CaptureOptions {
        threads: Threads { cores, poll: PollMode::Busy, ..Threads::default() },
        log: LogConfig {
            bytes: LOG_BYTES,
            segment_bytes: SEGMENT_BYTES,
            pages: PageChoice::Auto,
            ..LogConfig::default()
        },
        policy: None,
        table: table.clone(),
        publish: None,
    };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let merging = MergeOptions { is_one_thread: true, ..MergeOptions::default() };
    let sink = || match sink {
        Some(sink) => Ok(Box::new(sink) as Box<dyn Sink>),
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
        let report = merge(sources, sink, &options, &merging, &Run::new(&stop, &progress));
        is_done.store(true, Relaxed); // as above
        report.map_err(|error| error.to_string())
    })
}

/// Returns a frame's place in the order of sending, by its number.
fn place(packet: &Packet<'_>) -> Option<u64> {
    let number = sequence_of(packet.bytes())?;
    let dealt = number / DEALT * LINES as u64 + u64::from(packet.port());
    Some(dealt * DEALT + number % DEALT)
}

#[cfg(feature = "dpdk")]
mod peer {
    use super::super::Variant;
    use super::{Cores, Frames, LINES, Road, Turn, under_load};
    use crate::lines;
    use crate::live::with_share;
    use crate::rivals::dpdk::merge_live::MergeLive;
    use crate::rivals::dpdk::{self, Manner, SLOTS, Shape};

    /// Large enough for the fill rings of four drivers and for the rings.
    const SHAPE: Shape = Shape { objects: 16_383, cache: 512, slots: SLOTS, is_single: 1 };

    /// Runs the rival. The second value is 0 unless `is_checking`.
    pub(super) fn run(
        cores: Cores,
        frames: Frames<'_>,
        variant: Variant,
        is_checking: bool,
    ) -> Result<(Turn, u64), String> {
        dpdk::start()?;
        let manner = Manner { is_checking: is_checking.into(), ..variant.manner() };
        let road = Road::with_ports(cores, LINES)?;
        let mut rival = MergeLive::new(SHAPE, lines::Shape::of(frames.bytes))?;
        let names = road.interfaces().to_vec();
        let mut rival = road.bed().far.run(move || {
            for (number, name) in (10..).zip(names) {
                let queue = "start_queue=0,queue_count=1,busy_budget=0";
                rival.open(&format!("net_af_xdp{number},iface={name},{queue}"))?;
            }
            Ok::<MergeLive, String>(rival)
        })?;
        let (mut violations, page) = (0, Some(dpdk::page(rival.is_huge())));
        let turn = under_load(&road, frames, |is_over| {
            let ((copied, found), share) = with_share(|| rival.take_turns(manner, is_over));
            violations = found;
            Ok((copied, share))
        })?;
        // Drop it in the network namespace where it was opened.
        road.bed().far.run(move || drop(rival));
        Ok((Turn { page, ..turn }, violations))
    }
}
