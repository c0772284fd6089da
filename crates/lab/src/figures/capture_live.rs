//! Recording live frames into memory: `burstline capture afpacket:` against programs that do the
//! same, by the processor time that each packet costs.
//!
//! A contender has one core for all its threads, and the injector the other. What is compared is
//! the processor time of whole processes over the frames that were offered, so that losing some
//! does not look cheap; what was lost is beside it.

use std::cell::RefCell;
use std::fs;
use std::time::Duration;

use burstline_testbed::{Amount, Receiver};

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::live::{Contender, Load, Road, Store, missing};
use crate::programs::{Capture, DUMPCAP, FILE, Launch, Memory, Ours, Report, TCPDUMP};
use crate::statistics::Quartiles;

const SECONDS: u64 = 5;
const SECONDS_IN_FULL: u64 = 60;
const SMOKE_FRAMES: u64 = 500;

const PPS: u64 = 800_000;
const PPS_FAST: u64 = 1_700_000;

/// Bytes that a frame of 60 takes in the largest of the files, and some.
const BYTES_A_FRAME: u64 = 128;

/// `capture-tcpdump`: at 0.8 million frames a second.
pub(super) fn against_tcpdump(context: &Context, _: &str) -> Result<Outcome, String> {
    measure(context, PPS, &TCPDUMP)
}

/// `capture-tcpdump-fast`: at 1.7 million.
pub(super) fn against_tcpdump_fast(context: &Context, _: &str) -> Result<Outcome, String> {
    measure(context, PPS_FAST, &TCPDUMP)
}

/// `capture-dumpcap`: at 0.8 million frames a second.
pub(super) fn against_dumpcap(context: &Context, _: &str) -> Result<Outcome, String> {
    measure(context, PPS, &DUMPCAP)
}

/// `capture-dumpcap-fast`: at 1.7 million.
pub(super) fn against_dumpcap_fast(context: &Context, _: &str) -> Result<Outcome, String> {
    measure(context, PPS_FAST, &DUMPCAP)
}

/// One side's run.
struct Run {
    offered: u64,
    captured: u64,
    file_bytes: u64,
    /// Processor time for each frame that was offered.
    ns: f64,
}

fn measure(context: &Context, pps: u64, peer: &Capture) -> Result<Outcome, String> {
    if let Some(why) = missing(peer.needs) {
        return Ok(Outcome::NotHere(why));
    }
    let ours = Ours::new(&our_program()?, &format!("capture afpacket:v1 -w {FILE}"));
    let seconds = if context.full { SECONDS_IN_FULL } else { SECONDS };
    let amount = match context.smoke {
        true => Amount::Frames(SMOKE_FRAMES),
        false => Amount::Time(Duration::from_secs(seconds)),
    };
    let load = Load { amount, rate_pps: Some(pps) };
    let room = if context.smoke { SMOKE_FRAMES } else { seconds * pps } * BYTES_A_FRAME;
    let runs = [const { RefCell::new(Vec::new()) }; 2];
    let store = Store::new(room)?;
    let keep = |side: usize, run: Run| {
        let ns = run.ns;
        runs[side].borrow_mut().push(run);
        ns
    };
    let conditions = Conditions::watch(context.cores);
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || {
            let captured =
                |said: &str, offered| Report::parse(said, offered).map(|ours| ours.delivered);
            Ok(keep(0, run(context, &store, &ours, load, captured)?))
        },
        || {
            let captured = |said: &str, _| peer.captured(said);
            Ok(keep(1, run(context, &store, peer, load, captured)?))
        },
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!("frames of 60 bytes at {pps} a second for {seconds} s, into a file in memory"),
        "tmpfs with huge=within_size, its memory in use a moment before, for both sides".to_owned(),
        "user and system time of whole processes, for each frame offered".to_owned(),
        "ours: burstline capture afpacket:v1 -w FILE, receiving and recording on one core"
            .to_owned(),
        format!("peer: {}", peer.command(Memory::Small)),
    ];
    for (side, runs) in ["ours", "peer"].into_iter().zip(runs) {
        details.push(summary(side, &runs.into_inner()));
    }
    details.extend(conditions.report());
    let (better, unit) = (Better::Lower, "ns");
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

fn run(
    context: &Context,
    store: &Store,
    launch: &dyn Launch,
    load: Load,
    captured: impl Fn(&str, u64) -> Result<u64, String>,
) -> Result<Run, String> {
    let road = Road::new(context.cores)?;
    let file = road.data_file();
    let core = context.cores.consumer.0.to_string();
    store.warm()?;
    let contender = Contender::start(&road, &core, launch, &context.stop)?;
    let offered = road.inject(Receiver::Stack, load, &context.stop)?.offered;
    let (said, used) = contender.end()?;
    let file_bytes = fs::metadata(&file).map_err(|error| format!("{file}: {error}"))?.len();
    let ns = (used.user_ns + used.system_ns) as f64 / offered as f64;
    Ok(Run { offered, captured: captured(&said, offered)?, file_bytes, ns })
}

fn summary(side: &str, runs: &[Run]) -> String {
    let runs = &runs[1..];
    let sum = |value: fn(&Run) -> u64| runs.iter().map(value).sum::<u64>();
    let (offered, captured) = (sum(|run| run.offered), sum(|run| run.captured));
    let bytes = Quartiles::of(&runs.iter().map(|run| run.file_bytes as f64).collect::<Vec<_>>());
    format!(
        "{side}: {} of {offered} frames lost in all measured runs, a file of {:.0} bytes",
        offered.saturating_sub(captured),
        bytes.median
    )
}
