//! What a reader does that has read everything: it rests.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::Duration;

use burstline_sys::futex::{self, WaitOutcome};

use super::Reader;
use crate::protocol::{self, Word32};
use crate::wake::WAKE_WINDOW_NS;

/// How long a reader lets packets gather before it asks to be woken, in ns: about as long as a
/// sleeper takes to wake up anyway.
pub const GATHER_NS: u64 = 50_000;

impl Reader {
    /// Sleeps until there may be news, at most `timeout_ns`; it may return earlier, with none.
    /// Returns at once if there are some.
    ///
    /// A reader that has read something since the last call first sleeps for [`GATHER_NS`] without
    /// asking to be woken. The next packets of a stream arrive meanwhile; a wake for each publish
    /// would cost the writer more than the packets.
    ///
    /// The writer wakes each reader a limited number of times a window (see `wake`). A reader that
    /// has used up its wakes looks by itself after one window. Then its allowance is whole again,
    /// and it can sleep on without missing anything.
    ///
    /// While its window is full it sleeps at most one window and does not look for news.
    ///
    /// Cost: two to three system calls when it sleeps. It also interrupts a writer in its own
    /// process, or spins 5 us for one in another process. So the writer needs no fence (Decision
    /// 0030). The writer pays 0.2 us to wake it, and several us where the reader sleeps on another
    /// core of a virtual machine.
    pub fn wait(&self, timeout_ns: u64) {
        if self.is_window_full() {
            // This reader cannot go on until a burst it holds is let go, and that wakes nobody. So
            // it looks again soon.
            thread::sleep(Duration::from_nanos(timeout_ns.min(WAKE_WINDOW_NS)));
            return;
        }
        let seen = self.statistics().seen() as u16;
        // Only this reader's own memory: relaxed.
        if self.seen_at_rest.swap(seen, Relaxed) != seen {
            if !self.has_news() {
                thread::sleep(Duration::from_nanos(timeout_ns.min(GATHER_NS)));
            }
            return;
        }
        let word = self.seat.page.wake_word();
        let (control, page) = (&self.memory.control, &self.seat.page);
        if !protocol::announce_sleep(control, page, self.memory.payer) {
            // A system call filter that came later may stop wakes, so this reader cannot count on
            // one.
            protocol::awake(page);
            if !self.has_news() {
                thread::sleep(Duration::from_nanos(timeout_ns.min(WAKE_WINDOW_NS)));
            }
            return;
        }
        let first_ns = timeout_ns.min(WAKE_WINDOW_NS);
        for sleep_ns in [first_ns, timeout_ns - first_ns] {
            // Pairs with the Release in `wake_sleepers`: a wake after this is not slept through.
            let seen = Word32::load(word, Acquire);
            if sleep_ns == 0 || self.has_news() {
                break;
            }
            match futex::wait(word, seen, sleep_ns) {
                WaitOutcome::TimedOut => {}
                // A sandbox without futexes: sleep blindly rather than spin.
                WaitOutcome::Refused { .. } => thread::sleep(Duration::from_nanos(first_ns)),
                _ => break,
            }
        }
        protocol::awake(page);
    }

    fn has_news(&self) -> bool {
        self.memory.control.is_closed() || self.has_more()
    }

    /// Whether something was published that it has not looked at. A look at a part of a log ends
    /// after some bursts without a packet of the part: so it may find none, and there are more.
    /// Cost: a load or two.
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
