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
//! Invariant P1: a promise holds for good. A later one can only be higher, unless a clock was set
//! back; what then comes is late, and not lost.
//!
//! Edge (loom model of the same name in `tests/loom.rs`):
//! - E7 promise: promise store (Release) -> promise load (Acquire). All packets published before
//!   the promise are visible. So is each packet that the merger names to a follower in turn: the
//!   watermark of the log of names carries that on (E1).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::protocol::Word64;

/// A lower bound for the times of all packets of a log that are still to come.
#[derive(Debug, Default)]
pub struct Promise(AtomicU64);

impl Promise {
    /// Promises that no packet published from now on is older than `low_ns`, in ns since 1970.
    pub fn make(&self, low_ns: u64) {
        make(&self.0, low_ns);
    }

    /// Returns the last promise; 0 before the first. Look here before the log.
    pub fn look(&self) -> u64 {
        look(&self.0)
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
