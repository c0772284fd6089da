//! Formats numbers for people.

use std::time::Duration;

use burstline_sys::clock::{Date, Utc};
use burstline_wire::headers::LinkType;

/// Formats `12,345,678`.
pub(crate) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the name of a link type: `Ethernet`.
pub(crate) fn link_text(link: LinkType) -> String {
    match link {
        LinkType::ETHERNET => "Ethernet".to_owned(),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => "IP".to_owned(),
        LinkType(other) => format!("link type {other}"),
    }
}

/// Formats `1 packet`, `12,345 packets`.
pub(crate) fn packets_text(packets: u64) -> String {
    counted_text(packets, "packet")
}

/// Formats `1 sleep`, `12 sleeps`, `2 switches`.
pub(crate) fn counted_text(count: u64, noun: &str) -> String {
    let end = match count {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{end}", count_text(count))
}

/// Formats `1.23 GB`, powers of 1000.
pub(crate) fn bytes_text(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    scaled_text(bytes as f64, "B")
}

/// Formats `14.88 Mpps`, `9.87 Gbit/s`: three figures or more, powers of 1000.
pub(crate) fn rate_text(rate: f64, unit: &str) -> String {
    scaled_text(rate, unit)
}

/// Formats a memory size in powers of 1024: `64 MiB`.
pub(crate) fn size_text(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(factor, _)| bytes >= *factor && bytes.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{} {unit}", bytes / factor),
        None if bytes >= 10 << 20 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        None => format!("{} bytes", count_text(bytes as u64)),
    }
}

/// Formats the remaining time, `, 12 s left`, from the average speed so far. Empty in the first
/// second and when nothing is left.
pub(crate) fn left_text(done: u64, all: u64, elapsed: Duration) -> String {
    if done == 0 || done >= all || elapsed < Duration::from_secs(1) {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * (all - done) as f64 / done as f64;
    match seconds.ceil() as u64 {
        left @ 0..120 => format!(", {left} s left"),
        left @ 120..7200 => format!(", {} min left", left.div_ceil(60)),
        left => format!(", {} h left", left.div_ceil(3600)),
    }
}

/// Formats a time in ns since 1970 as `2026-11-21 21:44:01.123456789` UTC.
pub(super) fn time_text(time_ns: u64) -> String {
    let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    let Utc { date: Date { year, month, day }, hour, minute, second } = Utc::of(seconds);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction:09}")
}

fn scaled_text(value: f64, unit: &str) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.iter().find(|(factor, _)| value >= *factor) {
        Some((factor, prefix)) => format!("{:.2} {prefix}{unit}", value / factor),
        None => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(count_text(0), "0");
        assert_eq!(count_text(999), "999");
        assert_eq!(count_text(1000), "1,000");
        assert_eq!(count_text(12_345_678), "12,345,678");
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1_230_000_000), "1.23 GB");
        assert_eq!(rate_text(14_880_952.0, "pps"), "14.88 Mpps");
        assert_eq!(size_text(64 << 20), "64 MiB");
        assert_eq!(size_text(1000), "1,000 bytes");
    }

    #[test]
    fn one_packet_and_several() {
        let text = [0, 1, 2, 1000].map(packets_text);
        assert_eq!(text, ["0 packets", "1 packet", "2 packets", "1,000 packets"]);
        assert_eq!(counted_text(2, "context switch"), "2 context switches");
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        let left = |done, all, seconds| left_text(done, all, Duration::from_secs(seconds));
        assert_eq!(left(25, 100, 10), ", 30 s left");
        assert_eq!(left(1, 100, 10), ", 17 min left");
        assert_eq!(left(1, 10_000, 10), ", 28 h left");
        for (done, all, seconds) in [(0, 100, 10), (50, 100, 0), (100, 100, 5), (101, 100, 5)] {
            assert_eq!(left(done, all, seconds), "", "{done} of {all}");
        }
    }

    #[test]
    fn dates() {
        assert_eq!(time_text(0), "1970-01-01 00:00:00.000000000");
        // From `date -u -d @N`.
        assert_eq!(time_text(951_782_400_000_000_001), "2000-02-29 00:00:00.000000001");
        assert_eq!(time_text(1_709_251_199_000_000_000), "2024-02-29 23:59:59.000000000");
        assert_eq!(time_text(4_107_542_400_000_000_000), "2100-03-01 00:00:00.000000000");
    }
}
