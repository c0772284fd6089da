//! Packets to four workers by flow: logs against the NUMA document's balancer on DPDK itself.
//!
//! Both sides as in [`balance`](crate::figures::balance): one core spreads, the other is all
//! workers in turn, both spin, and what goes to a worker is shown to it when 32 packets wait.

use burstline_engine::Mode;
use burstline_sys::memory::PageChoice;

use crate::compared::Outcome;
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::figures::Context;
use crate::figures::balance::sides::{
    INTERLEAVINGS, LOG_BYTES, Ours, SEGMENT_BYTES, expected, rate,
};
use crate::figures::balance::{PACKET_BYTES, WORKERS, by_interleaving, outcome};
use crate::instructions;
use crate::rivals::BURST;
use crate::rivals::dpdk::balance::Balance;
use crate::rivals::dpdk::{self, SLOTS, Shape};
use crate::traffic::Traffic;

const POOLS: [u32; 4] = [2047, 4095, 8191, 16_383];
const CACHES: [u32; 2] = [256, 512];
/// Runs of a shape in the search.
const TRIES: usize = 3;
/// Packets of a round whose instructions are counted.
const ROUND: u64 = 8192;
/// Packets of a turn: so many that most of a worker's pointers go 32 at a time, as they do on two
/// cores.
const TURN: usize = 512;

/// `dpdk-balance-copy-64` and `dpdk-balance-share-64`.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let mode = if name.contains("share") { Mode::Share } else { Mode::Copy };
    let packets: u64 = if context.smoke { 8192 } else { 2 << 20 };
    let traffic = Traffic::new(PACKET_BYTES);
    dpdk::start()?;
    let mut ours = Ours::create(mode, WORKERS, PageChoice::Transparent)?;
    let conditions = Conditions::watch(context.cores);
    let (shape, tried) = search(context, &traffic, packets / 8)?;
    let peer = Balance::new(shape, WORKERS as u32)?;
    let mut all = Vec::new();
    for (number, (_, flows)) in INTERLEAVINGS.into_iter().enumerate() {
        let flows = move |counter| flows(counter, WORKERS);
        let sum = expected(&traffic, &flows, packets, WORKERS).0;
        let cores = context.cores;
        all.push(alternate(
            context.runs,
            &context.stop,
            || {
                rate(
                    "ours",
                    ours.balance(cores, (&traffic, &flows), (packets, packets)),
                    packets,
                    sum,
                )
            },
            || rate("DPDK", peer.balance(cores, &traffic, packets, number as u32), packets, sum),
        )?);
    }
    let is_huge = peer.is_huge();
    peer.end()?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!("{packets} packets a run of {PACKET_BYTES} bytes to {WORKERS} workers on one core"),
        format!(
            "ours: {}, together {} KiB, segments {} KiB, pages {}",
            if mode == Mode::Share { "one log that all workers read" } else { "a log each" },
            LOG_BYTES >> 10,
            SEGMENT_BYTES >> 10,
            ours.page
        ),
        format!(
            "peer: mbufs of 2048 bytes of room, pool of {}, cache {}, {WORKERS} {} rings of \
             {SLOTS} pointers, bursts of {BURST}, bulk calls, prefetch0 4 ahead; pool {}",
            shape.objects,
            shape.cache,
            shape.rings(),
            dpdk::pages_of_pool(is_huge)
        ),
        tried,
    ];
    details.push(instructions_line(mode));
    details.extend(by_interleaving(&all));
    outcome("Mpps", all.swap_remove(0), details, &conditions)
}

fn instructions_line(mode: Mode) -> String {
    let of = |piece| instructions::of_a_packet(piece, ROUND);
    let ours = if mode == Mode::Share { "balance-log-share" } else { "balance-log-copy" };
    match (of(ours), of("balance-mbuf")) {
        (Some(ours), Some(peer)) => format!(
            "instructions a packet, {TURN} spread and read in turns on one core: ours {ours:.0}, \
             peer {peer:.0}"
        ),
        _ => instructions::NOT_COUNTED.to_owned(),
    }
}

/// A side of these in turns on one core, uniform, 8,192 packets a round.
pub(super) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    let (traffic, packets) = (Traffic::new(PACKET_BYTES), rounds * ROUND);
    let mode = match piece {
        "balance-log-copy" => Mode::Copy,
        "balance-log-share" => Mode::Share,
        "balance-mbuf" => return Some(rounds_of_the_rival(&traffic, packets)),
        _ => return None,
    };
    let flows = |counter| INTERLEAVINGS[0].1(counter, WORKERS);
    let ours = Ours::create(mode, WORKERS, PageChoice::Size4K);
    Some(ours.map(|mut ours| ours.take_turns((&traffic, &flows), packets, TURN)))
}

fn rounds_of_the_rival(traffic: &Traffic, packets: u64) -> Result<(), String> {
    dpdk::start_to_count()?;
    let mut peer = Balance::new(Shape::COUNTED, WORKERS as u32)?;
    peer.take_turns(traffic, packets, TURN);
    peer.end()
}

/// Tries every shape with uniform traffic, and keeps the one with the best run.
fn search(context: &Context, traffic: &Traffic, packets: u64) -> Result<(Shape, String), String> {
    let packets = packets.next_multiple_of(BURST as u64);
    let flows = |counter| INTERLEAVINGS[0].1(counter, WORKERS);
    let sum = expected(traffic, &flows, packets, WORKERS).0;
    let mut found: Vec<(Shape, f64)> = Vec::new();
    for is_single in [1, 0] {
        for cache in CACHES {
            for objects in POOLS {
                let shape = Shape { objects, cache, slots: SLOTS, is_single };
                let peer = Balance::new(shape, WORKERS as u32)?;
                let mut best = 0_f64;
                for _ in 0..if context.smoke { 1 } else { TRIES } {
                    let run = peer.balance(context.cores, traffic, packets, 0);
                    best = best.max(rate("DPDK", run, packets, sum)?);
                }
                peer.end()?;
                found.push((shape, best));
            }
        }
    }
    let best = found.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are shapes").0;
    let rates = found.iter().map(|(shape, rate)| {
        format!("{}/{}/{}: {rate:.1}", shape.objects, shape.cache, shape.rings())
    });
    let rates: Vec<_> = rates.collect();
    Ok((best, format!("tried, by pool, cache and rings: {}", rates.join(", "))))
}
