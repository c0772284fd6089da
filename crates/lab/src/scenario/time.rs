//! Formats times as text.

use burstline_sys::clock::{self, Date, Utc};

/// Returns the present time as in RFC 3339, in UTC: `2026-11-22T13:30:00Z`.
pub(super) fn now() -> String {
    text(clock::realtime_ns() / 1_000_000_000)
}

/// Formats seconds since 1970.
fn text(seconds: u64) -> String {
    let Utc { date: Date { year, month, day }, hour, minute, second } = Utc::of(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        // Expected values from date(1): date -u -d @N +%FT%TZ.
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(1_709_210_096), "2024-02-29T12:34:56Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(text(1_798_761_599), "2026-12-31T23:59:59Z");
    }
}
