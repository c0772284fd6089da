//! Distributions of values, as counts in buckets.
//!
//! ```text
//!   counts    3      60        30     8
//!          ------|-------|---------|-----|
//!   ends       1.40    1.503     2.047  9.215     a value is in the first bucket whose end is
//!                                                 not below it
//! ```
//!
//! Buckets have their original widths, and empty ones are left out. The width of the buckets limits
//! the precision of all results.

use std::collections::BTreeMap;

use burstline_engine::Latency;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Formats latencies as in reports: in ns.
pub fn latency_json(latency: &Latency) -> Value {
    let percentiles = latency.percentiles.iter();
    let percentiles =
        percentiles.map(|(percent, time_ns)| (format!("p{percent}"), (*time_ns).into()));
    json!({
        "packets": latency.packets,
        "min": latency.least_ns,
        "mean": latency.mean_ns,
        "max": latency.most_ns,
        "percentiles": percentiles.collect::<Map<_, _>>(),
    })
}

/// Counts in buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Unit of the values.
    pub unit: String,
    /// End of each bucket, in increasing order.
    pub ends: Vec<f64>,
    /// Number of values in each bucket.
    pub counts: Vec<u64>,
}

impl Distribution {
    /// Creates one from buckets in any order; their ends must be finite and not negative.
    pub fn new(unit: &str, buckets: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut distribution = Self { unit: unit.to_owned(), ..Self::default() };
        distribution.insert(buckets);
        distribution
    }

    /// Adds the values of another distribution with the same bucket boundaries.
    pub fn add(&mut self, other: &Self) {
        self.unit.clone_from(&other.unit);
        self.insert(other.buckets());
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns each bucket's end, and the share in `(0, 1]` of values up to it.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut so_far = 0_u64;
        let share = |(end, count): (f64, u64)| {
            so_far = so_far.saturating_add(count);
            (end, so_far as f64 / all)
        };
        self.buckets().filter(|(_, count)| *count > 0).map(share).collect()
    }

    /// Returns the quantile for `share` in `[0, 1]`: the end of the bucket that contains it. `None`
    /// if there are no values.
    pub fn at(&self, share: f64) -> Option<f64> {
        let wanted = (share * self.count() as f64).ceil() / self.count() as f64;
        self.shares().into_iter().find(|(_, so_far)| *so_far >= wanted).map(|(end, _)| end)
    }

    fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.ends.iter().copied().zip(self.counts.iter().copied())
    }

    fn insert(&mut self, buckets: impl IntoIterator<Item = (f64, u64)>) {
        // The bit patterns of non-negative floats sort like the numbers.
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        let known: Vec<_> = self.buckets().collect();
        for (end, count) in known.into_iter().chain(buckets) {
            *all.entry(end.max(0.0).to_bits()).or_default() += count;
        }
        self.ends = all.keys().map(|bits| f64::from_bits(*bits)).collect();
        self.counts = all.into_values().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_to_one_and_name_the_bucket() {
        let of_four = Distribution::new("us", [(8.0, 1), (1.0, 2), (2.0, 1)]);
        assert_eq!(
            (&of_four.ends[..], &of_four.counts[..]),
            (&[1.0, 2.0, 8.0][..], &[2, 1, 1][..])
        );
        assert_eq!(of_four.shares(), [(1.0, 0.5), (2.0, 0.75), (8.0, 1.0)]);
        let at = [0.0, 0.5, 0.51, 0.75, 0.99, 1.0].map(|share| of_four.at(share).unwrap());
        assert_eq!(at, [1.0, 1.0, 2.0, 2.0, 8.0, 8.0]);
    }

    #[test]
    fn two_together_are_as_one_of_all_values() {
        let mut sum = Distribution::default();
        sum.add(&Distribution::new("us", [(1.0, 1), (3.0, 2)]));
        sum.add(&Distribution::new("us", [(2.0, 5), (3.0, 1)]));
        assert_eq!(sum, Distribution::new("us", [(1.0, 1), (2.0, 5), (3.0, 3)]));
        assert_eq!(sum.count(), 9);
    }

    #[test]
    fn nothing_has_no_percentiles() {
        let nothing = Distribution::new("us", []);
        assert_eq!((nothing.count(), nothing.shares(), nothing.at(0.5)), (0, Vec::new(), None));
        let empty = Distribution { ends: vec![1.0], counts: vec![0], ..nothing };
        assert_eq!((empty.shares(), empty.at(0.5)), (Vec::new(), None));
    }
}
