//! Wakes up sleeping readers.
//!
//! A reader's `waiting` word is hostile input: a reader that always claims to sleep would cost a
//! system call per publish. So each reader has an allowance of wake-ups per millisecond. Beyond it,
//! the reader wakes by timeout after one window (see `Reader::wait`), at no cost to others. Each
//! reader sleeps on a word of its own page, which no other reader has (decision 0060).
//!
//! Invariant W1: attaching and leaving readers do not delay a publish. The writer updates its list
//! only if the seats' lock is free, or when it has it, and without calling the allocator. Entries
//! of readers that left are removed by others ([`Gone`]): the next attach, or a publisher's server.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use burstline_sys::{clock, futex};

use crate::control::MAX_READERS;
use crate::log::Shared;
use crate::page::PageView;
use crate::protocol::{self, Control, ReaderPage};
use crate::seat::SeatEntry;

/// Wake-ups that one reader may cause in each window: at 0.2 to 1 us each, below 2% of a core.
const WAKES_PER_WINDOW: u32 = 16;
pub(crate) const WAKE_WINDOW_NS: u64 = 1_000_000;

struct Sleeper {
    seat: Arc<SeatEntry>,
    allowance: Allowance,
}

#[derive(Default)]
struct Allowance {
    window_start_ns: u64,
    wakes: u32,
}

/// Seats of which the writer may hold the last reference. It leaves them here, and the next attach
/// frees their memory.
pub(crate) struct Gone(Mutex<Vec<Arc<SeatEntry>>>);

impl Gone {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::with_capacity(MAX_READERS)))
    }

    fn leave(&self, seat: Arc<SeatEntry>) {
        // Between two attaches, at most all seats can be left. The lock is held for a swap only; if
        // it is taken at this moment, the writer frees the seat itself, with one system call.
        if let Ok(mut gone) = self.0.try_lock()
            && gone.len() < MAX_READERS
        {
            gone.push(seat);
        }
    }

    /// Frees the seats left here. Must not be called by the writer's thread.
    pub(crate) fn take_away(&self) {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().is_empty() {
            return;
        }
        let mut taken = Vec::with_capacity(MAX_READERS);
        std::mem::swap(&mut taken, &mut *lock());
        // The lock is free again, so freeing the seats blocks nobody.
        drop(taken);
    }
}

/// The writer's list of readers that may sleep.
pub(crate) struct Waker {
    version: u64,
    sleepers: Vec<Sleeper>,
}

impl Waker {
    pub(crate) fn new() -> Self {
        Self { version: 0, sleepers: Vec::with_capacity(MAX_READERS) }
    }

    /// Wakes up the readers that sleep, if any. Must be called after the publish.
    #[inline]
    pub(crate) fn wake(&mut self, shared: &Shared) {
        // Loads from here on return nothing older than the publish: a sleeper made sure of that
        // after it got its seat.
        shared.memory.control.light_fence();
        if shared.version.load(Relaxed) != self.version {
            self.refresh(shared);
        }
        if self.sleepers.is_empty() {
            return;
        }
        let pages = self.sleepers.iter().map(|sleeper| &sleeper.seat.page);
        if protocol::has_sleeper(&shared.memory.control, pages) {
            self.wake_sleepers();
        }
    }

    #[cold]
    fn refresh(&mut self, shared: &Shared) {
        // If the lock is taken, the next publish tries again; until then a sleeper has its timeout.
        if let Some(seats) = shared.try_lock() {
            self.note(shared, &seats);
        }
    }

    /// Brings the list up to date with `seats`, which the caller has locked.
    pub(crate) fn note(&mut self, shared: &Shared, seats: &[Arc<SeatEntry>]) {
        let version = shared.version.load(Relaxed); // changes under the lock only
        if version == self.version {
            return;
        }
        self.version = version;
        let is_there = |sleeper: &Sleeper| seats.iter().any(|seat| sleeper.is_of(seat));
        while let Some(at) = self.sleepers.iter().position(|sleeper| !is_there(sleeper)) {
            shared.gone.leave(self.sleepers.swap_remove(at).seat);
        }
        for seat in seats {
            // A reader's spent wake-ups stay spent when other readers attach.
            if !self.sleepers.iter().any(|sleeper| sleeper.is_of(seat)) {
                let seat = Arc::clone(seat);
                self.sleepers.push(Sleeper { seat, allowance: Allowance::default() });
            }
        }
    }

