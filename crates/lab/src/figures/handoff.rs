//! Packets from core to core: the log against scattered buffers, and against its bare layout.

use super::Context;
use crate::arena::Arena;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::ours::{Ours, SEGMENT_BYTES};
use crate::pages;
use crate::rivals::bare::Bare;
use crate::rivals::lean::{self, Lean};
use crate::rivals::pool::{self, Pool};
use crate::rivals::ring::Ring;
use crate::rivals::scattered::{self, Caches};
use crate::rivals::spsc::Spsc;
use crate::rivals::{Address, BURST, Run};
use crate::traffic::Traffic;

/// Packet memory of our log: deep enough that neither side waits for a segment, small enough
/// that what is in flight stays in the cache.
const LOG_BYTES: usize = 2 << 20;
/// Enough for the largest pool with its ring.
const ARENA_BYTES: usize = 40 << 20;
/// Slots of the rival's pointer ring, DPDK's usual number.
const POINTERS: usize = 1024;

const POOLS: [usize; 6] = [511, 1023, 2047, 4095, 8191, 16_383];
const CACHES: [usize; 3] = [0, 256, 512];
const BUFFERS: [usize; 4] = [256, 512, 1024, 2048];

/// Both sides' memory, in pages of the same kind, and the work.
struct Bench<'c> {
    context: &'c Context,
    traffic: Traffic,
    packets: u64,
    /// Of a run of `packets`, and of a run of the search.
    expected: (u64, u64),
    ours: Ours,
    arena: Arena,
    conditions: Conditions,
}

impl<'c> Bench<'c> {
    fn new(context: &'c Context, length: usize) -> Result<Self, String> {
        let traffic = Traffic::new(length);
        let packets: u64 = match (context.smoke, length > 256) {
            (true, _) => 8192,
            (false, false) => 4 << 20,
            (false, true) => 1 << 20,
        };
        let expected = (traffic.expected(packets), traffic.expected(search_packets(packets)));
        let (ours, arena) = pages::with_best(LOG_BYTES + ARENA_BYTES, |pages| {
            let arena = Arena::create(ARENA_BYTES, pages).map_err(|error| error.to_string())?;
            Ok::<_, String>((Ours::create(LOG_BYTES, pages)?, arena))
        })?;
        let conditions = Conditions::watch(context.cores);
        Ok(Self { context, traffic, packets, expected, ours, arena, conditions })
    }

    fn outcome(self, rounds: crate::contest::Rounds, peer: Vec<String>) -> Outcome {
        if self.context.smoke {
            return Outcome::Smoke;
        }
        let written = self.ours.statistics();
        let working_set = written.segments_high_water as usize * SEGMENT_BYTES;
        let mut details = vec![
            format!("{} packets a run of {} bytes", self.packets, self.traffic.length()),
            format!(
                "ours: log {} KiB, segments {} KiB, working set at most {} KiB, full {} times",
                LOG_BYTES >> 10,
                SEGMENT_BYTES >> 10,
                working_set >> 10,
                written.full
            ),
        ];
        details.extend(peer);
        let (ours, theirs) = (self.ours.page(), self.arena.page());
        details.extend(self.conditions.report());
        let (better, unit) = (Better::Higher, "Mpps");
        Outcome::Measured(Compared::of(unit, better, rounds, details).in_pages([ours, theirs]))
    }
}

fn search_packets(packets: u64) -> u64 {
    (packets / 8).next_multiple_of(BURST as u64)
}

/// Mpps, if the sum is right.
fn rate(side: &str, run: Run, packets: u64, expected: u64) -> Result<f64, String> {
    if run.sum != expected {
        return Err(format!("{side} summed up {:#x}, not {expected:#x}", run.sum));
    }
    Ok(packets as f64 / run.seconds / 1e6)
}

/// A shape of the pool: objects, size of each core's cache, and the kind of pointer ring.
#[derive(Clone, Copy, Debug)]
struct Shape {
    objects: usize,
    cache: usize,
    is_single: bool,
}

impl Shape {
    /// Those that make sense: as in DPDK, a cache's threshold is at most the pool.
    fn all() -> Vec<Self> {
        let mut shapes = Vec::new();
        for is_single in [true, false] {
            for cache in CACHES {
                for objects in POOLS.into_iter().filter(|&objects| cache * 3 / 2 <= objects) {
                    shapes.push(Self { objects, cache, is_single });
                }
            }
        }
        shapes
    }

    fn ring(&self) -> &'static str {
        if self.is_single { "SP/SC" } else { "MP/MC" }
    }
}

/// `handoff-N`: the pool and pointer ring of the documents, in its best shape.
pub(super) fn against_pool<const LENGTH: usize>(
    context: &Context,
    _: &str,
) -> Result<Outcome, String> {
    let mut bench = Bench::new(context, LENGTH)?;
    let (best, mut details) = best_shape(&mut bench)?;
    let (cores, packets, expected) = (context.cores, bench.packets, bench.expected.0);
    let Bench { traffic, ours, arena, .. } = &mut bench;
    arena.clear();
    let mut rounds = Default::default();
    with_shape(arena, best, |run_peer| {
        rounds = alternate(
            context.runs,
            &context.stop,
            || rate("ours", ours.hand_off(cores, traffic, packets), packets, expected),
            || rate("the pool", run_peer(context, traffic, packets), packets, expected),
        )?;
        Ok(())
    })?;
    let Shape { objects, cache, .. } = best;
    details.insert(
        0,
        format!(
            "peer: best of {} shapes: pool of {objects} objects {} bytes apart ({} KiB), cache \
             {cache}, {} ring of {POINTERS} pointers, bursts of {BURST}",
            Shape::all().len(),
            pool::STRIDE_BYTES,
            (objects * pool::STRIDE_BYTES) >> 10,
            best.ring()
        ),
    );
    Ok(bench.outcome(rounds, details))
}

