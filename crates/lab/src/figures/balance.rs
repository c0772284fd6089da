//! Packets to four workers by flow, on two cores: logs against a scattered balancer.
//!
//! Ours puts each packet into the log of its worker, or into the one log that all share; the rival
//! into an object of its pool. See `sides`.

mod crossover;
pub(super) mod sides;

use std::cell::RefCell;

use burstline_engine::Mode;
use burstline_log::{Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start};
use burstline_sys::memory::PageChoice;

use super::Context;
use crate::arena::Arena;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::{Rounds, alternate};
use crate::instructions;
use crate::pages;
use crate::rivals::balancer::Flows;
use crate::rivals::{BURST, pool};
use crate::statistics::Quartiles;
use crate::traffic::{self, Traffic};
pub(crate) use crossover::compare as copy_and_share;
pub(super) use crossover::measure as crossover;
use sides::{
    ARENA_BYTES, INTERLEAVINGS, LOG_BYTES, Ours, POINTERS, Peer, SEGMENT_BYTES, append, best_shape,
    config, expected, rate,
};

/// Workers of every figure but the table.
pub(super) const WORKERS: usize = 4;
/// A 64-byte frame without its FCS.
pub(super) const PACKET_BYTES: usize = 60;

/// Packets whose instructions are counted together.
const ROUND_PACKETS: u64 = 32 * BURST as u64;

/// Pairs of runs for the stalled worker.
const STALLED_PAIRS: usize = 21;

/// `balance-copy-64` and `balance-share-64`.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let mode = if name.contains("share") { Mode::Share } else { Mode::Copy };
    let packets: u64 = if context.smoke { 8192 } else { 2 << 20 };
    let traffic = Traffic::new(PACKET_BYTES);
    let (mut ours, mut arena) = pages::with_best(LOG_BYTES + ARENA_BYTES, |pages| {
        let arena = Arena::create(ARENA_BYTES, pages).map_err(|error| error.to_string())?;
        Ok::<_, String>((Ours::create(mode, WORKERS, pages)?, arena))
    })?;
    let conditions = Conditions::watch(context.cores);
    let (shape, tried) = best_shape(context, &traffic, &mut arena, (packets / 8, WORKERS))?;
    let mut all = Vec::new();
    for (_, flows) in INTERLEAVINGS {
        let flows = move |counter| flows(counter, WORKERS);
        let sum = expected(&traffic, &flows, packets, WORKERS).0;
        arena.clear();
        let mut peer = Peer::new(&arena, shape, WORKERS);
        let (cores, work) = (context.cores, (&traffic, &flows as &Flows));
        all.push(alternate(
            context.runs,
            &context.stop,
            || rate("ours", ours.balance(cores, work, (packets, packets)), packets, sum),
            || rate("the balancer", peer.balance(cores, work, packets), packets, sum),
        )?);
    }
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let what = match mode {
        Mode::Share => "one log that all workers read",
        Mode::Copy => "a log for each worker",
    };
    let mut details = vec![
        format!("{packets} packets a run of {PACKET_BYTES} bytes to {WORKERS} workers on one core"),
        format!(
            "ours: {what}, together {} KiB, segments {} KiB, {} of them used",
            LOG_BYTES >> 10,
            SEGMENT_BYTES >> 10,
            ours.segments()
        ),
        format!(
            "peer: pool of {} objects {} bytes apart, cache {}, {WORKERS} SP/SC rings of \
             {POINTERS} pointers, bursts of {BURST}",
            shape.0,
            pool::STRIDE_BYTES,
            shape.1
        ),
        tried,
    ];
    details.extend(by_interleaving(&all));
    details.push(match instructions::of_a_packet(name, ROUND_PACKETS) {
        Some(count) => format!(
            "ours on one core, {BURST} written and read in turn: {count:.1} instructions a packet"
        ),
        None => instructions::NOT_COUNTED.to_owned(),
    });
    let (page, theirs) = (ours.page, arena.page());
    details.push(format!("pages: ours {page}, peer {theirs}"));
    outcome("Mpps", all.swap_remove(0), details, &conditions)
}

