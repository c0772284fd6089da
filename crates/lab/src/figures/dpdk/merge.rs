//! Four ports into one memory: our merge by packet against the article's stages on DPDK's mbufs.

use std::cell::Cell;

use burstline_sys::memory::PageChoice;

use super::super::Context;
use super::super::merge::{LOG_BYTES, Run, Work, gigabits, rate};
use crate::arena::Arena;
use crate::conditions::Conditions;
use crate::contest::{alternate, go_on};
use crate::lines::{Interleaving, Line};
use crate::report::{Better, Figure, Outcome};
use crate::rivals::BURST;
use crate::rivals::dpdk::{self, Hint, Manner, OUTPUT_BYTES, SLOTS, Shape};

/// Mbufs of the pool, and of each core's cache.
const SHAPES: [(u32, u32); 5] = [(2047, 256), (4095, 256), (4095, 512), (8191, 512), (16_383, 512)];
const ARENA_BYTES: usize = OUTPUT_BYTES + (1 << 20);

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
        let dpdk::Merged { packets, cpu_s, violations, .. } = merged;
        Ok(Run { packets, cpu_s, cores: 2.0, violations })
    }

    fn best(&mut self, shape: Shape, manner: Manner) -> Result<f64, String> {
        let tries = self.context.tries();
        (0..tries).try_fold(0_f64, |best, _| Ok(best.max(rate(self.peer(shape, manner)?))))
    }

    fn violations(&mut self, shape: Shape, is_ordered: bool) -> Result<u64, String> {
        let is_ordered = is_ordered.into();
        let manner = Manner { is_ordered, is_checking: 1, ..Manner::PLAIN };
        Ok(self.peer(shape, manner)?.violations)
    }
}

/// `dpdk-merge-4x64`.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    dpdk::start()?;
    let pages = PageChoice::Transparent;
    let arena = Arena::create(ARENA_BYTES, pages).map_err(|error| error.to_string())?;
    let most = if context.smoke { 8192 } else { 2 << 20 };
    let lines = Line::all(Interleaving::Uniform);
    let work = Work { lines, most, context: context.cores, are_two: true, pages };
    let mut bench = Bench { context, work, arena, is_huge: true };
    let conditions = Conditions::watch(context.cores);
    let mut tried = Vec::new();
    for (objects, cache) in SHAPES {
        let shape = Shape { objects, cache, slots: SLOTS, is_single: 1 };
        tried.push((shape, bench.best(shape, Manner::PLAIN)?));
    }
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("some were tried").0;
    let ours = bench.work.ours(true)?;
    let violations = [bench.violations(best, false)?, bench.violations(best, true)?];
    if violations[1] != 0 {
        return Err(format!("DPDK's ordered merge has {} packets out of order", violations[1]));
    }
    let mut variants = Vec::new();
    for (name, manner) in VARIANTS {
        variants.push(format!("{name} {:.2}", bench.best(best, manner)?));
    }
    let cores = Cell::new(0.0);
    let bench = std::cell::RefCell::new(bench);
    let rounds = alternate(
        context.runs,
        &context.stop,
        || {
            let run = bench.borrow().work.ours(false)?;
            cores.set(run.cores);
            Ok(rate(run))
        },
        || Ok(rate(bench.borrow_mut().peer(best, Manner::PLAIN)?)),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let (name, better, unit) = (name.to_owned(), Better::Higher, "Mpps per CPU");
    let mut figure = Figure { name, unit, better, rounds, details: Vec::new() };
    let found = Found { best, tried, variants, violations: [ours.violations, violations[0]] };
    figure.details = describe(&bench.into_inner(), &figure, &found, cores.get());
    figure.details.extend(conditions.report());
    Ok(Outcome::Measured(figure))
}

/// What was found out beside the rates.
struct Found {
    best: Shape,
    tried: Vec<(Shape, f64)>,
    variants: Vec<String>,
    /// Ours, and the rival's by burst.
    violations: [u64; 2],
}

fn describe(bench: &Bench<'_>, figure: &Figure, found: &Found, cores: f64) -> Vec<String> {
    let Found { best, tried, variants, violations } = found;
    let all = bench.work.all();
    let (our_rate, their_rate) = figure.medians();
    let shapes = tried
        .iter()
        .map(|(Shape { objects, cache, .. }, rate)| format!("{objects}/{cache}: {rate:.2}"));
    // Of a core's time, by the rate for a second of it.
    let rho = |rate: f64| 100.0 / gigabits(rate);
    vec![
        format!("four lines, uniform: {all} packets a run, memory to memory"),
        format!(
            "peer: receive on a core, merge and memcpy on the other; pool {}, cache {}, SP/SC \
             rings of {SLOTS} pointers, bursts of {BURST}, bulk calls, 4 ahead",
            best.objects, best.cache
        ),
        format!(
            "order violations: ours {}, peer {} of {all}, peer ordered by packet 0",
            violations[0], violations[1]
        ),
        format!(
            "peer's variants, best of {}, Mpps per CPU: {}",
            bench.context.tries(),
            variants.join(", ")
        ),
        format!("peer: best of pool/cache {}", shapes.collect::<Vec<_>>().join(", ")),
        format!(
            "line rate per core: ours {:.1} Gbit/s, peer {:.1}; rho, CPU % per Gbit/s of it: ours \
             {:.2}, peer {:.2}",
            gigabits(our_rate),
            gigabits(their_rate),
            rho(our_rate),
            rho(their_rate)
        ),
        format!(
            "cores used: ours {:.2}, of which what reads the log is not in the figure; peer 2",
            cores
        ),
        format!(
            "log {} KiB, pages {}; peer's pool {}",
            LOG_BYTES >> 10,
            bench.arena.page(),
            if bench.is_huge { "in transparent huge pages" } else { "in small pages, in part" }
        ),
    ]
}
