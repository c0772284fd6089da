//! Four ports into one memory: our merge by packet against the article's stages on DPDK's mbufs.

use burstline_sys::memory::PageChoice;

use super::super::Context;
use super::super::merge::{LOG_BYTES, Run, Work};
use crate::arena::Arena;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::{alternate, go_on};
use crate::instructions;
use crate::lines::{Interleaving, LINES, Line};
use crate::rivals::BURST;
use crate::rivals::dpdk::{self, Hint, Manner, OUTPUT_BYTES, SLOTS, Shape};
use crate::threads::Cores;

/// Mbufs of the pool, and of each core's cache. All of them with either kind of rings.
const SHAPES: [(u32, u32); 9] = [
    (2047, 0),
    (4095, 0),
    (8191, 0),
    (16_383, 0),
    (2047, 256),
    (4095, 256),
    (4095, 512),
    (8191, 512),
    (16_383, 512),
];
const ARENA_BYTES: usize = OUTPUT_BYTES + (1 << 20);
/// Packets of each line in a round whose instructions are counted.
const ROUND: u64 = 2048;

/// What is tried besides the article's design.
const VARIANTS: [(&str, Manner); 5] = [
    ("no prefetch", Manner { hint: Hint::None, ..Manner::PLAIN }),
    ("prefetch0", Manner::PLAIN),
    ("prefetch1", Manner { hint: Hint::T1, ..Manner::PLAIN }),
    ("memcpy of segments", Manner { is_whole: 1, ..Manner::PLAIN }),
    ("ordered by packet", Manner { is_ordered: 1, ..Manner::PLAIN }),
];

/// The rival, and the work of both.
struct Bench<'c> {
    context: &'c Context,
    work: Work,
    arena: Arena,
    is_huge: bool,
}

impl Bench<'_> {
    fn peer(&mut self, shape: Shape, manner: Manner) -> Result<Run, String> {
        go_on(&self.context.stop)?;
        let (lines, most) = (&self.work.lines, self.work.most);
        let how = (shape, manner);
        let merged = dpdk::merge(&mut self.arena, lines, how, most, self.context.cores)?;
        if merged.packets != self.work.all() {
            return Err(format!("DPDK: {} of {} packets", merged.packets, self.work.all()));
        }
        self.is_huge &= merged.is_huge;
        let dpdk::Merged { packets, cpu_s, elapsed_s, violations, .. } = merged;
        Ok(Run { packets, cpu_s, elapsed_s, violations })
    }

    fn best(&mut self, shape: Shape, manner: Manner) -> Result<f64, String> {
        let tries = self.context.tries();
        (0..tries).try_fold(0_f64, |best, _| Ok(best.max(self.peer(shape, manner)?.mpps())))
    }

    fn violations(&mut self, shape: Shape, is_ordered: bool) -> Result<u64, String> {
        let is_ordered = is_ordered.into();
        let manner = Manner { is_ordered, is_checking: 1, ..Manner::PLAIN };
        Ok(self.peer(shape, manner)?.violations)
    }
}

/// `dpdk-merge-4x64`, and with a rival that orders packet by packet, as ours does.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    dpdk::start()?;
    let is_ordered = name.ends_with("ordered");
    let manner = Manner { is_ordered: is_ordered.into(), ..Manner::PLAIN };
    let pages = PageChoice::Transparent;
    let arena = Arena::create(ARENA_BYTES, pages).map_err(|error| error.to_string())?;
    let most = if context.smoke { 8192 } else { 2 << 20 };
    let lines = Line::all(Interleaving::Uniform);
    let work = Work { lines, most, context: context.cores, are_two: true, pages };
    let mut bench = Bench { context, work, arena, is_huge: true };
    let conditions = Conditions::watch(context.cores);
    let mut tried = Vec::new();
    for is_single in [1, 0] {
        for (objects, cache) in SHAPES {
            let shape = Shape { objects, cache, slots: SLOTS, is_single };
            tried.push((shape, bench.best(shape, manner)?));
        }
    }
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("some were tried").0;
    let ours = bench.work.ours(true)?;
    // Of the pools from here on: all of the best shape.
    bench.is_huge = true;
    let violations = [bench.violations(best, is_ordered)?, bench.violations(best, true)?];
    if violations[1] != 0 {
        return Err(format!("DPDK's ordered merge has {} packets out of order", violations[1]));
    }
    let mut variants = Vec::new();
    for (name, manner) in VARIANTS {
        variants.push(format!("{name} {:.2}", bench.best(best, manner)?));
    }
    let bench = std::cell::RefCell::new(bench);
    let rounds = alternate(
        context.runs,
        &context.stop,
        || Ok(bench.borrow().work.ours(false)?.sample()),
        || Ok(bench.borrow_mut().peer(best, manner)?.sample()),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let found = Found { best, tried, variants, violations: [ours.violations, violations[0]] };
    let mut details = describe(&bench.into_inner(), &found);
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of_samples("mpps", Better::Higher, rounds, details)))
}

