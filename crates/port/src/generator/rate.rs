//! The rate and burst size of packets.

use burstline_wire::ethernet::GAP_BYTES;
use burstline_wire::grammar::{GrammarError, Rate};

use crate::{AddressError, Values};

/// Default rate of packet timestamps, in packets per 1000 seconds.
const DEFAULT_RATE_MILLI: u64 = 1_000_000_000;

/// The maximum rate, in packets per 1000 seconds: one packet per nanosecond.
const RATE_MILLI_MOST: f64 = 1e12;

/// The maximum number of packets in a burst.
pub(super) const BURST_MOST: u64 = 1 << 20;

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The rate of their due times, in packets per 1000 seconds, in `[1, 10^12]`.
    pub(crate) rate_milli: u64,
    /// Packets due at the same time, at least 1.
    pub(crate) burst: u64,
    /// Whether a rate was requested.
    pub(crate) is_rated: bool,
    /// Whether packets are delivered at their due times, or as fast as possible.
    pub(crate) is_paced: bool,
}

impl Pace {
    /// Creates a pace of this many packets a second, in bursts of at least 1.
    pub(crate) fn of(packets_per_s: f64, burst: u64) -> Self {
        let rate_milli = (packets_per_s * 1e3).clamp(1.0, RATE_MILLI_MOST).round() as u64;
        Self { rate_milli, burst, is_rated: true, is_paced: true }
    }

    /// Parses the keys `rate`, `link`, `burst` and `pace`, for frames of `mean_bytes` on average,
    /// including FCS.
    pub(super) fn parse(values: &Values<'_>, mean_bytes: f64) -> Result<Self, AddressError> {
        let typed = match values.text("rate") {
            None | Some("max") => None,
            Some(text) => {
                let wrong = |error| wrong_rate(values, format!("{error}, or max"));
                Some(text.parse().map_err(|error: GrammarError| wrong(error))?)
            }
        };
        let link = parse_link(values)?;
        let line_bits = (mean_bytes + f64::from(GAP_BYTES)) * 8.0;
        let packets_per_s = match (typed, link) {
            (None, _) => None,
            (Some(Rate::Packets(rate)), _) => Some(rate),
            (Some(Rate::LineBits(bits)), _) => Some(bits / line_bits),
            (Some(Rate::Percent(percent)), Some(link)) => Some(link * percent / 1e2 / line_bits),
            (Some(Rate::Percent(_)), None) => {
                let reason = "a percentage needs the link's rate, e.g. link=10Gbit";
                return Err(wrong_rate(values, reason));
            }
        };
        if let Some(rate) = packets_per_s {
            check(values, rate, line_bits, link)?;
        }
        let rate_milli = packets_per_s.map(|rate| (rate * 1e3).round() as u64);
        let is_rated = rate_milli.is_some();
        let burst = values.integer("burst")?;
        if values.is_typed("burst") && !is_rated {
            return Err(values.wrong("burst", "bursts need a rate, e.g. rate=100k"));
        }
        Ok(Self {
            rate_milli: rate_milli.unwrap_or(DEFAULT_RATE_MILLI),
            burst,
            is_rated,
            is_paced: values.typed_switch("pace")?.unwrap_or(is_rated),
        })
    }
}

fn wrong_rate(values: &Values<'_>, reason: impl Into<String>) -> AddressError {
    values.wrong("rate", reason)
}

/// Rejects a rate that the clock or the link cannot reach.
fn check(
    values: &Values<'_>,
    rate: f64,
    line_bits: f64,
    link: Option<f64>,
) -> Result<(), AddressError> {
    let gigabits = rate * line_bits / 1e9;
    if !(1.0..=RATE_MILLI_MOST).contains(&(rate * 1e3).round()) {
        let reason = format!(
            "that is {rate:.6} packets/s of {:.0} bytes; must be from 0.001 to 1G packets/s",
            line_bits / 8.0 - f64::from(GAP_BYTES)
        );
        return Err(wrong_rate(values, reason));
    }
    // Tolerate one thousandth: rates are typed with few digits.
    match link.filter(|link| rate * line_bits > link * 1.001) {
        None => Ok(()),
        Some(link) => {
            let reason = format!(
                "that is {gigabits:.3} Gbit/s of line rate, with frames of {:.0} bytes; the link \
                 has {:.3}",
                line_bits / 8.0 - f64::from(GAP_BYTES),
                link / 1e9
            );
            Err(wrong_rate(values, reason))
        }
    }
}

fn parse_link(values: &Values<'_>) -> Result<Option<f64>, AddressError> {
    let Some(text) = values.text("link") else { return Ok(None) };
    match text.parse() {
        Ok(Rate::LineBits(bits)) if bits >= 1.0 => Ok(Some(bits)),
        _ => Err(values.wrong("link", "expected a link's rate, e.g. 10Gbit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, GENERATOR_KEYS};

    fn pace(query: &str) -> Result<Pace, AddressError> {
        let address: Address = format!("gen:?{query}").parse().unwrap();
        Pace::parse(&address.values(GENERATOR_KEYS)?, 64.0)
    }

    #[test]
    fn packets_bits_and_parts_of_a_link() {
        let milli = |query| pace(query).unwrap().rate_milli;
        assert_eq!(milli("rate=14.88M"), 14_880_000_000);
        assert_eq!(milli("rate=0.5"), 500);
        for same in ["rate=10Gbit", "rate=10Gbit/s", "rate=100%&link=10Gbit", "rate=10000Mbps"] {
            assert_eq!(milli(same), 14_880_952_381, "{same}");
        }
        assert_eq!(milli("rate=1%&link=10Gbit"), 148_809_524);
    }

    #[test]
    fn what_is_paced() {
        assert!(pace("rate=1k").unwrap().is_paced && !pace("rate=1k&pace=no").unwrap().is_paced);
        assert!(!pace("").unwrap().is_paced && !pace("rate=max").unwrap().is_paced);
        assert!(pace("pace=yes").unwrap().is_paced);
        assert_eq!(pace("rate=1k&burst=32").unwrap().burst, 32);
    }

    #[test]
    fn contradictions_and_absurdities_are_errors_with_the_numbers() {
        for (query, word) in [
            ("rate=0", "0.001 to 1G"),
            ("rate=2G", "0.001 to 1G"),
            ("rate=2Tbit", "of 64 bytes"),
            ("rate=-1", "packets/s"),
            ("rate=nan", "packets/s"),
            ("rate=inf", "packets/s"),
            ("rate=1e9", "packets/s"),
            ("rate=x", "packets/s"),
            ("rate=", "packets/s"),
            ("rate=50%", "a percentage needs the link's rate"),
            ("rate=120%&link=10Gbit", "12.000 Gbit/s"),
            ("rate=20M&link=10Gbit", "13.440 Gbit/s"),
            ("link=10", "e.g. 10Gbit"),
            ("burst=8", "need a rate"),
            ("burst=0&rate=1k", "must be 1-1048576"),
            ("pace=1", "one of yes, no"),
        ] {
            let error = pace(query).unwrap_err().to_string();
            assert!(error.contains(word), "{query}: {error}");
        }
    }
}
