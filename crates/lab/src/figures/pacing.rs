//! Measures how close to its due time a packet is sent: 100,000 packets a second with the engine's
//! own loop on an otherwise idle core. The peer shows the limit for any program on this machine.
//!
//! ```text
//!   due    |         |         |         |         |         a packet each 10 us
//!   ours   .|        .|        .----gap--|||       .|        late by the time of the loop,
//!   bare   .|        .|        .----gap--|||       .|        or by the time off the core
//! ```
//!
//! The peer is the floor: a thread on the same core that only reads the clock until a packet is
//! due. Any program is at least that late, because of interrupts, other threads, or a hypervisor
//! that runs another guest. Runs alternate, so both see the same machine. The gaps of a bare loop
//! show how often, and for how long, the core was away.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use burstline_engine::{EngineError, Inlet, Limits, PollMode, Progress, Run, Threads, generate};
use burstline_port::{Address, OpenOptions, PortError, Sink, open_sink};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::clock;
use burstline_sys::scheduling::{self, SchedulingClass};
use burstline_testbed::{Bed, NEAR};

use crate::compared::{Better, Outcome};
use crate::conditions::Ticks;
use crate::figures::Context;
use crate::live::missing;
use crate::scenario::machine::Served;

const RATE: u64 = 100_000;
const RUN: Duration = Duration::from_secs(2);
const SMOKE_RUN: Duration = Duration::from_millis(20);

/// Target for 99 in 100 packets, in us.
const ASKED_US: f64 = 5.0;

/// Thresholds for the gaps of a loop, in us: all are longer than the loop itself.
const GAPS_US: [f64; 3] = [1.0, 5.0, 50.0];

/// Lateness of packets, in us.
#[derive(Clone, Copy)]
struct Late {
    packets: u64,
    p50: f64,
    p99: f64,
    p999: f64,
    most: f64,
}

/// `pacing`: into a sink that takes everything.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    let open = || open_sink(&"null:".parse::<Address>()?, &OpenOptions::default());
    compare(context, "null:", &open)
}

/// `pacing-xdp`: through an interface; the peer's stack drops the frames on the sender's core.
pub(super) fn measure_xdp(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let (bed, served) = (Bed::new().map_err(|error| error.to_string())?, Served::now());
    let address = format!("xdp:{NEAR}");
    let to = address.clone();
    let open = || {
        let to = to.clone();
        bed.near.run(move || open_sink(&to.parse::<Address>()?, &OpenOptions::default()))
    };
    let compared = compare(context, &address, &open);
    context.look_at(&bed, &served);
    compared
}

type OpenSink<'a> = dyn Fn() -> Result<Box<dyn Sink>, PortError> + 'a;

fn compare(context: &Context, sink: &str, open: &OpenSink<'_>) -> Result<Outcome, String> {
    let run = if context.smoke { SMOKE_RUN } else { RUN };
    let core = context.cores.consumer;
    let comparison = context.begin();
    let (mut all_ours, mut all_bare) = (Vec::new(), Vec::new());
    let normal = SchedulingClass::Normal;
    let rounds = context.alternate(
        context.process_runs(),
        || {
            let late = paced(core, run, normal, open).map_err(|error| error.to_string())?;
            all_ours.push(late);
            Ok(late.p99)
        },
        || {
            let late = bare(core, run, normal)?;
            all_bare.push(late);
            Ok(late.p99)
        },
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "ours: {RATE} packets/s of 64 bytes for {run:?} into {sink}, p99 of the time from when \
             a packet was due to when the sink had it; the target is {ASKED_US} us on an \
             idle core"
        ),
        "peer: the floor, a loop that reads the clock until each packet is due and does nothing"
            .to_owned(),
    ];
    for (side, runs) in [("ours", &all_ours), ("floor", &all_bare)] {
        details.extend(runs.iter().skip(1).map(|late| format!("a run of {side}: {late}")));
    }
    details.push(gaps(core, run));
    let fifo = SchedulingClass::Fifo { priority: 1 };
    let first = paced(core, run, fifo, open).map_err(|error| error.to_string());
    details.push(match first.and_then(|ours| Ok((ours, bare(core, run, fifo)?))) {
        Ok((ours, bare)) => format!("with --priority fifo:1: ours {ours}; floor {bare}"),
        Err(why) => format!("with --priority fifo:1: not run, because {why}"),
    });
    Ok(comparison.outcome("us late at p99", Better::Lower, rounds, details).here())
}

