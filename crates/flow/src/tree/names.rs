//! The names in a tree: sensors, hours, files.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use crate::sink::TreeError;

const NAME_BYTES_MAX: usize = 64;

pub(super) const HOUR_NS: u64 = 3_600_000_000_000;

/// A sensor's name, which is also a folder's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorName(String);

impl SensorName {
    /// Checks a name.
    ///
    /// # Errors
    /// It has characters that a folder, a shell or a query could misinterpret.
    pub fn new(name: &str) -> Result<Self, TreeError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_good = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && !name.starts_with('.')
            && name.chars().all(is_plain);
        if is_good {
            Ok(Self(name.to_owned()))
        } else {
            Err(TreeError::Sensor { name: name.into() })
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// ID of a start of the program: 32 unique hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootId(String);

impl Default for BootId {
    /// Creates a new ID. Cost: random bytes from the kernel, the first time in a thread.
    fn default() -> Self {
        let random = RandomState::new();
        Self(format!("{:016x}{:016x}", random.hash_one(0_u8), random.hash_one(1_u8)))
    }
}

impl BootId {
    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the folder of an hour since 1970 and a sensor.
pub(super) fn folder(root: &Path, hour: u64, sensor: &SensorName) -> PathBuf {
    let date = date(hour / 24);
    let hour = hour % 24;
    root.join(format!("date={date}/hour={hour:02}/sensor={}", sensor.as_str()))
}

/// Formats the date of a day since 1970. Source: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", civil_from_days.
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_a_folder() {
        let sensor = SensorName::new("fra-1.x").unwrap();
        let of = |seconds: u64| folder(Path::new("t"), seconds / 3600, &sensor);
        // date -u -d @SECONDS +%F/%H
        for (seconds, wanted) in [
            (0, "t/date=1970-01-01/hour=00/sensor=fra-1.x"),
            (951_782_400, "t/date=2000-02-29/hour=00/sensor=fra-1.x"),
            (1_764_079_199, "t/date=2025-11-25/hour=13/sensor=fra-1.x"),
            (4_107_542_400, "t/date=2100-03-01/hour=00/sensor=fra-1.x"),
        ] {
            assert_eq!(of(seconds), Path::new(wanted));
        }
    }

    #[test]
    fn a_hostile_name_is_refused() {
        let long = "a".repeat(65);
        for name in ["", ".", "..", "../x", "a/b", "a b", "a=b", "a'b", "a\n", "é", "*", &long] {
            assert!(SensorName::new(name).is_err(), "{name:?}");
        }
        assert_ne!(BootId::default(), BootId::default());
    }
}
