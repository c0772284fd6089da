//! Which settings a contender is given: the best of some, found before its first turn at a point.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Job;
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

/// Which was found, by contender and point, for as long as this process lives: a search takes
/// longer than a turn.
static FOUND: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// What is looked for once: of a contender at a point.
pub(super) fn key(name: &str, job: &Job<'_>) -> String {
    format!("{name} {} {} {}", job.work, job.size_bytes, job.case.unwrap_or_default())
}

/// The one of some settings with the highest `rate`, each tried twice, and looked for once for each
/// `key`.
///
/// # Errors
/// The first of `rate`.
///
/// # Panics
/// If there are no settings.
pub(super) fn best<S: Copy>(
    key: &str,
    settings: &[S],
    mut rate: impl FnMut(S) -> Result<f64, String>,
) -> Result<S, String> {
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&at) = found().get(key) {
        return Ok(settings[at]);
    }
    let mut best: Option<(usize, f64)> = None;
    for (at, &setting) in settings.iter().enumerate() {
        let rate = rate(setting)?.max(rate(setting)?);
        if best.is_none_or(|(_, most)| rate > most) {
            best = Some((at, rate));
        }
    }
    let (at, _) = best.expect("there are settings");
    found().insert(key.to_owned(), at);
    Ok(settings[at])
}

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
    /// All that are tried; `has_both`: with either kind of rings.
    pub(super) fn all(has_both: bool) -> Vec<Self> {
        let kinds = if has_both { &[true, false][..] } else { &[true] };
        let of =
            |&is_single: &bool| SHAPES.map(|(objects, cache)| Self { objects, cache, is_single });
        kinds.iter().flat_map(of).collect()
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
            let is_it = (pool.objects, pool.cache, pool.is_single) == (4095, 512, false);
            Ok(if is_it { 2.0 } else { 1.0 })
        };
        let all = Pool::all(true);
        let found = best("a test", &all, rate).unwrap();
        assert_eq!((found.objects, found.cache, found.is_single), (4095, 512, false));
        assert_eq!(tried, 2 * 2 * SHAPES.len());
        assert_eq!(best("a test", &all, |_| Err("again".to_owned())), Ok(found));
        assert!(best("another", &Pool::all(false), |_| Err("none".to_owned())).is_err());
    }
}
