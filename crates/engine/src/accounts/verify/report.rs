//! The findings of a verifier, as plain data.

use burstline_wire::mark::Stream;
use hdrhistogram::Histogram;

use super::Verifier;

/// Time of packets from when they were due until they arrived, in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Packets that were timed.
    pub packets: u64,
    /// The least.
    pub least_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The most.
    pub most_ns: u64,
    /// Percentages of the packets, with the time that this share did not exceed, to three digits.
    pub percentiles: Vec<(f64, u64)>,
    /// A histogram: the upper end of each step in ns, to three digits, and its packets. A packet is
    /// only in the first step that it fits. Empty steps are left out; the last has no end.
    pub steps: Vec<(Option<u64>, u64)>,
    /// A finer histogram, for curves: the upper end of each bucket in ns, and its packets. A packet
    /// is only in the first bucket that it fits. Empty buckets are left out; at most 2,000 remain.
    pub buckets: Vec<(u64, u64)>,
}

/// Upper ends of the steps, in ns.
const STEPS_NS: [u64; 13] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// Each doubling of time has 2 to the power of this many buckets: none is wider than a 32nd of its
/// times. Buckets are unions of the histogram's own cells, so their counts are exact.
const BUCKET_BITS: u32 = 5;

/// One flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowVerdict {
    /// The flow's identity.
    pub stream: Stream,
    /// Packets that arrived intact, each counted once.
    pub unique: u64,
    /// Packets that did not arrive intact, of those up to the last that arrived.
    pub missing: u64,
    /// Of these, packets before the first that arrived.
    pub missing_at_start: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// Packets too late to be distinguished from duplicates.
    pub too_late: u64,
    /// Corrupted packets that seem to belong to this flow.
    pub corrupted: u64,
    /// Latency; only for the first flows.
    pub latency: Option<Latency>,
}

/// The verdict on all flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Packets verified.
    pub packets: u64,
    /// Packets that arrived intact, each counted once.
    pub unique: u64,
    /// Packets that did not arrive: of those up to the last one of their flow, or of all that were
    /// sent if that is known.
    pub lost: u64,
    /// Of these, packets before the first one of their flow.
    pub lost_at_start: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived after a later one of their flow.
    pub reordered: u64,
    /// Packets too late to be distinguished from duplicates.
    pub too_late: u64,
    /// Packets that differ from how they were sent.
    pub corrupted: u64,
    /// Packets without a mark: not generated, or without room for one.
    pub unmarked: u64,
    /// Truncated packets: the mark at their end is missing.
    pub cut: u64,
    /// Packets of flows that the table had no room for; they are not verified.
    pub beyond: u64,
    /// Packets that arrived before they were due, by the clocks of sender and receiver.
    pub clock_behind: u64,
    /// Latency of all packets.
    pub latency: Latency,
    /// The flows, in order of arrival.
    pub flows: Vec<FlowVerdict>,
}

impl Verdict {
    /// Returns whether at least one packet arrived, and all arrived once, in order and unchanged.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let defects = [self.lost, self.duplicates, self.reordered, self.too_late, self.corrupted];
        defects.iter().all(|count| *count == 0) && self.unique > 0 && self.cut + self.beyond == 0
    }
}

impl Verifier {
    /// Returns the verdict. `sent`: how many packets with a mark were sent, if known.
    #[must_use]
    pub fn verdict(&self, sent: Option<u64>) -> Verdict {
        let flows: Vec<FlowVerdict> = self
            .flows
            .iter()
            .map(|flow| FlowVerdict {
                stream: flow.stream,
                unique: flow.unique,
                missing: flow.missing(),
                missing_at_start: flow.first,
                duplicates: flow.duplicates,
                reordered: flow.reordered,
                too_late: flow.too_late,
                corrupted: flow.corrupted,
                latency: flow.latency.as_ref().map(Latency::of),
            })
            .collect();
        let sum = |of: fn(&FlowVerdict) -> u64| flows.iter().map(of).sum::<u64>();
        let unique = sum(|flow| flow.unique);
        let missing = match sent {
            Some(sent) => sent.saturating_sub(unique + self.beyond),
            None => sum(|flow| flow.missing),
        };
        Verdict {
            packets: self.packets,
            unique,
            lost: missing.saturating_sub(self.corrupted),
            lost_at_start: sum(|flow| flow.missing_at_start),
            duplicates: sum(|flow| flow.duplicates),
            reordered: sum(|flow| flow.reordered),
            too_late: sum(|flow| flow.too_late),
            corrupted: self.corrupted,
            unmarked: self.unmarked,
            cut: self.cut,
            beyond: self.beyond,
            clock_behind: self.clock_behind,
            latency: Latency::of(&self.latency),
            flows,
        }
    }
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let percents = [50.0, 90.0, 99.0, 99.9, 99.99];
        let at = |percent: f64| (percent, histogram.value_at_quantile(percent / 100.0));
        Self {
            packets: histogram.len(),
            least_ns: histogram.min(),
            mean_ns: histogram.mean(),
            most_ns: histogram.max(),
            percentiles: percents.into_iter().map(at).collect(),
            steps: steps(histogram),
            buckets: buckets(histogram),
        }
    }

    /// Returns the time that `percent` of the packets did not exceed; 0 if unknown.
    #[must_use]
    pub fn at(&self, percent: f64) -> u64 {
        let found = self.percentiles.iter().find(|(known, _)| *known == percent);
        found.map_or(0, |&(_, time_ns)| time_ns)
    }
}

