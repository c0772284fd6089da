//! When the line is free for the next frame.

/// Bytes that a frame takes on the wire beside its own: FCS 4, preamble 8, gap 12.
/// Source: IEEE 802.3, 3.1.1 and 4.4.2.
const WIRE_BYTES: u64 = 24;

/// The shortest frame, without FCS.
const SHORTEST: u64 = 60;

/// How much the line makes up for, in ns: the device's thread is not always on a core, and a real
/// card's clock does not stop. What would have come in a longer pause does not come at all, so that
/// nothing is lost to the scheduler by the name of a FIFO.
const CATCH_UP_NS: u64 = 50_000;

/// A line of so many bits a second, in one direction.
pub(crate) struct Line {
    /// Picoseconds that a byte takes, times 1024; 0 where frames take no time.
    byte_ps_1024: u64,
    /// When the line is free again, in ns, and the part below in ps times 1024.
    free_ns: u64,
    rest: u64,
}

impl Line {
    pub(crate) fn new(bits_per_s: Option<f64>) -> Self {
        let byte_ps_1024 = bits_per_s.map_or(0, |bits| (8e12 * 1024.0 / bits).round() as u64);
        Self { byte_ps_1024, free_ns: 0, rest: 0 }
    }

    /// Whether frames take time.
    pub(crate) fn is_timed(&self) -> bool {
        self.byte_ps_1024 > 0
    }

    /// How many frames may begin by `now_ns`, if they are short ones; at most `most`.
    pub(crate) fn due(&mut self, now_ns: u64, most: u64) -> u64 {
        if !self.is_timed() {
            return most;
        }
        self.free_ns = self.free_ns.max(now_ns.saturating_sub(CATCH_UP_NS));
        let Some(ahead_ns) = now_ns.checked_sub(self.free_ns) else { return 0 };
        let frame = self.byte_ps_1024 * (SHORTEST + WIRE_BYTES);
        (ahead_ns * 1000 * 1024 / frame + 1).min(most)
    }

    /// A frame of `length` bytes begins.
    #[inline]
    pub(crate) fn advance(&mut self, length: usize) {
        let taken = self.rest + self.byte_ps_1024 * (length as u64 + WIRE_BYTES);
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
        assert!(line.due(now_ns, u64::MAX) > 1, "some is made up for");
        line.free_ns = now_ns;
        while now_ns < 1_010_000_000 {
            for _ in 0..line.due(now_ns, 256) {
                line.advance(60);
                frames += 1;
            }
            now_ns += 1000;
        }
        // 10 ms of 14,880,952 frames a second, and the one that begins at the end.
        assert!((148_795..=148_812).contains(&frames), "{frames}");
    }

    #[test]
    fn long_frames_are_paid_for_afterwards_and_pauses_are_not_made_up_for() {
        let mut line = Line::new(Some(1e9));
        assert!(line.due(1_000_000, 1) == 1);
        line.free_ns = 1_000_000;
        line.advance(9014);
        // 9,038 bytes of 8 ns.
        assert_eq!(line.free_ns, 1_072_304);
        assert_eq!(line.due(1_072_303, 9), 0);
        assert_eq!(line.due(1_072_304, 9), 1);
        // 50 us of 672 ns.
        assert_eq!(line.due(9_000_000_000, 1000), 50_000 / 672 + 1);
        let mut free = Line::new(None);
        assert!(!free.is_timed() && free.due(0, 7) == 7);
    }
}
