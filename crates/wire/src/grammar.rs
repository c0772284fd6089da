//! Parses numbers, sizes, times and rates: one grammar, in flags and in addresses.
//!
//! | what | form | examples |
//! |---|---|---|
//! | number | an integer, with `k`, `M`, `G` or `T` (powers of 1000) or without | `250`, `10k` |
//! | size | the same with `k`, `m` or `g` (powers of 1024), also as `MiB` | `4096`, `64k` |
//! | time | an integer with `ns`, `us`, `ms`, `s`, `m` or `h` | `500ms`, `5m` |
//! | milliseconds | an integer, or a time | `100`, `2s` |
//! | rate | a decimal with `k` to `T`, of packets or `bit`, or a `%` | `14.88M`, `9.5Gbit`, `50%` |
//!
//! Sizes take either case, and `B` or `iB` after the unit; rates also `bit/s`, `bps`, `pps`. No
//! sign, no exponent, no blank. [`Bounds`] are the values a parameter takes, and its error names
//! them. The code that shows the error names the parameter and the text.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Units of numbers.
const THOUSANDS: &[(&str, u64)] =
    &[("k", 1000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// Units of sizes.
const BINARY: &[(&str, u64)] = &[("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];

/// Units of times, in ns; a unit that ends like another one comes before it.
const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1000),
    ("ms", MILLISECOND_NS),
    ("s", 1000 * MILLISECOND_NS),
    ("m", 60_000 * MILLISECOND_NS),
    ("h", 3_600_000 * MILLISECOND_NS),
];

const MILLISECOND_NS: u64 = 1_000_000;

/// Returns line and column of a byte of `text`, from 1, as editors count them. Past the end,
/// returns those of the end.
pub fn place_of(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    (before.matches('\n').count() + 1, column)
}

/// What an integer counts, which determines its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Plain count.
    Number,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
    /// Milliseconds; the unit is optional.
    Milliseconds,
}

/// Why a text is invalid. Prints what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Wrong form.
    #[error("{}", .0.expected())]
    Form(Quantity),
    /// Too many digits.
    #[error("must be below 2^64")]
    TooLarge,
    /// Out of bounds.
    #[error("must be {0}")]
    Bounds(Bounds),
    /// Not a rate.
    #[error(
        "expected packets/s (500, 1k, 14.88M), line rate (9.5Gbit), or a percentage of it (50%)"
    )]
    Rate,
}

/// Accepted values: integers within bounds, optionally powers of two only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    quantity: Quantity,
    least: u64,
    most: u64,
    is_power_of_two: bool,
}

impl Quantity {
    /// Describes the form, with an example.
    fn expected(self) -> &'static str {
        match self {
            Self::Number => "expected an integer, optionally with k, M, G or T, e.g. 10k",
            Self::Size => {
                "expected an integer, optionally with k, m or g (powers of 1024), e.g. 64m"
            }
            Self::Time => "expected an integer with ns, us, ms, s, m or h, e.g. 500ms",
            Self::Milliseconds => "expected milliseconds, or an integer with a unit, e.g. 500ms",
        }
    }

    /// Returns its placeholder in help texts.
    pub const fn shape(self) -> &'static str {
        match self {
            Self::Number => "N",
            Self::Size => "SIZE",
            Self::Time => "TIME",
            Self::Milliseconds => "MS",
        }
    }

    /// Parses a value.
    fn read(self, text: &str) -> Result<u64, GrammarError> {
        let form = GrammarError::Form(self);
        match self {
            Self::Number => scaled(text, THOUSANDS, form),
            Self::Size => {
                let lower = text.to_ascii_lowercase();
                let short =
                    lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
                scaled(short, BINARY, form)
            }
            Self::Time => match text.ends_with(|last: char| last.is_ascii_alphabetic()) {
                true => scaled(text, TIMES, form),
                false => Err(form),
            },
            Self::Milliseconds if text.ends_with(|last: char| last.is_ascii_digit()) => {
                scaled(text, &[], form)
            }
            Self::Milliseconds => match scaled(text, TIMES, form)? {
                ns if ns.is_multiple_of(MILLISECOND_NS) => Ok(ns / MILLISECOND_NS),
                _ => Err(form),
            },
        }
    }

    /// Formats a value in the largest unit that divides it.
    fn show(self, value: u64) -> String {
        let units = match self {
            Self::Number | Self::Milliseconds => return value.to_string(),
            Self::Size => BINARY,
            Self::Time => TIMES,
        };
        let fits = |(_, factor): &&(&str, u64)| value >= *factor && value.is_multiple_of(*factor);
        match units.iter().rev().find(fits) {
            Some((unit, factor)) => format!("{}{unit}", value / factor),
            None => value.to_string(),
        }
    }
}

