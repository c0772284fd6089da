//! Packets to four workers by flow: logs against the NUMA document's balancer on DPDK itself.
//!
//! Both sides as in [`balance`](crate::figures::balance): one core spreads, the other is all
//! workers in turn, both spin, and what goes to a worker is shown to it when 32 packets wait.

use burstline_engine::Mode;
use burstline_sys::memory::PageChoice;

use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::figures::Context;
use crate::figures::balance::sides::{
    INTERLEAVINGS, LOG_BYTES, Ours, SEGMENT_BYTES, expected, rate,
};
use crate::figures::balance::{PACKET_BYTES, PER_CPU, WORKERS, by_interleaving, outcome};
use crate::report::Outcome;
use crate::rivals::BURST;
use crate::rivals::dpdk::balance::Balance;
use crate::rivals::dpdk::{self, SLOTS, Shape};
use crate::traffic::Traffic;

const POOLS: [u32; 4] = [2047, 4095, 8191, 16_383];
const CACHES: [u32; 2] = [256, 512];
/// Runs of a shape in the search.
const TRIES: usize = 3;

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
    details.extend(by_interleaving(&all));
    outcome(name, PER_CPU, all.swap_remove(0), details, &conditions)
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
