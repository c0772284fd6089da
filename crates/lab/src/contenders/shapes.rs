//! Which pool a rival is given: the best of some, found before its first turn at a point.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "dpdk")]
use crate::rivals::dpdk::{SLOTS, Shape};

/// Objects of a rival's pool, and of each core's cache.
const SHAPES: [(u32, u32); 9] = [
    (2047, 0),
    (4095, 0),
    (8191, 0),
    (16_383, 0),
    (2047, 256),
    (4095, 256),
    (4095, 512),
    (8191, 512),
    (16_383, 512),
];

/// What was found, by contender and point, for as long as this process lives: a search takes
/// longer than a turn.
static FOUND: Mutex<BTreeMap<String, Pool>> = Mutex::new(BTreeMap::new());

/// A shape of a rival's pool and rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// Of the pool.
    pub(super) objects: u32,
    /// Of each core's cache.
    pub(super) cache: u32,
    /// Rings for one producer and one consumer, where there are others.
    pub(super) is_single: bool,
}

impl Pool {
    /// The shape with the highest `rate`, each tried twice; `has_both`: with either kind of rings.
    ///
    /// # Errors
    /// The first of `rate`.
    pub(super) fn best(
        key: &str,
        has_both: bool,
        mut rate: impl FnMut(Self) -> Result<f64, String>,
    ) -> Result<Self, String> {
        let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&pool) = found().get(key) {
            return Ok(pool);
        }
        let kinds = if has_both { &[true, false][..] } else { &[true] };
        let mut best: Option<(Self, f64)> = None;
        for &is_single in kinds {
            for (objects, cache) in SHAPES {
                let pool = Self { objects, cache, is_single };
                let rate = rate(pool)?.max(rate(pool)?);
                if best.is_none_or(|(_, most)| rate > most) {
                    best = Some((pool, rate));
                }
            }
        }
        let (pool, _) = best.expect("there are shapes");
        found().insert(key.to_owned(), pool);
        Ok(pool)
    }
}

#[cfg(feature = "dpdk")]
impl Pool {
    /// As the rivals on DPDK have it.
    pub(super) fn shape(self) -> Shape {
        let Self { objects, cache, is_single } = self;
        Shape { objects, cache, slots: SLOTS, is_single: is_single.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_looked_for_once() {
        let mut tried = 0;
        let rate = |pool: Pool| {
            tried += 1;
            Ok(if (pool.objects, pool.cache, pool.is_single) == (4095, 512, false) {
                2.0
            } else {
                1.0
            })
        };
        let best = Pool::best("a test", true, rate).unwrap();
        assert_eq!((best.objects, best.cache, best.is_single), (4095, 512, false));
        assert_eq!(tried, 2 * 2 * SHAPES.len());
        assert_eq!(Pool::best("a test", true, |_| Err("again".to_owned())), Ok(best));
        assert!(Pool::best("another", false, |_| Err("none".to_owned())).is_err());
    }
}