impl std::fmt::Display for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { packets, p50, p99, p999, most } = self;
        write!(f, "p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1}, max {most:.1} us of {packets}")
    }
}

fn paced(
    core: CoreId,
    run: Duration,
    class: SchedulingClass,
    open: &OpenSink<'_>,
) -> Result<Late, EngineError> {
    let address = format!("gen:?flows=1&rate={RATE}").parse().map_err(PortError::from)?;
    let source = Inlet::open(&address, &OpenOptions::default())?;
    let threads = Threads { cores: vec![core], class, poll: PollMode::Busy, ..Threads::default() };
    let limits = Limits { duration_ns: Some(run.as_nanos() as u64), ..Limits::default() };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let run = Run::new(&stop, &progress).within(limits);
    let generated = generate(source, open, &threads, &run)?;
    let late = generated.lateness.unwrap_or_default();
    let us = |percent| late.at(percent) as f64 / 1e3;
    Ok(Late {
        packets: late.packets,
        p50: us(50.0),
        p99: us(99.0),
        p999: us(99.9),
        most: late.most_ns as f64 / 1e3,
    })
}

/// Runs a function on a thread with this core and scheduling class.
fn on_core<T: Send>(
    core: CoreId,
    class: SchedulingClass,
    work: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let work = || {
            affinity::pin_to(core).map_err(|error| error.to_string())?;
            scheduling::set_class(class).map_err(|error| error.to_string())?;
            Ok(work())
        };
        scope.spawn(work).join().expect("it does not panic")
    })
}

/// Returns the lateness of a loop that only reads the clock.
fn bare(core: CoreId, run: Duration, class: SchedulingClass) -> Result<Late, String> {
    let step_ns = 1_000_000_000 / RATE;
    let packets = run.as_nanos() as u64 / step_ns;
    let mut late_ns = on_core(core, class, || {
        let mut late_ns = Vec::with_capacity(packets as usize);
        let start_ns = clock::monotonic_ns();
        for due_ns in (0..packets).map(|packet| start_ns + packet * step_ns) {
            let mut now_ns = clock::monotonic_ns();
            while now_ns < due_ns {
                std::hint::spin_loop();
                now_ns = clock::monotonic_ns();
            }
            late_ns.push(now_ns - due_ns);
        }
        late_ns
    })?;
    late_ns.sort_unstable();
    let us = |part: f64| {
        let at = (late_ns.len() as f64 * part) as usize;
        late_ns.get(at).or(late_ns.last()).copied().unwrap_or_default() as f64 / 1e3
    };
    Ok(Late { packets, p50: us(0.5), p99: us(0.99), p999: us(0.999), most: us(1.0) })
}

/// Describes how often the core was away from a loop that only reads the clock, and how often the
/// hypervisor reports that.
fn gaps(core: CoreId, run: Duration) -> String {
    let before = Ticks::now();
    let least_ns = (GAPS_US[0] * 1e3) as u64;
    let found = on_core(core, SchedulingClass::Normal, || {
        let mut gaps_ns = Vec::with_capacity(1 << 16);
        let start_ns = clock::monotonic_ns();
        let (mut last_ns, end_ns) = (start_ns, start_ns + run.as_nanos() as u64);
        while last_ns < end_ns {
            let now_ns = clock::monotonic_ns();
            if now_ns - last_ns >= least_ns && gaps_ns.len() < gaps_ns.capacity() {
                gaps_ns.push(now_ns - last_ns);
            }
            last_ns = now_ns;
        }
        gaps_ns
    });
    let us: Vec<f64> = match found {
        Ok(gaps_ns) => gaps_ns.iter().map(|gap_ns| *gap_ns as f64 / 1e3).collect(),
        Err(why) => return format!("gaps of a bare loop: unknown: {why}"),
    };
    let seconds = run.as_secs_f64();
    let above = |least: f64| us.iter().filter(|gap| **gap >= least).count() as f64 / seconds;
    let counts = GAPS_US.map(|least| format!("{:.0} of {least} us", above(least))).join(", ");
    let stolen = Ticks::now().zip(before);
    let stolen = stolen.map(|(now, before)| now.since(before).stolen().to_string());
    format!(
        "gaps of a loop that reads the clock on core {core}, per second: {counts} or more; the \
         longest {:.0} us, {:.2}% of the time in all; steal {} ticks",
        us.iter().copied().fold(0.0, f64::max),
        us.iter().sum::<f64>() / (seconds * 1e4),
        stolen.as_deref().unwrap_or("unknown")
    )
}
