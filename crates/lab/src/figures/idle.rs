//! Measures the cost of waiting: CPU time while no frame arrives, throughput, and the latency of a
//! frame that ends a silence.
//!
//! Latency is measured in this process with the engine's own loop: a wrapper around the port
//! records when a burst is lent. Frames are sent one by one through a packet socket at the cable's
//! other end. The clock is read just before each, so the kernel's work along the cable counts.

mod latency;

use std::path::Path;
use std::time::Duration;

use burstline_testbed::Target;

use super::Context;
use crate::compared::{Better, Outcome};
use crate::contest::Rounds;
use crate::live::{Contender, Load, Road, missing};
use crate::programs::our_program;
use crate::programs::{Ours, Ready, Report, Words};
use crate::scenario::machine::Served;

const IDLE_SECONDS: u64 = 3;
const LOAD: Duration = Duration::from_secs(2);
/// Pairs of loaded runs.
const LOADED_RUNS: usize = 3;
const SMOKE_FRAMES: u64 = 500;

/// `idle-cpu`: per cent of a core on an idle interface; ours polls adaptively, the peer busily.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?;
    let comparison = context.begin();
    let rounds = by_poll(context, context.process_runs(), |poll| idle(context, &program, poll))?;
    let runs = if context.smoke { 1 } else { LOADED_RUNS };
    let loaded = by_poll(context, runs, |poll| loaded(context, &program, poll))?;
    let mut details = vec![
        "ours: burstline count afpacket:v1 --poll adaptive; peer: --poll busy".to_owned(),
        format!("user and system time of all threads, over {IDLE_SECONDS} s"),
    ];
    let (adaptive, busy) = loaded.medians();
    details.push(format!(
        "xdp: at the injector's top speed: adaptive {adaptive:.3} Mpps, busy {busy:.3}, \
         ratio {:.3}, medians of {runs} runs in turns",
        adaptive / busy
    ));
    let block = "; the kernel keeps a block until it is full or times out";
    let addresses = [("xdp:v1", ""), ("afpacket:v1", block), ("afpacket:v1?retire_ms=1", block)];
    for (address, why) in addresses.into_iter().take(if context.smoke { 1 } else { 3 }) {
        for poll in ["adaptive", "busy"] {
            details.push(latency::measure(context, address, poll)? + why);
        }
    }
    Ok(comparison.outcome("% of a core", Better::Lower, rounds, details))
}

/// Returns the CPU use of a count without packets, in per cent of a core.
fn idle(context: &Context, program: &Path, poll: &str) -> Result<f64, String> {
    let (road, served) = (Road::new(context.cores)?, Served::now());
    let time = if context.smoke { "100ms".to_owned() } else { format!("{IDLE_SECONDS}s") };
    let program = program.display();
    let command = format!("'{program}' count afpacket:v1 --poll {poll} --json --duration {time}");
    let percent = cpu_percent(context, &road, command);
    context.look_at(road.bed(), &served);
    percent
}

/// Takes turns with `--poll adaptive`, which is ours, and with `busy`.
pub(super) fn by_poll(
    context: &Context,
    runs: usize,
    turn: impl Fn(&str) -> Result<f64, String>,
) -> Result<Rounds<f64>, String> {
    context.turns(runs, || turn("adaptive"), || turn("busy"))
}

/// Returns the CPU use of one of our commands without packets, by its own report.
pub(super) fn cpu_percent(context: &Context, road: &Road, command: String) -> Result<f64, String> {
    // It is ready when it has printed its report, and then it has ended.
    let words = Words { command, ready: Ready::line("elapsed_s") };
    let list = context.cores.consumer.0.to_string();
    let contender = Contender::start(road, &list, &words, &context.stop)?;
    let ours = Report::parse(&contender.printed(), 0)?;
    Ok(100.0 * ours.cpu_seconds / ours.elapsed_seconds)
}

/// Returns millions of packets a second received at the injector's top speed.
fn loaded(context: &Context, program: &Path, poll: &str) -> Result<f64, String> {
    let road = Road::new(context.cores)?;
    let cores = context.cores;
    let amount = context.amount(SMOKE_FRAMES, LOAD);
    let core = cores.consumer.0;
    let count = Ours::new(program, &format!("count xdp:v1 --poll {poll} --cores {core}"));
    let list = format!("{},{}", cores.producer.0, cores.consumer.0);
    let contender = Contender::start(&road, &list, &count, &context.stop)?;
    let injected = road.inject(Target::Program, Load { amount, rate_pps: None }, &context.stop)?;
    let (said, _) = contender.end()?;
    let ours = Report::parse(&said, injected.offered)?;
    Ok(ours.delivered as f64 / injected.elapsed.as_secs_f64() / 1e6)
}
