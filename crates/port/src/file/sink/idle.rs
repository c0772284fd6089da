//! Ends a file whose time is over, though no packet comes that would begin the next one.
//!
//! A file's time is that of its packets. While none come, this computer's clock stands for it, if
//! the packets before were of the present. Those of another time, as from a recording, end no file.

use std::io;

use burstline_sys::clock;

use super::{Body, FileSink};

/// How long no packet has come before the clock ends a file: packets of the file may be under way.
const SILENCE_NS: u64 = 1_000_000_000;

/// Packets whose times are nearer than this to now are of the present.
const PRESENT_NS: u64 = 10_000_000_000;

/// What was seen when packets came last.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Packets in all files.
    packets: u64,
    /// When there were as many for the first time, on the monotonic clock.
    since_ns: u64,
    /// Whether the newest of them was of the present.
    is_present: bool,
}

impl FileSink {
    /// Ends the open file if its time is over and no packet comes. The next one begins with the
    /// next packet. If the file is the last one, the job ends. Cost: a read of the clock.
    pub(super) fn end_overdue(&mut self) -> io::Result<()> {
        let is_open = matches!(self.body, Body::Segmented(_) | Body::Plain(_));
        if !self.files.is_timed() || !is_open || self.accepted == 0 {
            return Ok(());
        }
        let (packets, now_ns) = (self.accepted_before + self.accepted, clock::monotonic_ns());
        if packets != self.idle.packets {
            let is_present = clock::realtime_ns().abs_diff(self.latest_ns) < PRESENT_NS;
            self.idle = Idle { packets, since_ns: now_ns, is_present };
            return Ok(());
        }
        let is_silent = now_ns.saturating_sub(self.idle.since_ns) >= SILENCE_NS;
        if !is_silent || !self.idle.is_present || !self.files.is_over_at(clock::realtime_ns()) {
            return Ok(());
        }
        match self.files.is_last() {
            true => {
                self.files.stop();
                Ok(())
            }
            false => self.end_file(),
        }
    }
}