    /// Returns the pages in the list, with their windows: those of all readers that had a seat when
    /// it was last brought up to date.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (&PageView, usize)> {
        self.sleepers.iter().map(|sleeper| (&sleeper.seat.page, sleeper.seat.window))
    }

    #[cold]
    fn wake_sleepers(&mut self) {
        let now_ns = clock::monotonic_ns();
        for sleeper in &mut self.sleepers {
            let page = &sleeper.seat.page;
            if page.waiting().load(Relaxed) == 0 || !sleeper.allowance.spend(now_ns) {
                continue;
            }
            let word = page.wake_word();
            word.fetch_add(1, Release); // a reader about to sleep on the old value does not
            // Wake one thread only: a hostile reader may have parked thousands, which takes long.
            futex::wake(word, 1);
        }
    }
}

impl Sleeper {
    fn is_of(&self, seat: &Arc<SeatEntry>) -> bool {
        Arc::ptr_eq(&self.seat, seat)
    }
}

impl Allowance {
    fn spend(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.window_start_ns) >= WAKE_WINDOW_NS {
            (self.window_start_ns, self.wakes) = (now_ns, 0);
        }
        self.wakes += 1;
        self.wakes <= WAKES_PER_WINDOW
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Log, LogConfig, Meta, ReaderConfig};

    fn attach(log: &Log) -> crate::Reader {
        log.attach(ReaderConfig::default()).unwrap()
    }

    #[test]
    fn a_publish_waits_for_nobody_who_comes_or_goes() {
        let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
        let append = |writer: &mut crate::Writer| {
            let _ = writer.append(&[7; 60], &Meta::new(1, 60, 0));
            writer.publish();
        };
        append(&mut writer);
        let mut waker = Waker::new();
        let (first, second) = (attach(&log), attach(&log));
        {
            // Another attach holds the lock for long. Waiting for it on this thread would deadlock.
            let _seats = log.shared.lock();
            append(&mut writer);
            waker.wake(&log.shared);
            assert!(waker.sleepers.is_empty());
        }
        waker.wake(&log.shared);
        assert_eq!(waker.sleepers.len(), 2);
        // Spent wake-ups stay spent when readers attach or leave.
        waker.sleepers[0].allowance.wakes = 9;
        drop(second);
        let _third = attach(&log);
        let pages = waker.sleepers.as_ptr();
        waker.wake(&log.shared);
        assert_eq!(
            waker.sleepers.iter().map(|sleeper| sleeper.allowance.wakes).collect::<Vec<_>>(),
            [9, 0]
        );
        assert_eq!(waker.sleepers.as_ptr(), pages, "nothing is allocated");
        // Entries of readers that left stay until another reader attaches.
        drop(first);
        waker.wake(&log.shared);
        assert_eq!((waker.sleepers.len(), log.shared.gone.0.lock().unwrap().len()), (1, 2));
        let _fourth = attach(&log);
        assert!(log.shared.gone.0.lock().unwrap().is_empty());
    }

    /// Other readers, and all threads of one reader, sleep on other words.
    #[test]
    fn a_wake_reaches_one_reader_and_no_other_process_can_make_one() {
        let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
        let (reader, _other) = (attach(&log), attach(&log));
        let [page, others] = [0, 1].map(|seat: usize| log.shared.lock()[seat].page);
        assert_ne!(page.wake_word().as_ptr(), others.wake_word().as_ptr());
        let sleeping = std::thread::spawn(move || {
            let began = std::time::Instant::now();
            // Wait twice: the first wait ends early if something was read before.
            (0..2).for_each(|_| reader.wait(60_000_000_000));
            began.elapsed()
        });
        while page.waiting().load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..1000 {
            others.wake_word().fetch_add(1, Release);
            futex::wake(others.wake_word(), i32::MAX as u32);
        }
        assert!(!sleeping.is_finished() && page.waiting().load(Relaxed) != 0);
        let _ = writer.append(&[7; 60], &Meta::new(1, 60, 0));
        writer.publish();
        assert!(sleeping.join().unwrap() < std::time::Duration::from_secs(50));
    }
}