/// What was found out beside the rates.
struct Found {
    best: Shape,
    tried: Vec<(Shape, f64)>,
    variants: Vec<String>,
    /// Ours, and the rival's by burst.
    violations: [u64; 2],
}

fn describe(bench: &Bench<'_>, found: &Found) -> Vec<String> {
    let Found { best, tried, variants, violations } = found;
    let all = bench.work.all();
    let tried_with = |is_single: u8| {
        let of_kind = tried.iter().filter(move |(shape, _)| shape.is_single == is_single);
        let each =
            |(shape, rate): &(Shape, f64)| format!("{}/{}: {rate:.2}", shape.objects, shape.cache);
        of_kind.map(each).collect::<Vec<_>>().join(", ")
    };
    vec![
        format!("four lines, uniform: {all} packets a run, memory to memory"),
        format!(
            "peer: receive on a core, merge, memcpy and read on the other; pool {}, cache {}, {} \
             rings of {SLOTS} pointers, bursts of {BURST}, bulk calls, 4 ahead",
            best.objects,
            best.cache,
            best.rings()
        ),
        format!(
            "order violations: ours {}, peer {} of {all}, peer ordered by packet 0",
            violations[0], violations[1]
        ),
        format!(
            "peer's variants, best of {}, Mpps by the clock: {}",
            bench.context.tries(),
            variants.join(", ")
        ),
        format!("peer tried with SP/SC, Mpps by pool/cache {}", tried_with(1)),
        format!("peer tried with MP/MC, Mpps by pool/cache {}", tried_with(0)),
        instructions_line(),
        format!(
            "log {} KiB, pages {}; peer's pool {}",
            LOG_BYTES >> 10,
            bench.arena.page(),
            dpdk::pages_of_pool(bench.is_huge)
        ),
    ]
}

fn instructions_line() -> String {
    let of = |piece| instructions::of_a_packet(piece, ROUND * LINES as u64);
    match (of("merge-log"), of("merge-mbuf"), of("merge-mbuf-ordered")) {
        (Some(ours), Some(peer), Some(ordered)) => format!(
            "instructions a packet, all stages in turns on one core: ours, which also counts what \
             it merged, {ours:.0}, peer {peer:.0}, by packet {ordered:.0}"
        ),
        _ => instructions::NOT_COUNTED.to_owned(),
    }
}

/// A side of `dpdk-merge-4x64` in turns on one core, 2,048 packets of each line a round.
pub(super) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    let (lines, most) = (Line::all(Interleaving::Uniform), rounds * ROUND);
    let (context, pages) = (Cores::allowed(), PageChoice::Size4K);
    let work = Work { lines, most, context, are_two: false, pages };
    let ordered = Manner { is_ordered: 1, ..Manner::PLAIN };
    match piece {
        "merge-log" => Some(work.ours_in_turns().map(drop)),
        "merge-mbuf" => Some(rounds_of_the_rival(&work, Manner::PLAIN)),
        "merge-mbuf-ordered" => Some(rounds_of_the_rival(&work, ordered)),
        _ => None,
    }
}

fn rounds_of_the_rival(work: &Work, manner: Manner) -> Result<(), String> {
    dpdk::start_to_count()?;
    let mut arena = Arena::create(ARENA_BYTES, work.pages).map_err(|error| error.to_string())?;
    let how = (Shape::COUNTED, manner);
    let copied = dpdk::merge_in_turns(&mut arena, &work.lines, how, work.most)?;
    match copied == work.all() {
        true => Ok(()),
        false => Err(format!("DPDK: {copied} of {} packets", work.all())),
    }
}
