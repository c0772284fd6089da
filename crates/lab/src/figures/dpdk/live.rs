//! The pipeline end to end: live frames through a driver, a hand-over and a reader, on one core,
//! while the other core injects.
//!
//! ```text
//!   injector ─► veth, native XDP ─► `xdp:`      ─► the log       ─► read      ours
//!    core 0                     └► net_af_xdp ─► mbufs, ring ─► read, free  peer     core 1
//! ```
//!
//! Both ends of the hand-over take turns on one thread, a burst each: of two cores the injector
//! has one. What is handed over is what the driver brought, so that the difference to the figures
//! in memory is what the kernel and its rings cost both sides alike.

use std::cell::RefCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use burstline_log::{Reader, Writer};
use burstline_port::{OpenOptions, Port, open_source};
use burstline_sys::memory::PageChoice;
use burstline_testbed::Amount;

use super::super::Context;
use super::pipeline::{LOG_BYTES, turn};
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::{Rounds, alternate};
use crate::live::{FRAME_BYTES, Frames, Road, Turn, missing, under_load, with_share};
use crate::ours::Ours;
use crate::rivals::BURST;
use crate::rivals::dpdk::{self, Pipeline, SLOTS, Shape};
use crate::statistics::median_after_first;

const SECONDS: Duration = Duration::from_secs(2);
const SMOKE_FRAMES: u64 = 500;

/// Enough for what the driver puts into its fill ring, and for the ring between the ends.
const SHAPE: Shape = Shape { objects: 16_383, cache: 256, slots: SLOTS, is_single: 1 };

/// `dpdk-pipeline-live`: packets a second, of an injector at its top speed.
pub(super) fn measure(context: &Context, _: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    dpdk::start()?;
    let conditions = Conditions::watch(context.cores);
    let (rounds, runs) = contest(context, || our_run(context), || peer_run(context))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "numbered frames of {FRAME_BYTES} bytes for {} s at top speed, native XDP on a veth, \
             copy mode",
            SECONDS.as_secs()
        ),
        format!(
            "ours: xdp:v1?timestamps=poll, 4096 frames, copied into a log of {} KiB, read there; \
             peer: net_af_xdp, busy_budget=0, a ring of 2048, pool of {}, cache {}, an SP/SC ring \
             of {SLOTS} pointers, read, freed; bursts of {BURST}, both ends in turns on one core, \
             this process",
            LOG_BYTES >> 10,
            SHAPE.objects,
            SHAPE.cache
        ),
    ];
    details.extend([summary("ours", &runs.ours), summary("peer", &runs.peer)]);
    details.extend(runs.doubt());
    details.extend(conditions.report());
    let (unit, better) = ("Mpps", Better::Higher);
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

/// What both sides' runs were.
#[derive(Default)]
struct Runs {
    ours: Vec<Turn>,
    peer: Vec<Turn>,
}

impl Runs {
    /// What speaks against their rates.
    fn doubt(&self) -> Option<String> {
        const FEW_PERCENT: f64 = 1.0;
        let has_all = |runs: &[Turn]| median_after_first(runs, Turn::lost_percent) < FEW_PERCENT;
        let who = match (has_all(&self.ours), has_all(&self.peer)) {
            (true, true) => "either side",
            (true, false) => "ours",
            (false, true) => "the peer",
            (false, false) => return None,
        };
        Some(format!(
            "doubt: {who} lost less than {FEW_PERCENT} %: there the injector's core is the limit, \
             which also runs the XDP program, and the side could take more"
        ))
    }
}

/// Has both sides run in turns: packets a second, and all there is to say of each run.
fn contest(
    context: &Context,
    ours: impl Fn() -> Result<Turn, String>,
    peer: impl Fn() -> Result<Turn, String>,
) -> Result<(Rounds, Runs), String> {
    let runs = RefCell::new(Runs::default());
    let keep = |side: fn(&mut Runs) -> &mut Vec<Turn>, run: Turn| {
        let value = run.mpps();
        side(&mut runs.borrow_mut()).push(run);
        value
    };
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || Ok(keep(|runs| &mut runs.ours, ours()?)),
        || Ok(keep(|runs| &mut runs.peer, peer()?)),
    )?;
    Ok((rounds, runs.into_inner()))
}

fn our_run(context: &Context) -> Result<Turn, String> {
    let road = Road::new(context.cores)?;
    let mut log = Ours::create(LOG_BYTES, PageChoice::Transparent)?;
    let mut port = road.bed().far.run(open)?;
    let run = {
        let (writer, reader) = log.ends();
        under_load(&road, frames(context), |is_over| {
            let (taken, share) = with_share(|| take(&mut *port, writer, reader, is_over));
            Ok((taken?, share))
        })?
    };
    // In the network where it was opened.
    road.bed().far.run(move || drop(port));
    Ok(run)
}

fn open() -> Result<Box<dyn Port>, String> {
    let address = "xdp:v1?timestamps=poll".parse().map_err(|error| format!("{error}"))?;
    open_source(&address, &OpenOptions::default()).map_err(|error| error.to_string())
}

/// Receives into the log and reads it, in turns, until `is_over` and nothing comes.
fn take(
    port: &mut dyn Port,
    writer: &mut Writer,
    reader: &mut Reader,
    is_over: &AtomicU32,
) -> Result<u64, String> {
    let (mut taken, mut sum) = (0, 0);
    loop {
        // Pairs with the store in `under_load`.
        let is_last = is_over.load(Acquire) != 0;
        let packets = turn(port, writer, reader, &mut sum)?;
        if packets == 0 && is_last {
            std::hint::black_box(sum);
            return Ok(taken);
        }
        taken += packets;
    }
}

fn peer_run(context: &Context) -> Result<Turn, String> {
    let road = Road::new(context.cores)?;
    let mut rival = Pipeline::new(SHAPE)?;
    let mut rival = road.bed().far.run(move || {
        rival.open("net_af_xdp7,iface=v1,start_queue=0,queue_count=1,busy_budget=0")?;
        Ok::<Pipeline, String>(rival)
    })?;
    let run = under_load(&road, frames(context), |is_over| {
        Ok(with_share(|| rival.take_turns_live(is_over)))
    })?;
    // The driver keeps mbufs of its fill ring for good: none is counted.
    road.bed().far.run(move || drop(rival));
    Ok(run)
}

fn frames(context: &Context) -> Frames<'_> {
    let amount = match context.smoke {
        true => Amount::Frames(SMOKE_FRAMES),
        false => Amount::Time(SECONDS),
    };
    Frames { amount, bytes: FRAME_BYTES, stop: &context.stop }
}

fn summary(name: &str, runs: &[Turn]) -> String {
    describe(name, |value| median_after_first(runs, value))
}

fn describe(name: &str, of: impl Fn(fn(&Turn) -> f64) -> f64) -> String {
    let offered = of(|run| run.offered as f64 / run.seconds / 1e6);
    let lost = of(Turn::lost_percent);
    let share = of(|run| run.share);
    let gbits = of(Turn::mpps) * FRAME_BYTES as f64 * 8.0 / 1e3;
    format!(
        "{name}: {offered:.3} Mpps offered, {lost:.3} % lost; {share:.2} of its core was its \
         own: {:.3} Mpps per CPU; rho, CPU % per Gbit/s: {:.1}",
        of(|run| run.mpps() / run.share),
        100.0 * share / gbits
    )
}
