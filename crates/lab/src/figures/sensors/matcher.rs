//! `matcher-contiguous`: searches for contents in contiguous bursts, against searching in a pool's
//! buffers.

use std::cell::Cell;

use burstline_sys::affinity;

use crate::arena::Arena;
use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::contest::Rounds;
use crate::figures::Context;
use crate::pages;
use crate::rivals::contents::{self, Contiguous, Found, RULES, SCANNED, Scanned, Scattered};
use crate::rivals::hyperscan::{self, Memory};

/// Packets per round: their buffers and their log are larger than a core's own caches.
const PACKETS: usize = 32_768;
/// Rounds per turn.
const ROUNDS: usize = 16;
/// In traffic with matches, one packet in this many matches.
const MATCH_EVERY: u64 = 4;
const SMOKE_PACKETS: usize = 512;
const SMOKE_RULES: usize = 100;

/// Measures Gbit/s per core for packets that do not match; the details include those that do.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Err(why) = hyperscan::version() {
        return Ok(Outcome::NotHere(why));
    }
    let (rules, packets, rounds) = match context.smoke {
        true => (SMOKE_RULES, SMOKE_PACKETS, 1),
        false => (RULES, PACKETS, ROUNDS),
    };
    // If this fails, the kernel chooses the core.
    let _ = affinity::pin_to(context.cores.consumer);
    let rules = contents::rules(rules);
    let sides = Sides { context, rules: &rules, rounds };
    let contest = context.begin();
    let [without, with] = [None, Some(MATCH_EVERY)].map(|every| {
        let packets = contents::packets(packets, &rules, every);
        sides.compare(&packets)
    });
    let (without, with) = (without?, with?);
    if without.found.matches != 0 || with.found.matches == 0 {
        return Err(format!("{} and {} matches", without.found.matches, with.found.matches));
    }
    let details = vec![
        format!(
            "{} contents of 6 to 20 bytes; {packets} packets of 68 to 256 bytes at random, \
             {rounds} rounds a turn; time of the thread while it looks through them, on one core",
            rules.len()
        ),
        format!(
            "ours: a call of hs_scan for up to {SCANNED} packets of a burst of the log; peer: one \
             for each packet in the buffers of a pool, with prefetch. All bytes of all packets; \
             both find the same; aim: 1.25 times"
        ),
        without.said("packets that do not match"),
        with.said("packets of which one in 4 matches"),
    ];
    let samples = |values: &[f64]| values.iter().map(|&value| sample(value)).collect();
    let rounds =
        Rounds { ours: samples(&without.rounds.ours), peer: samples(&without.rounds.peer) };
    Ok(contest.outcome("gbps", Better::Higher, rounds, details).in_pages(without.pages))
}

fn sample(gbps: f64) -> Sample {
    let mut sample = Sample::default();
    sample.set_on("gbps", "Gbit/s", "without FCS", gbps);
    sample
}

/// The common part of both sides.
struct Sides<'a> {
    context: &'a Context,
    rules: &'a [Vec<u8>],
    rounds: usize,
}

/// The outcome of one kind of traffic.
struct OfTraffic {
    rounds: Rounds,
    /// The peer with lists of buffers, and as many packets per call as ours.
    by_lists: f64,
    found: Found,
    pages: [String; 2],
}

impl OfTraffic {
    fn said(&self, what: &str) -> String {
        let (ours, peer) = self.rounds.medians();
        format!(
            "{what}: ours {ours:.3} Gbit/s, peer {peer:.3}, ratio {:.3}; the same buffers by \
             hs_scan_vector, a call for {SCANNED}: {:.3}; {} matches",
            ours / peer,
            self.by_lists,
            self.found.matches
        )
    }
}

impl Sides<'_> {
    fn compare(&self, packets: &[Vec<u8>]) -> Result<OfTraffic, String> {
        let bytes: usize = packets.iter().map(Vec::len).sum();
        let create = |choice| Contiguous::new(self.rules, bytes, choice);
        let mut ours = pages::with_best(2 * bytes, create)?;
        let room = Scattered::bytes(packets.len());
        let (first, second) = (Arena::in_best_pages(room)?, Arena::in_best_pages(room)?);
        let mut peer = Scattered::new(self.rules, Memory::One, &first, packets.len())?;
        let mut lists = Scattered::new(self.rules, Memory::Several, &second, packets.len())?;
        let found = Cell::new(None);
        let gbps = |turn: &mut dyn FnMut() -> Result<Scanned, String>| {
            let mut cpu_ns = 0;
            for _ in 0..self.rounds {
                let scanned = turn()?;
                cpu_ns += scanned.cpu_ns;
                match found.replace(Some(scanned.found)) {
                    Some(other) if other != scanned.found => {
                        return Err(format!("found {:?}, and {other:?} before", scanned.found));
                    }
                    _ => {}
                }
            }
            Ok((bytes * 8 * self.rounds) as f64 / cpu_ns.max(1) as f64)
        };
        let by_lists = gbps(&mut || lists.turn(packets))?;
        let rounds = self.context.alternate(
            self.context.runs,
            || gbps(&mut || ours.turn(packets)),
            || gbps(&mut || peer.turn(packets)),
        )?;
        let pages = [ours.page().to_string(), first.page().to_string()];
        Ok(OfTraffic { rounds, by_lists, found: found.get().unwrap_or_default(), pages })
    }
}
