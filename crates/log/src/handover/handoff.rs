//! Chooses the way packets go to their reader: through the caches, or past them.
//!
//! ```text
//!   near   store -> own cache  -> reader's cache        the line is fetched, then read
//!   far    store -> write-combining buffer -> memory    whole lines are written, none fetched
//! ```
//!
//! An ordinary store first fetches the line from the core that last read it, the reader's. If both
//! cores share a cache, that takes 50 ns, and many lines are in flight at once. If not, it takes
//! 120 to 300 ns, and the reader waits as long to get the line back. A streaming store fetches
//! nothing. With a near reader it costs more than half of the rate; with a far one it can gain a
//! half (Decision 0031).
//!
//! The distance to the reader can change while a job runs, because a hypervisor moves cores. So the
//! writer times one load a segment: that of the reader's cursor, which the reader has written
//! since. It does so for a lossless reader only, because a lossy reader must not slow it down. A
//! writer in its own cache is faster than one that streams, even if a reader then misses packets.
//!
//! That a reader is far does not say that streaming gains: that differs by processor. So the writer
//! tries both ways ([`trial`](super::trial)).
//!
//! Invariant H1: the way changes only between segments. A reader counts as far, or near again, only
//! after [`SURE`] more measurements for it than against it.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering::Relaxed;

use burstline_sys::clock;

use crate::protocol::{ReaderPage, Word64};

use super::trial::Trial;

/// How a log's writer chooses the way packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handoff {
    /// Through the caches; if lines from the reader take long, the way that proves to be faster.
    #[default]
    Auto,
    /// Through the caches.
    Near,
    /// Past the caches.
    Far,
}

impl Handoff {
    /// All choices, by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("near", Self::Near), ("far", Self::Far)];
}

impl fmt::Display for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, handoff)| handoff == self);
        f.write_str(name.map_or("auto", |(name, _)| name))
    }
}

impl FromStr for Handoff {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == word);
        known
            .map(|&(_, handoff)| handoff)
            .ok_or_else(|| format!("`{word}` is not auto, near or far"))
    }
}

/// A load that takes this long, in ns, is from a far core. A load takes some 40 % of a way as
/// `sys::distance` measures it, which includes a store: 20 ns for a way of 50.
const FAR_LOAD_NS: u64 = 60;

/// Net number of measurements that decides that the reader is far, or near again.
const SURE: i32 = 8;

/// The writer's current way and the measurements behind it.
#[derive(Debug)]
pub(crate) struct Way {
    choice: Handoff,
    /// Whether the open segment's packets go past the caches.
    goes_far: bool,
    /// Whether the reader is far.
    is_far: bool,
    /// Measurements that found the reader far, less those that found it near, in `[-SURE, SURE]`.
    sureness: i32,
    /// The cursor value of the last measurement.
    seen: u64,
    /// What was found of both ways to a far reader.
    trial: Trial,
}

impl Way {
    pub(crate) fn new(choice: Handoff, segments: u32, segment_bytes: usize) -> Self {
        let trial = Trial::new(segments, segment_bytes);
        let goes_far = choice == Handoff::Far;
        Self { choice, goes_far, is_far: false, sureness: -SURE, seen: 0, trial }
    }

    /// Whether the open segment's packets go past the caches.
    #[inline(always)]
    pub(crate) fn goes_far(&self) -> bool {
        self.goes_far
    }

    /// Chooses the way of the segment that is opened.
    ///
    /// Cost: a read of the clock if the reader is far.
    pub(crate) fn open_segment(&mut self) {
        if self.choice == Handoff::Auto {
            self.goes_far = self.is_far && {
                self.trial.took(clock::monotonic_ns());
                self.trial.goes_far()
            };
        }
    }

    /// Measures the distance to the reader that the writer waits for, if the mode requires it: the
    /// first lossless one. Called at least once a segment.
    ///
    /// Cost: three reads of the clock.
    pub(crate) fn look<P: ReaderPage>(&mut self, page: Option<&P>) {
        if self.choice != Handoff::Auto {
            return;
        }
        let Some(page) = page else {
            // No lossless reader: the writer is fastest in its own cache (Decision 0031).
            (self.is_far, self.sureness) = (false, -SURE);
            self.trial.forget();
            return;
        };
        let first_ns = clock::monotonic_ns();
        let start_ns = clock::monotonic_ns();
        let cursor = page.cursor().load(Relaxed); // only its time matters, not its value
        let spent_ns = clock::monotonic_ns().saturating_sub(start_ns);
        if cursor == self.seen {
            return; // the reader has not taken the line since
        }
        self.seen = cursor;
        self.note(spent_ns.saturating_sub(start_ns - first_ns));
    }

    /// Records that a line took `line_ns` to load.
    fn note(&mut self, line_ns: u64) {
        let step = if line_ns >= FAR_LOAD_NS { 1 } else { -1 };
        self.sureness = (self.sureness + step).clamp(-SURE, SURE);
        match self.sureness {
            SURE => self.is_far = true,
            sureness if sureness == -SURE && self.is_far => {
                self.is_far = false;
                self.trial.stop();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for (name, handoff) in Handoff::ALL {
            assert_eq!((name.parse(), &*handoff.to_string()), (Ok(handoff), name));
        }
        assert!("fast".parse::<Handoff>().unwrap_err().contains("`fast`"));
    }

    #[test]
    fn a_reader_is_found_far_late_and_not_by_single_looks() {
        let mut way = Way::new(Handoff::Auto, 8, 1 << 18);
        let (near, far) = (FAR_LOAD_NS - 1, FAR_LOAD_NS);
        let noted = |way: &mut Way, line_ns, times| (0..times).for_each(|_| way.note(line_ns));
        noted(&mut way, far, 15);
        assert!(!way.is_far);
        noted(&mut way, near, 1);
        noted(&mut way, far, 1);
        assert!(!way.is_far);
        noted(&mut way, far, 1);
        assert!(way.is_far);
        noted(&mut way, near, 15);
        assert!(way.is_far);
        noted(&mut way, near, 1);
        assert!(!way.is_far);
    }
}