/// Ours on one core, uniform traffic, [`ROUND_PACKETS`] packets a round.
pub(super) fn do_rounds(mode: Mode, rounds: u64) -> Result<(), String> {
    let mut ours = Ours::create(mode, WORKERS, PageChoice::Size4K)?;
    let traffic = Traffic::new(PACKET_BYTES);
    let flows = move |counter| INTERLEAVINGS[0].1(counter, WORKERS);
    ours.take_turns((&traffic, &flows), rounds * ROUND_PACKETS, BURST);
    Ok(())
}

/// A line for each way in which flows follow each other.
pub(super) fn by_interleaving(all: &[Rounds]) -> Vec<String> {
    let mut lines = Vec::new();
    for ((interleaving, _), rounds) in INTERLEAVINGS.iter().zip(all) {
        let (ours, peer) = (Quartiles::of(&rounds.ours).median, Quartiles::of(&rounds.peer).median);
        let ratio = ours / peer;
        lines.push(format!("{interleaving}: ours {ours:.1}, peer {peer:.1}, ratio {ratio:.2}"));
    }
    lines.push("the figure is that of `uniform`".to_owned());
    lines
}

/// The figure, with what the machine did meanwhile.
pub(super) fn outcome(
    unit: &'static str,
    rounds: Rounds,
    mut details: Vec<String>,
    conditions: &Conditions,
) -> Result<Outcome, String> {
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of(unit, Better::Higher, rounds, details)))
}

/// `stalled-worker`: three workers' rate beside a fourth that holds a segment and does not go on,
/// against the same without that one.
pub(super) fn stalled(context: &Context, _: &str) -> Result<Outcome, String> {
    let packets: u64 = if context.smoke { 8192 } else { 2 << 20 };
    let traffic = Traffic::new(PACKET_BYTES);
    let flows = move |counter| INTERLEAVINGS[0].1(counter, WORKERS);
    let others = WORKERS - 1;
    let (sum, seen) = expected(&traffic, &flows, packets, others);
    let (mut beside, mut without) = pages::with_best(2 * LOG_BYTES, |pages| {
        let create = || Ours::create(Mode::Copy, WORKERS, pages);
        Ok::<_, String>((create()?, create()?))
    })?;
    let conditions = Conditions::watch(context.cores);
    // Lossless readers would hold everybody up, as they are to: the fourth becomes a lossy one.
    let mut stopped = beside.stall(&traffic)?;
    without.readers.truncate(others);
    let (beside, without) = (RefCell::new(beside), RefCell::new(without));
    let run = |ours: &RefCell<Ours>| {
        let mut ours = ours.borrow_mut();
        let run = ours.balance(context.cores, (&traffic, &flows), (packets, seen));
        rate("the others", run, seen, sum)
    };
    let pairs = if context.smoke { context.runs } else { context.runs.max(STALLED_PAIRS) };
    let rounds = alternate(pairs, &context.stop, || run(&beside), || run(&without))?;
    let lost: u64 = beside.borrow().readers.iter().map(|own| own.statistics().missed).sum();
    if lost > 0 {
        return Err(format!("the other workers lost {lost} packets"));
    }
    while stopped.next_burst().is_some() {}
    let late = stopped.statistics();
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let details = vec![
        format!(
            "rate of {others} of {WORKERS} workers, {pairs} pairs; ours: beside a lossy one that \
             holds a segment and stands still; peer: without that one"
        ),
        format!("the others lost {lost} of {seen} packets a run"),
        format!(
            "the one that stood still, when it went on, read {} and missed {}",
            late.delivered, late.missed
        ),
    ];
    outcome("Mpps", rounds, details, &conditions)
}

impl Ours {
    /// Replaces the last worker's reader by one that has taken a burst and stands still.
    fn stall(&mut self, traffic: &Traffic) -> Result<Reader, String> {
        let config = LogConfig { bytes: LOG_BYTES / WORKERS, ..config() };
        let (log, mut writer) = Log::create(config).map_err(|error| error.to_string())?;
        let seat = ReaderConfig { policy: Policy::Lossy, window: 1, start: Start::Now };
        let mut reader = log.attach(seat).map_err(|error| error.to_string())?;
        let meta = Meta::new(traffic::time_of(0), PACKET_BYTES as u32, 0);
        append(&mut writer, traffic, 0, &meta);
        writer.publish();
        reader.next_burst().ok_or("the worker has nothing to stand still on")?;
        self.readers.pop();
        self.writers.pop();
        self.writers.push(writer);
        Ok(reader)
    }
}
