//! Measures workers beside a stalled one.

use std::cell::RefCell;

use burstline_engine::Mode;
use burstline_log::{Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start};

use crate::compared::{Better, Outcome};
use crate::contenders::spread_sides::{
    INTERLEAVINGS, LOG_BYTES, Ours, append, config, expected, rate,
};
use crate::figures::Context;
use crate::pages;
use crate::rivals::balancer::SpreadWork;
use crate::traffic::{self, Traffic};

const WORKERS: usize = 4;
/// A 64-byte frame without its FCS.
const PACKET_BYTES: usize = 60;

/// Pairs of runs for the stalled worker.
const STALLED_PAIRS: usize = 21;

/// `stalled-worker`: three workers' rate beside a fourth that holds a segment and stalls, against
/// the same without the fourth.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    let packets: u64 = if context.smoke { 8192 } else { 2 << 20 };
    let traffic = Traffic::new(PACKET_BYTES);
    let flows = move |counter| INTERLEAVINGS[0].1(counter, WORKERS);
    let others = WORKERS - 1;
    let (sum, seen) = expected(&traffic, &flows, packets, others);
    let (mut beside, mut without) = pages::with_best(2 * LOG_BYTES, |pages| {
        let create = || Ours::create(Mode::Copy, WORKERS, pages);
        Ok::<_, String>((create()?, create()?))
    })?;
    let comparison = context.begin();
    // A lossless reader would stop the writer by design, so the fourth worker gets a lossy one.
    let mut stopped = stall(&mut beside, &traffic)?;
    without.readers.truncate(others);
    let (beside, without) = (RefCell::new(beside), RefCell::new(without));
    let run = |ours: &RefCell<Ours>| {
        let mut ours = ours.borrow_mut();
        let run = ours.balance(
            context.cores,
            SpreadWork { traffic: &traffic, flows: &flows },
            packets,
            seen,
        );
        rate("the others", run, seen, sum)
    };
    let pairs = if context.smoke { context.runs } else { context.runs.max(STALLED_PAIRS) };
    let rounds = context.alternate(pairs, || run(&beside), || run(&without))?;
    let lost: u64 = beside.borrow().readers.iter().map(|own| own.statistics().missed).sum();
    if lost > 0 {
        return Err(format!("the other workers lost {lost} packets"));
    }
    while stopped.next_burst().is_some() {}
    let late = stopped.statistics();
    let details = vec![
        format!(
            "rate of {others} of {WORKERS} workers, {pairs} pairs; ours: beside a lossy one that \
             holds a segment and stalls; peer: without that one"
        ),
        format!("the others lost {lost} of {seen} packets a run"),
        format!(
            "the stalled worker, once it continued, read {} and missed {}",
            late.delivered, late.missed
        ),
    ];
    let pages = [beside.borrow().page, without.borrow().page];
    Ok(comparison.outcome("Mpps", Better::Higher, rounds, details).in_pages(pages))
}

/// Replaces the last worker's reader by one that has taken a burst and stalls.
fn stall(ours: &mut Ours, traffic: &Traffic) -> Result<Reader, String> {
    let config = LogConfig { bytes: LOG_BYTES / WORKERS, ..config() };
    let (log, mut writer) = Log::create(config).map_err(|error| error.to_string())?;
    let seat = ReaderConfig { policy: Policy::Lossy, window: 1, start: Start::Now };
    let mut reader = log.attach(seat).map_err(|error| error.to_string())?;
    let meta = Meta::new(traffic::time_of(0), PACKET_BYTES as u32, 0);
    append(&mut writer, traffic, 0, &meta);
    writer.publish();
    reader.next_burst().ok_or("the worker has no burst to stall on")?;
    ours.readers.pop();
    ours.writers.pop();
    ours.writers.push(writer);
    Ok(reader)
}
