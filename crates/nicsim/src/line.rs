//! Computes when the line is free for the next frame.

/// Bytes that a frame takes on the wire in addition to its own: FCS 4, preamble 8, gap 12.
/// Source: IEEE 802.3, 3.1.1 and 4.4.2.
const WIRE_BYTES: u64 = 24;

/// The shortest frame, without FCS.
const SHORTEST: u64 = 60;

/// Longest pause that the line makes up for, in ns: the device's thread is not always on a core,
/// and a real card's clock does not stop. Frames of a longer pause are not sent at all, so
/// scheduler delays do not overflow the FIFO. At 10 Gbit/s this is 3,720 of the shortest frames,
/// and the default FIFO has room for 6,898.
const CATCH_UP_NS: u64 = 250_000;

/// How long a due frame waits for others, in ns. Handling each alone would cost more than the
/// frames do, and a receiver would wait for each one's cache line. The batch starts late, but the
/// line's rate stays the same.
const GATHERED_NS: u64 = 2000;

/// One direction of a line with this rate in bit/s.
pub(crate) struct Line {
    /// Picoseconds per byte, times 1024; 0 if frames take no time.
    byte_ps_1024: u64,
    /// When the line is free again, in ns, and the fraction in ps times 1024; 0 before the first
    /// check.
    free_ns: u64,
    rest: u64,
}

impl Line {
    pub(crate) fn new(bits_per_s: Option<f64>) -> Self {
        let byte_ps_1024 = bits_per_s.map_or(0, |bits| (8e12 * 1024.0 / bits).round() as u64);
        Self { byte_ps_1024, free_ns: 0, rest: 0 }
    }

    /// Returns whether frames take time.
    pub(crate) fn is_timed(&self) -> bool {
        self.byte_ps_1024 > 0
    }

    /// Returns how many frames may start by `now_ns`, if they are short; at most `most`. Returns 0
    /// for fewer than that until the first could have started [`GATHERED_NS`] ago.
    pub(crate) fn due(&mut self, now_ns: u64, most: u64) -> u64 {
        if !self.is_timed() {
            return most;
        }
        if self.free_ns == 0 {
            self.free_ns = now_ns;
        }
        self.free_ns = self.free_ns.max(now_ns.saturating_sub(CATCH_UP_NS));
        let Some(ahead_ns) = now_ns.checked_sub(self.free_ns) else { return 0 };
        let frame = self.byte_ps_1024 * (SHORTEST + WIRE_BYTES);
        let due = (ahead_ns * 1000 * 1024 / frame + 1).min(most);
        if ahead_ns >= GATHERED_NS || due == most { due } else { 0 }
    }

    /// Starts this many frames, one after the other, with this many bytes in total. At most the due
    /// frames may be started.
    #[inline]
    pub(crate) fn advance(&mut self, frames: u64, bytes: u64) {
        // No overflow: if a byte takes long, only one frame is due.
        let taken = self.rest + self.byte_ps_1024 * (bytes + frames * WIRE_BYTES);
        self.free_ns += taken / (1000 * 1024);
        self.rest = taken % (1000 * 1024);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabits_are_14_88_million_short_frames() {
        let mut line = Line::new(Some(10e9));
        let (mut frames, mut now_ns) = (0_u64, 1_000_000_000);
        assert_eq!(line.due(now_ns, u64::MAX), 0, "it begins now");
        while now_ns <= 1_010_000_000 {
            let due = line.due(now_ns, 256);
            line.advance(due, due * 60);
            frames += due;
            now_ns += 4000;
        }
        // 10 ms of 14,880,952 frames a second, and the one that starts at the end.
        assert!((148_795..=148_812).contains(&frames), "{frames}");
    }

    #[test]
    fn long_frames_are_paid_for_afterwards_and_pauses_are_not_made_up_for() {
        let mut line = Line::new(Some(1e9));
        assert!(line.due(1_000_000, 1) == 1);
        line.advance(1, 9014);
        // 9,038 bytes of 8 ns.
        assert_eq!(line.free_ns, 1_072_304);
        assert_eq!(line.due(1_072_303, 9), 0);
        assert_eq!(line.due(1_072_304, 1), 1);
        // Several would be batched: 2 us of 672 ns.
        assert_eq!([1_072_304, 1_074_303, 1_074_304].map(|now| line.due(now, 9)), [0, 0, 3]);
        // 250 us of 672 ns.
        assert_eq!(line.due(9_000_000_000, 1000), 250_000 / 672 + 1);
        let mut free = Line::new(None);
        assert!(!free.is_timed() && free.due(0, 7) == 7);
    }
}
