//! Rate limits in packets or bits per second, as token buckets.

/// The rate that a meter allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// Tokens per second, above 0.
    pub per_s: f64,
    /// Whether a token is a bit rather than a packet.
    pub is_bits: bool,
}

impl Eq for Quota {}

/// A quota, and the tokens left. The largest burst is the quota of a tenth of a second, and at
/// least one packet.
#[derive(Clone, Debug)]
pub struct Meter {
    quota: Quota,
    /// The capacity of the bucket in tokens.
    most: f64,
    tokens: f64,
    filled_ns: u64,
    /// Packets within the quota, and beyond it.
    passed: u64,
    exceeded: u64,
}

/// The longest frame, in bits. A bucket of bits holds at least one.
const LONGEST_BITS: f64 = 65_554.0 * 8.0;

impl Meter {
    /// Creates a meter with a full bucket.
    pub fn new(quota: Quota, now_ns: u64) -> Self {
        let least = if quota.is_bits { LONGEST_BITS } else { 1.0 };
        let most = (quota.per_s / 10.0).max(least);
        Self { quota, most, tokens: most, filled_ns: now_ns, passed: 0, exceeded: 0 }
    }

    /// Returns its quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the packets that passed, and the packets that exceeded the quota.
    pub fn counts(&self) -> (u64, u64) {
        (self.passed, self.exceeded)
    }

    /// Returns whether a packet of `bytes` bytes may pass at `now_ns`, and counts it.
    #[inline]
    pub fn allows(&mut self, bytes: usize, now_ns: u64) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.filled_ns);
        if elapsed_ns > 0 {
            let new = elapsed_ns as f64 / 1e9 * self.quota.per_s;
            self.tokens = (self.tokens + new).min(self.most);
            self.filled_ns = now_ns;
        }
        let cost = if self.quota.is_bits { bytes as f64 * 8.0 } else { 1.0 };
        let allows = self.tokens >= cost;
        if allows {
            self.tokens -= cost;
        }
        self.passed += u64::from(allows);
        self.exceeded += u64::from(!allows);
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn passed(quota: Quota, bytes: usize, step_ns: u64) -> u64 {
        let mut meter = Meter::new(quota, 0);
        (0..).map(|step| step * step_ns).take_while(|&now| now < 10 * SECOND).for_each(|now| {
            meter.allows(bytes, now);
        });
        meter.counts().0
    }

    #[test]
    fn over_time_as_much_passes_as_the_quota_says() {
        let packets = Quota { per_s: 1000.0, is_bits: false };
        let passed_in_10_s = passed(packets, 60, 100_000);
        assert!((10_000..=10_101).contains(&passed_in_10_s), "{passed_in_10_s}");
        let bits = Quota { per_s: 80_000_000.0, is_bits: true };
        let passed_in_10_s = passed(bits, 1000, 10_000);
        assert!((99_999..=101_001).contains(&passed_in_10_s), "{passed_in_10_s}");
        assert!(passed(Quota { per_s: 0.5, is_bits: false }, 60, SECOND) >= 5);
    }

    #[test]
    fn a_clock_that_is_set_back_gives_nothing() {
        let mut meter = Meter::new(Quota { per_s: 1.0, is_bits: false }, SECOND);
        assert!(meter.allows(60, SECOND) && !meter.allows(60, 0) && !meter.allows(60, SECOND));
        assert!(meter.allows(60, 2 * SECOND));
    }
}