impl Bounds {
    /// Accepts integers in `range`: things, bytes, ns, ms, depending on `quantity`.
    pub const fn new(quantity: Quantity, range: RangeInclusive<u64>) -> Self {
        Self { quantity, least: *range.start(), most: *range.end(), is_power_of_two: false }
    }

    /// Restricts the values to powers of two.
    #[must_use]
    pub const fn powers_of_two(self) -> Self {
        Self { is_power_of_two: true, ..self }
    }

    /// Returns the quantity.
    pub const fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// Returns whether every integer is accepted.
    pub const fn is_open(&self) -> bool {
        self.least == 0 && self.most == u64::MAX && !self.is_power_of_two
    }

    /// Parses a value.
    ///
    /// # Errors
    /// See [`GrammarError`].
    ///
    /// # Panics
    /// If `T` cannot hold the bounds.
    pub fn read<T: TryFrom<u64>>(&self, text: &str) -> Result<T, GrammarError> {
        let value = self.quantity.read(text)?;
        let is_within = (self.least..=self.most).contains(&value);
        if !is_within || self.is_power_of_two && !value.is_power_of_two() {
            return Err(GrammarError::Bounds(*self));
        }
        let Ok(value) = T::try_from(value) else { panic!("{value} is more than its type holds") };
        Ok(value)
    }
}

impl fmt::Display for Bounds {
    /// Formats like `1-524287`, `a power of two, 4k-16m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_power_of_two {
            f.write_str("a power of two, ")?;
        }
        let least = self.quantity.show(self.least);
        match self.most {
            u64::MAX => write!(f, "{least} or more"),
            most => write!(f, "{least}-{}", self.quantity.show(most)),
        }
    }
}

/// A rate as it was typed: `1000`, `14.88M`, `9.5Gbit/s`, `50%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Packets per second.
    Packets(f64),
    /// Bits per second on the line, with FCS, preamble and gap.
    LineBits(f64),
    /// Percentage of the link's rate.
    Percent(f64),
}

impl Rate {
    /// Returns the rate on a link of `link_bits` bit/s; `None` for a percentage of an unknown rate.
    #[must_use]
    pub fn of_link(self, link_bits: Option<f64>) -> Option<Self> {
        match self {
            Self::Percent(percent) => link_bits.map(|bits| Self::LineBits(bits * percent / 1e2)),
            known => Some(known),
        }
    }
}

impl FromStr for Rate {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        let rate = if let Some(percent) = text.strip_suffix('%') {
            decimal(percent).map(Self::Percent)
        } else if let Some(bits) =
            ["bit/s", "bps", "bit"].iter().find_map(|unit| text.strip_suffix(unit))
        {
            scaled_decimal(bits).map(Self::LineBits)
        } else {
            scaled_decimal(text.strip_suffix("pps").unwrap_or(text)).map(Self::Packets)
        };
        rate.ok_or(GrammarError::Rate)
    }
}

/// Parses digits with at most one point; `None` for anything else.
pub fn decimal(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_number)
}

fn scaled_decimal(text: &str) -> Option<f64> {
    let (digits, factor) = split(text, THOUSANDS);
    decimal(digits).map(|number| number * factor as f64)
}

/// Parses digits with an optional unit.
fn scaled(text: &str, units: &[(&str, u64)], form: GrammarError) -> Result<u64, GrammarError> {
    let (digits, factor) = split(text, units);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(form);
    }
    let value = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    value.ok_or(GrammarError::TooLarge)
}

