//! Waking readers that sleep.
//!
//! A reader's `waiting` word is hostile input: a reader that always says it sleeps would cost a
//! system call for every publish. So each reader has an allowance of wakes a millisecond; beyond
//! it, the reader looks for itself after one window (see `Reader::wait`), and nobody else pays.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use burstline_sys::{clock, futex};

use crate::log::Shared;
use crate::protocol::{self, Control, ReaderPage};
use crate::seat::SeatEntry;

/// Wakes that one reader may cause in each window: at 0.2 to 1 us a wake, below 2% of a core.
const WAKES_PER_WINDOW: u32 = 16;
pub(crate) const WAKE_WINDOW_NS: u64 = 1_000_000;

struct Sleeper {
    seat: Arc<SeatEntry>,
    window_start_ns: u64,
    wakes: u32,
}

/// The writer's list of those it may have to wake.
pub(crate) struct Waker {
    version: u64,
    sleepers: Vec<Sleeper>,
}

impl Waker {
    pub(crate) fn new() -> Self {
        Self { version: 0, sleepers: Vec::new() }
    }

    /// Wakes the readers that sleep, if any. To be called after the news is published.
    #[inline]
    pub(crate) fn wake(&mut self, shared: &Shared) {
        // What is looked at from here on is not older than what was published: a sleeper saw to
        // that after it had a seat.
        shared.memory.control.light_fence();
        if shared.version.load(Relaxed) != self.version {
            self.refresh(shared);
        }
        if self.sleepers.is_empty() {
            return;
        }
        let pages = self.sleepers.iter().map(|sleeper| &sleeper.seat.page);
        if protocol::has_sleeper(&shared.memory.control, pages) {
            self.wake_sleepers(shared);
        }
    }

    #[cold]
    fn refresh(&mut self, shared: &Shared) {
        let seats = shared.lock();
        self.version = shared.version.load(Relaxed); // changes under the lock only
        let sleeper = |seat: &Arc<SeatEntry>| Sleeper {
            seat: Arc::clone(seat),
            window_start_ns: 0,
            wakes: 0,
        };
        self.sleepers = seats.iter().map(sleeper).collect();
    }

    #[cold]
    fn wake_sleepers(&mut self, shared: &Shared) {
        let now_ns = clock::monotonic_ns();
        let mut is_due = false;
        for sleeper in &mut self.sleepers {
            if sleeper.seat.page.waiting().load(Relaxed) != 0 {
                is_due |= sleeper.spend(now_ns);
            }
        }
        if is_due {
            let word = shared.memory.control.wake_word();
            word.fetch_add(1, Release); // a reader about to sleep on the old value does not
            futex::wake(word, i32::MAX as u32);
        }
    }
}

impl Sleeper {
    fn spend(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.window_start_ns) >= WAKE_WINDOW_NS {
            (self.window_start_ns, self.wakes) = (now_ns, 0);
        }
        self.wakes += 1;
        self.wakes <= WAKES_PER_WINDOW
    }
}
