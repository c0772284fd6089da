//! Measures the overhead of watching a contender: alternates turns with and without the lab's
//! counters and samples on its core.
//!
//! The target is less than 2 % of throughput at 64 bytes. In memory the work never waits, so the
//! figure contains each sample's interrupt. On an interface it does so only if the contender is the
//! bottleneck.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use burstline_sys::affinity::{self, CoreId};
use burstline_sys::clock;
use burstline_testbed::Target;

use super::Context;
use crate::compared::{Better, Outcome};
use crate::contenders::Watch;
use crate::contest::Rounds;
use crate::live::{Contender, Load, Road};
use crate::programs::our_program;
use crate::programs::{Ours, Report};
use crate::scenario::machine::Served;
use crate::statistics::Quartiles;

/// A 64-byte frame without its FCS.
const PACKET_BYTES: usize = 60;

/// Number of packets to copy: they fit into an L1 cache.
const PACKETS: usize = 128;

/// Length of a turn, on an interface and in memory.
const TIME: Duration = Duration::from_secs(1);
const TIME_IN_MEMORY: Duration = Duration::from_millis(400);

const SMOKE_FRAMES: u64 = 1_000;
const SMOKE_TIME: Duration = Duration::from_millis(2);

/// `instrumentation-xdp-64`: this program's count from an interface. The peer is not watched.
pub(super) fn live(context: &Context) -> Result<Outcome, String> {
    let program = our_program()?;
    let what = "burstline count xdp:v1 --poll busy, frames injected at top speed, a process a turn";
    compare(context, what, |is_watched| {
        let (road, served) = (Road::new(context.cores)?, Served::now());
        let core = context.cores.consumer.to_string();
        let count = Ours::new(&program, &format!("count xdp:v1 --poll busy --cores {core}"));
        let contender = Contender::start(&road, &core, &count, &context.stop)?;
        let amount = context.amount(SMOKE_FRAMES, TIME);
        let load = Load { amount, rate_pps: None };
        let inject = || road.inject(Target::Program, load, &context.stop);
        let (injected, samples) = watched(is_watched, context.cores.consumer, inject)?;
        context.saw(usize::from(!is_watched), || contender.pages());
        let (said, _) = contender.end()?;
        context.look_at(road.bed(), &served);
        let delivered = Report::parse(&said, injected.offered)?.delivered;
        Ok((delivered as f64 / injected.elapsed.as_secs_f64() / 1e6, samples))
    })
}

/// `instrumentation-memory-64`: packets copied within the L1 cache.
pub(super) fn in_memory(context: &Context) -> Result<Outcome, String> {
    let core = context.cores.consumer;
    let time = if context.smoke { SMOKE_TIME } else { TIME_IN_MEMORY };
    let what = "packets of 60 bytes copied from and into the first cache, 0.4 s of a thread's time";
    let copy = || {
        let copier = thread::spawn(move || {
            // If this fails, the kernel chooses the core.
            let _ = affinity::pin_to(core);
            copies_per_us(time)
        });
        copier.join().map_err(|_| "it panicked".to_owned())
    };
    compare(context, what, |is_watched| watched(is_watched, core, copy)).map(Outcome::here)
}

/// Copies for that long. Returns millions of copies per second of the thread's CPU time. That
/// leaves out other programs on the core but includes the sampling interrupts.
fn copies_per_us(time: Duration) -> f64 {
    let from = vec![1; PACKETS * PACKET_BYTES];
    let mut to = from.clone();
    let (start_ns, mut spent_ns, mut rounds) = (clock::thread_cpu_ns(), 0, 0_usize);
    while u128::from(spent_ns) < time.as_nanos() {
        for _ in 0..256 {
            for (to, from) in to.chunks_exact_mut(PACKET_BYTES).zip(from.chunks(PACKET_BYTES)) {
                to.copy_from_slice(black_box(from));
            }
            black_box(&mut to);
        }
        rounds += 256;
        spent_ns = clock::thread_cpu_ns() - start_ns;
    }
    (rounds * PACKETS) as f64 * 1e3 / spent_ns as f64
}

/// Does some work, with the core watched or not. Returns the outcome and the number of samples.
fn watched<R>(
    is_watched: bool,
    core: CoreId,
    work: impl FnOnce() -> Result<R, String>,
) -> Result<(R, u64), String> {
    if !is_watched {
        return Ok((work()?, 0));
    }
    let watch = Watch::start(&[core])?;
    let done = work()?;
    let samples = watch.samples();
    // Names are resolved after the turn, as in a scenario.
    watch.seen()?;
    Ok((done, samples))
}

/// Alternates watched and unwatched turns; each gives millions of packets a second and its number
/// of samples.
fn compare(
    context: &Context,
    what: &str,
    turn: impl Fn(bool) -> Result<(f64, u64), String>,
) -> Result<Outcome, String> {
    let comparison = context.begin();
    let rounds = context.alternate(context.runs, || turn(true), || turn(false))?;
    let samples: Vec<f64> = rounds.ours.iter().map(|(_, samples)| *samples as f64).collect();
    let taken = Quartiles::of(&samples).median;
    let rates = |side: Vec<(f64, u64)>| side.into_iter().map(|(rate, _)| rate).collect();
    let rounds = Rounds { ours: rates(rounds.ours), peer: rates(rounds.peer) };
    let details = vec![
        overhead(&rounds),
        format!("{what}; ours: counters and {taken:.0} samples a turn on its core, peer: none"),
    ];
    Ok(comparison.outcome("Mpps", Better::Higher, rounds, details))
}

/// Describes the throughput cost of watching: by pairs of consecutive turns, and by the fastest
/// turn of each side, which other programs disturbed least.
fn overhead(rounds: &Rounds) -> String {
    let turns = rounds.ours.iter().zip(&rounds.peer);
    let lost: Vec<f64> = turns.map(|(ours, peer)| 100.0 * (1.0 - ours / peer)).collect();
    let Quartiles { first, median, third } = Quartiles::of(&lost);
    let fastest = |side: &[f64]| side.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let of_fastest = 100.0 * (1.0 - fastest(&rounds.ours) / fastest(&rounds.peer));
    format!(
        "watching takes {median:.2} % of throughput, quartiles {first:.2} to {third:.2} % of {} \
         pairs of turns; {of_fastest:.2} % by the fastest turns; the target is below 2 %",
        lost.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overhead_is_that_of_pairs_of_turns() {
        // The machine is half as fast in the second pair, so both sides are.
        let rounds = Rounds { ours: vec![99.0, 49.0, 97.0], peer: vec![100.0, 50.0, 100.0] };
        let said = overhead(&rounds);
        assert!(said.starts_with("watching takes 2.00 % of throughput, quartiles 1.50"), "{said}");
        assert!(said.contains("; 1.00 % by the fastest turns"), "{said}");
    }
}