/// Splits off the unit. Returns the rest and the unit's factor, 1 without a unit. The units are
/// tried in order.
fn split<'a>(text: &'a str, units: &[(&str, u64)]) -> (&'a str, u64) {
    let known = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    known.unwrap_or((text, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: RangeInclusive<u64> = 0..=u64::MAX;

    fn read(quantity: Quantity, text: &str) -> Result<u64, GrammarError> {
        Bounds::new(quantity, ALL).read(text)
    }

    #[test]
    fn integers_of_each_quantity() {
        let cases = [
            (Quantity::Number, "007", 7),
            (Quantity::Number, "10k", 10_000),
            (Quantity::Number, "3M", 3_000_000),
            (Quantity::Number, "2T", 2_000_000_000_000),
            (Quantity::Number, "18446744073709551615", u64::MAX),
            (Quantity::Size, "4096", 4096),
            (Quantity::Size, "64k", 64 << 10),
            (Quantity::Size, "64K", 64 << 10),
            (Quantity::Size, "4M", 4 << 20),
            (Quantity::Size, "64MiB", 64 << 20),
            (Quantity::Size, "64mb", 64 << 20),
            (Quantity::Size, "1g", 1 << 30),
            (Quantity::Size, "512b", 512),
            (Quantity::Time, "7ns", 7),
            (Quantity::Time, "250us", 250_000),
            (Quantity::Time, "250ms", 250_000_000),
            (Quantity::Time, "10s", 10_000_000_000),
            (Quantity::Time, "5m", 300_000_000_000),
            (Quantity::Time, "1h", 3_600_000_000_000),
            (Quantity::Milliseconds, "100", 100),
            (Quantity::Milliseconds, "100ms", 100),
            (Quantity::Milliseconds, "2s", 2000),
            (Quantity::Milliseconds, "3000us", 3),
        ];
        for (quantity, text, wanted) in cases {
            assert_eq!(read(quantity, text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_what_is_expected() {
        for (quantity, wrong) in [
            (Quantity::Number, &["", "k", "-1", "+1", "1.5k", "1K", "1 k", "0x5", "٣"][..]),
            (Quantity::Size, &["", "b", "m", "1t", "1.5k", "much"]),
            (Quantity::Time, &["", "10", "s", "1d", "1 s", "1.5s", "-1s"]),
            (Quantity::Milliseconds, &["", "ms", "1us", "1d", "1k"]),
        ] {
            for text in wrong {
                assert_eq!(read(quantity, text), Err(GrammarError::Form(quantity)), "{text}");
            }
            let error = GrammarError::Form(quantity).to_string();
            let example = error.rsplit_once("e.g. ").unwrap().1;
            assert!(read(quantity, example).is_ok(), "{error}");
        }
        for text in ["99999999999999999999", "18446744073709551616", "99999999999999999G"] {
            assert_eq!(read(Quantity::Number, text), Err(GrammarError::TooLarge), "{text}");
        }
    }

    #[test]
    fn bounds_hold_and_are_named_as_typed() {
        let snapshot = Bounds::new(Quantity::Number, 1..=524_287);
        assert_eq!(snapshot.read("524287"), Ok(524_287_u32));
        for wrong in ["0", "524288", "1M"] {
            let error = snapshot.read::<u32>(wrong).unwrap_err();
            assert_eq!(error.to_string(), "must be 1-524287", "{wrong}");
        }
        let segment = Bounds::new(Quantity::Size, 4096..=16 << 20).powers_of_two();
        assert_eq!(segment.read("1m"), Ok(1_usize << 20));
        for wrong in ["3k", "12k", "32m"] {
            let error = segment.read::<usize>(wrong).unwrap_err();
            assert_eq!(error.to_string(), "must be a power of two, 4k-16m", "{wrong}");
        }
        let span = Bounds::new(Quantity::Time, 1..=u64::MAX);
        assert_eq!(span.read::<u64>("0s").unwrap_err().to_string(), "must be 1ns or more");
        assert!(Bounds::new(Quantity::Number, ALL).is_open() && !span.is_open());
    }

    #[test]
    fn rates() {
        for (text, wanted) in [
            ("500", Rate::Packets(500.0)),
            ("0.5", Rate::Packets(0.5)),
            ("1k", Rate::Packets(1e3)),
            ("14.88M", Rate::Packets(14.88e6)),
            ("14.88Mpps", Rate::Packets(14.88e6)),
            ("9.5Gbit/s", Rate::LineBits(9.5e9)),
            ("10000Mbps", Rate::LineBits(1e10)),
            ("2Tbit", Rate::LineBits(2e12)),
            ("50%", Rate::Percent(50.0)),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for wrong in ["", "x", "-1", "+1", "1e9", "nan", "inf", "1.2.3", ".", "%", "bit", "k"] {
            assert_eq!(wrong.parse::<Rate>(), Err(GrammarError::Rate), "{wrong}");
        }
        assert_eq!(Rate::Percent(50.0).of_link(Some(1e10)), Some(Rate::LineBits(5e9)));
        assert_eq!(Rate::Percent(50.0).of_link(None), None);
    }
}
