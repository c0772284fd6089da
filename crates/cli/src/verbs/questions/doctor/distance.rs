//! Measures how far apart this machine's cores are, because the reported topology is not reliable.
//!
//! A hypervisor may report one cache shared by all cores, and run them anywhere. Two cores of one
//! guest were 45 ns apart, and 250 ns within the hour. A packet handed from one thread to another
//! pays this per cache line, so a job's rate depends on it.

use std::time::Duration;

use burstline_sys::affinity::{self, CoreId};
use burstline_sys::distance::{FAR_NS, one_way_ns_within};
use burstline_topo::{Finding, Inventory};

/// Time limit for all pairs together, without the start of their threads.
const LIMIT: Duration = Duration::from_millis(40);

/// Maximum number of pairs, which take a millisecond each.
const PAIRS_MOST: usize = 24;

/// Number of batches per pair.
const BATCHES: usize = 100;

/// The measured one-way latency between the first core and another.
#[derive(Clone, Copy, Debug)]
struct Pair {
    near: CoreId,
    far: CoreId,
    one_way_ns: f64,
}

/// Returns findings from measuring the cores that this process may use.
pub(super) fn findings(inventory: &Inventory) -> Vec<Finding> {
    let cores = affinity::allowed_cores().unwrap_or_default();
    judge(&measured(&cores), |near, far| shares_cache(inventory, near, far))
}

/// Measures the first core with each other core, or with a sample of them if there are many.
fn measured(cores: &[CoreId]) -> Vec<Pair> {
    let Some((&near, others)) = cores.split_first() else { return Vec::new() };
    let step = others.len().div_ceil(PAIRS_MOST).max(1);
    let limit = LIMIT / PAIRS_MOST.min(others.len()).max(1) as u32;
    let pair = |&far: &CoreId| {
        let one_way_ns = one_way_ns_within(near, far, BATCHES, limit)?;
        Some(Pair { near, far, one_way_ns })
    };
    others.iter().step_by(step).filter_map(pair).collect()
}

/// Returns whether the topology lists a cache shared by two cores.
fn shares_cache(inventory: &Inventory, near: CoreId, far: CoreId) -> bool {
    let core = inventory.cores.iter().find(|core| core.id == near);
    core.is_some_and(|core| core.caches.iter().any(|cache| cache.shared_with.contains(&far)))
}

fn judge(pairs: &[Pair], shares_cache: impl Fn(CoreId, CoreId) -> bool) -> Vec<Finding> {
    let name = "distance";
    let ways = |pairs: &[&Pair]| {
        let way = |pair: &&Pair| format!("{:.0} ns to core {}", pair.one_way_ns, pair.far);
        pairs.iter().map(way).collect::<Vec<_>>().join(", ")
    };
    let Some(first) = pairs.first() else {
        return vec![Finding::fine(name, "one core: packets do not go from core to core")];
    };
    let (far, near): (Vec<_>, Vec<_>) = pairs.iter().partition(|pair| pair.one_way_ns >= FAR_NS);
    let (false_near, far): (Vec<_>, Vec<_>) =
        far.into_iter().partition(|pair: &&Pair| shares_cache(pair.near, pair.far));
    let begin = format!("a cache line from core {} takes", first.near);
    let mut found = Vec::new();
    if !near.is_empty() {
        found.push(Finding::fine(name, format!("{begin} {} (near)", ways(&near))));
    }
    if !far.is_empty() {
        found.push(Finding::fine(name, format!("{begin} {} (far)", ways(&far))));
    }
    if !false_near.is_empty() {
        let ways = ways(&false_near);
        found.push(Finding::defect(
            name,
            format!("{begin} {ways}: far, though the topology says that they share a cache"),
            "a log between them may run at a fraction of the rate; figures change when the \
             hypervisor moves a core",
            "`make bench FIGURE='handoff*'`, which shows the distance before and after",
            Vec::new(),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(far: u32, one_way_ns: f64) -> Pair {
        Pair { near: CoreId(0), far: CoreId(far), one_way_ns }
    }

    #[test]
    fn near_and_far_are_said_and_a_topology_that_is_wrong_is_a_defect() {
        let pairs = [pair(1, 51.2), pair(2, 249.0), pair(3, 180.4)];
        let found = judge(&pairs, |_, far| far == CoreId(3));
        let said: Vec<_> = found.iter().map(|one| (one.is_defect, one.what.as_str())).collect();
        assert_eq!(
            said,
            [
                (false, "a cache line from core 0 takes 51 ns to core 1 (near)"),
                (false, "a cache line from core 0 takes 249 ns to core 2 (far)"),
                (
                    true,
                    "a cache line from core 0 takes 180 ns to core 3: far, though the topology \
                     says that they share a cache"
                ),
            ]
        );
        assert!(judge(&[], |_, _| true)[0].what.starts_with("one core"));
    }

    #[test]
    fn each_other_core_is_measured() {
        let cores = affinity::allowed_cores().unwrap();
        let pairs = measured(&cores);
        assert!(pairs.len() <= PAIRS_MOST && pairs.is_empty() == (cores.len() < 2));
        assert!(pairs.iter().all(|pair| pair.one_way_ns > 0.0 && pair.near == cores[0]));
    }
}
