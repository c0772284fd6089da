//! Decides how much of a log's memory is in rotation while its readers keep up.
//!
//! ```text
//!            writer's core                          reader's core
//!   private  | the last L2 bytes written |          | the last L2 bytes read |
//!            ------------------------ evicted from both -----------------------
//!   shared   | what was written and read longer ago: either core's, at the shared cache's rate |
//! ```
//!
//! A segment is written, read, and written again, and the cost depends on where its lines are each
//! time. If few segments rotate, the writer finds every line in the reader's private cache, and the
//! reader finds it in the writer's. Each line then goes from core to core twice, and each way costs
//! the distance between them. If all segments together are larger than a private cache, both cores
//! evict a line to their shared cache before it is written again. The writer then gets it at the
//! rate of the shared cache. If the segments are larger than the shared cache, the lines come from
//! memory.
//!
//! A log therefore uses `L2_TIMES` times the private cache, but at most a part of the shared one.
//! On an AMD EPYC (1 MiB private, 32 MiB shared) that doubled the packet rate in bursts of 32,
//! against reusing the last segment. In larger bursts the rate was eight times as high (Decision
//! 0027).

use std::sync::OnceLock;

use burstline_sys::affinity;
use burstline_sys::caches::{self, Cache};

/// Size of the rotation in private caches: the writer's, the reader's, and more because eviction is
/// not in order.
const L2_TIMES: u64 = 6;

/// The rotation takes at most one of this many parts of the shared cache; other logs and programs
/// need the rest.
const SHARED_PARTS: u64 = 4;

/// Size of the rotation in bytes if the caches are unknown.
const UNKNOWN_BYTES: u64 = 4 << 20;

/// Bytes of segments in rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cycle {
    /// Of all logs that are used together.
    all: u64,
    /// The minimum for each log, unless `all` is less: its reader has a private cache.
    least: u64,
}

/// Returns the bytes of segments in rotation on this machine, for each of `logs` logs that are used
/// together and divide the shared cache.
///
/// 0 if this process has only one core: the line used last is then the nearest.
///
/// Cost: one query of the kernel's cache information per process.
pub(crate) fn of_each(logs: usize) -> usize {
    static CYCLE: OnceLock<Cycle> = OnceLock::new();
    CYCLE.get_or_init(Cycle::of_this_process).of_each(logs) as usize
}

impl Cycle {
    fn of_this_process() -> Self {
        match affinity::allowed_cores() {
            Ok(cores) if cores.len() == 1 => Self { all: 0, least: 0 },
            _ => Self::of(&caches::of_first_core()),
        }
    }

    fn of(caches: &[Cache]) -> Self {
        let [.., private, shared] = caches else { return Self { all: UNKNOWN_BYTES, least: 0 } };
        let all = (L2_TIMES * private.bytes).min(shared.bytes / SHARED_PARTS);
        Self { all, least: 2 * private.bytes }
    }

    fn of_each(self, logs: usize) -> u64 {
        self.all.min((self.all / logs.max(1) as u64).max(self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u64, mebibytes: u64) -> Cache {
        Cache { level, bytes: mebibytes << 20, shared_with: Vec::new() }
    }

    #[test]
    fn it_is_more_than_a_private_cache_and_a_part_of_the_shared_one() {
        let of = |private, shared| Cycle::of(&[cache(1, 0), cache(2, private), cache(3, shared)]);
        assert_eq!(of(1, 32).of_each(1), 6 << 20);
        assert_eq!(of(2, 32).of_each(1), 8 << 20);
        assert_eq!(Cycle::of(&[]).of_each(1), UNKNOWN_BYTES);
    }

    #[test]
    fn logs_that_are_used_together_share_it() {
        let cycle = Cycle::of(&[cache(2, 1), cache(3, 64)]);
        assert_eq!([0, 1, 2, 3, 4, 99].map(|logs| cycle.of_each(logs) >> 20), [6, 6, 3, 2, 2, 2]);
        assert_eq!(of_each(0), of_each(1));
        assert!((2..99).all(|logs| of_each(logs) <= of_each(logs - 1)));
    }
}
