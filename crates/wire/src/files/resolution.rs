//! Converts timestamps of any resolution to nanoseconds.

/// Units of a timestamp, as in `if_tsresol`, with the offset of `if_tsoffset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// A tick is `10^-exponent` s, or `2^-exponent` s when `binary`: in `[0, 127]`.
    pub exponent: u8,
    /// Whether the base is 2.
    pub binary: bool,
    /// Seconds to add to every timestamp.
    pub offset_seconds: i64,
}

impl Resolution {
    /// Microseconds: the default of an interface without `if_tsresol`.
    pub const MICROSECONDS: Resolution = Resolution::decimal(6);
    /// Nanoseconds: what we write.
    pub const NANOSECONDS: Resolution = Resolution::decimal(9);

    /// Returns a resolution of `10^-exponent` seconds.
    pub const fn decimal(exponent: u8) -> Resolution {
        Resolution { exponent, binary: false, offset_seconds: 0 }
    }

    /// Reads the value of `if_tsresol`. Source: draft-ietf-opsawg-pcapng, section 4.2.
    pub(super) const fn from_option(value: u8) -> Resolution {
        Resolution { exponent: value & 0x7F, binary: value & 0x80 != 0, offset_seconds: 0 }
    }

    /// Returns the factor from ticks to nanoseconds, or 0 if a factor alone is not enough.
    pub(super) const fn multiplier(self) -> u64 {
        if self.binary || self.exponent > 9 || self.offset_seconds != 0 {
            return 0;
        }
        10u64.pow(9 - self.exponent as u32)
    }

    /// Converts ticks to ns since 1970: exact, rounded down, saturating at 0 and `u64::MAX`.
    pub fn to_ns(self, ticks: u64) -> u64 {
        let exponent = u32::from(self.exponent);
        let ticks = u128::from(ticks);
        let unsigned = if self.binary {
            (ticks * 1_000_000_000) >> exponent
        } else if exponent <= 9 {
            ticks * 10u128.pow(9 - exponent)
        } else {
            // 2^64 ticks of 10^-30 s are less than a nanosecond.
            10u128.checked_pow(exponent - 9).map_or(0, |divisor| ticks / divisor)
        };
        let offset = i128::from(self.offset_seconds) * 1_000_000_000;
        // unsigned is below 2^94, offset within 2^93: the sum fits.
        (unsigned as i128 + offset).clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Resolution;

    #[test]
    fn powers_of_ten_and_two_are_exact() {
        assert_eq!(Resolution::decimal(6).to_ns(1_700_000_000_123_456), 1_700_000_000_123_456_000);
        assert_eq!(Resolution::decimal(0).to_ns(7), 7_000_000_000);
        assert_eq!(Resolution::decimal(12).to_ns(1_999), 1);
        assert_eq!(Resolution::decimal(127).to_ns(u64::MAX), 0);
        let binary = Resolution::from_option(0x80 | 32);
        assert_eq!(binary.to_ns(1 << 31), 500_000_000);
        assert_eq!(binary.to_ns((5 << 32) + 1), 5_000_000_000);
        assert_eq!(Resolution::from_option(0x80).to_ns(3), 3_000_000_000);
        assert_eq!(Resolution::from_option(0xFF).to_ns(u64::MAX), 0);
    }

    #[test]
    fn saturates_at_both_ends() {
        assert_eq!(Resolution::decimal(0).to_ns(u64::MAX), u64::MAX);
        let early = Resolution { offset_seconds: -10, ..Resolution::NANOSECONDS };
        assert_eq!(early.to_ns(5), 0);
        assert_eq!(early.to_ns(10_000_000_007), 7);
        let extreme = Resolution { offset_seconds: i64::MIN, ..Resolution::from_option(0x80) };
        assert_eq!(extreme.to_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_multiplier_agrees_with_the_exact_way() {
        for exponent in 0..=9 {
            let resolution = Resolution::decimal(exponent);
            let ticks = 1_234_567_890;
            assert_eq!(ticks * resolution.multiplier(), resolution.to_ns(ticks));
        }
        assert_eq!(Resolution::decimal(10).multiplier(), 0);
        assert_eq!(Resolution::from_option(0x86).multiplier(), 0);
    }
}
