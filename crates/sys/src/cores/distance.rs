//! The distance between two cores: how long a cache line takes from one to the other.
//!
//! ```text
//!   near core   store 1 ...... spin ...... load 1, store 2 ...
//!   far core    ... load 1, store 1 ...                          one way is half of a round trip
//! ```
//!
//! A hand-off between two cores costs at least this much for each burst. On a virtual machine the
//! hypervisor may move a core, so the distance changes within minutes. A figure of two cores means
//! little without the distance at which it was measured.
//!
//! Invariant D1: both threads end. The far one ends when it reads `END`. The near one always stores
//! `END`, even after the time limit.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use crate::affinity::{self, CoreId};
use crate::clock;

/// Two cores at this distance or more are far apart. We measured 20 to 80 ns between cores of an
/// AMD EPYC that share a cache, and 170 to 280 ns between others. On an Intel Xeon, whose cores all
/// share one, we measured 119 to 147 ns.
pub const FAR_NS: f64 = 120.0;

/// Round trips per batch. They are timed together, so that two clock readings weigh little.
pub const ROUND_TRIPS: u64 = 16;

/// Batches of [`one_way_ns`]: some 2 to 20 ms.
const BATCHES: usize = 500;

/// The time limit of [`one_way_ns`], not counting the start of two threads.
const LIMIT: Duration = Duration::from_millis(40);

/// Batches that warm up.
const WARM_UP: usize = 1;

/// Ends the far thread; no round trip has this number.
const END: u64 = u64::MAX;

/// A word alone on its cache line, and on the adjacent line that is prefetched with it.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Line(AtomicU64);

impl Line {
    #[inline]
    fn send(&self, value: u64) {
        self.0.store(value, Release); // pairs with the load in `next`
    }

    /// Spins until the value differs from `last`.
    #[inline]
    fn next(&self, last: u64) -> u64 {
        loop {
            let value = self.0.load(Acquire); // pairs with the store in `send`
            if value != last {
                return value;
            }
            spin_loop();
        }
    }
}

/// Returns the one-way time of a cache line between two cores, in ns: the median of some 500
/// batches, in less than 50 ms.
///
/// `None` if both are the same core, or if one of them is not available.
///
/// Cost: two threads that spin on these cores.
pub fn one_way_ns(near: CoreId, far: CoreId) -> Option<f64> {
    one_way_ns_within(near, far, BATCHES, LIMIT)
}

/// Like [`one_way_ns`], with up to `batches` batches, fewer once the time `limit` is over.
pub fn one_way_ns_within(
    near: CoreId,
    far: CoreId,
    batches: usize,
    limit: Duration,
) -> Option<f64> {
    let mut ways = ways_ns(near, far, batches, limit)?;
    ways.sort_by(f64::total_cmp);
    ways.get(ways.len() / 2).copied()
}

/// Returns the one-way time of each of `batches` batches of [`ROUND_TRIPS`], in ns. Returns fewer,
/// but at least one, once the time `limit` is over.
///
/// `None` as for [`one_way_ns`].
pub fn ways_ns(near: CoreId, far: CoreId, batches: usize, limit: Duration) -> Option<Vec<f64>> {
    if near == far {
        return None;
    }
    let (forth, back) = (Line::default(), Line::default());
    thread::scope(|scope| {
        let far_end = scope.spawn(|| {
            let is_there = affinity::pin_to(far).is_ok();
            let mut last = 0;
            loop {
                last = forth.next(last);
                if last == END {
                    return is_there;
                }
                back.send(last);
            }
        });
        let near_end = scope.spawn(|| {
            let ways = affinity::pin_to(near).ok().map(|()| timed(&forth, &back, batches, limit));
            forth.send(END);
            ways
        });
        let ways = near_end.join().ok()??;
        far_end.join().ok()?.then_some(ways)
    })
}

/// The near thread's part.
fn timed(forth: &Line, back: &Line, batches: usize, limit: Duration) -> Vec<f64> {
    let (began, mut trip, mut ways) = (Instant::now(), 0, Vec::with_capacity(batches));
    for batch in 0..batches.max(1) + WARM_UP {
        let start_ns = clock::monotonic_ns();
        for _ in 0..ROUND_TRIPS {
            forth.send(trip + 1);
            trip = back.next(trip);
        }
        let spent_ns = clock::monotonic_ns() - start_ns;
        if batch >= WARM_UP {
            ways.push(spent_ns as f64 / (2 * ROUND_TRIPS) as f64);
        }
        if !ways.is_empty() && began.elapsed() > limit {
            break;
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_no_distance_to_itself_and_none_to_one_that_is_not_there() {
        let own = affinity::allowed_cores().unwrap()[0];
        assert_eq!(one_way_ns(own, own), None);
        let nowhere = CoreId(affinity::CORES_MAX - 1);
        assert_eq!((one_way_ns(own, nowhere), one_way_ns(nowhere, own)), (None, None));
    }

    #[test]
    fn two_cores_are_apart_and_the_limit_ends_it() {
        let cores = affinity::allowed_cores().unwrap();
        let [near, far, ..] = cores[..] else {
            return burstline_skip::skip("it takes a second core");
        };
        assert!(one_way_ns(near, far).unwrap() > 0.0);
        assert_eq!(ways_ns(near, far, 3, Duration::MAX).unwrap().len(), 3);
        assert_eq!(ways_ns(near, far, 1 << 20, Duration::ZERO).unwrap().len(), 1);
    }
}
