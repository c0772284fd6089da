//! Receiving from a driver's queue: `burstline count xdp:` against `dpdk-testpmd` in rxonly mode
//! over net_af_xdp, the same injector on the other core.
//!
//! What each side counts as busy: testpmd the time stamp counter over receive calls that returned
//! packets, and over freeing these; we the wall time of polls that found packets, from the end of
//! the poll before to the end of this one, so with counting, the loop around it, two looks at the
//! clock, and one at the interface every 50 ms. Both include what preempts them.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use burstline_testbed::{Amount, Receiver};

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::{Conditions, cycles_per_second};
use crate::contest::alternate;
use crate::live::{Contender, Load, Road, missing};
use crate::programs::{Launch, Mode, Ours, Report, Testpmd, Totals};
use crate::statistics::median_after_first;

const SECONDS: Duration = Duration::from_secs(2);
const SMOKE_FRAMES: u64 = 500;
/// Well below what either side takes.
const PACED_PPS: u64 = 1_000_000;

/// `xdp-rx-testpmd`: packets a second, of an injector at its top speed.
pub(super) fn rate(context: &Context, _: &str) -> Result<Outcome, String> {
    let value = |run: &Run| run.received as f64 / run.seconds / 1e6;
    measure(context, None, &Shape { unit: "Mpps", better: Better::Higher, value })
}

/// `xdp-cycles-testpmd`: busy cycles a packet, at the injector's top speed.
pub(super) fn cycles(context: &Context, _: &str) -> Result<Outcome, String> {
    let value = |run: &Run| run.cycles;
    measure(context, None, &Shape { unit: "cycles", better: Better::Lower, value })
}

/// `xdp-cycles-testpmd-paced`: the same at a rate that leaves both with empty polls.
pub(super) fn cycles_paced(context: &Context, _: &str) -> Result<Outcome, String> {
    let value = |run: &Run| run.cycles;
    let shape = Shape { unit: "cycles", better: Better::Lower, value };
    measure(context, Some(PACED_PPS), &shape)
}

/// What a figure shows of a run.
struct Shape {
    unit: &'static str,
    better: Better,
    value: fn(&Run) -> f64,
}

/// One side's run.
struct Run {
    offered: u64,
    received: u64,
    /// Of injection.
    seconds: f64,
    /// Busy ones a packet.
    cycles: f64,
}

fn measure(context: &Context, rate_pps: Option<u64>, shape: &Shape) -> Result<Outcome, String> {
    if let Some(why) = missing(Testpmd::needs()) {
        return Ok(Outcome::NotHere(why));
    }
    let ours = our_program()?;
    let amount = match context.smoke {
        true => Amount::Frames(SMOKE_FRAMES),
        false => Amount::Time(SECONDS),
    };
    let load = Load { amount, rate_pps };
    let hz = cycles_per_second();
    // Polls, the program's own times, the rival.
    let runs = [const { RefCell::new(Vec::new()) }; 3];
    let conditions = Conditions::watch(context.cores);
    let keep = |side: usize, run: Run| {
        let value = (shape.value)(&run);
        runs[side].borrow_mut().push(run);
        value
    };
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || {
            keep(1, our_run(context, &ours, "program", load, hz)?);
            Ok(keep(0, our_run(context, &ours, "poll", load, hz)?))
        },
        || Ok(keep(2, testpmd_run(context, load)?)),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let rate = rate_pps.map_or("top speed".to_owned(), |pps| format!("{pps} frames/s"));
    let mut details = vec![
        format!(
            "numbered frames of 60 bytes for {} s at {rate}, native XDP on a veth, copy mode",
            SECONDS.as_secs()
        ),
        "ours: burstline count xdp:v1?timestamps=poll --poll busy; peer: dpdk-testpmd rxonly, \
         net_af_xdp, busy_budget=0, which takes no times; same injector, a process a run"
            .to_owned(),
        format!("busy cycles: without empty polls; ours wall time at {:.0} MHz", hz / 1e6),
    ];
    let names = ["ours timestamps=poll", "ours timestamps=program", "peer"];
    for (name, runs) in names.into_iter().zip(runs) {
        details.push(summary(name, &runs.into_inner()));
    }
    details.extend(conditions.report());
    let (unit, better) = (shape.unit, shape.better);
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

fn our_run(
    context: &Context,
    program: &Path,
    timestamps: &str,
    load: Load,
    hz: f64,
) -> Result<Run, String> {
    let core = context.cores.consumer;
    let words = format!("count 'xdp:v1?timestamps={timestamps}' --poll busy --cores {core}");
    let (offered, seconds, said) = run(context, &Ours::new(program, &words), load)?;
    let report = Report::parse(&said, offered)?;
    let cycles = report.busy_seconds * hz / report.delivered.max(1) as f64;
    Ok(Run { offered, received: report.delivered, seconds, cycles })
}

fn testpmd_run(context: &Context, load: Load) -> Result<Run, String> {
    let (main, core) = (context.cores.producer, context.cores.consumer);
    let testpmd = Testpmd::over(main, &[core], &["v1"], Mode::Receive);
    let (offered, seconds, said) = run(context, &testpmd, load)?;
    let Totals { received, cycles, .. } = Totals::parse(&said)?;
    Ok(Run { offered, received, seconds, cycles })
}

/// Frames and seconds of injection, and what the contender said.
fn run(context: &Context, launch: &dyn Launch, load: Load) -> Result<(u64, f64, String), String> {
    let road = Road::new(context.cores)?;
    let cores = format!("{},{}", context.cores.producer.0, context.cores.consumer.0);
    let contender = Contender::start(&road, &cores, launch, &context.stop)?;
    let injected = road.inject(Receiver::Program, load, &context.stop)?;
    let (said, _) = contender.end()?;
    Ok((injected.offered, injected.elapsed.as_secs_f64(), said))
}

fn summary(name: &str, runs: &[Run]) -> String {
    let median = |value: fn(&Run) -> f64| median_after_first(runs, value);
    let offered = median(|run| run.offered as f64 / run.seconds / 1e6);
    let received = median(|run| run.received as f64 / run.seconds / 1e6);
    let lost =
        median(|run| 100.0 * run.offered.saturating_sub(run.received) as f64 / run.offered as f64);
    let cycles = median(|run| run.cycles);
    format!(
        "{name}: {offered:.3} Mpps offered, {received:.3} received, {lost:.3} % lost, \
         {cycles:.1} busy cycles a packet"
    )
}
