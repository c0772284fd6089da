//! Lets a reader that has read everything sleep.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::Duration;

use burstline_sys::futex::{self, WaitOutcome};

use super::Reader;
use crate::protocol::{self, Word32};
use crate::wake::WAKE_WINDOW_NS;

/// How long a reader lets packets gather before it asks for a wake-up, in ns: about the time that a
/// sleeper takes to wake up.
pub const GATHER_NS: u64 = 50_000;

impl Reader {
    /// Sleeps until there may be new packets, at most `timeout_ns`; it may return earlier without
    /// any. Returns immediately if there are some.
    ///
    /// A reader that has read something since the last call first sleeps for [`GATHER_NS`] without
    /// asking for a wake-up. The next packets of a stream arrive in that time; a wake-up per
    /// publish would cost the writer more than the packets.
    ///
    /// The writer wakes up each reader a limited number of times a window (see `wake`). A reader
    /// without allowance polls after one window. Its allowance is then full again, and it can sleep
    /// on without missing anything.
    ///
    /// While its window is full, it sleeps at most one window and does not check for packets.
    ///
    /// Cost: two to three system calls if it sleeps. To spare the writer a fence, it also
    /// interrupts a writer in its own process, or spins 5 us for one elsewhere (Decision 0030). The
    /// writer pays 0.2 us per wake-up, and several us if the reader sleeps on another core of a
    /// virtual machine.
    pub fn wait(&self, timeout_ns: u64) {
        if self.is_window_full() {
            // This reader cannot go on until a burst it holds is dropped, and that wakes nobody. So
            // it checks again soon.
            thread::sleep(Duration::from_nanos(timeout_ns.min(WAKE_WINDOW_NS)));
            return;
        }
        let seen = self.statistics().seen() as u16;
        // Relaxed: only this reader accesses it.
        if self.seen_at_rest.swap(seen, Relaxed) != seen {
            if !self.has_news() {
                thread::sleep(Duration::from_nanos(timeout_ns.min(GATHER_NS)));
            }
            return;
        }
        let word = self.seat.page.wake_word();
        let (control, page) = (&self.memory.control, &self.seat.page);
        if !protocol::announce_sleep(control, page, self.memory.payer) {
            // A system call filter installed later may prevent wake-ups, so this reader does not
            // rely on one.
            protocol::awake(page);
            if !self.has_news() {
                thread::sleep(Duration::from_nanos(timeout_ns.min(WAKE_WINDOW_NS)));
            }
            return;
        }
        let first_ns = timeout_ns.min(WAKE_WINDOW_NS);
        for sleep_ns in [first_ns, timeout_ns - first_ns] {
            // Pairs with the Release in `wake_sleepers`: a wake-up after this load ends the sleep.
            let seen = Word32::load(word, Acquire);
            if sleep_ns == 0 || self.has_news() {
                break;
            }
            match futex::wait(word, seen, sleep_ns) {
                WaitOutcome::TimedOut => {}
                // A sandbox without futexes: sleep for a fixed time rather than spin.
                WaitOutcome::Refused { .. } => thread::sleep(Duration::from_nanos(first_ns)),
                _ => break,
            }
        }
        protocol::awake(page);
    }

    fn has_news(&self) -> bool {
        self.memory.control.is_closed() || self.has_more()
    }

    /// Returns whether packets were published that it has not examined. A poll of a part of a log
    /// stops after some bursts without a packet of the part. It may then find none although there
    /// are more. Cost: a load or two.
    pub fn has_more(&self) -> bool {
        let control = &self.memory.control;
        match &self.current {
            Some(current) => {
                let mark = protocol::watch(control, current.segment);
                mark.count() > current.taken || mark.is_sealed()
            }
            None => self.head() >= self.sequence,
        }
    }
}
