//! How far back a log goes: what those who come late can still read.
//!
//! ```text
//!            kept_ns
//! |<------------------------->|
//! oldest segment opened       now              older segments: retired, or used anew
//! ```
//!
//! Ages are by the monotonic clock: when a segment was opened, and when the next one was. Packets'
//! times do not count; a file or another machine may have set them. They are figures for people:
//! read while the writer goes on, right for a moment that has passed.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use burstline_sys::clock;

use crate::control::ControlView;
use crate::log::Log;
use crate::protocol::{Control, Word64};
use crate::reader::Reader;
use crate::watermark::DirectoryEntry;

/// How much of its past a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// How long it was asked to keep it, in ns.
    pub asked_ns: u64,
    /// How long ago the oldest segment that can be entered was opened, in ns; 0 before the first.
    pub kept_ns: u64,
    /// The least age at which a segment's last packet was given up although it should have been
    /// kept, in ns. `None` while the memory was large enough.
    pub shortest_ns: Option<u64>,
    /// The number of the first packet that can still be read.
    pub first_packet: u64,
    /// The number that the next packet to be published will have.
    pub next_packet: u64,
}

impl Log {
    /// How much of the past there is now; `None` for a log that keeps none. Cost: a clock and some
    /// loads.
    pub fn history(&self) -> Option<History> {
        let asked_ns = self.shared.config.keep_ns?;
        let control = &self.shared.memory.control;
        let (kept_ns, first_packet) = oldest(control).unwrap_or((0, 0));
        let next_packet = control.published();
        let shortest_ns = self.shared.shortest_ns.load(Relaxed); // a figure for people
        let shortest_ns = (shortest_ns != u64::MAX).then_some(shortest_ns);
        Some(History { asked_ns, kept_ns, shortest_ns, first_packet, next_packet })
    }

    /// Whether the writer has ended the log. What a reader that attaches after this does not find,
    /// is not there.
    pub fn is_closed(&self) -> bool {
        self.shared.memory.control.is_closed()
    }
}

impl Reader {
    /// How far back the log goes now, in ns, regardless of what this reader has read. 0 before the
    /// first packet and for a log without history. Cost: a clock and some loads.
    pub fn kept_ns(&self) -> u64 {
        oldest(&self.memory.control).map_or(0, |(kept_ns, _)| kept_ns)
    }
}

/// The age of the oldest segment, and its first packet's number.
fn oldest(control: &ControlView) -> Option<(u64, u64)> {
    // May be old by now, and the segment in use anew: then both are those of its new use.
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
