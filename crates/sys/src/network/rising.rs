//! Follows foreign counters, which wrap and restart: what they have counted since a first reading.
//!
//! ```text
//!   reading   7    9    4294967290    5         3
//!   means     0   +2    +4294967281   +11       +3
//!                                     wrapped   restarted with its interface, driver or card
//! ```
//!
//! The sum never falls, and no difference is taken across a fall. A 32-bit counter may be in a
//! 64-bit field, and then wraps below that. A fall from its last sixteenth into its first counts as
//! a wrap, so readings must come before it can count that many. What a counter had counted between
//! the last reading and its restart is unknown.

/// The size of the last sixteenth of a 32-bit counter, and of its first.
const EDGE: u64 = 1 << 28;
const WRAP: u64 = 1 << 32;

/// Counts of a counter since its first reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rising {
    last: u64,
    sum: u64,
}

impl Rising {
    /// Starts with a counter whose current value is `reading`.
    pub fn from(reading: u64) -> Self {
        Self { last: reading, sum: 0 }
    }

    /// Takes the counter's next reading, and returns the counts since the first one.
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

    /// Returns the counts up to the last reading.
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
        // Twice around, with readings in a 64-bit field.
        assert_eq!(
            sums(0, &[WRAP - 1, 9, WRAP - 5, 0]),
            [WRAP - 1, WRAP + 9, 2 * WRAP - 5, 2 * WRAP]
        );
    }

    #[test]
    fn a_counter_that_begins_anew_hides_and_invents_nothing() {
        assert_eq!(sums(100, &[140, 3, 3, 10]), [40, 43, 43, 50]);
        // The same for a 64-bit counter that had counted far, and for one that fell from the
        // middle.
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
