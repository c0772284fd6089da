//! Surveys the contents of a file: sizes, flows, gaps, rates, losses.

use std::collections::{BTreeMap, HashSet};

use burstline_port::CaptureReader;
use burstline_wire::flow::FlowKey;
use burstline_wire::headers;

use super::scan::{Scanned, Seen, Watch, scan};
use crate::EngineError;

/// The most flows counted exactly; for a file with more, the count is a lower bound.
const FLOWS_MAX: usize = 1 << 20;

/// The most intervals of a rate; if a file exceeds it, the intervals double in length.
const INTERVALS_MAX: usize = 512;

/// The shortest interval, in ns.
const INTERVAL_NS: u64 = 1 << 10;

/// Packets that are older than one before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Packets that are older than their predecessor.
    pub packets: u64,
    /// The largest distance behind the newest time before, in ns.
    pub most_ns: u64,
    /// Number of the first such packet, from 1; 0 without one.
    pub first: u64,
}

/// Packets over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Length of an interval, in ns.
    pub interval_ns: u64,
    /// Packets by interval; the key is the time since 1970 in units of `interval_ns`.
    intervals: BTreeMap<u64, u64>,
}

impl Default for Rate {
    fn default() -> Self {
        Self { interval_ns: INTERVAL_NS, intervals: BTreeMap::new() }
    }
}

impl Rate {
    fn add(&mut self, time_ns: u64) {
        *self.intervals.entry(time_ns / self.interval_ns).or_default() += 1;
        while self.intervals.len() > INTERVALS_MAX {
            self.interval_ns *= 2;
            let halves = std::mem::take(&mut self.intervals);
            for (interval, packets) in halves {
                *self.intervals.entry(interval / 2).or_default() += packets;
            }
        }
    }

    /// Returns the packets in each of `columns` equal parts of the time from the first to the last
    /// packet; empty without packets.
    pub fn columns(&self, columns: usize) -> Vec<u64> {
        let ends = self.intervals.first_key_value().zip(self.intervals.last_key_value());
        let Some(((&first, _), (&last, _))) = ends else { return Vec::new() };
        let span = u128::from(last - first) + 1;
        let columns = columns.min(usize::try_from(span).unwrap_or(columns)).max(1);
        let mut sums = vec![0; columns];
        for (&interval, packets) in &self.intervals {
            let column = u128::from(interval - first) * columns as u128 / span;
            sums[column as usize] += packets;
        }
        sums
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Its faults and counts.
    pub scanned: Scanned,
    /// Captured bytes of its packets.
    pub captured_bytes: u64,
    /// Wire bytes of its packets.
    pub wire_bytes: u64,
    /// Shortest packet on the wire, in bytes.
    pub shortest: u32,
    /// Longest packet on the wire, in bytes.
    pub longest: u32,
    /// Truncated packets.
    pub truncated: u64,
    /// Earliest and latest time, in ns since 1970; `None` if no packet has a time.
    pub times_ns: Option<(u64, u64)>,
    /// Conversations (both directions), by addresses, ports and protocol.
    pub flows: u64,
    /// Whether there are more flows than were counted.
    pub has_more_flows: bool,
    /// Packets that are not IP.
    pub not_ip: u64,
    /// The longest time without a packet, in ns, and the number of the packet after it.
    pub longest_gap: Option<(u64, u64)>,
    /// Packets out of time order.
    pub disorder: Disorder,
    /// Packets lost according to marks on the next packet: `epb_dropcount`.
    pub marked_lost: u64,
    /// Packets over time.
    pub rate: Rate,
    keys: HashSet<FlowKey>,
    newest_ns: u64,
    number: u64,
}

impl Survey {
    /// Returns the time from the earliest packet to the latest, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.times_ns.map_or(0, |(earliest, latest)| latest - earliest)
    }

    fn see(&mut self, seen: &Seen<'_>) {
        let record = seen.record;
        self.number += 1 + seen.missing_before;
        self.captured_bytes += u64::from(record.captured_length);
        self.wire_bytes += u64::from(record.original_length);
        self.truncated += u64::from(record.captured_length < record.original_length);
        let is_first = self.longest == 0 && self.shortest == 0;
        self.shortest = match is_first {
            true => record.original_length,
            false => self.shortest.min(record.original_length),
        };
        self.longest = self.longest.max(record.original_length);
        let drops_before = seen.options.drops_before.unwrap_or(0);
        self.marked_lost = self.marked_lost.saturating_add(drops_before);
        if record.timed {
            self.see_time(record.time_ns);
        }
        match FlowKey::new(&headers::parse(record.link, seen.bytes), seen.bytes) {
            Some(key) if self.keys.len() < FLOWS_MAX => _ = self.keys.insert(key.symmetric()),
            Some(key) => self.has_more_flows |= !self.keys.contains(&key.symmetric()),
            None => self.not_ip += 1,
        }
    }

    fn see_time(&mut self, time_ns: u64) {
        self.rate.add(time_ns);
        let (earliest, latest) = self.times_ns.unwrap_or((time_ns, time_ns));
        let is_first = self.times_ns.is_none();
        self.times_ns = Some((earliest.min(time_ns), latest.max(time_ns)));
        if is_first {
            self.newest_ns = time_ns;
            return;
        }
        let gap_ns = time_ns.saturating_sub(latest);
        if gap_ns > self.longest_gap.map_or(0, |(longest, _)| longest) {
            self.longest_gap = Some((gap_ns, self.number));
        }
        if time_ns < self.newest_ns {
            let disorder = &mut self.disorder;
            disorder.packets += 1;
            disorder.most_ns = disorder.most_ns.max(latest - time_ns);
            disorder.first = if disorder.first == 0 { self.number } else { disorder.first };
        }
        self.newest_ns = time_ns;
    }
}

/// Surveys a whole file.
///
/// # Errors
/// As [`check`](super::check).
pub fn survey(reader: CaptureReader, watch: &mut Watch<'_>) -> Result<Survey, EngineError> {
    let mut survey = Survey::default();
    let scanned = scan(reader, watch, |seen| {
        survey.see(seen);
        Ok(())
    })?;
    survey.flows = std::mem::take(&mut survey.keys).len() as u64;
    Ok(Survey { scanned, ..survey })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_and_no_packet_is_lost() {
        let mut rate = Rate::default();
        for number in 0..100_000_u64 {
            rate.add(1_700_000_000_000_000_000 + number * 1_000_000);
        }
        assert!(rate.intervals.len() <= INTERVALS_MAX);
        let columns = rate.columns(50);
        assert_eq!((columns.len(), columns.iter().sum::<u64>()), (50, 100_000));
        let most = columns[1..49].iter().max().unwrap() - columns[1..49].iter().min().unwrap();
        assert!(most < 400, "{columns:?}");
    }

    #[test]
    fn one_packet_is_one_column() {
        let mut rate = Rate::default();
        assert!(rate.columns(50).is_empty());
        rate.add(7);
        assert_eq!(rate.columns(50), [1]);
    }
}
