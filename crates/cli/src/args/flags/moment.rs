//! Points in time on the command line.

use burstline_wire::grammar::{Bounds, Quantity};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// In ns since 1970-01-01 UTC.
    At(u64),
    /// In ns after the first packet.
    After(u64),
}

impl Moment {
    /// Returns the time in ns since 1970, given the time of the first packet.
    pub(crate) fn ns(self, first_ns: u64) -> u64 {
        match self {
            Self::At(ns) => ns,
            Self::After(ns) => first_ns.saturating_add(ns),
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Parses `+5s`, `1763761441.5`, `2026-11-21T21:44:01.5Z` or `2026-11-21 21:44:01+01:00`. The
/// default time zone is UTC.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    let wanted = || {
        "expected a time after the first packet (+5s), seconds since 1970 (1763761441.5), or a \
         date (2026-11-21T21:44:01Z; without a zone UTC)"
            .to_owned()
    };
    if let Some(span) = text.strip_prefix('+') {
        let span = Bounds::new(Quantity::Time, 0..=u64::MAX).read(span);
        return span.map(Moment::After).map_err(|error| format!("{error}; {}", wanted()));
    }
    let read = if text.contains(':') { date_ns(text) } else { seconds_ns(text) };
    read.map(Moment::At).ok_or_else(wanted)
}

/// Parses seconds with up to nine decimals.
fn seconds_ns(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(SECOND_NS)?.checked_add(fraction)
}

/// Parses a date as in RFC 3339, section 5.6, with a space allowed for `T` and the zone optional.
fn date_ns(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let zone = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone);
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (hour, rest) = clock.split_once(':')?;
    let (minute, second) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hour, minute) = (hour.parse::<i64>().ok()?, minute.parse::<i64>().ok()?);
    let second_ns = i64::try_from(seconds_ns(second)?).ok()?;
    let is_date = (1970..=2550).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day);
    let is_clock =
        (0..24).contains(&hour) && (0..60).contains(&minute) && second_ns < 61 * SECOND_NS as i64;
    if !is_date || !is_clock || parts.next().is_some() {
        return None;
    }
    let days = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum::<i64>()
        + (1..month).map(|month| days_of(year, month)).sum::<i64>()
        + day
        - 1;
    let minutes = (days * 24 + hour) * 60 + minute - zone_minutes(zone)?;
    u64::try_from(minutes * 60 * SECOND_NS as i64 + second_ns).ok()
}

fn zone_minutes(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at(1);
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
    let minutes =
        (hours < 24 && minutes < 60).then_some(i64::from(hours) * 60 + i64::from(minutes));
    minutes.map(|minutes| if sign == "-" { -minutes } else { minutes })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_their_three_forms() {
        let at = |text: &str| moment(text).unwrap();
        assert_eq!(at("+5s"), Moment::After(5 * SECOND_NS));
        assert_eq!(at("+0ns").ns(7), 7);
        assert_eq!(at("1763761441.5"), Moment::At(1_763_761_441_500_000_000));
        // `date -u -d 2025-11-21T21:44:01 +%s` says 1763761441.
        for text in
            ["2025-11-21T21:44:01.5Z", "2025-11-21 21:44:01.500", "2025-11-21T22:44:01.5+01:00"]
        {
            assert_eq!(at(text), Moment::At(1_763_761_441_500_000_000), "{text}");
        }
        assert_eq!(at("2000-02-29T00:00Z"), Moment::At(951_782_400 * SECOND_NS));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "+",
            "+5",
            "-5s",
            "1.",
            ".5",
            "1.0123456789",
            "2025-02-29T00:00:00Z",
            "2025-1T0:0:0",
            "2025-11-21T24:00:00",
            "2025-11-21T21:44:01+1",
            "yesterday",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }
}
