//! Counts packets in one pass over a worklist, without touching their bytes.

use burstline_log::{Burst, PlainSum, WriterStatistics};

pub(crate) use burstline_port::Tally;

/// Returns the counts of a log. Truncation is unknown, so the wire bytes equal the captured bytes.
pub(crate) fn tally_of_log(log: &WriterStatistics) -> Tally {
    Tally { packets: log.packets, bytes: log.bytes, wire_bytes: log.bytes }
}

/// The earliest and the latest time seen, in ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

impl Default for Span {
    /// An empty span.
    fn default() -> Self {
        Self { first_ns: u64::MAX, last_ns: 0 }
    }
}

impl Span {
    pub(crate) fn see(&mut self, time_ns: u64) {
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// Returns both ends, if anything was seen.
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        (self.first_ns <= self.last_ns).then_some((self.first_ns, self.last_ns))
    }
}

/// Counts the packets of a burst. Cost: some ten instructions a packet, half of that if all have
/// the same time.
pub(crate) fn tally(burst: &Burst<'_>, span: &mut Span) -> Tally {
    let packets = burst.len() as u64;
    if let Some(PlainSum { bytes, first_ns, last_ns, .. }) = burst.plain_sum() {
        span.see(first_ns);
        span.see(last_ns);
        return Tally::whole(packets, bytes);
    }
    let mut sum = Tally { packets, ..Tally::default() };
    let mut rest = *burst;
    while !rest.is_empty() {
        let mut plain = 0;
        for packet in rest.plain_packets() {
            let bytes = u64::from(packet.desc.length());
            (sum.bytes, sum.wire_bytes) = (sum.bytes + bytes, sum.wire_bytes + bytes);
            span.see(packet.time_ns);
            plain += 1;
        }
        rest = rest.split_at(plain).1;
        let Some(packet) = rest.packets().next() else { break };
        sum.bytes += packet.length() as u64;
        sum.wire_bytes += packet.original_length() as u64;
        span.see(packet.time_ns());
        rest = rest.split_at(1).1;
    }
    sum
}
