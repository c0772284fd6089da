//! Due times of packets.

use super::rate::Pace;

/// Nanoseconds in 1000 seconds: divided by a rate, the interval between packets.
const MILLI_NS: u64 = 1_000_000_000_000;

/// Due times in bursts, at the interval given by the rate, without drift.
pub(crate) struct Schedule {
    /// When the next packet is due, in ns since 1970.
    pub(crate) next_ns: u64,
    step_ns: u64,
    /// The fraction of a nanosecond in a step, in `1 / rate` ns.
    rest: u64,
    carried: u64,
    rate_milli: u64,
    burst: u64,
    /// Packets of the next burst already sent.
    gone: u64,
}

impl Schedule {
    pub(crate) fn new(start_ns: u64, pace: &Pace) -> Self {
        let Pace { rate_milli, burst, .. } = *pace;
        let span = u128::from(MILLI_NS) * u128::from(burst);
        let (step_ns, rest) = (span / u128::from(rate_milli), span % u128::from(rate_milli));
        let (step_ns, rest) = (step_ns as u64, rest as u64);
        Self { next_ns: start_ns, step_ns, rest, carried: 0, rate_milli, burst, gone: 0 }
    }

    /// Advances to the next packet.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.gone += 1;
        if self.gone < self.burst {
            return;
        }
        self.gone = 0;
        self.next_ns = self.next_ns.saturating_add(self.step_ns);
        self.carried += self.rest;
        if self.carried >= self.rate_milli {
            self.carried -= self.rate_milli;
            self.next_ns = self.next_ns.saturating_add(1);
        }
    }

    /// Returns how many packets are due `elapsed_ns` after the first.
    pub(crate) fn due(&self, elapsed_ns: u64) -> u64 {
        let packets = u128::from(elapsed_ns) * u128::from(self.rate_milli) / u128::from(MILLI_NS);
        let burst = u128::from(self.burst);
        u64::try_from((packets / burst + 1) * burst).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate_milli: u64, burst: u64) -> Schedule {
        Schedule::new(100, &Pace { rate_milli, burst, is_rated: true, is_paced: true })
    }

    #[test]
    fn times_do_not_drift() {
        let mut schedule = schedule(3000, 1);
        for _ in 0..3_000 {
            schedule.advance();
        }
        assert_eq!(schedule.next_ns, 100 + 1_000_000_000_000);
    }

    #[test]
    fn a_packet_is_due_when_its_time_has_come() {
        for (rate_milli, burst) in [(1_000_000, 1), (14_880_952_381, 1), (7_000, 4), (1, 2)] {
            let mut schedule = schedule(rate_milli, burst);
            for packet in 0..100 {
                let at_ns = schedule.next_ns - 100;
                assert!(schedule.due(at_ns + 1) > packet, "{rate_milli} {burst} {packet}");
                let before = at_ns.checked_sub(1).map(|before| schedule.due(before));
                assert!(before.is_none_or(|due| due <= packet), "{rate_milli} {burst} {packet}");
                schedule.advance();
            }
        }
    }
}
