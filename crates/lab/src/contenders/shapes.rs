//! Selects a contender's settings: the best of several, found before its first turn at a point.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Job, Sample};
#[cfg(feature = "dpdk")]
use crate::rivals::dpdk::{SLOTS, Shape};

/// Objects of a rival's pool, and cache size of a core.
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

/// Number of tries per setting.
const TRIES: usize = 3;

/// Search results by contender and point. They are kept for the life of the process, because a
/// search takes longer than a turn.
static FOUND: Mutex<BTreeMap<String, Found>> = Mutex::new(BTreeMap::new());

/// The best of several settings.
#[derive(Clone)]
struct Found {
    at: usize,
    /// The rate of each setting, as text.
    rates: String,
}

/// The time of the searches of a run. It is no part of the time of the run, because a search may
/// take longer than all turns.
#[derive(Debug, Default)]
pub struct Searches(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    /// The time of all searches that have ended.
    ended: Duration,
    /// The start of the present search.
    began: Option<Instant>,
}

impl Searches {
    /// Returns the time of all searches, including the present one. Cost: a lock.
    pub fn time(&self) -> Duration {
        let times = self.times();
        times.ended + times.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Does a search.
    pub(crate) fn during<T>(&self, search: impl FnOnce() -> T) -> T {
        self.times().began = Some(Instant::now());
        let _end = End(self);
        search()
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the present search when dropped, so a search that panics ends, too.
struct End<'a>(&'a Searches);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut times = self.0.times();
        let time = times.began.take().map_or(Duration::ZERO, |began| began.elapsed());
        times.ended += time;
    }
}

/// The key of a search, and where its time is added.
pub(super) struct Key<'a> {
    text: String,
    searches: &'a Searches,
}

impl Key<'_> {
    /// Returns the key of another search for the same point.
    #[cfg(any(test, feature = "dpdk"))]
    pub(super) fn and(&self, what: &str) -> Self {
        Self { text: format!("{}, {what}", self.text), searches: self.searches }
    }
}

/// Returns the key of a search: the contender and the point.
pub(super) fn key<'a>(name: &str, job: &Job<'a>) -> Key<'a> {
    let text = format!("{name} {} {} {}", job.work, job.size_bytes, job.case.unwrap_or_default());
    Key { text, searches: job.searches }
}

/// Returns the rates of a contender's settings at a point, best first, if it has several and has
/// had a turn.
pub(crate) fn tried(name: &str, job: &Job<'_>) -> Option<String> {
    let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.get(&key(name, job).text).map(|found| found.rates.clone())
}

/// Returns the setting with the highest `rate` in Mpps. Tries each a few times, once for each
/// `key`.
///
/// # Errors
/// The first error of `rate`.
///
/// # Panics
/// If there are no settings.
pub(super) fn best<S: Copy + Debug>(
    key: &Key<'_>,
    settings: &[S],
    rate: impl FnMut(S) -> Result<f64, String>,
) -> Result<S, String> {
    best_of(TRIES, key, settings, rate)
}

/// Like [`best`], with this many tries of each setting.
///
/// # Errors
/// As [`best`].
pub(super) fn best_of<S: Copy + Debug>(
    tries: usize,
    key: &Key<'_>,
    settings: &[S],
    rate: impl FnMut(S) -> Result<f64, String>,
) -> Result<S, String> {
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = found().get(&key.text) {
        return Ok(settings[known.at]);
    }
    let mut rates = key.searches.during(|| rates(tries, settings, rate))?;
    rates.sort_by(|a, b| b.1.total_cmp(&a.1));
    let at = rates.first().expect("there are settings").0;
    let rates = rates.iter().map(|&(at, rate)| format!("{:?}: {rate:.1}", settings[at]));
    let rates = rates.collect::<Vec<_>>().join(", ");
    found().insert(key.text.clone(), Found { at, rates });
    Ok(settings[at])
}

/// Tries each setting; returns its index and its highest rate.
fn rates<S: Copy>(
    tries: usize,
    settings: &[S],
    mut rate: impl FnMut(S) -> Result<f64, String>,
) -> Result<Vec<(usize, f64)>, String> {
    let mut rates = Vec::new();
    for (at, &setting) in settings.iter().enumerate() {
        let most = (0..tries).try_fold(0_f64, |most, _| Ok::<_, String>(most.max(rate(setting)?)));
        rates.push((at, most?));
    }
    Ok(rates)
}

