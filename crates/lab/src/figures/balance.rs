//! Packets to four workers by flow, on two cores: logs against a scattered balancer.
//!
//! One core spreads, the other one is all four workers in turn. Both sides are told a packet's
//! hash, as by a network card, and make it in place: ours in the log of its worker, or in the one
//! log that all share; the rival's in an object of its pool. Both cores spin, so the processor time
//! of a run is twice its length.

use std::cell::RefCell;
use std::hint::spin_loop;

use burstline_engine::worker_of;
use burstline_log::{
    Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start, Writer, WriterStatistics,
};
use burstline_sys::memory::{PageChoice, PageKind};

use super::Context;
use crate::arena::Arena;
use crate::conditions::Conditions;
use crate::contest::{Rounds, alternate};
use crate::pages;
use crate::report::{Better, Figure, Outcome};
use crate::rivals::balancer::{self, Flows, WORKERS};
use crate::rivals::pool::{self, Pool};
use crate::rivals::scattered::Caches;
use crate::rivals::spsc::Spsc;
use crate::rivals::{Address, BURST, Run};
use crate::statistics::Quartiles;
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Traffic};

/// Packet memory of all logs together: as in the hand-off figures, so that what is in flight stays
/// in the cache.
const LOG_BYTES: usize = 2 << 20;
/// As small as to leave each of four logs eight segments.
const SEGMENT_BYTES: usize = 64 << 10;
const ARENA_BYTES: usize = 40 << 20;
/// A 64-byte frame without its FCS.
const PACKET_BYTES: usize = 60;
/// Slots of each ring of the rival.
const POINTERS: usize = 1024;
const POOLS: [usize; 4] = [1023, 2047, 4095, 8191];
const CACHES: [usize; 2] = [256, 512];

/// Pairs of runs for the stalled worker.
const STALLED_PAIRS: usize = 21;

/// The hash and the worker of a packet, by its number.
type Interleaving = fn(u32) -> (u32, usize);

/// How flows follow each other.
const INTERLEAVINGS: [(&str, Interleaving); 3] = [
    ("uniform", |counter| with_worker(traffic::hash_of(counter))),
    ("bursts of 32", |counter| with_worker(traffic::hash_of(counter / 32))),
    // The flows of the last worker's part are those of a silent port.
    ("one port idle", |counter| {
        let (hash, worker) = with_worker(traffic::hash_of(counter));
        // Half a turn of the hash is half the workers further.
        if worker == WORKERS - 1 { with_worker(hash ^ 1 << 31) } else { (hash, worker) }
    }),
];

#[inline]
fn with_worker(hash: u32) -> (u32, usize) {
    (hash, worker_of(hash, WORKERS))
}

/// Our side: a log for each worker, or one for all.
struct Ours {
    writers: Vec<Writer>,
    /// By worker: those that have a reader.
    readers: Vec<Reader>,
    page: PageKind,
}

impl Ours {
    fn create(logs: usize, pages: PageChoice) -> Result<Self, String> {
        let (mut writers, mut readers, mut page) = (Vec::new(), Vec::new(), None);
        for _ in 0..logs {
            let (name, segment_bytes) = ("bench".to_owned(), SEGMENT_BYTES);
            let bytes = LOG_BYTES / logs;
            let config = LogConfig { name, bytes, segment_bytes, pages, ..LogConfig::default() };
            let (log, writer) = Log::create(config).map_err(|error| error.to_string())?;
            let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
            for _ in 0..WORKERS / logs {
                readers.push(log.attach(seat).map_err(|error| error.to_string())?);
            }
            page = Some(log.placement().page);
            writers.push(writer);
        }
        Ok(Self { writers, readers, page: page.ok_or("no logs")? })
    }

    fn segments(&self) -> u32 {
        let statistics = self.writers.iter().map(Writer::statistics);
        statistics.map(|own: WriterStatistics| own.segments_high_water).sum()
    }

