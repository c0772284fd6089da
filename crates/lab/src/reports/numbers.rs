//! Formats numbers for people, without meaningless digits.

/// Formats a value with four significant digits and grouped thousands.
///
/// NaN and infinity become `n/a`. Values below a thousandth or from 10^15 have an exponent.
pub(crate) fn value(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        _ if !(1e-3..1e15).contains(&size) => format!("{value:.2e}"),
        _ if size >= 1000.0 => grouped(value),
        _ => {
            let places = (3.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            trimmed(&format!("{value:.places$}"))
        }
    }
}

/// Formats a value without trailing digits, for ticks, whose steps are round.
pub(super) fn tick(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e15).contains(&value.abs()) {
        return format!("{value:e}");
    }
    if value.abs() >= 10_000.0 { grouped(value) } else { trimmed(&format!("{value:.6}")) }
}

/// Formats a ratio.
pub(super) fn ratio(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => "n/a".to_owned(),
        _ if ratio < 0.01 => value(ratio),
        _ if ratio < 10.0 => format!("{ratio:.2}"),
        _ => value((ratio * 10.0).round() / 10.0),
    }
}

/// Formats a duration in a suitable unit.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "n/a".to_owned(),
        _ if seconds < 120.0 => format!("{} s", value((seconds * 10.0).round() / 10.0)),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn trimmed(text: &str) -> String {
    if !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_and_no_more() {
        let said = [0.0, 11.62, 8.18, 78.2, 0.001_234_56, 9.876_543, 1234.5, -1_234_567.0, 1e-9];
        let said = said.map(value);
        let wanted = ["0", "11.62", "8.18", "78.2", "0.001235", "9.877", "1,234", "-1,234,567"];
        assert_eq!(said[..8], wanted);
        assert_eq!((said[8].as_str(), value(f64::NAN).as_str()), ("1.00e-9", "n/a"));
        assert_eq!(value(999.96), "1000");
    }

    #[test]
    fn ticks_ratios_and_times() {
        assert_eq!(
            [0.0, 0.5, 20.0, 1518.0, 100_000.0].map(tick),
            ["0", "0.5", "20", "1518", "100,000"]
        );
        assert_eq!([0.86, 2.064, 12.84, 0.001].map(ratio), ["0.86", "2.06", "12.8", "0.001"]);
        assert_eq!([0.25, 90.0, 600.0].map(seconds), ["0.3 s", "90 s", "10 min"]);
    }
}
