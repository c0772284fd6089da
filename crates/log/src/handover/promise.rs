//! What the thread that fills a log promises to a thread that merges several logs by time.
//!
//! ```text
//! fills a log                               merges logs
//! publish packets                           look    the promise
//! make    the promise: none older than t    look for packets in the log: none
//!                                           so packets of other logs before t can go
//! ```
//!
//! Only this order of the two looks is right. A packet may come after the merger looked into the
//! log and before a promise that already counts on it.
//!
//! A log may be empty although its source has more: the thread that fills it is about to, or waits
//! for room. It says so with its promise, and the merger waits for that log as long as it takes.
//!
//! Invariant P1: a promise holds for good. A later one can only be higher, unless a clock was set
//! back; what then comes is late, and not lost.
//!
//! Edge (loom model of the same name in `tests/loom.rs`):
//! - E7 promise: promise store (Release) -> promise load (Acquire). All packets published before
//!   the promise are visible. So is each packet that the merger names to a follower in turn: the
//!   watermark of the log of names carries that on (E1).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::protocol::Word64;

/// A lower bound for the times of all packets of a log that are still to come.
#[derive(Debug)]
pub struct Promise {
    low_ns: AtomicU64,
    is_coming: AtomicBool,
}

impl Default for Promise {
    /// Nobody knows yet whether the source has packets, so they are waited for.
    fn default() -> Self {
        Self { low_ns: AtomicU64::new(0), is_coming: AtomicBool::new(true) }
    }
}

/// A promise as somebody saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    /// No packet published since is older, in ns since 1970; 0 before the first promise.
    pub low_ns: u64,
    /// Whether the source has more packets now, so that waiting for them makes sense.
    pub is_coming: bool,
}

impl Promise {
    /// Promises that no packet published from now on is older than `low_ns`.
    pub fn make(&self, promised: Promised) {
        self.is_coming.store(promised.is_coming, Relaxed); // a hint: the next look may see it, too
        make(&self.low_ns, promised.low_ns);
    }

    /// Returns the last promise. Look here before the log.
    pub fn look(&self) -> Promised {
        let low_ns = look(&self.low_ns);
        Promised { low_ns, is_coming: self.is_coming.load(Relaxed) } // a hint
    }
}

/// As [`Promise::make`], for any word.
pub fn make<W: Word64>(word: &W, low_ns: u64) {
    word.store(low_ns, Release); // E7: pairs with the Acquire in `look`
}

/// As [`Promise::look`], for any word.
pub fn look<W: Word64>(word: &W) -> u64 {
    word.load(Acquire) // E7: pairs with the Release in `make`
}
