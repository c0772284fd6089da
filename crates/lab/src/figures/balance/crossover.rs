//! `balance-crossover`: which mode is best for which packets and workers, as a table.

use burstline_engine::Mode;

use super::sides::{ARENA_BYTES, INTERLEAVINGS, LOG_BYTES, Ours, Peer, best_shape, expected, rate};
use super::{PACKET_BYTES, outcome};
use crate::arena::Arena;
use crate::compared::Outcome;
use crate::conditions::Conditions;
use crate::contest::{Rounds, alternate};
use crate::figures::Context;
use crate::pages;
use crate::statistics::Quartiles;
use crate::traffic::Traffic;

/// Bytes of the packets, without FCS: the first ones are the shortest frames there are.
const SIZES: [usize; 5] = [PACKET_BYTES, 256, 512, 1024, 1514];
const WORKERS: [usize; 3] = [1, 2, 4];

/// Bytes of a run, so that each takes about as long.
const RUN_BYTES: usize = 64 << 20;

/// One line of the table, in Mpps.
pub(crate) struct Line {
    /// *Copy* against the balancer.
    pub(crate) copy: Rounds,
    /// *Share* against the balancer.
    pub(crate) share: Rounds,
}

/// Measures the table; the figure itself is *share* at the shortest packets and the most workers.
pub(in crate::figures) fn measure(context: &Context, _: &str) -> Result<Outcome, String> {
    let conditions = Conditions::watch(context.cores);
    let mut details = vec![
        "uniform traffic, Mpps by the clock, both cores spin, medians; in brackets how \
         many times the scattered balancer's"
            .to_owned(),
        format!("{:>6} {:>8} {:>16} {:>16} {:>10}", "bytes", "workers", "copy", "share", "peer"),
    ];
    let mut first = Rounds::default();
    for length in SIZES {
        for workers in WORKERS {
            let line = compare(context, length, workers)?;
            details.push(line.show(length, workers));
            if length == PACKET_BYTES {
                first = line.share;
            }
        }
    }
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    details.push(format!("the figure: share, {PACKET_BYTES} bytes, {} workers", WORKERS[2]));
    outcome("Mpps", first, details, &conditions)
}

/// Packets of `length` bytes to so many workers: each mode in turns with the balancer.
///
/// # Errors
/// A wrong sum, no memory, or the user wants an end.
pub(crate) fn compare(context: &Context, length: usize, workers: usize) -> Result<Line, String> {
    let packets = if context.smoke { 512 } else { (RUN_BYTES / length) as u64 / 32 * 32 };
    let traffic = Traffic::new(length);
    let (mut copy, mut share, mut arena) =
        pages::with_best(2 * LOG_BYTES + ARENA_BYTES, |pages| {
            let arena = Arena::create(ARENA_BYTES, pages).map_err(|error| error.to_string())?;
            let create = |mode| Ours::create(mode, workers, pages);
            Ok::<_, String>((create(Mode::Copy)?, create(Mode::Share)?, arena))
        })?;
    let (shape, _) = best_shape(context, &traffic, &mut arena, (packets / 8, workers))?;
    let flows = move |counter| INTERLEAVINGS[0].1(counter, workers);
    let sum = expected(&traffic, &flows, packets, workers).0;
    arena.clear();
    let mut peer = Peer::new(&arena, shape, workers);
    let mut against_peer = |ours: &mut Ours| {
        alternate(
            context.runs,
            &context.stop,
            || {
                let run = ours.balance(context.cores, (&traffic, &flows), (packets, packets));
                rate("ours", run, packets, sum)
            },
            || {
                let run = peer.balance(context.cores, (&traffic, &flows), packets);
                rate("the balancer", run, packets, sum)
            },
        )
    };
    Ok(Line { copy: against_peer(&mut copy)?, share: against_peer(&mut share)? })
}

impl Line {
    fn show(&self, length: usize, workers: usize) -> String {
        let median = |values: &[f64]| Quartiles::of(values).median;
        let side = |rounds: &Rounds| {
            let (ours, peer) = (median(&rounds.ours), median(&rounds.peer));
            format!("{ours:.1} ({:.2})", ours / peer)
        };
        let peer: Vec<f64> = [&self.copy.peer[..], &self.share.peer[..]].concat();
        let (copy, share, peer) = (side(&self.copy), side(&self.share), median(&peer));
        format!("{length:>6} {workers:>8} {copy:>16} {share:>16} {peer:>10.1}")
    }
}
