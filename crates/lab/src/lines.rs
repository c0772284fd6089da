//! Packets of four lines in memory, with arrival times: the same input for both sides of a merge.
//!
//! ```text
//! uniform   0 1 3 2 0 3 1 2 ...      each line is full: of 64 bytes, a packet every 67 ns
//! bursts    0 x 32, 1 x 32, ...      the lines take turns, 32 packets each
//! idle      0 2 1 2 0 1 ...          the last line has nothing
//! ```
//!
//! A line repeats its packets and their spacing for ever.

/// Number of lines.
pub const LINES: usize = 4;
/// Packets that a line repeats, unless they reach [`LINE_BYTES`] first. The shortest packets of all
/// four lines fill half a MiB.
const PACKETS: usize = 2048;
/// Maximum size of a line's packets in bytes.
const LINE_BYTES: usize = 1 << 20;
/// Packets per turn.
const TURN: usize = 32;

/// Size and layout of the packets of all lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Shape {
    /// Bytes of a packet, without its FCS.
    pub bytes: u32,
    /// Distance between two packets in a line's memory.
    pub stride: u32,
    /// Packets that a line repeats: a power of two, and a multiple of 32.
    pub count: u32,
    /// Time from one packet to the next at 10 Gbit/s, with FCS, preamble and gap.
    pub frame_ns: u32,
}

impl Shape {
    /// Returns the shape for packets of this many bytes, without FCS.
    pub fn of(bytes: usize) -> Self {
        let stride = bytes.next_multiple_of(16);
        let count = (PACKETS.min(LINE_BYTES / stride) / 2 + 1).next_power_of_two().max(TURN);
        let frame_ns = (bytes + 24) * 8 / 10;
        let [bytes, stride, count, frame_ns] =
            [bytes, stride, count, frame_ns].map(|number| number as u32);
        Self { bytes, stride, count, frame_ns }
    }

    /// Returns the time after which a line repeats its packets.
    fn round_ns(self) -> u64 {
        u64::from(self.count) * u64::from(self.frame_ns)
    }

    /// Returns the space for one packet in the destination.
    pub fn room(self) -> usize {
        (self.bytes as usize).next_multiple_of(64)
    }
}

/// How the packets of the lines interleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interleaving {
    /// Each line is full, and packets of the lines mix in any order.
    Uniform,
    /// 32 packets of one line, then 32 of the next.
    Bursts,
    /// Like uniform, without the last line.
    Idle,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    shape: Shape,
    bytes: Box<[u8]>,
    /// Arrival time of each packet within a round, in ns.
    times_ns: Box<[u64]>,
}

impl Line {
    /// Creates line `number`, in `[0, LINES)`.
    pub fn new(number: usize, interleaving: Interleaving, shape: Shape) -> Self {
        let frame_ns = u64::from(shape.frame_ns);
        let mut chance = number as u64 + 1;
        let time_ns = |at: usize| {
            // Source: Knuth's MMIX, for spacing that repeats from run to run.
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            match interleaving {
                Interleaving::Uniform | Interleaving::Idle => {
                    at as u64 * frame_ns + (chance >> 33) % frame_ns
                }
                Interleaving::Bursts => {
                    let turn = (at / TURN * LINES + number) * TURN + at % TURN;
                    turn as u64 * frame_ns / LINES as u64
                }
            }
        };
        let count = shape.count as usize;
        let times_ns = (0..count).map(time_ns).collect();
        let byte = |at: usize| (at * 7 + number) as u8;
        let bytes = (0..count * shape.stride as usize).map(byte).collect();
        Self { shape, bytes, times_ns }
    }

    /// Creates all lines; an idle one is `None`.
    pub fn all(interleaving: Interleaving, shape: Shape) -> [Option<Self>; LINES] {
        let is_idle = |number| interleaving == Interleaving::Idle && number == LINES - 1;
        let new = |number| Self::new(number, interleaving, shape);
        std::array::from_fn(|number| (!is_idle(number)).then(|| new(number)))
    }

    /// Returns the shape of its packets.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the offset of packet `number` in the line's memory, and its arrival time in ns.
    #[inline(always)]
    pub fn place(&self, number: u64) -> (usize, u64) {
        let Shape { stride, count, .. } = self.shape;
        // The count is a power of two, so neither of these divides.
        let (round, at) = (number >> count.trailing_zeros(), number as u32 & (count - 1));
        let time_ns = round * self.shape.round_ns() + self.times_ns[at as usize];
        ((at * stride) as usize, time_ns)
    }

    /// Returns the arrival time of each packet within a round, in ns.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// Returns the line's memory.
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
        for shape in [60, 1514, 9014].map(Shape::of) {
            for interleaving in [Interleaving::Uniform, Interleaving::Bursts] {
                for line in Line::all(interleaving, shape).iter().flatten() {
                    let times: Vec<u64> = (0..10_000).map(|number| line.place(number).1).collect();
                    assert!(times.is_sorted(), "{interleaving:?} {shape:?}");
                }
            }
        }
        let lines = Line::all(Interleaving::Idle, Shape::of(60));
        assert_eq!(lines.iter().flatten().count(), LINES - 1);
    }

    #[test]
    fn a_line_has_as_many_packets_as_there_is_room_for() {
        let of = |bytes| (Shape::of(bytes).stride, Shape::of(bytes).count);
        let found = [60, 124, 252, 508, 1020, 1514, 9014].map(of);
        let expected = [
            (64, 2048),
            (128, 2048),
            (256, 2048),
            (512, 2048),
            (1024, 1024),
            (1520, 512),
            (9024, 64),
        ];
        assert_eq!(found, expected);
        assert_eq!((Shape::of(60).frame_ns, Shape::of(1514).room()), (67, 1536));
        let line = Line::new(3, Interleaving::Uniform, Shape::of(9014));
        let last = line.place(63).0 + 9014;
        assert!(last <= line.bytes().len() && line.place(64).0 == 0, "{last}");
    }

    #[test]
    fn lines_take_turns() {
        let lines = Line::all(Interleaving::Bursts, Shape::of(60));
        let times = |number: usize| lines[number].iter().map(|line| line.place(31).1).next();
        assert!(times(0) < times(1) && times(1) < times(2));
    }
}
