//! Ends a run on the user's stop or when its time is over.
//!
//! Contenders check one flag. With a time limit, a thread of the run sets it for either reason. The
//! time of searches for settings does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::contenders::Searches;

/// Interval of the checks of the user's flag and the clock: too long to affect a figure.
const LOOK: Duration = Duration::from_millis(100);

/// Shortest interval of these checks. A search may begin right before the time is over, and may be
/// long.
const LOOK_LEAST: Duration = Duration::from_millis(5);

/// The limit of a run. Dropping it ends its thread.
pub(super) struct Limit {
    budget: Option<Duration>,
    began: Instant,
    searches: Arc<Searches>,
    user: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    /// A channel whose closing ends the thread, and the thread.
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Limit {
    /// Creates the limit of a run that starts now.
    pub(super) fn new(user: &Arc<AtomicBool>, budget: Option<Duration>) -> Self {
        let (began, user) = (Instant::now(), Arc::clone(user));
        let searches = Arc::<Searches>::default();
        let Some(time) = budget else {
            let stop = Arc::clone(&user);
            return Self { budget, began, searches, user, stop, watcher: None };
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (alive, is_over) = mpsc::channel();
        let (raised, wanted) = (Arc::clone(&stop), Arc::clone(&user));
        let searched = Arc::clone(&searches);
        let thread = thread::spawn(move || {
            loop {
                // Relaxed: no other data depends on the flags, here and below.
                let left = time.saturating_sub(since(began, &searched));
                if wanted.load(Relaxed) || left.is_zero() {
                    raised.store(true, Relaxed);
                    return;
                }
                let left = left.clamp(LOOK_LEAST, LOOK);
                if is_over.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Self { budget, began, searches, user, stop, watcher: Some((alive, thread)) }
    }

    /// Returns the flag for contenders.
    pub(super) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Returns where searches for settings add their time.
    pub(super) fn searches(&self) -> &Searches {
        &self.searches
    }

    /// Returns the time of the run so far, without that of searches.
    pub(super) fn spent(&self) -> Duration {
        since(self.began, &self.searches)
    }

    /// Returns why the run must end, if so: the name of the doubt, and the reason.
    pub(super) fn reached(&self) -> Option<(&'static str, String)> {
        if self.user.load(Relaxed) {
            return Some(("interrupted", "the user stopped the run".to_owned()));
        }
        let budget = self.budget?;
        let is_over = self.stop.load(Relaxed) || self.spent() >= budget;
        is_over.then(|| ("cut-short", format!("its {:.0} s were over", budget.as_secs_f64())))
    }

    /// Returns the time for one of this many remaining parts; `None` for no limit.
    pub(super) fn part(&self, parts: usize) -> Option<Duration> {
        let left = self.budget?.saturating_sub(self.spent());
        Some(left / parts.max(1) as u32)
    }
}

/// Returns the time since a run began, without that of its searches.
fn since(began: Instant, searches: &Searches) -> Duration {
    began.elapsed().saturating_sub(searches.time())
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some((alive, thread)) = self.watcher.take() {
            drop(alive);
            let _ = thread.join(); // it cannot panic
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for(flag: &AtomicBool) {
        while !flag.load(Relaxed) {
            thread::yield_now();
        }
    }

    #[test]
    fn the_flag_is_raised_by_the_clock_and_by_the_user() {
        let user = Arc::new(AtomicBool::new(false));
        let limit = Limit::new(&user, Some(Duration::from_millis(1)));
        wait_for(limit.stop());
        let reached = limit.reached().unwrap();
        assert_eq!(reached, ("cut-short", "its 0 s were over".to_owned()));
        assert_eq!(limit.part(3), Some(Duration::ZERO));
        let limit = Limit::new(&user, Some(Duration::from_secs(3600)));
        assert!(limit.reached().is_none());
        assert!(limit.part(2).unwrap() <= Duration::from_secs(1800));
        user.store(true, Relaxed);
        wait_for(limit.stop());
        assert_eq!(limit.reached().unwrap().0, "interrupted");
    }

    #[test]
    fn the_time_of_a_search_does_not_count() {
        let (user, hour) = (Arc::new(AtomicBool::new(false)), Duration::from_secs(3600));
        let began = Instant::now();
        let limit = Limit::new(&user, Some(hour));
        limit.searches().during(|| thread::sleep(Duration::from_millis(20)));
        let (searched, spent) = (limit.searches().time(), limit.spent());
        assert!(searched >= Duration::from_millis(20));
        assert!(spent + searched <= began.elapsed(), "{spent:?} without {searched:?}");
        let left = limit.part(1).unwrap();
        assert!(left + began.elapsed() >= hour + searched, "{left:?}");
    }

    #[test]
    fn without_a_budget_there_is_the_user_only() {
        let user = Arc::new(AtomicBool::new(false));
        let limit = Limit::new(&user, None);
        assert_eq!((limit.reached(), limit.part(2)), (None, None));
        user.store(true, Relaxed);
        assert!(limit.stop().load(Relaxed) && limit.reached().is_some());
    }
}
