//! Tracks how far times are out of order, from segment to segment.
//!
//! Packets of several threads or files may be slightly out of order. A search by time must know by
//! how much, or examine each segment. So each trailer has a bound that holds for all segments up to
//! its own, rounded up to a power of two.

use super::Trailer;

/// The times of the segments so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// The latest time of a packet, in ns since 1970.
    latest_ns: u64,
    /// The most by which a packet is earlier than one of an earlier segment.
    disorder_ns: u64,
}

impl Order {
    /// Adds the next segment.
    #[must_use]
    pub(super) fn with(mut self, segment: &Trailer) -> Self {
        if segment.packets > 0 {
            let early_ns = self.latest_ns.saturating_sub(segment.earliest_ns);
            self.disorder_ns = self.disorder_ns.max(early_ns);
            self.latest_ns = self.latest_ns.max(segment.latest_ns);
        }
        self
    }

    /// Returns the trailer's code: 1 plus the bits of the maximum. A code of 0 means unknown.
    pub(super) fn code(self) -> u8 {
        1 + (u64::BITS - self.disorder_ns.leading_zeros()) as u8
    }

    /// Returns the largest number of ns with this code.
    pub(super) fn bound_ns(code: u8) -> Option<u64> {
        match u32::from(code) {
            1 => Some(0),
            code @ 2..=65 => Some(u64::MAX >> (65 - code)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_no_less_than_what_it_bounds_and_less_than_twice() {
        for bits in 0..64 {
            for disorder_ns in [1 << bits, (1 << bits) + (1 << bits) / 3, u64::MAX >> (63 - bits)] {
                let order = Order { latest_ns: 0, disorder_ns };
                let bound_ns = Order::bound_ns(order.code()).unwrap();
                assert!(disorder_ns <= bound_ns && bound_ns / 2 < disorder_ns, "{disorder_ns}");
            }
        }
        assert_eq!(Order::bound_ns(Order::default().code()), Some(0));
        assert!([0, 66, 255].into_iter().all(|code| Order::bound_ns(code).is_none()));
    }

    #[test]
    fn disorder_is_between_segments_and_not_within_one() {
        let of = |times: &[(u32, u64, u64)]| {
            let segments = times.iter().map(|&(packets, earliest_ns, latest_ns)| Trailer {
                packets,
                earliest_ns,
                latest_ns,
                ..Trailer::default()
            });
            segments.fold(Order::default(), |order, segment| order.with(&segment)).disorder_ns
        };
        assert_eq!(of(&[(5, 100, 900), (5, 900, 950), (0, 0, 0), (5, 951, 2000)]), 0);
        assert_eq!(of(&[(5, 100, 900), (5, 800, 850), (5, 860, 3000)]), 100);
        assert_eq!(of(&[(5, 100, 900), (5, 800, 850), (0, 0, 0), (5, 500, 510)]), 400);
    }
}