    /// Spreads `packets` packets; the workers see `seen` of them.
    fn balance(
        &mut self,
        cores: Cores,
        (traffic, flows): (&Traffic, &Flows),
        (packets, seen): (u64, u64),
    ) -> Run {
        let (writers, readers) = (&mut self.writers[..], &mut self.readers[..]);
        let is_shared = writers.len() == 1;
        let done = run_together(
            cores,
            move || spread(writers, (traffic, flows), packets),
            move || match is_shared {
                true => select(readers, packets),
                false => drain(readers, seen),
            },
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }
}

fn spread(writers: &mut [Writer], (traffic, flows): (&Traffic, &Flows), packets: u64) {
    let last = writers.len() - 1;
    for first in (0..packets as u32).step_by(BURST) {
        for counter in first..first + BURST as u32 {
            let (hash, worker) = flows(counter);
            let mut meta = Meta::new(traffic::time_of(counter), PACKET_BYTES as u32, 0);
            meta.hash = hash;
            let number = worker.min(last);
            while !append(&mut writers[number], traffic, counter, &meta) {
                // Its reader may wait for what the others have.
                writers.iter_mut().for_each(Writer::publish);
                spin_loop();
            }
        }
        writers.iter_mut().for_each(Writer::publish);
    }
}

#[inline]
fn append(writer: &mut Writer, traffic: &Traffic, counter: u32, meta: &Meta) -> bool {
    let Some(slot) = writer.reserve(PACKET_BYTES) else { return false };
    // SAFETY: the slot is valid for writes of that length, and the template is no part of the log.
    unsafe { traffic.fill(slot.as_ptr(), counter) };
    slot.commit(meta);
    true
}

/// The workers in turn, each with a log of its own.
fn drain(readers: &mut [Reader], packets: u64) -> u64 {
    let (mut sum, mut seen) = (0_u64, 0_u64);
    while seen < packets {
        let before = seen;
        for reader in &mut *readers {
            if let Some(burst) = reader.next_burst() {
                seen += burst.len() as u64;
                sum = sum.wrapping_add(traffic::digest_of(&burst));
            }
        }
        if seen == before {
            spin_loop();
        }
    }
    sum
}

/// The workers in turn, each of which takes what is its own out of one log.
fn select(readers: &mut [Reader], packets: u64) -> u64 {
    let (mut sum, mut passed) = (0_u64, 0_u64);
    while passed < packets * WORKERS as u64 {
        let before = passed;
        for (worker, reader) in readers.iter_mut().enumerate() {
            let Some(burst) = reader.next_burst() else { continue };
            passed += burst.len() as u64;
            for packet in burst.packets() {
                let hash = packet.desc().hash();
                if worker_of(hash, WORKERS) == worker {
                    let own = traffic::digest(packet.bytes(), hash, packet.time_ns());
                    sum = sum.wrapping_add(own);
                }
            }
        }
        if passed == before {
            spin_loop();
        }
    }
    sum
}

/// What packets `[0, packets)` of these flows add up to, and how many go to workers below
/// `workers`.
fn expected(traffic: &Traffic, flows: &Flows, packets: u64, workers: usize) -> (u64, u64) {
    let (mut sum, mut count, mut packet) = (0_u64, 0, [0_u8; PACKET_BYTES]);
    for counter in 0..packets as u32 {
        let (hash, worker) = flows(counter);
        if worker < workers {
            // SAFETY: the room is as long as the packet.
            unsafe { traffic.fill(packet.as_mut_ptr(), counter) };
            let own = traffic::digest(&packet, hash, traffic::time_of(counter));
            (sum, count) = (sum.wrapping_add(own), count + 1);
        }
    }
    (sum, count)
}

/// Millions of packets for each second of processor time, if the sum is right.
fn rate(side: &str, run: Run, packets: u64, expected: u64) -> Result<f64, String> {
    if run.sum != expected {
        return Err(format!("{side} summed up {:#x}, not {expected:#x}", run.sum));
    }
    Ok(packets as f64 / (2.0 * run.seconds) / 1e6)
}

/// `balance-copy-64` and `balance-share-64`.
pub(super) fn measure<const LOGS: usize>(context: &Context, name: &str) -> Result<Outcome, String> {
    let packets: u64 = if context.smoke { 8192 } else { 2 << 20 };
    let traffic = Traffic::new(PACKET_BYTES);
    let (mut ours, mut arena) = pages::with_best(LOG_BYTES + ARENA_BYTES, |pages| {
        let arena = Arena::create(ARENA_BYTES, pages).map_err(|error| error.to_string())?;
        Ok::<_, String>((Ours::create(LOGS, pages)?, arena))
    })?;
    let conditions = Conditions::watch(context.cores);
    let (shape, tried) = best_shape(context, &traffic, &mut arena, packets / 8)?;
    let mut all = Vec::new();
    for (_, flows) in INTERLEAVINGS {
        let sum = expected(&traffic, &flows, packets, WORKERS).0;
        arena.clear();
        let mut peer = Peer::new(&arena, shape);
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
    let what = if LOGS == 1 { "one log that all workers read" } else { "a log for each worker" };
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
    for ((interleaving, _), rounds) in INTERLEAVINGS.iter().zip(&all) {
        let (ours, peer) = (Quartiles::of(&rounds.ours).median, Quartiles::of(&rounds.peer).median);
        let ratio = ours / peer;
        details.push(format!("{interleaving}: ours {ours:.1}, peer {peer:.1}, ratio {ratio:.2}"));
    }
    let (page, theirs) = (ours.page, arena.page());
    details.push(format!("pages: ours {page}, peer {theirs}; the figure is that of `uniform`"));
    let rounds = all.swap_remove(0);
    outcome(name, "Mpackets/CPU-s", rounds, details, &conditions)
}

fn outcome(
    name: &str,
    unit: &'static str,
    rounds: Rounds,
    mut details: Vec<String>,
    conditions: &Conditions,
) -> Result<Outcome, String> {
    details.extend(conditions.report());
    let (name, better) = (name.to_owned(), Better::Higher);
    Ok(Outcome::Measured(Figure { name, unit, better, rounds, details }))
}

/// The rival: objects of the pool, and of each core's cache.
type Shape = (usize, usize);

struct Peer<'a> {
    pool: Pool<'a>,
    caches: Caches,
    rings: Vec<Spsc<'a, Address>>,
}

impl<'a> Peer<'a> {
    fn new(arena: &'a Arena, (objects, cache): Shape) -> Self {
        let pool = Pool::new("packets", arena, objects);
        let rings = (0..WORKERS).map(|_| Spsc::new(arena, POINTERS)).collect();
        Self { pool, caches: Caches::new(cache), rings }
    }