/// One run of the rival.
type PeerRun<'r> = dyn FnMut(&Context, &Traffic, u64) -> Run + 'r;

/// Makes the pool in that shape and lends a way to run it.
fn with_shape(
    arena: &Arena,
    shape: Shape,
    work: impl FnOnce(&mut PeerRun<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let pool = Pool::new("packets", arena, shape.objects);
    let mut caches = Caches::new(shape.cache);
    if shape.is_single {
        let mut ring = Spsc::<Address>::new(arena, POINTERS);
        work(&mut |context, traffic, packets| {
            let both = (&pool, &mut caches);
            scattered::hand_off(context.cores, traffic, packets, both, ring.split())
        })
    } else {
        let ring = Ring::<Address>::new(arena, POINTERS);
        work(&mut |context, traffic, packets| {
            let both = (&pool, &mut caches);
            scattered::hand_off(context.cores, traffic, packets, both, (&ring, &ring))
        })
    }
}

/// Tries every shape a few times, and keeps the one with the best single run.
fn best_shape(bench: &mut Bench<'_>) -> Result<(Shape, Vec<String>), String> {
    let packets = search_packets(bench.packets);
    let tries = if bench.context.smoke { 1 } else { 3 };
    let mut found: Vec<(Shape, f64)> = Vec::new();
    for shape in Shape::all() {
        bench.arena.clear();
        with_shape(&bench.arena, shape, |run_peer| {
            let mut best = 0_f64;
            for _ in 0..tries {
                let run = run_peer(bench.context, &bench.traffic, packets);
                best = best.max(rate("the pool", run, packets, bench.expected.1)?);
            }
            found.push((shape, best));
            Ok(())
        })?;
    }
    let best = found.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are shapes").0;
    let mut lines = Vec::new();
    for is_single in [true, false] {
        for cache in CACHES {
            let row = found.iter().filter(|(s, _)| s.is_single == is_single && s.cache == cache);
            let rates: Vec<String> =
                row.clone().map(|(shape, rate)| format!("{}: {rate:.1}", shape.objects)).collect();
            let ring = row.clone().next().map_or("", |(shape, _)| shape.ring());
            lines.push(format!("tried {ring}, cache {cache}, Mpps by pool {}", rates.join(", ")));
        }
    }
    Ok((best, lines))
}

/// `handoff-N-lean`: buffers that go round between the two cores, in their best number.
pub(super) fn against_lean<const LENGTH: usize>(
    context: &Context,
    _: &str,
) -> Result<Outcome, String> {
    let mut bench = Bench::new(context, LENGTH)?;
    let (cores, packets) = (context.cores, bench.packets);
    let few = search_packets(packets);
    let mut tried = Vec::new();
    for buffers in BUFFERS {
        bench.arena.clear();
        let mut lean = Lean::new(&bench.arena, buffers);
        let mut best = 0_f64;
        for _ in 0..if context.smoke { 1 } else { 5 } {
            let run = lean.hand_off(cores, &bench.traffic, few);
            best = best.max(rate("the lean rival", run, few, bench.expected.1)?);
        }
        tried.push((buffers, best));
    }
    let buffers = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("some were tried").0;
    let Bench { traffic, ours, arena, expected, .. } = &mut bench;
    arena.clear();
    let mut lean = Lean::new(arena, buffers);
    let expected = expected.0;
    let rounds = alternate(
        context.runs,
        &context.stop,
        || rate("ours", ours.hand_off(cores, traffic, packets), packets, expected),
        || rate("the lean rival", lean.hand_off(cores, traffic, packets), packets, expected),
    )?;
    let rates: Vec<String> = tried.iter().map(|(n, rate)| format!("{n}: {rate:.1}")).collect();
    let details = vec![
        format!(
            "peer: {buffers} buffers {} bytes apart ({} KiB), a ring forth and a ring back, \
             bursts of {BURST}",
            lean::STRIDE_BYTES,
            (buffers * lean::STRIDE_BYTES) >> 10
        ),
        format!("tried Mpps by buffers {}", rates.join(", ")),
    ];
    Ok(bench.outcome(rounds, details))
}

/// `handoff-N-bare`: the same layout without anything around it.
pub(super) fn against_bare<const LENGTH: usize>(
    context: &Context,
    _: &str,
) -> Result<Outcome, String> {
    let mut bench = Bench::new(context, LENGTH)?;
    let (cores, packets) = (context.cores, bench.packets);
    let Bench { traffic, ours, arena, expected, .. } = &mut bench;
    let segments = LOG_BYTES / SEGMENT_BYTES;
    let mut bare = Bare::new(arena, SEGMENT_BYTES, segments);
    let whole = bare.hand_off(cores, traffic, packets).1;
    let (expected, expected_whole) = (expected.0, traffic.expected(whole));
    let rounds = alternate(
        context.runs,
        &context.stop,
        || rate("ours", ours.hand_off(cores, traffic, packets), packets, expected),
        || {
            let (run, handed) = bare.hand_off(cores, traffic, packets);
            rate("the bare layout", run, handed, expected_whole)
        },
    )?;
    let details = vec![format!(
        "peer: {segments} segments of {} KiB in turn, {whole} packets a run",
        SEGMENT_BYTES >> 10
    )];
    Ok(bench.outcome(rounds, details))
}
