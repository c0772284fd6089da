//! Bouncing between two interfaces: `burstline bounce` against `dpdk-testpmd` in io mode over
//! net_af_xdp, on the same two veth ends, the same injector on the other core.
//!
//! ```text
//!   core 0: injector --> v1 [XDP] --> core 1: contender --> w1 ==veth==> w0: counted, nobody's
//! ```
//!
//! What is compared is packets that came out at `w0`, by its own counter, for each second that core
//! 1 was busy with anything, by `/proc/stat`: the program, its system calls, and the softirqs that
//! its packets cause, which run on the core that sent them. A side has that core alone, and
//! everything that happens there is for its packets; so softirqs count for both alike.
//!
//! Both sides look at both interfaces, since testpmd cannot do otherwise.

use std::cell::RefCell;
use std::time::Duration;

use burstline_testbed::{Amount, Receiver};

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::{Conditions, cycles_per_second};
use crate::contest::alternate;
use crate::live::{Contender, CoreTime, Load, Road, missing};
use crate::programs::{Launch, Mode, Ours, Testpmd};
use crate::statistics::median_after_first;

const TIME: Duration = Duration::from_secs(2);
const SMOKE_FRAMES: u64 = 500;

/// One side's run.
#[derive(Clone, Copy)]
struct Run {
    offered: u64,
    bounced: u64,
    core: CoreTime,
    memory_bytes: u64,
}

/// `bounce-64` and `bounce-1514`: frames of `BYTES` bytes without FCS.
pub(super) fn against_testpmd<const BYTES: usize>(
    context: &Context,
    _: &str,
) -> Result<Outcome, String> {
    if let Some(why) = missing(Testpmd::needs()) {
        return Ok(Outcome::NotHere(why));
    }
    let (main, core) = (context.cores.producer, context.cores.consumer);
    let words = format!("bounce xdp:v1 xdp:w1 --both --poll busy --cores {core}");
    let ours = Ours::new(&our_program()?, &words);
    let peer = Testpmd::over(main, &[core], &["v1", "w1"], Mode::Forward);
    let runs = [const { RefCell::new(Vec::new()) }; 2];
    let conditions = Conditions::watch(context.cores);
    let keep = |side: usize, launch: &dyn Launch| {
        let run = run(context, launch, BYTES)?;
        runs[side].borrow_mut().push(run);
        Ok(run.bounced as f64 / run.core.busy() / 1e6)
    };
    let rounds =
        alternate(context.process_runs(), &context.stop, || keep(0, &ours), || keep(1, &peer))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "numbered frames of {BYTES} bytes for {} s at top speed into v1, out by w1; native \
             XDP on veth, copy mode; one core for both directions, of which one has packets",
            TIME.as_secs()
        ),
        "busy: the contender's core, /proc/stat: program, system calls and softirqs of that core"
            .to_owned(),
    ];
    let hz = cycles_per_second();
    for (side, runs) in ["ours", "peer"].into_iter().zip(runs) {
        details.push(summary(side, &runs.into_inner(), hz));
    }
    details.extend(conditions.report());
    let (unit, better) = ("M/busy s", Better::Higher);
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

fn run(context: &Context, launch: &dyn Launch, bytes: usize) -> Result<Run, String> {
    let amount = match context.smoke {
        true => Amount::Frames(SMOKE_FRAMES),
        false => Amount::Time(TIME),
    };
    let load = Load { amount, rate_pps: None };
    let road = Road::new(context.cores)?;
    road.bed().connect("w0", "w1", 1500).map_err(|error| error.to_string())?;
    let cores = format!("{},{}", context.cores.producer.0, context.cores.consumer.0);
    let contender = Contender::start(&road, &cores, launch, &context.stop)?;
    let came_out = || road.bed().near.counts("w0").received;
    let before = came_out();
    let cores = context.cores;
    let (injected, core) = road.inject_watched(
        Receiver::Program,
        load,
        bytes,
        &context.stop,
        move || CoreTime::of_consumer(cores),
        move |before| Ok(CoreTime::of_consumer(cores)?.since(&before)),
    )?;
    let bounced = came_out() - before;
    let memory_bytes = contender.memory_bytes();
    let command = contender.command().to_owned();
    contender.end()?;
    if bounced == 0 && !context.smoke {
        return Err(format!("nothing was bounced by `{command}`"));
    }
    Ok(Run { offered: injected.offered, bounced, core, memory_bytes })
}

fn summary(side: &str, runs: &[Run], hz: f64) -> String {
    let median = |value: fn(&Run) -> f64| median_after_first(runs, value);
    let rate = median(|run| run.bounced as f64 / TIME.as_secs_f64() / 1e6);
    let offered = median(|run| run.offered as f64 / TIME.as_secs_f64() / 1e6);
    let each = |part: fn(&CoreTime) -> f64| {
        median_after_first(runs, |run| part(&run.core) * 1e9 / run.bounced as f64)
    };
    let (user, system, interrupts) =
        (each(|core| core.user), each(|core| core.system), each(|core| core.interrupts));
    let memory = median(|run| run.memory_bytes as f64) / (1 << 20) as f64;
    let cycles = user * hz / 1e9;
    format!(
        "{side}: {rate:.3} Mpps of {offered:.3} offered; a packet {user:.0} ns user ({cycles:.0} \
         cycles at {:.0} MHz), {system:.0} system, {interrupts:.0} softirq; {memory:.1} MiB \
         resident, huge pages included",
        hz / 1e6
    )
}
