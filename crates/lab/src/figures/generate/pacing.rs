//! How near to its time a packet is sent: 100,000 packets a second, the engine's own loop, on a
//! core that has nothing else to do.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{mem, thread};

use burstline_engine::{
    EngineError, GenerateOptions, Latency, Limits, PollMode, Progress, Source, Threads, generate,
};
use burstline_port::{Address, OpenOptions, open_sink};
use burstline_sys::clock;

use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::figures::Context;
use crate::report::{Better, Figure, Outcome};

const RATE: u64 = 100_000;
const RUN: Duration = Duration::from_secs(2);
const SMOKE_RUN: Duration = Duration::from_millis(20);

/// What 99 in 100 packets keep to.
const ASKED_US: f64 = 5.0;

/// `pacing`: how late 99 in 100 packets are, in us. The peer sleeps until each packet is due, by
/// clock_nanosleep(2), as a simple pacer does.
pub(in crate::figures) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let run = if context.smoke { SMOKE_RUN } else { RUN };
    let conditions = Conditions::watch(context.cores);
    let all = Mutex::new(Vec::new());
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || {
            let late = paced(context, run).map_err(|error| error.to_string())?;
            let p99_us = late.at(99.0) as f64 / 1e3;
            all.lock().map_err(|error| error.to_string())?.push(late);
            Ok(p99_us)
        },
        || Ok(sleeper(run)),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![format!(
        "{RATE} packets/s of 64 bytes for {run:?} into null:, p99 of the time from when a packet \
         was due to when the sink had it; the issue asks for {ASKED_US} us on an idle core"
    )];
    let all = all.into_inner().map(|mut all| mem::take(&mut all)).unwrap_or_default();
    for late in all {
        let us = |percent| late.at(percent) as f64 / 1e3;
        details.push(format!(
            "a run of ours: {} packets, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} us",
            late.packets,
            us(50.0),
            us(99.0),
            us(99.9),
            late.most_ns as f64 / 1e3
        ));
    }
    details.push("peer: a thread that sleeps until each packet is due".to_owned());
    details.extend(conditions.report());
    let (name, better, unit) = (name.to_owned(), Better::Lower, "us late at p99");
    Ok(Outcome::Measured(Figure { name, unit, better, rounds, details }))
}

fn paced(context: &Context, run: Duration) -> Result<Latency, EngineError> {
    let address = |text: &str| text.parse::<Address>().map_err(burstline_port::PortError::from);
    let options = OpenOptions::default();
    let source = Source::open(&address(&format!("gen:?flows=1&rate={RATE}"))?, &options)?;
    let sink = address("null:")?;
    let threads =
        Threads { cores: vec![context.cores.consumer], poll: PollMode::Busy, ..Threads::default() };
    let limits = Limits { duration_ns: Some(run.as_nanos() as u64), ..Limits::default() };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let options = (GenerateOptions { limits, threads }, options);
    let open = || open_sink(&sink, &options.1);
    let generated = generate(source, open, &options.0, &stop, &progress)?;
    Ok(generated.lateness.unwrap_or_default())
}

/// How late 99 in 100 wakes are, in us.
fn sleeper(run: Duration) -> f64 {
    let step_ns = 1_000_000_000 / RATE;
    let start_ns = clock::monotonic_ns();
    let packets = run.as_nanos() as u64 / step_ns;
    let mut late: Vec<u64> = (0..packets)
        .map(|packet| {
            let due_ns = start_ns + packet * step_ns;
            thread::sleep(Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns())));
            clock::monotonic_ns().saturating_sub(due_ns)
        })
        .collect();
    late.sort_unstable();
    late.get(late.len() * 99 / 100).copied().unwrap_or_default() as f64 / 1e3
}
