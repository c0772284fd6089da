//! A berth holds a ring while no thread works on it.
//!
//! ```text
//!   control thread: put, change, remove        packet thread: take --> works --> give back
//!                        '---- waits while it is out ----'
//! ```
//!
//! The packet thread takes the ring for a burst, so the control thread waits no longer than that. A
//! lock is held only while the ring changes hands.
//!
//! # Invariants
//! - B1. A ring is in the berth or with one packet thread, which gives back the ring that it took.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A place for one ring.
#[derive(Debug)]
pub struct Berth<R> {
    place: Mutex<Place<R>>,
    back: Condvar,
}

#[derive(Debug)]
struct Place<R> {
    ring: Option<Box<R>>,
    is_out: bool,
    /// Whether a thread waits for the ring's return.
    is_wanted: bool,
}

impl<R> Default for Berth<R> {
    fn default() -> Self {
        let place = Place { ring: None, is_out: false, is_wanted: false };
        Self { place: Mutex::new(place), back: Condvar::new() }
    }
}

impl<R> Berth<R> {
    /// Takes the ring to work on it. `None` if there is none now, or a thread waits to change it.
    #[inline]
    pub fn take(&self) -> Option<Box<R>> {
        let mut place = self.lock();
        if place.is_wanted {
            return None;
        }
        let ring = place.ring.take();
        place.is_out |= ring.is_some();
        ring
    }

    /// Gives the ring back (B1).
    #[inline]
    pub fn give_back(&self, ring: Box<R>) {
        let mut place = self.lock();
        (place.ring, place.is_out) = (Some(ring), false);
        if place.is_wanted {
            self.back.notify_all();
        }
    }

    /// Calls `change`, which may add, change or remove the ring, as soon as no thread works on it.
    pub fn change<T>(&self, change: impl FnOnce(&mut Option<Box<R>>) -> T) -> T {
        let mut place = self.lock();
        while place.is_out {
            place.is_wanted = true;
            place = self.back.wait(place).unwrap_or_else(PoisonError::into_inner);
        }
        place.is_wanted = false;
        change(&mut place.ring)
    }

    /// Calls `look` on the ring, unless there is none or a thread works on it.
    pub fn try_look<T>(&self, look: impl FnOnce(&mut R) -> T) -> Option<T> {
        self.lock().ring.as_deref_mut().map(look)
    }

    fn lock(&self) -> MutexGuard<'_, Place<R>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn who_changes_a_ring_waits_until_it_is_back() {
        let berth = Arc::new(Berth::default());
        assert!(berth.take().is_none());
        berth.change(|ring| *ring = Some(Box::new(0u64)));
        let worker = thread::spawn({
            let berth = Arc::clone(&berth);
            move || {
                let mut rounds = 0;
                loop {
                    let Some(mut ring) = berth.take() else { continue };
                    assert!(berth.take().is_none(), "B1");
                    *ring += 1;
                    rounds += 1;
                    let is_last = *ring > 1 << 40;
                    berth.give_back(ring);
                    if is_last {
                        return rounds;
                    }
                }
            }
        });
        let mut changes = 0;
        while changes < 1000 {
            changes += u64::from(berth.change(|ring| ring.as_mut().is_some_and(|ring| **ring > 0)));
        }
        berth.change(|ring| **ring.as_mut().unwrap() = 1 << 40);
        assert!(worker.join().unwrap() > 1);
        assert_eq!(berth.change(|ring| ring.take().map(|ring| *ring)), Some((1 << 40) + 1));
    }
}
