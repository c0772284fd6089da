//! Waking readers that sleep.
//!
//! A reader's `waiting` word is hostile input: a reader that always says it sleeps would cost a
//! system call for every publish. So each reader has an allowance of wakes per millisecond. Beyond
//! it, the reader looks by itself after one window (see `Reader::wait`), and nobody else pays. Each
//! sleeps on a word of its own page, which no other reader has (decision 0060).
//!
//! Invariant W1: who comes and goes does not hold a publish up. The writer updates its list only
//! when the seats' lock is free, and without calling the allocator. Entries of readers that have
//! gone stay for others to remove ([`Gone`]): the next attach, or a publisher's server.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use burstline_sys::{clock, futex};

use crate::control::MAX_READERS;
use crate::log::Shared;
use crate::protocol::{self, Control, ReaderPage};
use crate::seat::SeatEntry;

/// Wakes that one reader may cause in each window: at 0.2 to 1 us a wake, below 2% of a core.
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

/// Seats that the writer may be the last to let go of. It leaves them here, and who takes a seat
/// next gives their memory back.
pub(crate) struct Gone(Mutex<Vec<Arc<SeatEntry>>>);

impl Gone {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::with_capacity(MAX_READERS)))
    }

    fn leave(&self, seat: Arc<SeatEntry>) {
        // Between two attaches no more than all can go. The lock is held for a swap only; who
        // comes in that moment costs the writer one system call.
        if let Ok(mut gone) = self.0.try_lock()
            && gone.len() < MAX_READERS
        {
            gone.push(seat);
        }
    }

    /// Not for the writer's thread.
    pub(crate) fn take_away(&self) {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().is_empty() {
            return;
        }
        let mut taken = Vec::with_capacity(MAX_READERS);
        std::mem::swap(&mut taken, &mut *lock());
        // The lock is free again: what is given back here holds nobody up.
        drop(taken);
    }
}

/// The writer's list of those it may have to wake.
pub(crate) struct Waker {
    version: u64,
    sleepers: Vec<Sleeper>,
}

impl Waker {
    pub(crate) fn new() -> Self {
        Self { version: 0, sleepers: Vec::with_capacity(MAX_READERS) }
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
            self.wake_sleepers();
        }
    }

    #[cold]
    fn refresh(&mut self, shared: &Shared) {
        // Where it is taken, the next publish looks again; a sleeper has a timeout until then.
        let Some(seats) = shared.try_lock() else { return };
        self.version = shared.version.load(Relaxed); // changes under the lock only
        let is_there = |sleeper: &Sleeper| seats.iter().any(|seat| sleeper.is_of(seat));
        while let Some(at) = self.sleepers.iter().position(|sleeper| !is_there(sleeper)) {
            shared.gone.leave(self.sleepers.swap_remove(at).seat);
        }
        for seat in seats.iter() {
            // Wakes that a reader has used stay used when other readers come.
            if !self.sleepers.iter().any(|sleeper| sleeper.is_of(seat)) {
                let seat = Arc::clone(seat);
                self.sleepers.push(Sleeper { seat, allowance: Allowance::default() });
            }
        }
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
            // One thread: a hostile reader may have parked thousands, and to wake them takes long.
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
            // Somebody takes a seat, and takes long: the same thread would wait for ever.
            let _seats = log.shared.lock();
            append(&mut writer);
            waker.wake(&log.shared);
            assert!(waker.sleepers.is_empty());
        }
        waker.wake(&log.shared);
        assert_eq!(waker.sleepers.len(), 2);
        // Wakes that are spent stay spent when others come and go.
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
        // Entries of readers that have gone stay until another reader comes.
        drop(first);
        waker.wake(&log.shared);
        assert_eq!((waker.sleepers.len(), log.shared.gone.0.lock().unwrap().len()), (1, 2));
        let _fourth = attach(&log);
        assert!(log.shared.gone.0.lock().unwrap().is_empty());
    }

    /// Another reader, or all threads that it has, sleep on other words.
    #[test]
    fn a_wake_reaches_one_reader_and_no_other_process_can_make_one() {
        let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
        let (reader, _other) = (attach(&log), attach(&log));
        let [page, others] = [0, 1].map(|seat: usize| log.shared.lock()[seat].page);
        assert_ne!(page.wake_word().as_ptr(), others.wake_word().as_ptr());
        let sleeping = std::thread::spawn(move || {
            let began = std::time::Instant::now();
            // Twice: the first ends early where something was read before.
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
