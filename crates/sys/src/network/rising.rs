//! Counters of others, which wrap and begin anew: what they have counted since a first look.
//!
//! ```text
//!   reading   7    9    4294967290    5         3
//!   means     0   +2    +4294967281   +11       +3
//!                                     wrapped   began anew: its interface, driver or card did
//! ```
//!
//! The sum never falls, and no difference is taken across a fall. A counter of 32 bits may come in
//! a field of 64, and then wraps below that. It is taken to have wrapped where it fell from its
//! last sixteenth into its first; looks must come before it can count that many. What a counter had
//! counted between the last look and its new beginning nobody knows.

/// The last sixteenth of a counter of 32 bits, and its first.
const EDGE: u64 = 1 << 28;
const WRAP: u64 = 1 << 32;

/// What a counter has counted since the first look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rising {
    last: u64,
    sum: u64,
}

impl Rising {
    /// A counter that stands at `reading` now.
    pub fn from(reading: u64) -> Self {
        Self { last: reading, sum: 0 }
    }

    /// Takes the counter's next reading, and returns what it has counted since the first.
    pub fn see(&mut self, reading: u64) -> u64 {
        let has_wrapped = (WRAP - EDGE..WRAP).contains(&self.last) && reading < EDGE;
        let new = match reading.checked_sub(self.last) {
            Some(new) => new,
            None if has_wrapped => reading + WRAP - self.last,
            None => reading,
        };
        self.last = reading;
        self.sum = self.sum.saturating_add(new);
        self.sum
    }

    /// What it has counted by the last look.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(first: u64, readings: &[u64]) -> Vec<u64> {
        let mut counter = Rising::from(first);
        readings.iter().map(|&reading| counter.see(reading)).collect()
    }

    #[test]
    fn a_counter_of_32_bits_that_wraps_goes_on() {
        assert_eq!(sums(WRAP - 10, &[WRAP - 1, 4, 5]), [9, 14, 15]);
        // Twice round, in readings of a field of 64 bits.
        assert_eq!(
            sums(0, &[WRAP - 1, 9, WRAP - 5, 0]),
            [WRAP - 1, WRAP + 9, 2 * WRAP - 5, 2 * WRAP]
        );
    }

    #[test]
    fn a_counter_that_begins_anew_hides_and_invents_nothing() {
        assert_eq!(sums(100, &[140, 3, 3, 10]), [40, 43, 43, 50]);
        // Nor does one of 64 bits that had counted far, or one that fell from the middle.
        assert_eq!(sums(0, &[9 * WRAP, 2, 2]), [9 * WRAP, 9 * WRAP + 2, 9 * WRAP + 2]);
        assert_eq!(sums(WRAP / 2, &[7]), [7]);
        assert_eq!(sums(WRAP - 1, &[EDGE]), [EDGE]);
    }

    #[test]
    fn no_reading_makes_it_fall_or_overflow() {
        let mut counter = Rising::from(u64::MAX);
        let mut before = 0;
        for reading in [0, u64::MAX, u64::MAX - 1, 0, u64::MAX, 1] {
            let sum = counter.see(reading);
            assert!(sum >= before, "{reading}: {sum} after {before}");
            before = sum;
        }
    }
}
