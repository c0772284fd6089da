//! Sending by an interface: `burstline generate` against programs that send as fast as they can by
//! the same kind of socket.
//!
//! Packets are counted where they come out: at the other end of the veth pair, by its own counter,
//! over a stretch in the middle of the run. A side has one core, on which the softirqs of its
//! packets run, too; the other core is idle. What they cost is the time of both cores.

use std::cell::RefCell;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::live::{Contender, CoreTime, Road, missing};
use crate::programs::{Launch, Memory, Mode, Ours, READY_WITHIN, TRAFGEN, Testpmd};
use crate::statistics::median_after_first;

/// How long is counted.
const TIME: Duration = Duration::from_secs(2);
const SMOKE_TIME: Duration = Duration::from_millis(50);

/// From when a side is ready until it is counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// Bytes of a packet without FCS.
const BYTES: usize = 60;

/// `generate-xdp-testpmd`: by AF_XDP, against testpmd in txonly mode over net_af_xdp.
pub(super) fn xdp(context: &Context, _: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(Testpmd::needs()) {
        return Ok(Outcome::NotHere(why));
    }
    let (main, core) = (context.cores.producer, context.cores.consumer);
    let peer = Testpmd::over(main, &[core], &["v1"], Mode::Send(BYTES));
    measure(context, "xdp:v1", &peer, &[])
}

/// `generate-afpacket-trafgen`: by a packet socket, against trafgen.
pub(super) fn afpacket(context: &Context, _: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(TRAFGEN.needs) {
        return Ok(Outcome::NotHere(why));
    }
    measure(context, "afpacket:v1", &TRAFGEN, &TRAFGEN.file(BYTES))
}

fn measure(
    context: &Context,
    sink: &str,
    peer: &dyn Launch,
    file: &[u8],
) -> Result<Outcome, String> {
    let words = format!("generate -o {sink} --size 64 --cores {}", context.cores.consumer);
    let ours = Ours::new(&our_program()?, &words);
    let said = |launch: &dyn Launch| launch.command(Memory::of_a_start());
    let costs = [const { RefCell::new(Vec::new()) }; 2];
    let conditions = Conditions::watch(context.cores);
    let keep = |side: usize, launch: &dyn Launch| {
        let (rate, core) = run(context, launch, file)?;
        costs[side].borrow_mut().push((rate, core));
        Ok(rate / 1e6)
    };
    let rounds =
        alternate(context.process_runs(), &context.stop, || keep(0, &ours), || keep(1, peer))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "packets of 60 bytes, for {} s at top speed, counted at the other end of a veth pair, \
             whose stack drops them on the sender's core",
            TIME.as_secs()
        ),
        format!("ours: {}: each with a sequence number, a time and checksums", said(&ours)),
        format!("peer: {}: the same packet over and over", said(peer)),
    ];
    for (side, runs) in ["ours", "peer"].into_iter().zip(costs) {
        details.push(summary(side, &runs.into_inner()));
    }
    details.extend(conditions.report());
    let (unit, better) = ("Mpps", Better::Higher);
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

/// Packets a second, and the time of the core for all that came.
fn run(context: &Context, launch: &dyn Launch, file: &[u8]) -> Result<(f64, CoreTime), String> {
    let road = Road::new(context.cores)?;
    fs::write(road.data_file(), file).map_err(|error| error.to_string())?;
    let cores = format!("{},{}", context.cores.producer.0, context.cores.consumer.0);
    let contender = Contender::start(&road, &cores, launch, &context.stop)?;
    let began = Instant::now();
    while road.bed().near.counts("v0").received == 0 {
        if began.elapsed() > READY_WITHIN {
            let command = contender.command();
            return Err(format!("`{command}` sends nothing: {}", contender.printed().trim()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    let command = contender.command().to_owned();
    thread::sleep(WARM_UP);
    let look = || -> Result<_, String> {
        let received = road.bed().near.counts("v0").received;
        Ok((Instant::now(), received, CoreTime::of_both(context.cores)?))
    };
    let before = look()?;
    thread::sleep(if context.smoke { SMOKE_TIME } else { TIME });
    let after = look()?;
    contender.end()?;
    let packets = after.1 - before.1;
    if packets == 0 {
        return Err(format!("nothing was sent by `{command}`"));
    }
    let rate = packets as f64 / (after.0 - before.0).as_secs_f64();
    Ok((rate, after.2.since(&before.2)))
}

fn summary(side: &str, runs: &[(f64, CoreTime)]) -> String {
    let each = |part: fn(&CoreTime) -> f64| {
        median_after_first(runs, |(rate, core)| part(core) * 1e9 / (rate * TIME.as_secs_f64()))
    };
    let (user, system, interrupts) =
        (each(|core| core.user), each(|core| core.system), each(|core| core.interrupts));
    format!(
        "{side}: a packet {user:.0} ns user, {system:.0} system, {interrupts:.0} softirq, of both \
         cores"
    )
}
