//! Reports how far back a log goes: the packets that late readers can still read.
//!
//! ```text
//!            kept_ns
//! |<------------------------->|
//! oldest segment opened       now              older segments: retired, or reused
//! ```
//!
//! Ages are measured with the monotonic clock, from the opening of a segment and of the next one.
//! Packets' times do not count, because a file or another machine may have set them. The values are
//! statistics: read while the writer runs, correct for a moment in the past.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use burstline_sys::clock;

use crate::control::ControlView;
use crate::log::Log;
use crate::protocol::{Control, Word64};
use crate::reader::Reader;
use crate::watermark::DirectoryEntry;

/// The extent of a log's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The configured history, in ns.
    pub asked_ns: u64,
    /// Time since the oldest segment that can be entered was opened, in ns; 0 before the first.
    pub kept_ns: u64,
    /// The lowest age at which a segment's last packet was given up although it should have been
    /// kept, in ns. `None` if memory always sufficed.
    pub shortest_ns: Option<u64>,
    /// The number of the first packet that can still be read.
    pub first_packet: u64,
    /// The number of the next packet to be published.
    pub next_packet: u64,
}

impl Log {
    /// Returns the current history; `None` for a log without one. Cost: a read of the clock and
    /// some loads.
    pub fn history(&self) -> Option<History> {
        let asked_ns = self.shared.config.keep_ns?;
        let control = &self.shared.memory.control;
        let (kept_ns, first_packet) = oldest(control).unwrap_or((0, 0));
        let next_packet = control.published();
        let shortest_ns = self.shared.shortest_ns.load(Relaxed); // a statistic
        let shortest_ns = (shortest_ns != u64::MAX).then_some(shortest_ns);
        Some(History { asked_ns, kept_ns, shortest_ns, first_packet, next_packet })
    }

    /// Returns whether the writer has ended the log. A reader that attaches after this finds all
    /// remaining packets.
    pub fn is_closed(&self) -> bool {
        self.shared.memory.control.is_closed()
    }
}

impl Reader {
    /// Returns how far back the log goes now, in ns, regardless of this reader's position. 0 before
    /// the first packet and for a log without history. Cost: a read of the clock and some loads.
    pub fn kept_ns(&self) -> u64 {
        oldest(&self.memory.control).map_or(0, |(kept_ns, _)| kept_ns)
    }
}

/// Returns the age of the oldest segment, and its first packet's number.
fn oldest(control: &ControlView) -> Option<(u64, u64)> {
    // If the segment was reused in the meantime, both values are those of its new use.
    let oldest = Word64::load(control.oldest(), Acquire);
    let entry = DirectoryEntry::from_bits(Word64::load(control.directory(oldest), Acquire));
    if oldest == 0 || entry.segment() >= control.segment_count() {
        return None;
    }
    let line = control.line(entry.segment());
    let opened_ns = line.opened_ns.load(Relaxed); // as above
    let first_packet = line.first_packet.load(Relaxed);
    let is_timed = opened_ns != 0;
    is_timed.then(|| (clock::monotonic_ns().saturating_sub(opened_ns), first_packet))
}
