//! Divides the time of a short run among scenarios.
//!
//! Each gets its share of the time left, in proportion to its estimate and those of the following
//! ones. Unused time goes to the others. A search for a contender's settings before its first turn
//! is in no estimate: it does not count against the share, and leaves less to the others.

use std::time::Duration;

use super::{Point, Scenario, Work};
use crate::contenders;

/// Time limit for all short runs together: less than ten minutes, including their last turns.
pub const QUICK: Duration = Duration::from_secs(540);

/// Overhead of a turn: a network namespace, and a program's start, warm-up and end.
const LIVE_EXTRA: Duration = Duration::from_secs(2);

/// Overhead of a turn in memory.
const MEMORY_EXTRA: Duration = Duration::from_millis(250);

/// Overhead of a scenario besides its turns.
const EXTRA: Duration = Duration::from_secs(2);

/// Approximate packets a second of a generator.
const PACKETS_PER_S: f64 = 1e6;

/// Time of one run of a side of a merge.
const MERGE_RUN: Duration = Duration::from_millis(1500);

/// The same for spreading packets.
const SPREAD_RUN: Duration = Duration::from_millis(300);

/// Approximate number of trials of a device at a size, and the overhead of each.
const TRIALS: f64 = 30.0;
const SETTLE: Duration = Duration::from_millis(150);

/// Estimates how long a scenario takes here if nothing else runs.
pub fn estimate(scenario: &Scenario) -> Duration {
    let is_there = |point: &Point| point.placement.find(scenario.more_threads()).is_ok();
    let points = Point::all(scenario).iter().filter(|&point| is_there(point)).count();
    let adapters = scenario.contenders.iter().filter_map(|name| contenders::named(name));
    let takers =
        adapters.filter(|&adapter| contenders::can_do(adapter, scenario.work).is_ok()).count();
    let amounts = &scenario.amounts;
    let time = match amounts.packets {
        Some(packets) => Duration::from_secs_f64(packets as f64 / PACKETS_PER_S),
        None => amounts.time,
    };
    let turns = points * takers * amounts.repeats;
    let all = match scenario.work {
        Work::Model => Duration::ZERO,
        // The driver alone, then two running cards.
        Work::Dma => times(2 * time + MEMORY_EXTRA, turns),
        Work::Merge => times(MERGE_RUN, turns),
        Work::Spread => times(SPREAD_RUN, turns),
        Work::Rfc2544 => times((time + SETTLE).mul_f64(TRIALS) + LIVE_EXTRA, turns),
        // Some contenders start programs.
        Work::Match => times(time + LIVE_EXTRA, turns),
        work if work.is_live() => times(time + LIVE_EXTRA, turns),
        _ => times(time + MEMORY_EXTRA, turns),
    };
    EXTRA + all
}

/// Returns the first scenario's share of `left`, by the estimates of it and its successors.
pub fn part(left: Duration, estimates: &[Duration]) -> Duration {
    let all: Duration = estimates.iter().sum();
    let Some(first) = estimates.first().filter(|_| !all.is_zero()) else { return left };
    left.mul_f64(first.as_secs_f64() / all.as_secs_f64())
}

fn times(time: Duration, count: usize) -> Duration {
    time.mul_f64(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::built_in;

    #[test]
    fn parts_are_by_estimates_and_the_last_one_gets_what_is_left() {
        let seconds = Duration::from_secs;
        assert_eq!(part(seconds(100), &[seconds(10), seconds(30)]), seconds(25));
        assert_eq!(part(seconds(90), &[seconds(30)]), seconds(90));
        assert_eq!(part(Duration::ZERO, &[seconds(30), seconds(1)]), Duration::ZERO);
    }

    #[test]
    fn an_estimate_is_of_points_contenders_and_turns() {
        let find = |name: &str| built_in().into_iter().find(|scenario| scenario.name == name);
        let mut copy = find("copy-cost").unwrap().quickly();
        let turns = copy.sizes.len() * 2 * copy.amounts.repeats;
        let turn = copy.amounts.time + MEMORY_EXTRA;
        assert_eq!(estimate(&copy), EXTRA + times(turn, turns));
        copy.placements = vec![crate::scenario::Placement::parse("0>900").unwrap()];
        assert_eq!(estimate(&copy), EXTRA);
        assert_eq!(estimate(&find("modma").unwrap()), EXTRA);
    }
}
