//! Makes a reader poll less often while packets go past the caches.
//!
//! A reader directly behind the writer takes the watermark's line from it for each publish, and
//! gets only some dozens of packets each time. If a line takes a quarter of a microsecond, both
//! wait for that line. So after a poll that found a few packets of a dense stream, the reader
//! pauses for a moment (Decision 0031).
//!
//! Invariant: a single packet is not delayed. A pause, of at most [`QUIET_NS`], follows only a poll
//! that found [`DENSE`] packets or more.

use burstline_sys::clock;

use super::Reader;

/// This many packets in one poll are a stream: bursts of receive polls are no smaller.
const DENSE: u32 = 16;

/// This many packets are worth fetching the line.
const ENOUGH: u32 = 1024;

/// Duration of the pause, in ns: four times the latency of a line from far.
const QUIET_NS: u64 = 1_000;

impl Reader {
    /// Begins a pause, if needed, after a poll that found packets that went past the caches.
    #[cold]
    pub(super) fn keep_quiet(&mut self, packets: u32) {
        if (DENSE..ENOUGH).contains(&packets) {
            self.quiet_until_ns = clock::monotonic_ns() + QUIET_NS;
        }
    }

    /// Returns whether the pause is not over yet.
    #[cold]
    pub(crate) fn is_quiet(&mut self) -> bool {
        let is_over = clock::monotonic_ns() >= self.quiet_until_ns;
        if is_over {
            self.quiet_until_ns = 0;
        }
        !is_over
    }
}
