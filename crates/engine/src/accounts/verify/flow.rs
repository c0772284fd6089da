//! One flow: which of its numbers have arrived.

use burstline_wire::mark::Stream;
use hdrhistogram::Histogram;

use super::DIGITS;

/// How far behind the highest number of its flow a packet can be distinguished from a duplicate.
pub const WINDOW: u64 = 4096;

/// Whether the newest numbers have arrived, a bit each.
type Bits = [u64; (WINDOW / 64) as usize];

/// The range that a histogram allocates at creation: up to 4 s. Otherwise it would grow by 8 KiB
/// for each doubling of its longest time, whenever a late packet arrived.
const ROOM_NS: u64 = (1 << 32) - 1;

/// Creates an empty histogram of nanoseconds, 184 KiB.
pub(crate) fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_max(ROOM_NS, DIGITS).unwrap_or_else(|error| {
        unreachable!("{DIGITS} digits are from 0 to 5, {ROOM_NS} is above 2: {error:?}");
    });
    histogram.auto(true);
    histogram
}

/// Adds a value. Cost: a few nanoseconds; an allocation if it is above [`ROOM_NS`] and longer than
/// any before.
pub(crate) fn record(histogram: &mut Histogram<u64>, value_ns: u64) {
    record_many(histogram, value_ns, 1);
}

/// Adds a value `times` times. Cost: as of [`record`].
pub(crate) fn record_many(histogram: &mut Histogram<u64>, value_ns: u64, times: u64) {
    if times == 0 {
        return;
    }
    // It grows as needed, up to `u64::MAX`.
    let is_kept = histogram.record_n(value_ns, times);
    debug_assert!(is_kept.is_ok(), "{value_ns}: {is_kept:?}");
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) stream: Stream,
    /// The number after the highest that arrived.
    next: u64,
    pub(super) unique: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) too_late: u64,
    pub(super) corrupted: u64,
    /// The lowest number that arrived.
    pub(super) first: u64,
    pub(super) latency: Option<Histogram<u64>>,
    seen: Box<Bits>,
}

impl Flow {
    pub(super) fn new(stream: Stream, is_timed: bool) -> Self {
        Self {
            stream,
            next: 0,
            unique: 0,
            duplicates: 0,
            reordered: 0,
            too_late: 0,
            corrupted: 0,
            first: 0,
            latency: is_timed.then(histogram),
            seen: Box::new([0; (WINDOW / 64) as usize]),
        }
    }

    /// Returns how many numbers up to the highest have not arrived intact.
    pub(super) fn missing(&self) -> u64 {
        self.next - self.unique
    }

    pub(super) fn time(&mut self, age_ns: u64) {
        if let Some(latency) = &mut self.latency {
            record(latency, age_ns);
        }
    }

    /// Returns whether packet `sequence`, modulo 2^32, arrived for the first time. The full number
    /// is the one closest to the expected one. Source for reordering: RFC 4737, section 3.
    pub(super) fn see(&mut self, sequence: u32) -> bool {
        let ahead = i64::from(sequence.wrapping_sub(self.next as u32) as i32);
        if ahead >= 0 {
            let number = self.next + ahead as u64;
            if self.unique == 0 {
                self.first = number;
            }
            self.forget(self.next, number);
            self.next = number + 1;
            self.unique += 1;
            self.mark(number);
            return true;
        }
        match self.next.checked_add_signed(ahead) {
            Some(number) if self.next - number <= WINDOW => {
                if self.has(number) {
                    self.duplicates += 1;
                    return false;
                }
                self.mark(number);
                self.unique += 1;
                self.reordered += 1;
                self.first = self.first.min(number);
                true
            }
            _ => {
                self.too_late += 1;
                false
            }
        }
    }

    /// Clears the bits of the numbers in `[from, to]`.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for number in from..=to {
            let (word, bit) = place(number);
            self.seen[word] &= !bit;
        }
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.seen[word] |= bit;
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] & bit != 0
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(numbers: impl IntoIterator<Item = u64>) -> Flow {
        let mut flow = Flow::new(Stream(0), false);
        for number in numbers {
            flow.see(number as u32);
        }
        flow
    }

    fn counts(flow: &Flow) -> [u64; 5] {
        [flow.unique, flow.missing(), flow.duplicates, flow.reordered, flow.too_late]
    }

    #[test]
    fn what_is_missing_doubled_overtaken_or_too_late() {
        assert_eq!(counts(&seen(0..100)), [100, 0, 0, 0, 0]);
        assert_eq!(counts(&seen([0, 1, 4])), [3, 2, 0, 0, 0]);
        assert_eq!(counts(&seen([0, 2, 1, 3, 3, 1])), [4, 0, 2, 1, 0]);
        assert_eq!(counts(&seen([0, WINDOW, 1])), [3, WINDOW - 2, 0, 1, 0]);
        assert_eq!(counts(&seen([0, WINDOW + 1, 1])), [2, WINDOW, 0, 0, 1]);
        assert_eq!(counts(&seen([0, 5 * WINDOW, 5 * WINDOW])), [2, 5 * WINDOW - 1, 1, 0, 0]);
        let flow = seen([7, 9, 8]);
        assert_eq!((flow.first, flow.missing()), (7, 7));
    }

    #[test]
    fn a_late_packet_needs_no_more_memory() {
        let mut flow = Flow::new(Stream(0), true);
        let room = |flow: &Flow| flow.latency.as_ref().unwrap().distinct_values();
        let at_first = room(&flow);
        for age_ns in [1, 60_000, 4_000_000_000, ROOM_NS] {
            flow.time(age_ns);
        }
        assert_eq!(room(&flow), at_first);
        // The documented size.
        assert_eq!(at_first * size_of::<u64>(), 184 << 10);
        // A longer time is kept as well, to three digits.
        let hour_ns = 3_600_000_000_000;
        flow.time(hour_ns);
        let latency = flow.latency.unwrap();
        assert_eq!(latency.len(), 5);
        assert!(latency.max().abs_diff(hour_ns) <= hour_ns / 1000);
        assert_eq!(latency.value_at_quantile(0.4), 60_031);
    }

    #[test]
    fn numbers_go_on_beyond_32_bits() {
        let step = 1 << 30;
        let flow = seen((0..12).map(|index| index * step));
        assert_eq!((flow.unique, flow.next), (12, 11 * step + 1));
        let end = u64::from(u32::MAX);
        let mut flow = seen((0..4).map(|index| index * step).chain(end - 3..end + 4));
        assert_eq!(flow.next, end + 4);
        assert!(!flow.see(0) && flow.duplicates == 1);
    }
}
