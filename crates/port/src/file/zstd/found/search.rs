//! Finds the next segment behind damage.
//!
//! ```text
//!  | damaged segment 7     | 8      | 9      | 10     | ...
//!       ^ trailer in a packet
//!                          ^ trailer 7: what follows are whole segments, over a long way
//! ```
//!
//! A trailer alone proves nothing: a sender may put any into a packet, even with segments behind
//! it. So the segments behind a trailer count. They are those of the recording if they are more
//! than a packet can hold, and if the checksum of one of the first holds. Between two damaged
//! places that are close together there are fewer. Then the most bytes decide, and the numbers must
//! fit those of the segments behind. Behind the trailer of the last segment there are none, but the
//! frame or the file ends: no sender knows where that is.

use std::cmp::Reverse;
use std::os::unix::fs::FileExt;

use burstline_wire::files::{MAX_NEED, Trailer};

use super::{Boundary, Reached, TAIL_BYTES, Walk, can_follow};

/// Bytes searched at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes at the start of a file in which its first segments are searched for, if the first one is
/// damaged: a file of another kind is not read further.
const FIRST_BYTES: u64 = (MAX_NEED + CHUNK_BYTES) as u64;

/// Segments of more bytes are not from one packet, which has at most 256 KiB.
const SURE_BYTES: u64 = 512 << 10;

/// Segments searched behind the first trailer that may be right.
const MORE_SEGMENTS: u64 = 4;

/// The first segments behind a trailer, one of which must be sound: damage may reach into the
/// first.
const EXAMINED: usize = 2;

/// Runs that are examined at most: each takes some time to decompress.
const MOST_RUNS: usize = 64;

/// Segments without damage.
#[derive(Clone, Copy)]
struct Run {
    begin: Boundary,
    end: Boundary,
    /// Whether they have more bytes than a packet, or reach the end of the frame.
    is_long: bool,
}

impl Run {
    fn bytes(&self) -> u64 {
        self.end.at - self.begin.at
    }
}

impl Walk<'_> {
    /// Returns the first boundary after `from` behind which segments follow. `is_cut`: maybe
    /// nothing is damaged, and the file only ends here. Then a few segments are not believed.
    pub(super) fn search(&self, from: Boundary, is_cut: bool) -> Option<Boundary> {
        let mut limit = if from.next == 0 { FIRST_BYTES.min(self.length) } else { self.length };
        let (mut at, mut chunk, mut runs) = (from.at, vec![0; CHUNK_BYTES], Vec::new());
        while at < limit {
            chunk.truncate((self.length - at).min(CHUNK_BYTES as u64) as usize);
            self.file.read_exact_at(&mut chunk, at).ok()?;
            let starts = chunk.windows(Trailer::MAGIC.len());
            for (start, _) in starts.enumerate().filter(|(_, bytes)| *bytes == Trailer::MAGIC) {
                let found = self.boundary_at(at + (start + TAIL_BYTES) as u64);
                let begin = found.filter(|begin| can_follow(from, *begin));
                let Some(run) = begin.and_then(|begin| self.run(begin)) else { continue };
                if run.is_long && self.is_sure(&run, is_cut) {
                    return Some(self.choose(runs, run, is_cut));
                }
                let more = MORE_SEGMENTS * run.begin.segment_bytes + SURE_BYTES;
                limit = limit.min(run.end.at + more);
                runs.push(run);
            }
            // A magic number may cross the end of the chunk.
            let is_last = at + chunk.len() as u64 == self.length;
            at += (chunk.len() - if is_last { 0 } else { Trailer::MAGIC.len() }) as u64;
        }
        runs.sort_by_key(|run| Reverse(run.bytes()));
        let mut longest = runs.iter().take(MOST_RUNS).copied();
        let sure = longest.find(|run| !is_cut && self.is_sure(run, is_cut))?;
        Some(self.choose(runs, sure, is_cut))
    }

    /// Follows the segments behind a trailer. `None` if there are none, and more bytes than end the
    /// frame.
    fn run(&self, begin: Boundary) -> Option<Run> {
        let mut run = Run { begin, end: begin, is_long: false };
        while !run.is_long {
            match self.reach(run.end) {
                Reached::End(end) => run.end = end,
                Reached::Over => run.is_long = true,
                _ => break,
            }
            run.is_long |= run.bytes() > SURE_BYTES;
        }
        (run.is_long || run.bytes() > 0).then_some(run)
    }

    /// Whether one of its first segments is sound, or the frame ends behind its trailer, unless
    /// the file is only cut there.
    fn is_sure(&self, run: &Run, is_cut: bool) -> bool {
        if run.bytes() == 0 {
            return run.is_long && !is_cut;
        }
        let mut before = run.begin;
        for _ in 0..EXAMINED {
            let Reached::End(end) = self.reach(before) else { return false };
            if self.is_sound(before, end) {
                return true;
            }
            before = end;
        }
        false
    }

    /// Returns the start of a run, or of a shorter one before it whose numbers fit.
    fn choose(&self, mut runs: Vec<Run>, sure: Run, is_cut: bool) -> Boundary {
        // If no segment were between them, it would be one run.
        runs.retain(|run| run.end.next < sure.begin.next && can_follow(run.end, sure.begin));
        runs.sort_by_key(|run| Reverse(run.bytes()));
        let before = runs.iter().take(MOST_RUNS).find(|run| self.is_sure(run, is_cut));
        before.map_or(sure.begin, |run| run.begin)
    }
}
