//! A reader that keeps off the lines of a writer far away.
//!
//! A reader at the writer's heels takes the watermark's line from it for each publish, and gets
//! some dozens of packets for it. Where a line takes a quarter of a microsecond, that line is what
//! both wait for. So after a look that found a little of a dense stream, the reader does not look
//! again for a moment (Decision 0031).
//!
//! Invariant: a packet that comes by itself is not kept waiting. Only a look that found [`DENSE`]
//! packets or more is followed by a pause, of [`QUIET_NS`] at most.

use burstline_sys::clock;

use super::Reader;

/// This many packets at once are a stream: bursts of receive polls are no smaller.
const DENSE: u32 = 16;

/// This many are worth fetching the line.
const ENOUGH: u32 = 1024;

/// How long the reader does not look, in ns: as long as a line from far takes four times.
const QUIET_NS: u64 = 1_000;

impl Reader {
    /// After a look that found some packets from far.
    #[cold]
    pub(super) fn keep_quiet(&mut self, packets: u32) {
        if (DENSE..ENOUGH).contains(&packets) {
            self.quiet_until_ns = clock::monotonic_ns() + QUIET_NS;
        }
    }

    /// Whether the pause goes on.
    #[cold]
    pub(crate) fn is_quiet(&mut self) -> bool {
        let is_over = clock::monotonic_ns() >= self.quiet_until_ns;
        if is_over {
            self.quiet_until_ns = 0;
        }
        !is_over
    }
}