/// A shape of a rival's pool and rings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Pool {
    /// Objects of the pool.
    pub(super) objects: u32,
    /// Size of each core's cache.
    pub(super) cache: u32,
    /// Whether the rings are for one producer and one consumer, if there is a choice.
    pub(super) is_single: bool,
}

impl Pool {
    /// Returns all shapes to try; `has_both`: with either kind of ring.
    pub(super) fn all(has_both: bool) -> Vec<Self> {
        Self::with(&SHAPES, has_both)
    }

    /// Combines each number of objects with each cache size and kind of ring. Leaves out invalid
    /// ones: as in DPDK, a cache's threshold is at most the pool size.
    pub(super) fn of_each(pools: &[u32], caches: &[u32], has_both: bool) -> Vec<Self> {
        let pair = |&objects: &u32| caches.iter().map(move |&cache| (objects, cache));
        let pairs =
            pools.iter().flat_map(pair).filter(|(objects, cache)| cache * 3 / 2 <= *objects);
        Self::with(&pairs.collect::<Vec<_>>(), has_both)
    }

    /// Adds the chosen shape to the sample.
    pub(super) fn describe(self, sample: &mut Sample) {
        sample.set("pool_objects", "objects", f64::from(self.objects));
        sample.set("pool_cache", "objects", f64::from(self.cache));
    }

    fn with(shapes: &[(u32, u32)], has_both: bool) -> Vec<Self> {
        let kinds = if has_both { &[true, false][..] } else { &[true] };
        let of = |&is_single: &bool| {
            shapes.iter().map(move |&(objects, cache)| Self { objects, cache, is_single })
        };
        kinds.iter().flat_map(of).collect()
    }
}

impl Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rings = if self.is_single { "SP/SC" } else { "MP/MC" };
        write!(f, "pool {} cache {} {rings}", self.objects, self.cache)
    }
}

#[cfg(feature = "dpdk")]
impl Pool {
    /// Converts to the shape of the rivals on DPDK.
    pub(super) fn shape(self) -> Shape {
        let Self { objects, cache, is_single } = self;
        Shape { objects, cache, slots: SLOTS, is_single: is_single.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_best_is_looked_for_once() {
        let mut tried = 0;
        let rate = |pool: Pool| {
            tried += 1;
            let is_it = (pool.objects, pool.cache, pool.is_single) == (4095, 512, false);
            Ok(if is_it { 2.0 } else { 1.0 })
        };
        let (all, searches) = (Pool::all(true), Searches::default());
        let key = |text: &str| Key { text: text.to_owned(), searches: &searches };
        let found = best(&key("a test"), &all, rate).unwrap();
        assert_eq!((found.objects, found.cache, found.is_single), (4095, 512, false));
        assert_eq!(tried, TRIES * 2 * SHAPES.len());
        assert_eq!(best(&key("a test"), &all, |_| Err("again".to_owned())), Ok(found));
        assert!(best(&key("another"), &Pool::all(false), |_| Err("none".to_owned())).is_err());
        let rates = FOUND.lock().unwrap()["a test"].rates.clone();
        assert!(rates.starts_with("pool 4095 cache 512 MP/MC: 2.0, pool 2047 cache 0 SP/SC: 1.0"));
    }

    #[test]
    fn the_time_of_a_search_counts_while_it_runs_and_then_no_more() {
        const LONG: Duration = Duration::from_millis(2);
        let (searches, began) = (Searches::default(), Instant::now());
        assert_eq!(searches.time(), Duration::ZERO);
        let before = searches.during(|| {
            thread::sleep(LONG);
            searches.time()
        });
        let after = searches.time();
        assert!(LONG <= before && before <= after && after <= began.elapsed());
        thread::sleep(LONG);
        assert_eq!(searches.time(), after);
        let key = Key { text: "a failed test".to_owned(), searches: &searches };
        let failed = best(&key.and("once"), &[()], |()| {
            thread::sleep(LONG);
            Err("it fails".to_owned())
        });
        assert_eq!(failed, Err("it fails".to_owned()));
        assert!(searches.time() >= after + LONG);
    }

    #[test]
    fn a_cache_is_no_larger_than_its_pool_allows() {
        let all = Pool::of_each(&[511, 2047], &[0, 512], true);
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|pool| (pool.objects, pool.cache) != (511, 512)));
    }
}