    fn balance(&mut self, cores: Cores, work: (&Traffic, &Flows), packets: u64) -> Run {
        let memory = (&self.pool, &mut self.caches);
        balancer::balance(cores, work, packets, memory, &mut self.rings)
    }
}

/// Tries every shape a few times with uniform traffic, and keeps the one with the best run.
fn best_shape(
    context: &Context,
    traffic: &Traffic,
    arena: &mut Arena,
    packets: u64,
) -> Result<(Shape, String), String> {
    let packets = packets.next_multiple_of(BURST as u64);
    let flows = INTERLEAVINGS[0].1;
    let sum = expected(traffic, &flows, packets, WORKERS).0;
    let mut tried: Vec<(Shape, f64)> = Vec::new();
    for cache in CACHES {
        for objects in POOLS.into_iter().filter(|&objects| cache * 3 <= objects) {
            arena.clear();
            let mut peer = Peer::new(arena, (objects, cache));
            let mut best = 0_f64;
            for _ in 0..if context.smoke { 1 } else { 3 } {
                let run = peer.balance(context.cores, (traffic, &flows), packets);
                best = best.max(rate("the balancer", run, packets, sum)?);
            }
            tried.push(((objects, cache), best));
        }
    }
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).ok_or("no shapes")?.0;
    let rates: Vec<_> = tried
        .iter()
        .map(|((objects, cache), rate)| format!("{objects}/{cache}: {rate:.1}"))
        .collect();
    Ok((best, format!("tried, by pool and cache: {}", rates.join(", "))))
}

/// `stalled-worker`: three workers' rate beside a fourth that holds a segment and does not go on,
/// against the same without that one.
pub(super) fn stalled(context: &Context, name: &str) -> Result<Outcome, String> {
    let packets: u64 = if context.smoke { 8192 } else { 2 << 20 };
    let traffic = Traffic::new(PACKET_BYTES);
    let flows = INTERLEAVINGS[0].1;
    let others = WORKERS - 1;
    let (sum, seen) = expected(&traffic, &flows, packets, others);
    let (mut beside, mut without) = pages::with_best(2 * LOG_BYTES, |pages| {
        Ok::<_, String>((Ours::create(WORKERS, pages)?, Ours::create(WORKERS, pages)?))
    })?;
    let conditions = Conditions::watch(context.cores);
    // Lossless readers would hold everybody up, as they are to: the fourth becomes a lossy one.
    let mut stopped = beside.stall(&traffic)?;
    without.readers.truncate(others);
    let (beside, without) = (RefCell::new(beside), RefCell::new(without));
    let run = |ours: &RefCell<Ours>| {
        let mut ours = ours.borrow_mut();
        let run = ours.balance(context.cores, (&traffic, &flows), (packets, seen));
        Ok(rate("the others", run, seen, sum)? * 2.0)
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
    outcome(name, "Mpps", rounds, details, &conditions)
}

impl Ours {
    /// Replaces the last worker's reader by one that has taken a burst and stands still.
    fn stall(&mut self, traffic: &Traffic) -> Result<Reader, String> {
        let (name, segment_bytes) = ("bench".to_owned(), SEGMENT_BYTES);
        let config =
            LogConfig { name, bytes: LOG_BYTES / WORKERS, segment_bytes, ..LogConfig::default() };
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
