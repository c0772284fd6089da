//! Four ports' packets in memory, and when each came: the same for both sides of a merge.
//!
//! ```text
//! uniform   0 1 3 2 0 3 1 2 ...      each line is full: a packet of 64 bytes every 67 ns
//! bursts    0 x 32, 1 x 32, ...      the lines take turns, 32 packets each
//! idle      0 2 1 2 0 1 ...          the last line has nothing
//! ```
//!
//! A line repeats its packets and their spacing for ever.

/// A 64-byte frame without its FCS.
pub const PACKET_BYTES: usize = 60;
/// From one packet to the next in a line's memory.
const STRIDE_BYTES: usize = 64;
/// Lines.
pub const LINES: usize = 4;
/// Packets that a line repeats: all four fill half a MiB.
const PACKETS: usize = 2048;
/// A 64-byte frame at 10 Gbit/s, with preamble and gap, in ns.
const FRAME_NS: u64 = 67;
/// Packets of a turn.
const TURN: usize = 32;

/// How packets of the lines follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interleaving {
    /// Each line is full, and any packet may be between two of another.
    Uniform,
    /// 32 packets of one line, then 32 of the next.
    Bursts,
    /// As uniform, without the last line.
    Idle,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    bytes: Box<[u8]>,
    /// When each packet comes within a round, in ns.
    times_ns: Box<[u64]>,
}

/// The time that a line's packets take, until they come again.
const ROUND_NS: u64 = PACKETS as u64 * FRAME_NS;

impl Line {
    /// Line `number`, in `[0, LINES)`.
    pub fn new(number: usize, interleaving: Interleaving) -> Self {
        let mut chance = number as u64 + 1;
        let time_ns = |at: usize| {
            // Source: Knuth's MMIX, for spacing that repeats from run to run.
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            match interleaving {
                Interleaving::Uniform | Interleaving::Idle => {
                    at as u64 * FRAME_NS + (chance >> 33) % FRAME_NS
                }
                Interleaving::Bursts => {
                    let turn = (at / TURN * LINES + number) * TURN + at % TURN;
                    turn as u64 * FRAME_NS / LINES as u64
                }
            }
        };
        let times_ns = (0..PACKETS).map(time_ns).collect();
        let byte = |at: usize| (at * 7 + number) as u8;
        Self { bytes: (0..PACKETS * STRIDE_BYTES).map(byte).collect(), times_ns }
    }

    /// All of them; `None` for one that is idle.
    pub fn all(interleaving: Interleaving) -> [Option<Self>; LINES] {
        let is_idle = |number| interleaving == Interleaving::Idle && number == LINES - 1;
        std::array::from_fn(|number| (!is_idle(number)).then(|| Self::new(number, interleaving)))
    }

    /// Where packet `number` lies in the line's memory, and when it comes, in ns.
    #[inline(always)]
    pub fn place(&self, number: u64) -> (usize, u64) {
        let (round, at) = (number / PACKETS as u64, number as usize % PACKETS);
        (at * STRIDE_BYTES, round * ROUND_NS + self.times_ns[at])
    }

    /// When each packet comes within a round, in ns.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// The line's memory.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_in_order() {
        for interleaving in [Interleaving::Uniform, Interleaving::Bursts] {
            for line in Line::all(interleaving).iter().flatten() {
                let times: Vec<u64> = (0..10_000).map(|number| line.place(number).1).collect();
                assert!(times.is_sorted(), "{interleaving:?}");
            }
        }
        assert_eq!(Line::all(Interleaving::Idle).iter().flatten().count(), LINES - 1);
    }

    #[test]
    fn lines_take_turns() {
        let lines = Line::all(Interleaving::Bursts);
        let times = |number: usize| lines[number].iter().map(|line| line.place(31).1).next();
        assert!(times(0) < times(1) && times(1) < times(2));
    }
}
