//! What readers cost a writer that receives packets, as a sensor's does: `burstline count xdp:
//! --publish` with four programs reading its log, and with none.
//!
//! ```text
//!   core 0: injector, own count, 4 times `count log:`        core 1: receive thread --> log
//! ```
//!
//! What counts is the wall time of the receive thread's polls that found packets, for each packet.

use std::time::{Duration, Instant};
use std::{fs, thread};

use burstline_testbed::{Amount, Program, Receiver};

use super::Context;
use super::count_file::our_program;
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::live::{Contender, Load, Ours, Road, missing};
use crate::report::{Better, Figure, Outcome};

const SECONDS: Duration = Duration::from_secs(3);
const SMOKE_FRAMES: u64 = 500;
const PACED_PPS: u64 = 1_000_000;
const READERS: usize = 4;
/// Within this time every reader is attached, and gone after it was told to.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// `live-readers-4`: busy ns a packet, with readers as ours, without as the peer.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?.display().to_string();
    let conditions = Conditions::watch(context.cores);
    let mut read = 0;
    let mut injected = 0;
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || {
            let run = run(context, &program, READERS)?;
            read += run.read;
            injected += run.injected;
            Ok(run.busy_ns)
        },
        || Ok(run(context, &program, 0)?.busy_ns),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "frames of 60 bytes at {PACED_PPS} a second for {SECONDS:?} a run, received by \
             `burstline count xdp:v1 --publish --poll busy`"
        ),
        format!("ours: {READERS} times `burstline count log:`, lossy; peer: nobody reads"),
        format!("of {READERS} times {injected} packets the readers read {read}"),
    ];
    details.extend(conditions.report());
    let (name, better, unit) = (name.to_owned(), Better::Lower, "ns");
    Ok(Outcome::Measured(Figure { name, unit, better, rounds, details }))
}

struct Run {
    /// Of the receive thread, a packet.
    busy_ns: f64,
    injected: u64,
    /// By all readers.
    read: u64,
}

fn run(context: &Context, program: &str, readers: usize) -> Result<Run, String> {
    let (road, cores) = (Road::new(context.cores)?, context.cores);
    let tap = road.file("tap");
    let command = format!(
        "{program} count xdp:v1?timestamps=poll --publish {tap} --poll busy --cores {},{} \
         --json --stats 100ms",
        cores.consumer.0, cores.producer.0
    );
    let list = format!("{},{}", cores.producer.0, cores.consumer.0);
    let writer = Contender::start(&road, &list, &command, "interval", &context.stop)?;
    let attached = (0..readers).map(|number| {
        let output = road.file(&format!("reader{number}"));
        let script = format!(
            "exec {program} count log:{tap} --cores {} --json --stats 100ms > {output} 2>&1",
            cores.producer.0
        );
        let reader = road.bed().far.start("sh", &["-c", &script], &[]);
        let reader = reader.map_err(|error| error.to_string())?;
        wait_until(&output, "interval")?;
        Ok((reader, output))
    });
    let attached = attached.collect::<Result<Vec<_>, String>>()?;
    let amount = match context.smoke {
        true => Amount::Frames(SMOKE_FRAMES),
        false => Amount::Time(SECONDS),
    };
    let load = Load { amount, rate_pps: Some(PACED_PPS) };
    let injected = road.inject(Receiver::Program, load, &context.stop)?.offered;
    let (said, _) = writer.end()?;
    let ours = Ours::parse(&said, injected)?;
    let mut read = 0;
    for (reader, output) in attached {
        read += end(&road, reader, &output, ours.delivered)?;
    }
    let busy_ns = ours.busy_seconds * 1e9 / ours.delivered.max(1) as f64;
    Ok(Run { busy_ns, injected, read })
}

fn wait_until(output: &str, text: &str) -> Result<(), String> {
    let began = Instant::now();
    while !fs::read_to_string(output).is_ok_and(|said| said.contains(text)) {
        if began.elapsed() > READY_WITHIN {
            return Err(format!("a reader was not ready: {:?}", fs::read_to_string(output)));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Ends a reader of a log with so many packets; what it has read. Its ledger must close.
fn end(road: &Road, reader: Program, output: &str, packets: u64) -> Result<u64, String> {
    let process = reader.process_id().to_string();
    let interrupt = road.bed().far.command("kill", &["-INT", &process]);
    interrupt.map_err(|error| error.to_string())?;
    reader.finish().map_err(|error| error.to_string())?;
    let said = fs::read_to_string(output).map_err(|error| error.to_string())?;
    Ok(Ours::parse(&said, packets)?.delivered)
}
