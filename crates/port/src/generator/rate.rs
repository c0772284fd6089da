//! How fast: what was asked for, in packets a second.

use burstline_wire::grammar::Rate;

use crate::{Address, AddressError};

/// Bytes that a frame takes on the line beyond itself: preamble 8, gap 12.
/// Source: IEEE 802.3, 3.1.1 and 4.4.2.
pub(crate) const LINE_BYTES: f64 = 20.0;

/// Thousandths of packets a second of the times of packets, where no rate says otherwise.
const DEFAULT_RATE_MILLI: u64 = 1_000_000_000;

/// The most thousandths of packets a second: a packet each nanosecond.
const RATE_MILLI_MOST: f64 = 1e12;

/// The most packets at once.
const BURST_MOST: u64 = 1 << 20;

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Thousandths of packets a second of their times, in `[1, 10^12]`.
    pub(crate) rate_milli: u64,
    /// Packets that are due at once, at least 1.
    pub(crate) burst: u64,
    /// Whether a rate was asked for.
    pub(crate) is_rated: bool,
    /// Whether they come at their times, or as fast as they are taken.
    pub(crate) is_paced: bool,
}

impl Pace {
    /// So many packets a second, in `burst`s of at least 1.
    pub(crate) fn of(packets_per_s: f64, burst: u64) -> Self {
        let rate_milli = (packets_per_s * 1e3).clamp(1.0, RATE_MILLI_MOST).round() as u64;
        Self { rate_milli, burst, is_rated: true, is_paced: true }
    }

    /// Reads the keys `rate`, `link`, `burst` and `pace`, for frames of `mean_bytes` on average,
    /// FCS included.
    pub(super) fn parse(address: &Address, mean_bytes: f64) -> Result<Self, AddressError> {
        let typed = match address.parameter("rate") {
            None | Some("max") => None,
            Some(value) => {
                let reason = "a rate is packets/s (500, 1k, 14.88M), line rate (9.5Gbit), a part \
                              of --link (50%), or max";
                Some(value.parse().map_err(|_| address.bad_value("rate", value, reason))?)
            }
        };
        let link = parse_link(address)?;
        let line_bits = (mean_bytes + LINE_BYTES) * 8.0;
        let packets_per_s = match (typed, link) {
            (None, _) => None,
            (Some(Rate::Packets(rate)), _) => Some(rate),
            (Some(Rate::LineBits(bits)), _) => Some(bits / line_bits),
            (Some(Rate::Percent(percent)), Some(link)) => Some(link * percent / 1e2 / line_bits),
            (Some(Rate::Percent(_)), None) => {
                let reason = "a part of what? say link=10Gbit, for example";
                return Err(wrong_rate(address, reason));
            }
        };
        if let Some(rate) = packets_per_s {
            check(address, rate, line_bits, link)?;
        }
        let rate_milli = packets_per_s.map(|rate| (rate * 1e3).round() as u64);
        let burst = parse_burst(address, rate_milli.is_some())?;
        let pace = [("yes", true), ("no", false)];
        Ok(Self {
            rate_milli: rate_milli.unwrap_or(DEFAULT_RATE_MILLI),
            burst,
            is_rated: rate_milli.is_some(),
            is_paced: address.choice("pace", &pace, rate_milli.is_some())?,
        })
    }
}

fn wrong_rate(address: &Address, reason: impl Into<String>) -> AddressError {
    address.bad_value("rate", address.parameter("rate").unwrap_or(""), reason)
}

/// Fails on a rate that no clock or no such link can keep.
fn check(
    address: &Address,
    rate: f64,
    line_bits: f64,
    link: Option<f64>,
) -> Result<(), AddressError> {
    let gigabits = rate * line_bits / 1e9;
    if !(1.0..=RATE_MILLI_MOST).contains(&(rate * 1e3).round()) {
        let reason = format!(
            "that is {rate:.6} packets/s of {:.0} bytes; a rate is from 0.001 to 1G packets/s",
            line_bits / 8.0 - LINE_BYTES
        );
        return Err(wrong_rate(address, reason));
    }
    // A part in a thousand: rates are typed with few digits.
    match link.filter(|link| rate * line_bits > link * 1.001) {
        None => Ok(()),
        Some(link) => {
            let reason = format!(
                "that is {gigabits:.3} Gbit/s of line rate, with frames of {:.0} bytes; the link \
                 has {:.3}",
                line_bits / 8.0 - LINE_BYTES,
                link / 1e9
            );
            Err(wrong_rate(address, reason))
        }
    }
}

fn parse_burst(address: &Address, has_rate: bool) -> Result<u64, AddressError> {
    let burst = address.parsed("burst", 1_u64)?;
    let wrong = |reason: String| Err(address.bad_value("burst", &burst.to_string(), reason));
    match address.parameter("burst") {
        Some(_) if !(1..=BURST_MOST).contains(&burst) => {
            wrong(format!("a burst is 1 to {BURST_MOST} packets"))
        }
        Some(_) if !has_rate => wrong("bursts need a rate: rate=100k, for example".to_owned()),
        _ => Ok(burst),
    }
}

fn parse_link(address: &Address) -> Result<Option<f64>, AddressError> {
    let Some(value) = address.parameter("link") else { return Ok(None) };
    match value.parse() {
        Ok(Rate::LineBits(bits)) if bits >= 1.0 => Ok(Some(bits)),
        _ => Err(address.bad_value("link", value, "a link's rate is as 10Gbit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(query: &str) -> Result<Pace, AddressError> {
        Pace::parse(&format!("gen:?{query}").parse().unwrap(), 64.0)
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
            ("rate=50%", "part of what"),
            ("rate=120%&link=10Gbit", "12.000 Gbit/s"),
            ("rate=20M&link=10Gbit", "13.440 Gbit/s"),
            ("link=10", "as 10Gbit"),
            ("burst=8", "need a rate"),
            ("burst=0&rate=1k", "1 to"),
            ("pace=1", "one of yes, no"),
        ] {
            let error = pace(query).unwrap_err().to_string();
            assert!(error.contains(word), "{query}: {error}");
        }
    }
}
