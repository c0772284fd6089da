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
use crate::live::{Contender, CoreTime, Road, missing, with_all};
use crate::statistics::median_after_first;

/// How long is counted.
const TIME: Duration = Duration::from_secs(2);
const SMOKE_TIME: Duration = Duration::from_millis(50);

/// From when a side is ready until it is counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// How long a side may take until it sends.
const SENDS_WITHIN: Duration = Duration::from_secs(10);

/// Packets that trafgen repeats: Ethernet, IPv4, UDP, 60 bytes without FCS.
const TRAFGEN: &str = "{ 0x02,0x42,0x55,0,0,1, 0x02,0x42,0x55,0,0,2, 0x08,0x00, 0x45,0,c16(46), \
                       c16(1),c16(0), 64,17,c16(0x65b8), 10,77,0,2, 10,77,0,1, c16(9),c16(9), \
                       c16(26),c16(0), fill(0x00,18) }\n";

/// One side: what is started on the far host, and what it prints when it is ready; nothing, where
/// it says that too late.
struct Side {
    command: String,
    ready: &'static str,
}

/// `generate-xdp-testpmd`: by AF_XDP, against testpmd in txonly mode over net_af_xdp.
pub(super) fn xdp(context: &Context, _: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(&[("dpdk-testpmd", "dpdk-dev")]) {
        return Ok(Outcome::NotHere(why));
    }
    let (main, core) = (context.cores.producer.0, context.cores.consumer.0);
    let peer = format!(
        "dpdk-testpmd --lcores 0@{main},1@{core} --no-pci --no-telemetry --in-memory -m 512 \
         --vdev net_af_xdp0,iface=v1,start_queue=0,queue_count=1,busy_budget=0 -- \
         --forward-mode=txonly --txpkts=60 --stats-period=3600 --no-mlockall"
    );
    let peer = Side { command: peer, ready: "Port statistics" };
    measure(context, "xdp:v1", |_| Ok(()), &peer)
}

/// `generate-afpacket-trafgen`: by a packet socket, against trafgen.
pub(super) fn afpacket(context: &Context, _: &str) -> Result<Outcome, String> {
    if let Some(why) = missing(&[("trafgen", "netsniff-ng")]) {
        return Ok(Outcome::NotHere(why));
    }
    // It takes the first core, whatever it is told.
    let command = with_all("trafgen -o v1 -i $FOLDER/packet -P 1");
    let prepare =
        |road: &Road| fs::write(road.file("packet"), TRAFGEN).map_err(|error| error.to_string());
    measure(context, "afpacket:v1", prepare, &Side { command, ready: "" })
}

fn measure(
    context: &Context,
    sink: &str,
    prepare: impl Fn(&Road) -> Result<(), String>,
    peer: &Side,
) -> Result<Outcome, String> {
    let (ours, core) = (our_program()?.display().to_string(), context.cores.consumer.0);
    let command =
        format!("{ours} generate -o {sink} --size 64 --cores {core} --json --stats 100ms");
    let ours = Side { command, ready: "interval" };
    let costs = [const { RefCell::new(Vec::new()) }; 2];
    let conditions = Conditions::watch(context.cores);
    let keep = |side: usize, what: &Side| {
        let (rate, core) = run(context, &prepare, what)?;
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
        format!("ours: {}: each with a sequence number, a time and checksums", ours.command),
        format!("peer: {}: the same packet over and over", peer.command),
    ];
    for (side, runs) in ["ours", "peer"].into_iter().zip(costs) {
        details.push(summary(side, &runs.into_inner()));
    }
    details.extend(conditions.report());
    let (unit, better) = ("Mpps", Better::Higher);
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

/// Packets a second, and the time of the core for all that came.
fn run(
    context: &Context,
    prepare: impl Fn(&Road) -> Result<(), String>,
    side: &Side,
) -> Result<(f64, CoreTime), String> {
    let road = Road::new(context.cores)?;
    prepare(&road)?;
    let cores = format!("{},{}", context.cores.producer.0, context.cores.consumer.0);
    let command = side.command.replace("$FOLDER", &road.file(""));
    let contender = Contender::start(&road, &cores, &command, side.ready, &context.stop)?;
    let began = Instant::now();
    while road.bed().near.counts("v0").received == 0 {
        if began.elapsed() > SENDS_WITHIN {
            return Err(format!("`{command}` sends nothing: {}", contender.printed().trim()));
        }
        thread::sleep(Duration::from_millis(10));
    }
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
