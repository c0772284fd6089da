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
const METRIC: &str = "gbit_per_busy_s";

/// Measures Gbit for each second of processor time, for packets that do not match; the details
/// include those that do.
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
    let comparison = context.begin();
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
    let outcome = comparison.outcome_of_samples(METRIC, Better::Higher, without.rounds, details);
    Ok(outcome.in_pages(without.pages))
}

/// The time of a turn.
#[derive(Default)]
struct Spent {
    cpu_ns: u64,
    /// Wall time.
    seconds: f64,
}

impl Spent {
    /// Returns the rates of a turn that has searched this many bytes.
    fn sample(&self, bytes: usize) -> Sample {
        let (bits, mut sample) = ((bytes * 8) as f64, Sample::default());
        sample.set_on(METRIC, "Gbit/busy s", "without FCS", bits / self.cpu_ns.max(1) as f64);
        let by_clock = bits / self.seconds.max(1e-9) / 1e9;
        sample.set_on("gbps", "Gbit/s", "without FCS", by_clock);
        sample
    }
}

/// The common part of both sides.
struct Sides<'a> {
    context: &'a Context,
    rules: &'a [Vec<u8>],
    rounds: usize,
}

/// The outcome of one kind of traffic.
struct OfTraffic {
    rounds: Rounds<Sample>,
    /// The peer with lists of buffers, and as many packets per call as ours.
    by_lists: Sample,
    found: Found,
    pages: [String; 2],
}

impl OfTraffic {
    fn said(&self, what: &str) -> String {
        let (ours, peer) = self.rounds.values_of(METRIC).medians();
        format!(
            "{what}: ours {ours:.3} Gbit/busy s, peer {peer:.3}, ratio {:.3}; the same buffers by \
             hs_scan_vector, a call for {SCANNED}: {:.3}; {} matches",
            ours / peer,
            self.by_lists.figures[METRIC].value,
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
        let measured = |turn: &mut dyn FnMut() -> Result<Scanned, String>| {
            let mut spent = Spent::default();
            for _ in 0..self.rounds {
                let scanned = turn()?;
                spent.cpu_ns += scanned.cpu_ns;
                spent.seconds += scanned.seconds;
                match found.replace(Some(scanned.found)) {
                    Some(other) if other != scanned.found => {
                        return Err(format!("found {:?}, and {other:?} before", scanned.found));
                    }
                    _ => {}
                }
            }
            Ok(spent.sample(bytes * self.rounds))
        };
        let by_lists = measured(&mut || lists.turn(packets))?;
        let rounds = self.context.alternate(
            self.context.runs,
            || measured(&mut || ours.turn(packets)),
            || measured(&mut || peer.turn(packets)),
        )?;
        let pages = [ours.page().to_string(), first.page().to_string()];
        Ok(OfTraffic { rounds, by_lists, found: found.get().unwrap_or_default(), pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_processor_time_is_not_one_by_the_clock() {
        // 8 Gbit in a second of the processor and two of the clock.
        let sample = Spent { cpu_ns: 1_000_000_000, seconds: 2.0 }.sample(1_000_000_000);
        let of = |name: &str| (sample.figures[name].unit, sample.figures[name].value);
        assert_eq!(of(METRIC), ("Gbit/busy s", 8.0));
        assert_eq!(of("gbps"), ("Gbit/s", 4.0));
    }
}