/// Returns how many values each step has.
fn steps(histogram: &Histogram<u64>) -> Vec<(Option<u64>, u64)> {
    let ends = STEPS_NS.map(Some).into_iter().chain([None]);
    let mut steps: Vec<(Option<u64>, u64)> = ends.map(|end_ns| (end_ns, 0)).collect();
    for value in histogram.iter_recorded() {
        // The least of the values in the same cell.
        let value_ns = histogram.lowest_equivalent(value.value_iterated_to());
        let is_in =
            |(end_ns, _): &&mut (Option<u64>, u64)| end_ns.is_none_or(|end_ns| value_ns <= end_ns);
        if let Some((_, packets)) = steps.iter_mut().find(is_in) {
            *packets += value.count_at_value();
        }
    }
    steps.retain(|(_, packets)| *packets > 0);
    steps
}

/// Returns how many values each bucket has.
fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        let end_ns = bucket_end_ns(value.value_iterated_to());
        match buckets.last_mut() {
            Some((last_ns, packets)) if *last_ns == end_ns => *packets += value.count_at_value(),
            _ => buckets.push((end_ns, value.count_at_value())),
        }
    }
    buckets
}

/// Returns the largest time in the bucket of `time_ns`.
fn bucket_end_ns(time_ns: u64) -> u64 {
    let told_apart_bits = time_ns.max(1).ilog2().saturating_sub(BUCKET_BITS);
    time_ns | ((1 << told_apart_bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_agree_with_percentiles() {
        let mut histogram = crate::verify::histogram();
        let mut times_ns: Vec<u64> = (0..20_000_u64).map(|n| 9_000 + n * n / 7).collect();
        times_ns.extend([0, 1, 31, 32, 63, 64, u64::from(u32::MAX), 3_600_000_000_000]);
        times_ns.iter().for_each(|&time_ns| crate::verify::record(&mut histogram, time_ns));
        let latency = Latency::of(&histogram);
        let up_to = |end_ns| times_ns.iter().filter(|time_ns| **time_ns <= end_ns).count() as u64;
        let mut sum = 0;
        for (end_ns, packets) in &latency.buckets {
            sum += packets;
            assert_eq!(sum, up_to(*end_ns), "up to {end_ns} ns");
            assert!(*packets > 0, "up to {end_ns} ns");
        }
        assert_eq!(sum, latency.packets);
        for (percent, time_ns) in latency.percentiles {
            let wanted = (percent / 100.0 * sum as f64).ceil() as u64;
            let mut so_far = 0;
            let is_there = |(_, packets): &&(u64, u64)| {
                so_far += packets;
                so_far >= wanted
            };
            let (end_ns, _) = latency.buckets.iter().find(is_there).unwrap();
            assert_eq!(*end_ns, bucket_end_ns(time_ns), "p{percent}");
        }
    }

    #[test]
    fn a_doubling_has_32_buckets() {
        for first_ns in [32, 1 << 20, 1 << 40] {
            let mut ends: Vec<u64> =
                (0..4096).map(|part| bucket_end_ns(first_ns + first_ns * part / 4096)).collect();
            ends.dedup();
            assert_eq!((ends.len(), ends[31]), (32, 2 * first_ns - 1), "from {first_ns} ns");
        }
        assert_eq!((bucket_end_ns(0), bucket_end_ns(u64::MAX)), (0, u64::MAX));
    }

    #[test]
    fn each_value_is_in_one_step() {
        let mut histogram = crate::verify::histogram();
        let values = [0, 999, 1_000, 1_001, 100_000, 100_001, 2_000_000_000, 60_000_000_000];
        values.iter().for_each(|&value| crate::verify::record(&mut histogram, value));
        let found = steps(&histogram);
        assert_eq!(found.iter().map(|(_, packets)| packets).sum::<u64>(), values.len() as u64);
        assert_eq!(found[0], (Some(1_000), 3));
        assert_eq!(found.last(), Some(&(None, 2)));
    }
}
